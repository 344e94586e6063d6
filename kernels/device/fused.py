"""GEMM that quantises A as it reads it."""

import triton
import triton.language as tl

from mxtune.kernels.device.bf16 import load_plain_scales, rounded, values
from mxtune.kernels.device.hardware import quantise_words
from mxtune.kernels.device.mxfp4 import quantise_tile
from mxtune.kernels.device.tile import INTERPRETED, rows_of, store_tile, tile_of
from mxtune.kernels.device.weights import codes_at, load_codes, load_scales


@triton.jit
def fused(
    a_ptr, b_ptr, b_scales_ptr, c_ptr,
    M, N, K, stride_am, stride_ak, stride_bn, scale_width, stride_cm, stride_cs, split_blocks,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    XCDS: tl.constexpr, EVEN_K: tl.constexpr, WIDE_A: tl.constexpr, WIDE_B: tl.constexpr,
    WIDE_C: tl.constexpr, CACHE: tl.constexpr, SHUFFLED: tl.constexpr, HARDWARE: tl.constexpr,
    ATOMIC: tl.constexpr, BF16: tl.constexpr, SMALL: tl.constexpr,
):  # fmt: skip
    """C = mxfp4(A) @ B.T over the blocks of K that belong to program_id(1), a tile a program.

    Every program quantises the rows it needs.

    a  bf16 [M, K], strides in elements, any; HARDWARE: rows of pairs that lie on 4 bytes
    b  uint8 [N, K/2] packed codes, plain or SHUFFLED
    b_scales  uint8 [ceil256(N), scale_width] shuffled; BF16: [N, scale_width] plain, SMALL if none
       is above 2
    c  bf16 or fp32 [splits, M, N], strides ``stride_cs`` and ``stride_cm`` in elements; ATOMIC adds
    BF16: both operands become bf16 in registers and are multiplied as such
    split_blocks  blocks of BLOCK_K that one split multiplies; EVEN_K: BLOCK_K divides K
    """
    WORDS: tl.constexpr = HARDWARE and not INTERPRETED and not BF16
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M, XCDS)
    split = tl.program_id(1)
    first = split * split_blocks
    last = tl.minimum(first + split_blocks, tl.cdiv(K, BLOCK_K))
    row_a = rows_of(tile_m, M, BLOCK_M, WIDE_A)
    if WORDS:
        column = tl.arange(0, BLOCK_K // 2)
        a_at = row_a[:, None] * (stride_am // 2) + column[None, :]
        a_ptr = a_ptr.to(tl.pointer_type(tl.uint32), bitcast=True) + first * (BLOCK_K // 2)
    else:
        column = tl.arange(0, BLOCK_K)
        if WIDE_A:
            a_at = row_a[:, None] * stride_am + column.to(tl.int64)[None, :] * stride_ak
            a_ptr += first.to(tl.int64) * BLOCK_K * stride_ak
        else:
            a_at = row_a[:, None] * stride_am + column[None, :] * stride_ak
            a_ptr += first * BLOCK_K * stride_ak
    b_at = codes_at(tile_n, N, stride_bn, BLOCK_N, BLOCK_K, SHUFFLED, WIDE_B)
    STEP_B: tl.constexpr = BLOCK_K * 8 if SHUFFLED else BLOCK_K // 2
    b_ptr += first * STEP_B
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(first, last):
        left = K - step * BLOCK_K
        b = load_codes(b_ptr, b_at, left, BLOCK_N, BLOCK_K, EVEN_K, SHUFFLED, CACHE)
        if BF16:
            b_scale = load_plain_scales(
                b_scales_ptr, tile_n, step, N, scale_width, BLOCK_N, BLOCK_K, EVEN_K
            )
        else:
            b_scale = load_scales(
                b_scales_ptr, tile_n, step, scale_width, BLOCK_N, BLOCK_K, EVEN_K, SHUFFLED, CACHE
            )
        b_ptr += STEP_B
        if WORDS:
            if EVEN_K:
                words = tl.load(a_ptr + a_at)
            else:
                words = tl.load(a_ptr + a_at, mask=column[None, :] < left // 2, other=0)
            codes, a_scale = quantise_words(words, BLOCK_M, BLOCK_K)
            a_ptr += BLOCK_K // 2
        else:
            if EVEN_K:
                a = tl.load(a_ptr + a_at)
            else:
                a = tl.load(a_ptr + a_at, mask=column[None, :] < left, other=0.0)
            a_ptr += BLOCK_K * stride_ak
        if BF16:
            b_values = values(b.trans(1, 0), b_scale, BLOCK_N, BLOCK_K, SMALL)
            acc = tl.dot(rounded(a, BLOCK_M, BLOCK_K), b_values.trans(1, 0), acc)
        else:
            if not WORDS:
                codes, a_scale = quantise_tile(a, BLOCK_M, BLOCK_K)
            acc = tl.dot_scaled(codes, a_scale, "e2m1", b, b_scale, "e2m1", acc)
    if WIDE_C:
        split = split.to(tl.int64)
    store_tile(
        c_ptr + split * stride_cs, acc, tile_m, tile_n, M, N, stride_cm,
        BLOCK_M, BLOCK_N, WIDE_C, ATOMIC,
    )  # fmt: skip
