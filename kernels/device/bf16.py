"""MXFP4 values as bf16, for GPUs without FP4 matrix units: exact, and multiplied by a plain dot.

A byte of codes holds an even and an odd value along K. They are never interleaved: the even ones of
both operands are one product, the odd ones another. In Triton's interpreter all of it is fp32,
since it multiplies two bf16 wrongly.
"""

import triton
import triton.language as tl

from mxtune.kernels.device.tile import INTERPRETED


@triton.jit
def _float_of(bits):
    """The float that 16 bits are: bf16, or the same in fp32 in the interpreter."""
    if INTERPRETED:
        return (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def operand(x):
    """A bf16 operand as the dot takes it."""
    return _float_of(x.to(tl.uint16, bitcast=True)) if INTERPRETED else x


@triton.jit
def even_values(codes):
    """E2M1 values of the low nibbles. As the bits of a bf16 a code is its value times 2^-126."""
    wide = codes.to(tl.uint16)
    tiny = _float_of(((wide << 12) & 0x8000) | ((wide << 6) & 0x01C0))
    return tiny * _float_of(tl.full((1, 1), 0x7E80, tl.uint16))


@triton.jit
def odd_values(codes):
    """E2M1 values of the high nibbles."""
    wide = codes.to(tl.uint16)
    tiny = _float_of(((wide << 8) & 0x8000) | ((wide << 2) & 0x01C0))
    return tiny * _float_of(tl.full((1, 1), 0x7E80, tl.uint16))


@triton.jit
def factors(byte):
    """What scale bytes stand for; 2^-127 is subnormal, 255 is NaN."""
    bits = byte.to(tl.uint16) << 7
    bits = tl.where(byte == 0, 0x0040, bits)
    return _float_of(tl.where(byte == 255, 0x7FC0, bits))


@triton.jit
def along_rows(byte, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Factors [ROWS, COLUMNS/2] of scale bytes [ROWS, COLUMNS/32]: 16 bytes of codes share one."""
    spread = tl.broadcast_to(byte[:, :, None], (ROWS, COLUMNS // 32, 16))
    return factors(spread).reshape(ROWS, COLUMNS // 2)
