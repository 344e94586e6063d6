"""What every GEMM kernel shares: which tile a program computes, and how its result is stored."""

import triton
import triton.language as tl
from triton import knobs

INTERPRETED = tl.constexpr(knobs.runtime.interpret)


@triton.jit
def to_bf16(x):
    """fp32 to bf16, nearest even: spelt out for the interpreter, whose own conversion truncates."""
    if INTERPRETED:
        bits = x.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet = (bits >> 16) | 0x40
        rounded = tl.where(x == x, rounded, quiet)
        return rounded.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return x.to(tl.bfloat16)


@triton.jit
def tile_of(
    pid, M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr,
):  # fmt: skip
    """Tile (m, n) of program ``pid``: GROUP_M tiles along M come before the next along N.

    Programs go to the XCDs of a GPU in turn; with XCDS of them, each gets a run of neighbours.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    if XCDS > 1:
        share = tiles_m * tiles_n // XCDS
        larger = tiles_m * tiles_n % XCDS
        xcd = pid % XCDS
        pid = xcd * share + tl.minimum(xcd, larger) + pid // XCDS
    if GROUP_M == 1:
        return pid // tiles_n, pid % tiles_n
    group = pid // (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    inside = pid % (GROUP_M * tiles_n)
    return group * GROUP_M + inside % height, inside // height


@triton.jit
def rows_of(tile, extent, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Row numbers of a tile; those past ``extent`` become row 0, which is always there to read.

    WIDE makes them 64-bit, for a matrix whose offsets do not fit 32 bits.
    """
    row = tile * BLOCK + tl.arange(0, BLOCK)
    row = tl.where(row < extent, row, 0)
    if WIDE:
        row = row.to(tl.int64)
    return row


@triton.jit
def store_tile(
    c_ptr, acc, tile_m, tile_n, M, N, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDE: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """Store acc fp32 [BLOCK_M, BLOCK_N] as C, bf16 or fp32 [M, N], row stride ``stride_cm``.

    ATOMIC adds it to C, fp32, instead.
    """
    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < M) & (column[None, :] < N)
    if WIDE:
        row = row.to(tl.int64)
    offset = row[:, None] * stride_cm + column[None, :]
    if ATOMIC:
        tl.atomic_add(c_ptr + offset, acc, mask=inside, sem="relaxed")
    else:
        result = to_bf16(acc) if c_ptr.dtype.element_ty == tl.bfloat16 else acc
        tl.store(c_ptr + offset, result, mask=inside)
