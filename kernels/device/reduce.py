"""Add the partial products of a split K."""

import triton
import triton.language as tl

from mxtune.kernels.device.tile import to_bf16


@triton.jit
def reduce(
    partials_ptr, c_ptr, M, N, stride_pm, stride_ps, stride_cm,
    SPLIT_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """C = sum of partials, in the order of the splits, so that the result is the same every time.

    partials  fp32 or bf16 [SPLIT_K, M, N], strides ``stride_ps`` and ``stride_pm`` in elements
    c         bf16 [M, N], row stride ``stride_cm``
    """
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < M) & (column[None, :] < N)
    if WIDE:
        row = row.to(tl.int64)
        stride_ps = stride_ps.to(tl.int64)
    offset = row[:, None] * stride_pm + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for split in tl.static_range(SPLIT_K):
        part = tl.load(partials_ptr + split * stride_ps + offset, mask=inside, other=0.0)
        total += part.to(tl.float32)
    tl.store(c_ptr + row[:, None] * stride_cm + column[None, :], to_bf16(total), mask=inside)
