"""MXFP4 inside a kernel: the even rule, rounding to E2M1, and where a shuffled scale byte lies."""

import triton
import triton.language as tl


@triton.jit
def even_byte(top):
    """E8M0 byte of a block maximum, fp32 bits without sign as int32; 255 if it is not finite."""
    field = (top + 0x200000) >> 23
    byte = tl.where(field >= 255, 254, tl.maximum(field - 2, 0))
    return tl.where(top >= 0x7F800000, 255, byte)


@triton.jit
def e2m1_code(y):
    """E2M1 magnitude code as uint32 of fp32 ``y`` >= 0: nearest, ties to even, saturating at 6.

    From 1 up two neighbours share a float's exponent and first fraction bit, so rounding the bit
    pattern there is rounding the value; below 1 the step is 0.5, which is the ulp at 2^22.
    """
    y = tl.minimum(y, 6.0)
    bits = y.to(tl.uint32, bitcast=True)
    large = ((bits + 0x1FFFFF + ((bits >> 22) & 1)) >> 22) - 252
    small = (y + 4194304.0).to(tl.uint32, bitcast=True) - 0x4A800000
    return tl.where(y < 1.0, small, large)


@triton.jit
def quantise_tile(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """bf16 [ROWS, COLUMNS] -> packed codes uint8 [ROWS, COLUMNS/2], bytes uint8 [ROWS, COLUMNS/32].

    Works on the bits: an integer maximum keeps a NaN, and no bf16 arithmetic is needed, which
    Triton's interpreter does not have.
    """
    bits = x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16
    magnitude = (bits & 0x7FFFFFFF).to(tl.int32).reshape(ROWS, COLUMNS // 32, 32)
    byte = even_byte(tl.max(magnitude, axis=2))
    # 2^(127 - byte); its smallest value, 2^-127, is subnormal
    inverse = tl.maximum((254 - byte) << 23, 0x400000).to(tl.float32, bitcast=True)
    y = magnitude.to(tl.float32, bitcast=True) * inverse[:, :, None]
    code = e2m1_code(y).reshape(ROWS, COLUMNS) | ((bits >> 28) & 8)
    low, high = tl.split(code.to(tl.uint8).reshape(ROWS, COLUMNS // 2, 2))
    return low | (high << 4), byte.to(tl.uint8)


@triton.jit
def shuffled_scale_offset(row, column, width):
    """Byte offset of scale (row, column) in the shuffled layout of ``width`` columns."""
    return (
        (row // 32) * (32 * width)
        + (column // 8) * 256
        + (column % 4) * 64
        + (row % 16) * 4
        + ((column % 8) // 4) * 2
        + (row % 32) // 16
    )


@triton.jit
def load_shuffled_scales(
    scales_ptr, row0, column0, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CACHE: tl.constexpr
):
    """Scale bytes uint8 [ROWS, COLUMNS] from (row0, column0) of shuffled scales, ``width`` columns.

    Columns at or past ``width`` are zero; rows are padded to 256 in memory, so none lies outside.
    Tiles of whole 32 x 8 groups are read as they lie and turned round in registers.
    """
    if ROWS % 32 == 0 and COLUMNS % 8 == 0:
        group = row0 // 32 + tl.arange(0, ROWS // 32)
        place = column0 * 32 + tl.arange(0, COLUMNS * 32)
        offset = group[:, None] * (32 * width) + place[None, :]
        inside = tl.broadcast_to(place[None, :] < 32 * width, (ROWS // 32, COLUMNS * 32))
        raw = tl.load(scales_ptr + offset, mask=inside, other=0, cache_modifier=CACHE)
        tile = raw.reshape(ROWS // 32, COLUMNS // 8, 4, 16, 2, 2)
        return tile.permute(0, 5, 3, 1, 4, 2).reshape(ROWS, COLUMNS)
    row = row0 + tl.arange(0, ROWS)
    column = column0 + tl.arange(0, COLUMNS)
    offset = shuffled_scale_offset(row[:, None], column[None, :], width)
    inside = tl.broadcast_to(column[None, :] < width, (ROWS, COLUMNS))
    return tl.load(scales_ptr + offset, mask=inside, other=0, cache_modifier=CACHE)
