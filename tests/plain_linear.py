"""Layers that need no Triton: a stand-in for a dispatcher computes by kernels/formats.py."""

import torch
from torch import Tensor, nn

from mxtune.kernels import formats, layouts
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.linear import Gemm, Mxfp4Linear
from mxtune.kernels.weight import Mxfp4Weight


def plain_gemm(a: Tensor | Mxfp4Activation, w: Mxfp4Weight) -> Tensor:
    packed = (a.codes, a.scales()) if isinstance(a, Mxfp4Activation) else formats.quantise(a)
    return formats.product(formats.dequantise(*packed), w.dequantised()).bfloat16()


def shuffled_gemm(a: Tensor | Mxfp4Activation, w: Mxfp4Weight) -> Tensor:
    """The same from the layouts that a weight makes and keeps, so that a stale one shows."""
    codes = layouts.unshuffle_weight(w.codes("shuffled"))
    scales = layouts.unshuffle_scales(w.scales("shuffled"), w.n, w.k // 32)
    return plain_gemm(a, Mxfp4Weight.from_packed(codes, scales))


def normal(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).bfloat16()


def linear(n: int = 48, k: int = 96, seed: int = 1, *, bias: bool = True) -> nn.Linear:
    made = nn.Linear(k, n, bias=bias, dtype=torch.bfloat16)
    made.weight.data = normal(n, k, seed=seed)
    if bias:
        made.bias.data = normal(n, seed=seed + 1)
    return made


def layer(
    n: int = 48, k: int = 96, seed: int = 1, *, bias: bool = True, gemm: Gemm = plain_gemm
) -> Mxfp4Linear:
    return Mxfp4Linear.from_linear(linear(n, k, seed, bias=bias), gemm)
