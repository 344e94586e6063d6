"""Stands in for AMD's AITER where there is none: what the contest's reference calls, in torch."""

from mxtune.tuner.stand_in import dtypes
from mxtune.tuner.stand_in.functions import QuantType, gemm_a4w4

__all__ = ["QuantType", "dtypes", "gemm_a4w4"]
