"""AITER's functions that the contest's reference calls, in torch: slow, and right bit for bit."""

from enum import Enum
from typing import TYPE_CHECKING

from mxtune.kernels import formats, layouts
from mxtune.kernels.layouts import padded_scales

if TYPE_CHECKING:
    from torch import Tensor, dtype

_ANYTHING = 0xFF  # in the padding of scales, which AITER leaves as memory was: a NaN


class QuantType(Enum):
    """The names by which AITER's quantisers are asked for."""

    No = 0
    per_1x32 = 4


def dynamic_mxfp4_quant(x: "Tensor") -> "tuple[Tensor, Tensor]":
    """Quantise rows by the even rule: codes uint8 [R, K/2] and scale bytes uint8 [R, K/32]."""
    return formats.quantise(x)


def e8m0_shuffle(scale: "Tensor") -> "Tensor":
    """Shuffle scale bytes [R, C] into [ceil256(R), ceil8(C)]; the padding is not zero."""
    import torch

    rows, columns = scale.shape
    padded = scale.new_full(padded_scales(rows, columns), _ANYTHING, dtype=torch.uint8)
    padded[:rows, :columns] = scale.view(torch.uint8)
    return layouts.shuffle_scales(padded)


def shuffle_weight(x: "Tensor", layout: tuple[int, int] = (16, 16)) -> "Tensor":
    """Shuffle packed codes [N, K/2] of any one-byte dtype; only (16, 16) is known."""
    import torch

    if layout != (16, 16):
        raise ValueError(f"layout {layout}: only (16, 16) is known here")
    return layouts.shuffle_weight(x.view(torch.uint8)).view(x.dtype)


def gemm_a4w4(
    A: "Tensor",
    B: "Tensor",
    A_scale: "Tensor",
    B_scale: "Tensor",
    bias: "Tensor | None" = None,
    dtype: "dtype | None" = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bpreshuffle: bool = True,  # noqa: FBT001, FBT002  as AITER has it
) -> "Tensor":
    """Return A @ B.T in bf16 [M, N] of packed codes [M, K/2], [N, K/2] and shuffled scales."""
    import torch

    if (bias, alpha, beta, dtype or torch.bfloat16) != (None, 1.0, 0.0, torch.bfloat16):
        raise ValueError("bias, alpha, beta and other dtypes are not known here")
    codes = layouts.unshuffle_weight(B.view(torch.uint8)) if bpreshuffle else B.view(torch.uint8)
    a, b = _values(A.view(torch.uint8), A_scale), _values(codes, B_scale)
    return formats.product(a, b).bfloat16()


def gemm_a4w4_asm(
    A: "Tensor",
    B: "Tensor",
    A_scale: "Tensor",
    B_scale: "Tensor",
    out: "Tensor",
    kernelName: str,
    bias: "Tensor | None" = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bpreshuffle: bool = True,  # noqa: FBT001, FBT002  as AITER has it
    log2_k_split: int | None = None,
) -> "Tensor":
    """Write A @ B.T into the first rows of ``out``, whatever kernel is named."""
    del kernelName, log2_k_split
    made = gemm_a4w4(A, B, A_scale, B_scale, bias, None, alpha, beta, bpreshuffle)
    out[: made.shape[0]] = made
    return out


def gemm_a16wfp4_preshuffle(
    x: "Tensor",
    w: "Tensor",
    w_scales: "Tensor",
    prequant: bool = True,  # noqa: FBT001, FBT002  as AITER has it
    dtype: "dtype | None" = None,
    y: "Tensor | None" = None,
    config: dict[str, object] | None = None,
    skip_reduce: bool = False,  # noqa: FBT001, FBT002
) -> "Tensor":
    """Return bf16 x [M, K] times shuffled codes [N/16, 8K] and scales [ceil256(N)/32, K]."""
    del config
    if not prequant or skip_reduce or dtype is not None:
        raise ValueError("only the whole product of a quantised x in bf16 is known here")
    n, k = 16 * w.shape[0], x.shape[1]
    a_codes, a_scales = formats.quantise(x)
    codes = layouts.unshuffle_weight(w.reshape(n, k // 2))
    b = _values(codes, w_scales.reshape(32 * w_scales.shape[0], k // 32))
    made = formats.product(formats.dequantise(a_codes, a_scales), b).bfloat16()
    return made if y is None else y.copy_(made)


def _values(codes: "Tensor", scales: "Tensor") -> "Tensor":
    """Return fp32 [R, K] of plain codes [R, K/2] and shuffled scales."""
    import torch

    rows, width = codes.shape
    plain = layouts.unshuffle_scales(scales.view(torch.uint8), rows, width // 16)
    return formats.dequantise(codes, plain)
