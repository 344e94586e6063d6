"""MXFP4 values as bf16, for GPUs without FP4 matrix units: exact, and multiplied by a plain dot.

In Triton's interpreter all of it is fp32, since it multiplies two bf16 wrongly.
"""

import triton
import triton.language as tl

from mxtune.kernels.device.mxfp4 import even_byte
from mxtune.kernels.device.tile import INTERPRETED, rows_of


@triton.jit
def _float_of(bits):
    """The float that 16 bits are: bf16, or the same in fp32 in the interpreter."""
    if INTERPRETED:
        return (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def operand(x):
    """A bf16 operand as the dot takes it."""
    return _float_of(x.to(tl.uint16, bitcast=True)) if INTERPRETED else x


@triton.jit
def _factors(byte):
    """What scale bytes stand for; 2^-127 is subnormal, 255 is NaN."""
    bits = byte.to(tl.uint16) << 7
    bits = tl.where(byte == 0, 0x0040, bits)
    return _float_of(tl.where(byte == 255, 0x7FC0, bits))


@triton.jit
def values(codes, byte, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SMALL: tl.constexpr):
    """Packed codes uint8 [ROWS, COLUMNS/2] and scale bytes [ROWS, COLUMNS/32] as [ROWS, COLUMNS].

    As the bits of a bf16 a code is its value times 2^-126. SMALL: no scale is above 2, so that one
    factor undoes that and scales; else there are two.
    """
    wide = codes.to(tl.uint16)
    low = ((wide << 12) & 0x8000) | ((wide << 6) & 0x01C0)
    high = ((wide << 8) & 0x8000) | ((wide << 2) & 0x01C0)
    tiny = _float_of(tl.join(low, high)).reshape(ROWS, COLUMNS // 32, 32)
    if SMALL:
        field = tl.where(byte == 255, 0x7FC0, (byte.to(tl.uint16) + 126) << 7)
        result = tiny * _float_of(field)[:, :, None]
    else:
        plain = tiny * _float_of(tl.full((1, 1, 1), 0x7E80, tl.uint16))
        result = plain * _factors(byte)[:, :, None]
    return result.reshape(ROWS, COLUMNS)


@triton.jit
def load_plain_scales(
    scales_ptr, tile_n, step, N, width,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """Scale bytes uint8 [BLOCK_N, BLOCK_K/32] of block ``step`` along K, from [N, width]."""
    row = rows_of(tile_n, N, BLOCK_N, WIDE=False)
    block = tl.arange(0, BLOCK_K // 32)
    at = scales_ptr + step * (BLOCK_K // 32) + row[:, None] * width + block[None, :]
    if EVEN_K:
        scales = tl.load(at)
    else:
        scales = tl.load(at, mask=block[None, :] < width - step * (BLOCK_K // 32), other=0)
    return scales


@triton.jit
def rounded(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """What quantising bf16 [ROWS, COLUMNS] by the even rule leaves of it, as `operand` has it.

    The grid below 1 has steps of a half, the ulp at 2^22; from 1 up it is the floats with one bit
    behind the point.
    """
    bits = x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16
    magnitude = (bits & 0x7FFFFFFF).to(tl.int32).reshape(ROWS, COLUMNS // 32, 32)
    byte = even_byte(tl.max(magnitude, axis=2))
    inverse = tl.maximum((254 - byte) << 23, 0x400000).to(tl.float32, bitcast=True)
    y = tl.minimum(magnitude.to(tl.float32, bitcast=True) * inverse[:, :, None], 6.0)
    whole = y.to(tl.uint32, bitcast=True)
    large = ((whole + 0x1FFFFF + ((whole >> 22) & 1)) & 0xFFC00000).to(tl.float32, bitcast=True)
    near = tl.where(y < 1.0, (y + 4194304.0) - 4194304.0, large)
    scale = tl.maximum(byte << 23, 0x400000)
    scale = tl.where(byte == 255, 0x7FC00000, scale).to(tl.float32, bitcast=True)
    result = (near * scale[:, :, None]).to(tl.uint32, bitcast=True).reshape(ROWS, COLUMNS)
    return _float_of((result | (bits & 0x80000000)) >> 16)
