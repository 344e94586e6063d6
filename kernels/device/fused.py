"""GEMM that quantises A as it reads it."""

import triton
import triton.language as tl

from mxtune.kernels.device.mxfp4 import load_shuffled_scales, quantise_tile
from mxtune.kernels.device.tile import rows_of, store_tile, tile_of


@triton.jit
def fused(
    a_ptr, b_ptr, b_scales_ptr, c_ptr,
    M, N, K, stride_am, stride_ak, stride_bn, scale_width, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr, WIDE_A: tl.constexpr, WIDE_B: tl.constexpr, WIDE_C: tl.constexpr,
    CACHE: tl.constexpr,
):  # fmt: skip
    """C = mxfp4(A) @ B.T, one tile of C a program; every program quantises the rows it needs.

    a  bf16 [M, K], strides in elements, any      c  bf16 [M, N], row stride ``stride_cm``
    b  uint8 [N, K/2] packed codes                b_scales  uint8 [ceil256(N), scale_width] shuffled
    EVEN_K: BLOCK_K divides K
    """
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row_a = rows_of(tile_m, M, BLOCK_M, WIDE_A)
    row_b = rows_of(tile_n, N, BLOCK_N, WIDE_B)
    column = tl.arange(0, BLOCK_K)
    byte = tl.arange(0, BLOCK_K // 2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        at_column = step * BLOCK_K + column
        at_byte = step * (BLOCK_K // 2) + byte
        if WIDE_A:
            a_at = a_ptr + row_a[:, None] * stride_am + at_column.to(tl.int64)[None, :] * stride_ak
        else:
            a_at = a_ptr + row_a[:, None] * stride_am + at_column[None, :] * stride_ak
        b_at = b_ptr + row_b[None, :] * stride_bn + at_byte[:, None]
        if EVEN_K:
            a = tl.load(a_at)
            b = tl.load(b_at, cache_modifier=CACHE)
        else:
            a = tl.load(a_at, mask=at_column[None, :] < K, other=0.0)
            b = tl.load(b_at, mask=at_byte[:, None] < K // 2, other=0, cache_modifier=CACHE)
        codes, a_scale = quantise_tile(a, BLOCK_M, BLOCK_K)
        b_scale = load_shuffled_scales(
            b_scales_ptr, tile_n * BLOCK_N, step * (BLOCK_K // 32), scale_width,
            BLOCK_N, BLOCK_K // 32, CACHE,
        )  # fmt: skip
        acc = tl.dot_scaled(codes, a_scale, "e2m1", b, b_scale, "e2m1", acc)
    store_tile(c_ptr, acc, tile_m, tile_n, M, N, stride_cm, BLOCK_M, BLOCK_N, WIDE_C)
