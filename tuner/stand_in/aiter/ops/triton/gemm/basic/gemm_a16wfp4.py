"""See `mxtune.tuner.stand_in.functions`."""

from mxtune.tuner.stand_in.functions import gemm_a16wfp4_preshuffle

__all__ = ["gemm_a16wfp4_preshuffle"]
