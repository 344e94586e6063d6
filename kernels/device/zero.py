"""Fill a buffer with zeros, for programs that add to it."""

import triton
import triton.language as tl


@triton.jit
def zero(sums_ptr, count, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Zero ``count`` fp32 values, BLOCK of them a program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WIDE:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums_ptr + at, tl.zeros((BLOCK,), dtype=tl.float32), mask=at < count)
