"""Quantising with gfx950's own FP4 conversion: written out, since Triton has no name for it."""

import triton
import triton.language as tl


@triton.jit
def _larger_halves(a, b):
    """Larger of each half of two uint32, as unsigned 16-bit numbers."""
    return tl.inline_asm_elementwise(
        "v_pk_max_u16 $0, $1, $2", "=v,v,v", [a, b], dtype=tl.uint32, is_pure=True, pack=1
    )


@triton.jit
def _eight_codes(w0, w1, w2, w3, scale):
    """Eight E2M1 codes as a uint32 from four words of two bf16, divided by 2^(exponent of scale).

    A conversion writes one byte of its register, and the next instruction but one is the first that
    may touch that register, the third one if it is a matrix instruction: nobody keeps instructions
    of inline assembly apart. So two elements are converted in turns, and there is a pause behind.
    """
    return tl.inline_asm_elementwise(
        """v_cvt_scalef32_pk_fp4_bf16 $0, $2, $10
        v_cvt_scalef32_pk_fp4_bf16 $1, $3, $11
        v_cvt_scalef32_pk_fp4_bf16 $0, $4, $10 op_sel:[0,0,1,0]
        v_cvt_scalef32_pk_fp4_bf16 $1, $5, $11 op_sel:[0,0,1,0]
        v_cvt_scalef32_pk_fp4_bf16 $0, $6, $10 op_sel:[0,0,0,1]
        v_cvt_scalef32_pk_fp4_bf16 $1, $7, $11 op_sel:[0,0,0,1]
        v_cvt_scalef32_pk_fp4_bf16 $0, $8, $10 op_sel:[0,0,1,1]
        v_cvt_scalef32_pk_fp4_bf16 $1, $9, $11 op_sel:[0,0,1,1]
        s_nop 1""",
        "=&v,=&v,v,v,v,v,v,v,v,v,v,v",
        [w0, w1, w2, w3, scale],
        dtype=tl.uint32,
        is_pure=True,
        pack=2,
    )


@triton.jit
def quantise_words(words, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Pairs of bf16, uint32 [ROWS, COLUMNS/2] -> what `quantise_tile` gives for them.

    Magnitudes are compared as they lie, two to a word; what is left below the upper half of the
    maximum cannot carry. From 1.75 * 2^127 up the exponent of the maximum itself is the byte: 254,
    and 255 for what is not finite.
    """
    even, odd = tl.split(words.reshape(ROWS, COLUMNS // 4, 2))
    w0, w2 = tl.split(even.reshape(ROWS, COLUMNS // 8, 2))
    w1, w3 = tl.split(odd.reshape(ROWS, COLUMNS // 8, 2))
    top = _larger_halves(
        _larger_halves(w0 & 0x7FFF7FFF, w1 & 0x7FFF7FFF),
        _larger_halves(w2 & 0x7FFF7FFF, w3 & 0x7FFF7FFF),
    )
    top = tl.maximum(top, top << 16).to(tl.int32, bitcast=True)
    top = tl.max(top.reshape(ROWS, COLUMNS // 32, 4), axis=2)
    scale = tl.where(top >= 0x7F600000, top, tl.maximum(top - 0x00E00000, 0))
    factor = tl.broadcast_to(
        scale.to(tl.float32, bitcast=True)[:, :, None], (ROWS, COLUMNS // 32, 4)
    ).reshape(ROWS, COLUMNS // 8)
    codes = _eight_codes(w0, w1, w2, w3, factor)
    b0, b1 = codes.to(tl.uint8), (codes >> 8).to(tl.uint8)
    b2, b3 = (codes >> 16).to(tl.uint8), (codes >> 24).to(tl.uint8)
    packed = tl.join(tl.join(b0, b2), tl.join(b1, b3)).reshape(ROWS, COLUMNS // 2)
    return packed, (scale >> 23).to(tl.uint8)
