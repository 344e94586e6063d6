"""GEMM of two quantised operands, whole or one slice of K a program."""

import triton
import triton.language as tl

from mxtune.kernels.device.bf16 import load_plain_scales, operand, values
from mxtune.kernels.device.tile import rows_of, store_tile, tile_of
from mxtune.kernels.device.weights import codes_at, load_codes, load_scales


@triton.jit
def gemm(
    a_ptr, a_scales_ptr, b_ptr, b_scales_ptr, c_ptr,
    M, N, K, stride_am, stride_as, stride_bn, scale_width, stride_cm, stride_cs, split_blocks,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    XCDS: tl.constexpr, EVEN_K: tl.constexpr, WIDE_A: tl.constexpr, WIDE_B: tl.constexpr,
    WIDE_C: tl.constexpr, CACHE: tl.constexpr, SHUFFLED: tl.constexpr, ATOMIC: tl.constexpr,
    BF16: tl.constexpr, SMALL: tl.constexpr,
):  # fmt: skip
    """C = A @ B.T over the blocks of K that belong to program_id(1).

    a         uint8 [M, K/2] packed codes         a_scales  uint8 [M, K/32] plain
              BF16: its values, bf16 [M, K]; no scales are read
    b         uint8 [N, K/2] packed codes, plain or SHUFFLED
    b_scales  uint8 [ceil256(N), scale_width] shuffled; BF16: [N, scale_width] plain, SMALL if
              none is above 2
    c         bf16 or fp32 [splits, M, N], strides ``stride_cs`` and ``stride_cm`` in elements;
              ATOMIC adds to it
    split_blocks  blocks of BLOCK_K that one split multiplies; EVEN_K: BLOCK_K divides K
    """
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M, XCDS)
    split = tl.program_id(1)
    first = split * split_blocks
    last = tl.minimum(first + split_blocks, tl.cdiv(K, BLOCK_K))
    row_a = rows_of(tile_m, M, BLOCK_M, WIDE_A)
    PER: tl.constexpr = 1 if BF16 else 2  # values along K in an element of A
    element = tl.arange(0, BLOCK_K // PER)
    block = tl.arange(0, BLOCK_K // 32)
    a_at = row_a[:, None] * stride_am + element[None, :]
    s_at = row_a[:, None] * stride_as + block[None, :]
    b_at = codes_at(tile_n, N, stride_bn, BLOCK_N, BLOCK_K, SHUFFLED, WIDE_B)
    STEP_B: tl.constexpr = BLOCK_K * 8 if SHUFFLED else BLOCK_K // 2
    a_ptr += first * (BLOCK_K // PER)
    a_scales_ptr += first * (BLOCK_K // 32)
    b_ptr += first * STEP_B
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(first, last):
        left = K - step * BLOCK_K
        if EVEN_K:
            a = tl.load(a_ptr + a_at)
        else:
            a = tl.load(a_ptr + a_at, mask=element[None, :] < left // PER, other=0)
        b = load_codes(b_ptr, b_at, left, BLOCK_N, BLOCK_K, EVEN_K, SHUFFLED, CACHE)
        if BF16:
            b_scale = load_plain_scales(
                b_scales_ptr, tile_n, step, N, scale_width, BLOCK_N, BLOCK_K, EVEN_K
            )
        else:
            b_scale = load_scales(
                b_scales_ptr, tile_n, step, scale_width, BLOCK_N, BLOCK_K, EVEN_K, SHUFFLED, CACHE
            )
        if BF16:
            b_values = values(b.trans(1, 0), b_scale, BLOCK_N, BLOCK_K, SMALL)
            acc = tl.dot(operand(a), b_values.trans(1, 0), acc)
        else:
            if EVEN_K:
                a_scale = tl.load(a_scales_ptr + s_at)
            else:
                a_scale = tl.load(a_scales_ptr + s_at, mask=block[None, :] < left // 32, other=0)
            acc = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e2m1", acc)
            a_scales_ptr += BLOCK_K // 32
        a_ptr += BLOCK_K // PER
        b_ptr += STEP_B
    if WIDE_C:
        split = split.to(tl.int64)
    store_tile(
        c_ptr + split * stride_cs, acc, tile_m, tile_n, M, N, stride_cm,
        BLOCK_M, BLOCK_N, WIDE_C, ATOMIC,
    )  # fmt: skip
