"""Quantise A in a kernel of its own."""

import triton
import triton.language as tl

from mxtune.kernels.device.bf16 import rounded
from mxtune.kernels.device.hardware import quantise_words
from mxtune.kernels.device.mxfp4 import quantise_tile, shuffled_scale_offset
from mxtune.kernels.device.tile import INTERPRETED


@triton.jit
def quantise(
    a_ptr, codes_ptr, scales_ptr, M, K, stride_am, stride_ak, stride_qm, scale_width,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, SHUFFLED: tl.constexpr, WIDE: tl.constexpr,
    HARDWARE: tl.constexpr,
):  # fmt: skip
    """MXFP4 of A, one [BLOCK_M, BLOCK_K] tile a program.

    a       bf16 [M, K], strides in elements, any; HARDWARE: rows of pairs that lie on 4 bytes
    codes   uint8 [M, K/2], row stride ``stride_qm``
    scales  uint8, plain: [M, scale_width]; SHUFFLED: [ceil256(M), scale_width] in the shuffled
            order, padding zeroed, which takes a grid over the padded extent
    """
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    wide_row = row.to(tl.int64) if WIDE else row
    wide_column = column.to(tl.int64) if WIDE else column
    byte = tl.program_id(1) * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)
    inside = (row[:, None] < M) & (byte[None, :] < K // 2)
    if HARDWARE and not INTERPRETED:
        pairs = a_ptr.to(tl.pointer_type(tl.uint32), bitcast=True)
        words = tl.load(
            pairs + wide_row[:, None] * (stride_am // 2) + byte[None, :], mask=inside, other=0
        )
        codes, scales = quantise_words(words, BLOCK_M, BLOCK_K)
    else:
        a = tl.load(
            a_ptr + wide_row[:, None] * stride_am + wide_column[None, :] * stride_ak,
            mask=(row[:, None] < M) & (column[None, :] < K),
            other=0.0,
        )
        codes, scales = quantise_tile(a, BLOCK_M, BLOCK_K)
    tl.store(codes_ptr + wide_row[:, None] * stride_qm + byte[None, :], codes, mask=inside)

    block = tl.program_id(1) * (BLOCK_K // 32) + tl.arange(0, BLOCK_K // 32)
    if SHUFFLED:
        offset = shuffled_scale_offset(wide_row[:, None], block[None, :], scale_width)
        inside = (row[:, None] >= 0) & (block[None, :] < scale_width)
    else:
        offset = wide_row[:, None] * scale_width + block[None, :]
        inside = (row[:, None] < M) & (block[None, :] < scale_width)
    tl.store(scales_ptr + offset, scales, mask=inside)


@triton.jit
def round_values(
    a_ptr, rounded_ptr, M, K, stride_am, stride_ak, stride_rm,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """What MXFP4 makes of A, as bf16.

    a        bf16 [M, K], strides in elements, any
    rounded  bf16 [M, K], row stride ``stride_rm``
    """
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    if WIDE:
        row = row.to(tl.int64)
        column = column.to(tl.int64)
    inside = (row[:, None] < M) & (column[None, :] < K)
    a = tl.load(
        a_ptr + row[:, None] * stride_am + column[None, :] * stride_ak, mask=inside, other=0.0
    )
    at = row[:, None] * stride_rm + column[None, :]
    tl.store(rounded_ptr + at, rounded(a, BLOCK_M, BLOCK_K).to(tl.bfloat16), mask=inside)
