"""The two shuffled layouts that AITER's kernels read, and their way back.

    weights  byte (n, j) of [N, K/2] goes to
             (n//16)*16*K/2 + (j//32)*512 + ((j%32)//16)*256 + (n%16)*16 + j%16
    scales   (r, c) of [R, K/32], padded to [ceil256(R), ceil8(K/32)] with width SN, goes to
             (r//32)*32*SN + (c//8)*256 + (c%4)*64 + (r%16)*4 + ((c%8)//4)*2 + (r%32)//16

Source: ROCm/aiter, shuffle_weight with layout (16, 16) and e8m0_shuffle. AITER leaves the padding
of the scales uninitialised; here it is zero: kernels that read into it would add garbage.
"""

from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

SCALE_ROWS = 256  # rows of scales are padded to a multiple of this
SCALE_COLUMNS = 8  # and columns to a multiple of this
WEIGHT_ROWS = 16  # a shuffled weight tile is 16 rows
WEIGHT_BYTES = 32  # of 32 bytes


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``value``."""
    return -(-value // multiple) * multiple


def padded_scales(rows: int, columns: int) -> tuple[int, int]:
    """Return the padded [rows, columns] of shuffled scales."""
    return round_up(rows, SCALE_ROWS), round_up(columns, SCALE_COLUMNS)


def weight_obstacle(n: int, row_bytes: int) -> str | None:
    """Say why a weight of N rows of K/2 bytes has no shuffled layout, or None."""
    if n % WEIGHT_ROWS:
        return f"shuffled weights need N to be a multiple of {WEIGHT_ROWS}, not {n}"
    if row_bytes % WEIGHT_BYTES:
        return (
            f"shuffled weights need K to be a multiple of {2 * WEIGHT_BYTES}, not {2 * row_bytes}"
        )
    return None


def shuffle_weight(codes: "Tensor") -> "Tensor":
    """Shuffle packed codes uint8 [N, K/2] into tiles of 16 rows by 32 bytes; the shape stays."""
    n, row_bytes = _checked(codes)
    tiles = codes.reshape(n // WEIGHT_ROWS, WEIGHT_ROWS, row_bytes // WEIGHT_BYTES, 2, 16)
    return tiles.permute(0, 2, 3, 1, 4).contiguous().reshape(n, row_bytes)


def unshuffle_weight(codes: "Tensor") -> "Tensor":
    """Undo ``shuffle_weight``."""
    n, row_bytes = _checked(codes)
    tiles = codes.reshape(n // WEIGHT_ROWS, row_bytes // WEIGHT_BYTES, 2, WEIGHT_ROWS, 16)
    return tiles.permute(0, 3, 1, 2, 4).contiguous().reshape(n, row_bytes)


def _checked(codes: "Tensor") -> tuple[int, int]:
    n, row_bytes = codes.shape
    obstacle = weight_obstacle(n, row_bytes)
    if obstacle:
        raise ConfigError(obstacle)
    return n, row_bytes


def shuffle_scales(scales: "Tensor") -> "Tensor":
    """Shuffle scale bytes uint8 [R, C] into uint8 [ceil256(R), ceil8(C)], padding zeroed."""
    rows, columns = scales.shape
    height, width = padded_scales(rows, columns)
    padded = scales.new_zeros((height, width))
    padded[:rows, :columns] = scales
    tiles = padded.reshape(height // 32, 2, 16, width // 8, 2, 4)
    return tiles.permute(0, 3, 5, 2, 4, 1).contiguous().reshape(height, width)


def unshuffle_scales(shuffled: "Tensor", rows: int, columns: int) -> "Tensor":
    """Undo ``shuffle_scales`` and cut the padding off: uint8 [rows, columns]."""
    height, width = shuffled.shape
    if (height, width) != padded_scales(rows, columns):
        raise ConfigError(
            f"shuffled scales of [{rows}, {columns}] are {list(padded_scales(rows, columns))}, "
            f"not {[height, width]}"
        )
    tiles = shuffled.reshape(height // 32, width // 8, 4, 16, 2, 2)
    plain = tiles.permute(0, 5, 3, 1, 4, 2).reshape(height, width)
    return plain[:rows, :columns].contiguous()
