"""AITER's Triton kernel that quantises A inside the GEMM, with shuffled weights and scales."""

from mxtune.kernels.aiter_triton import AiterTritonFamily
from mxtune.kernels.family import RouteFamily

FAMILY: RouteFamily = AiterTritonFamily(
    "aiter_preshuffle", "gemm_a16wfp4_preshuffle", shuffled=True
)
