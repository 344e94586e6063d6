"""See `mxtune.tuner.stand_in.functions`."""

from mxtune.tuner.stand_in.functions import gemm_a4w4, gemm_a4w4_asm

__all__ = ["gemm_a4w4", "gemm_a4w4_asm"]
