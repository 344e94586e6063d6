"""Kernels that misbehave on purpose, for the drill: nothing else launches them."""

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer


@triton.jit
def store_far(c_ptr, distance):
    """Store one bf16 ``distance`` elements behind C, bf16 [M, N]: outside all that is mapped."""
    tl.store(c_ptr + distance, 0.0)


@triton.jit
def spin(c_ptr, nanoseconds):
    """Keep the GPU busy for ``nanoseconds`` of its own clock, then store a zero into C, bf16.

    It ends by itself, whatever becomes of the process. NVIDIA only: it reads %globaltimer.
    """
    begin = globaltimer()
    now = begin
    while now - begin < nanoseconds:
        now = globaltimer()
    tl.store(c_ptr, 0.0)
