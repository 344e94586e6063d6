"""MXFP4 in torch: quantise, dequantise, pack, and the reference product. Any device, no Triton.

A block is 32 values along K. Its scale is one E8M0 byte (2^(byte - 127), byte 255 is NaN); its
values are E2M1 codes, sign in bit 3, on the grid 0, 0.5, 1, 1.5, 2, 3, 4, 6 (OCP MX specification
1.0).

Non-finite input has one policy everywhere: a block that holds a NaN or an infinity gets scale byte
255, so every product it enters is NaN. Nothing non-finite is ever turned into a finite number.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import SCALE_BLOCK

if TYPE_CHECKING:
    from torch import Tensor

GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NAN_SCALE = 255

_MAGNITUDE = 0x7FFFFFFF  # an fp32 without its sign
_INFINITY = 0x7F800000
_LARGEST_BYTE = 254
# A point half-way between two neighbours of the grid goes to the one with the even code.
_TIES_DOWN = (0.25, 1.25, 2.5, 5.0)
_TIES_UP = (0.75, 1.75, 3.5)


def _even_byte(top: "Tensor") -> "Tensor":
    """AITER's Triton rule: the exponent of the largest value once rounded to 2 significant bits.

    From 1.75 * 2^127 on the rounding overflows to infinity, whose exponent counts as 127 + 127.
    """
    field = (top + 0x200000) >> 23
    return field.sub(2).clamp_min(0).masked_fill(field >= 255, _LARGEST_BYTE)


def _floor_byte(top: "Tensor") -> "Tensor":
    """The OCP rule: floor(log2 a) - 2, so that the largest value lies in [4, 8)."""
    return ((top >> 23) - 2).clamp_min(0)


def _round_up_byte(top: "Tensor") -> "Tensor":
    """ceil(log2(a / 6)), so that nothing is clipped: one more as soon as a exceeds 1.5 * 2^e."""
    field = (top >> 23) - 2
    return (field + ((top & 0x7FFFFF) > 0x400000).int()).clamp_min(0)


RULES: dict[str, Callable[["Tensor"], "Tensor"]] = {
    "even": _even_byte,
    "floor": _floor_byte,
    "round_up": _round_up_byte,
}


def quantise(x: "Tensor", rule: str = "even") -> "tuple[Tensor, Tensor]":
    """Quantise rows to MXFP4.

    ``x`` is [R, K] in bf16, fp16 or fp32 (fp32 keeps its full precision), K a multiple of 32, any
    strides. Returns packed codes uint8 [R, K/2], element 2i in the low nibble, and scale bytes
    uint8 [R, K/32]. Values beyond 6 * 2^(byte - 127) clip to it; -0 keeps its sign.
    Raises ConfigError for another dtype, an unfit K or an unknown rule.
    """
    import torch

    if x.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise ConfigError(f"cannot quantise {x.dtype}: expected bfloat16, float16 or float32")
    if x.ndim != 2 or x.shape[1] % SCALE_BLOCK:
        raise ConfigError(
            f"cannot quantise {list(x.shape)}: expected [rows, K], K a multiple of {SCALE_BLOCK}"
        )
    rows, k = x.shape
    blocks = x.float().reshape(rows, k // SCALE_BLOCK, SCALE_BLOCK).contiguous()
    scales = scale_bytes(blocks, rule)
    codes = _round_to_grid(blocks * power_of_two(127 - scales.int()).unsqueeze(-1))
    return pack(codes.reshape(rows, k)), scales


def scale_bytes(blocks: "Tensor", rule: str = "even") -> "Tensor":
    """Return the E8M0 byte of each block: fp32 [..., 32] to uint8 [...]."""
    import torch

    if rule not in RULES:
        raise ConfigError(f"unknown scale rule {rule!r}: one of {', '.join(RULES)}")
    # As integers a NaN is larger than any number, so the maximum cannot drop it.
    bits = blocks.contiguous().view(torch.int32) & _MAGNITUDE
    top = bits.amax(-1) if bits.numel() else bits.new_zeros(bits.shape[:-1])
    return RULES[rule](top).masked_fill(top >= _INFINITY, NAN_SCALE).to(torch.uint8)


def _round_to_grid(scaled: "Tensor") -> "Tensor":
    """Return the E2M1 codes of fp32 values: nearest, ties to the even code, saturating at 6."""
    import torch

    magnitude = scaled.abs()
    codes = torch.zeros_like(magnitude, dtype=torch.uint8)
    for bound in _TIES_DOWN:
        codes += magnitude > bound
    for bound in _TIES_UP:
        codes += magnitude >= bound
    return codes | (torch.signbit(scaled).to(torch.uint8) << 3)


def power_of_two(exponent: "Tensor") -> "Tensor":
    """Return 2^exponent in fp32 for an integer exponent in [-127, 127], exactly; else NaN.

    Built from bits: 2^-127 is subnormal, and a library's exp2 may flush it to zero.
    """
    import torch

    field = (exponent.int() + 127) << 23
    field = field.masked_fill(exponent == -127, 1 << 22)
    return field.masked_fill((exponent < -127) | (exponent > 127), 0x7FC00000).view(torch.float32)


def dequantise(codes: "Tensor", scales: "Tensor") -> "Tensor":
    """Return the fp32 values [R, K] of packed codes uint8 [R, K/2] and scale bytes uint8 [R, K/32].

    Byte 0 is 2^-127, byte 255 makes its block NaN; 6 * 2^127 overflows to infinity, as in fp32.
    """
    rows, blocks = scales.shape
    values = _value_of(unpack(codes)).reshape(rows, blocks, SCALE_BLOCK)
    return (values * power_of_two(scales.int() - 127).unsqueeze(-1)).flatten(1)


def _value_of(codes: "Tensor") -> "Tensor":
    """Return the unscaled fp32 value of each E2M1 code."""
    import torch

    table = torch.tensor(GRID + tuple(-value for value in GRID), device=codes.device)
    return table[codes.long()]


def pack(codes: "Tensor") -> "Tensor":
    """Pack E2M1 codes uint8 [R, K] two to a byte, element 2i in the low nibble: uint8 [R, K/2]."""
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


def unpack(packed: "Tensor") -> "Tensor":
    """Undo ``pack``: uint8 [R, K/2] to codes uint8 [R, K]."""
    import torch

    return torch.stack((packed & 15, packed >> 4), -1).flatten(1)


def product(a: "Tensor", b: "Tensor") -> "Tensor":
    """Return the reference A @ B.T as fp32 [M, N] for dequantised fp32 [M, K] and [N, K].

    Sums in fp64 and rounds once, a slice of N at a time, so that no library's reduced-precision
    mode and no summation order can move it.
    """
    import torch

    wide = a.double()
    rows = max(1, (1 << 26) // max(1, a.shape[1]))  # about 0.5 GB of fp64 weights at a time
    parts = [(wide @ part.double().T).float() for part in torch.split(b, rows)]
    return torch.cat(parts, 1) if parts else wide.new_zeros((a.shape[0], 0)).float()
