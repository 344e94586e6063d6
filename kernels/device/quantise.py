"""Quantise A in a kernel of its own."""

import triton
import triton.language as tl

from mxtune.kernels.device.mxfp4 import quantise_tile, shuffled_scale_offset


@triton.jit
def quantise(
    a_ptr, codes_ptr, scales_ptr, M, K, stride_am, stride_ak, stride_qm, scale_width,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, SHUFFLED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """MXFP4 of A, one [BLOCK_M, BLOCK_K] tile a program.

    a       bf16 [M, K], strides in elements, any
    codes   uint8 [M, K/2], row stride ``stride_qm``
    scales  uint8, plain: [M, scale_width]; SHUFFLED: [ceil256(M), scale_width] in the shuffled
            order, padding zeroed, which takes a grid over the padded extent
    """
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    wide_row = row.to(tl.int64) if WIDE else row
    wide_column = column.to(tl.int64) if WIDE else column
    inside = (row[:, None] < M) & (column[None, :] < K)
    a = tl.load(
        a_ptr + wide_row[:, None] * stride_am + wide_column[None, :] * stride_ak,
        mask=inside,
        other=0.0,
    )
    codes, scales = quantise_tile(a, BLOCK_M, BLOCK_K)

    byte = tl.program_id(1) * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)
    inside = (row[:, None] < M) & (byte[None, :] < K // 2)
    tl.store(codes_ptr + wide_row[:, None] * stride_qm + byte[None, :], codes, mask=inside)

    block = tl.program_id(1) * (BLOCK_K // 32) + tl.arange(0, BLOCK_K // 32)
    if SHUFFLED:
        offset = shuffled_scale_offset(wide_row[:, None], block[None, :], scale_width)
        inside = (row[:, None] >= 0) & (block[None, :] < scale_width)
    else:
        offset = wide_row[:, None] * scale_width + block[None, :]
        inside = (row[:, None] < M) & (block[None, :] < scale_width)
    tl.store(scales_ptr + offset, scales, mask=inside)
