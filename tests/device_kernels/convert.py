# mypy: ignore-errors
# pyright: reportOperatorIssue=false
# ruff: noqa: ANN001, ANN201
"""The FP4 conversion of gfx950, as a kernel would use it: two chains of four, interleaved."""

import triton
import triton.language as tl

from mxtune.kernels.device.mxfp4 import even_byte


@triton.jit
def convert_chains(pair0, pair1, pair2, pair3, scale):
    """8 codes, the first in the lowest bits, of four dwords of two bf16 each, over 2^scale's field.

    Two elements at a time: a conversion that writes the next byte of a register must not follow
    the one before it at once, and LLVM puts no S_NOP between the lines of an assembly block.
    """
    return tl.inline_asm_elementwise(
        """
        v_cvt_scalef32_pk_fp4_bf16 $0, $2, $10
        v_cvt_scalef32_pk_fp4_bf16 $1, $3, $11
        v_cvt_scalef32_pk_fp4_bf16 $0, $4, $10 op_sel:[0,0,1,0]
        v_cvt_scalef32_pk_fp4_bf16 $1, $5, $11 op_sel:[0,0,1,0]
        v_cvt_scalef32_pk_fp4_bf16 $0, $6, $10 op_sel:[0,0,0,1]
        v_cvt_scalef32_pk_fp4_bf16 $1, $7, $11 op_sel:[0,0,0,1]
        v_cvt_scalef32_pk_fp4_bf16 $0, $8, $10 op_sel:[0,0,1,1]
        v_cvt_scalef32_pk_fp4_bf16 $1, $9, $11 op_sel:[0,0,1,1]
        """,
        "=&v,=&v,v,v,v,v,v,v,v,v,v,v",
        [pair0, pair1, pair2, pair3, scale],
        dtype=tl.int32,
        is_pure=True,
        pack=2,
    )


@triton.jit
def larger_magnitude(top, pairs):
    """The larger of ``top`` and both magnitudes of two bf16 in a dword, as bf16 bits."""
    return tl.maximum(top, tl.maximum(pairs & 0x7FFF, (pairs >> 16) & 0x7FFF))


@triton.jit
def convert(a_ptr, codes_ptr, scales_ptr, BLOCKS: tl.constexpr, GIVEN: tl.constexpr):
    """MXFP4 of blocks of 32 bf16, ``BLOCKS`` a program, by the hardware's conversion.

    a       int32 [blocks, 16], two bf16 each      codes  int32 [blocks, 4], eight codes each
    scales  uint8 [blocks]: read if GIVEN, else written by the even rule
    """
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    word = block[:, None] * 4 + tl.arange(0, 4)[None, :]
    pair0 = tl.load(a_ptr + word * 4)
    pair1 = tl.load(a_ptr + word * 4 + 1)
    pair2 = tl.load(a_ptr + word * 4 + 2)
    pair3 = tl.load(a_ptr + word * 4 + 3)
    if GIVEN:
        byte = tl.load(scales_ptr + block).to(tl.int32)
    else:
        top = larger_magnitude(larger_magnitude(0, pair0), pair1)
        top = larger_magnitude(larger_magnitude(top, pair2), pair3)
        byte = even_byte(tl.max(top, axis=1) << 16)
        tl.store(scales_ptr + block, byte.to(tl.uint8))
    scale = tl.broadcast_to((byte << 23)[:, None], (BLOCKS, 4))
    tl.store(codes_ptr + word, convert_chains(pair0, pair1, pair2, pair3, scale))
