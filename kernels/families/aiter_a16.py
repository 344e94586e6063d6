"""AITER's Triton kernel that quantises A inside the GEMM, with plain weights and scales."""

from mxtune.kernels.aiter_triton import AiterTritonFamily
from mxtune.kernels.family import RouteFamily

FAMILY: RouteFamily = AiterTritonFamily("aiter_a16", "gemm_a16wfp4", shuffled=False)
