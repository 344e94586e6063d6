"""What vector instructions compute: plain functions of uint32 [64], by the manual's name.

Floats arrive and leave as their bits. Denormals are kept: kernels here run in the mode that does.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.wave import Lanes, Mask

U32, I32, U64, F32, F64 = np.uint32, np.int32, np.uint64, np.float32, np.float64

Unary = Callable[[Lanes], Lanes]
Binary = Callable[[Lanes, Lanes], Lanes]
Ternary = Callable[[Lanes, Lanes, Lanes], Lanes]


def floats(bits: Lanes) -> NDArray[np.float32]:
    """Read bits as fp32."""
    return bits.view(F32)


def bits(values: NDArray[Any]) -> Lanes:
    """Return the bits of 32-bit values."""
    result: Lanes = values.view(U32)
    return result


def integers(lanes: Lanes) -> NDArray[np.int32]:
    """Read bits as two's complement."""
    return lanes.view(I32)


def half(lanes: Lanes) -> Lanes:
    """Return the low 16 bits."""
    return lanes & U32(0xFFFF)


def bf16_bits(values: Lanes) -> Lanes:
    """Round fp32 bits to bf16 bits: nearest, ties to even, NaN stays NaN."""
    odd = values >> U32(16) & U32(1)
    rounded = (values.astype(U64) + U64(0x7FFF) + odd >> U64(16)).astype(U32)
    nan = (values & U32(0x7FFFFFFF)) > U32(0x7F800000)
    return np.where(nan, values >> U32(16) | U32(0x40), rounded).astype(U32)


def _signed16(lanes: Lanes) -> NDArray[np.int16]:
    return half(lanes).astype(np.uint16).view(np.int16)


def _from16(values: NDArray[np.int16]) -> Lanes:
    return values.view(np.uint16).astype(U32)


def _signed24(lanes: Lanes) -> NDArray[np.int32]:
    return integers(lanes << U32(8)) >> I32(8)


def _to_integer(lanes: Lanes, low: float, high: float) -> NDArray[np.float64]:
    return np.clip(np.trunc(np.nan_to_num(floats(lanes).astype(F64), nan=0.0)), low, high)


def _reversed_bits(lanes: Lanes) -> Lanes:
    planes = np.unpackbits(lanes.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
    return np.packbits(planes, axis=1, bitorder="big").view(">u4")[:, 0].astype(U32)


def _permuted(a: Lanes, b: Lanes, selector: Lanes) -> Lanes:
    """V_PERM_B32: pick bytes of {a, b}; 8-11 replicate a sign, 12 is zero, 13 and more all ones."""
    pool = (b.astype(U64) | a.astype(U64) << U64(32)).reshape(-1, 1).view(np.uint8)
    wanted = selector.reshape(-1, 1).view(np.uint8).astype(np.int64)
    picked = np.take_along_axis(pool, wanted & 7, 1)
    sign = np.take_along_axis(pool, np.clip(2 * wanted - 15, 0, 7), 1) >> 7
    special = np.where(wanted >= 13, 0xFF, np.where(wanted == 12, 0, 0xFF * sign))
    chosen = np.where(wanted < 8, picked, special).astype(np.uint8)
    return np.ascontiguousarray(chosen).view(U32)[:, 0]


def _field(a: Lanes, offset: Lanes, width: Lanes) -> Lanes:
    """V_BFE_U32."""
    mask: Lanes = (U32(1) << (width & U32(31))) - U32(1)
    return (a >> (offset & U32(31))) & mask


def _signed_field(a: Lanes, offset: Lanes, width: Lanes) -> Lanes:
    """V_BFE_I32."""
    count = width & U32(31)
    spare = (U32(32) - count) & U32(31)
    shifted = bits(integers(a) >> integers(offset & U32(31)))  # a field past the top is all sign
    moved = integers(shifted << spare) >> integers(spare)
    return bits(np.where(count == 0, I32(0), moved).astype(I32))


def _joined(a: Lanes, b: Lanes) -> NDArray[np.uint64]:
    return a.astype(U64) << U64(32) | b


def _fused(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c, rounded once: the product is exact in fp64, the sum rounds to odd before fp32."""
    product = floats(a).astype(F64) * floats(b).astype(F64)
    addend = floats(c).astype(F64)
    total = product + addend
    # What the fp64 sum lost; if anything, its last bit is made odd so that fp32 rounds as once.
    big = np.where(np.abs(product) > np.abs(addend), product, addend)
    small = np.where(np.abs(product) > np.abs(addend), addend, product)
    lost = small - (total - big)
    raw = total.view(U64)
    even = (raw & U64(1)) == 0
    inexact = np.isfinite(total) & (lost != 0) & even
    away = (lost > 0) == (total > 0)
    nudged = np.where(away, raw + U64(1), raw - U64(1))
    rounded: NDArray[np.float64] = np.where(inexact, nudged, raw).view(F64)
    return bits(rounded.astype(F32))


def _median(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> Lanes:
    return bits(np.sort(np.stack([a, b, c]), axis=0)[1])


def _largest(a: Lanes, b: Lanes) -> Lanes:
    """V_MAX_F32: of two zeros the positive one."""
    found = np.where(_zeros(a, b), a & b, bits(np.fmax(floats(a), floats(b))))
    return _unless_signalling(a, b, found)


def _smallest(a: Lanes, b: Lanes) -> Lanes:
    """V_MIN_F32: of two zeros the negative one."""
    found = np.where(_zeros(a, b), a | b, bits(np.fmin(floats(a), floats(b))))
    return _unless_signalling(a, b, found)


def _zeros(a: Lanes, b: Lanes) -> Mask:
    zeros: Mask = ((a | b) & U32(0x7FFFFFFF)) == 0
    return zeros


def _unless_signalling(a: Lanes, b: Lanes, result: Lanes) -> Lanes:
    """In IEEE mode, the one that Triton's kernels run in, a signalling NaN wins, made quiet."""
    for operand in (b, a):
        signalling = (operand & U32(0x7FFFFFFF)) > U32(0x7F800000)
        signalling &= (operand & U32(0x400000)) == 0
        result = np.where(signalling, operand | U32(0x400000), result)
    return result


def _middle(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """V_MED3_F32: the larger of what the largest leaves; with a NaN among them the smallest."""
    nan = np.isnan(floats(a)) | np.isnan(floats(b)) | np.isnan(floats(c))
    top = floats(_largest(_largest(a, b), c))
    others = np.where(top == floats(b), _largest(a, c), _largest(a, b))
    rest = np.where(top == floats(a), _largest(b, c), others)
    return np.where(nan, _smallest(_smallest(a, b), c), rest)


ONE: Mapping[str, Unary] = {
    "V_MOV_B32": lambda a: a,
    "V_NOT_B32": lambda a: ~a,
    "V_BFREV_B32": _reversed_bits,
    "V_CVT_F32_U32": lambda a: bits(a.astype(F32)),
    "V_CVT_F32_I32": lambda a: bits(integers(a).astype(F32)),
    "V_CVT_U32_F32": lambda a: _to_integer(a, 0, 2**32 - 1).astype(U32),
    "V_CVT_I32_F32": lambda a: bits(_to_integer(a, -(2**31), 2**31 - 1).astype(I32)),
    "V_RCP_F32": lambda a: bits(F32(1) / floats(a)),
    "V_RCP_IFLAG_F32": lambda a: bits(F32(1) / floats(a)),
    "V_EXP_F32": lambda a: bits(np.exp2(floats(a).astype(F64)).astype(F32)),
    "V_LOG_F32": lambda a: bits(np.log2(floats(a).astype(F64)).astype(F32)),
    "V_TRUNC_F32": lambda a: bits(np.trunc(floats(a))),
    "V_FLOOR_F32": lambda a: bits(np.floor(floats(a))),
    "V_RNDNE_F32": lambda a: bits(np.rint(floats(a))),
}

TWO: Mapping[str, Binary] = {
    "V_ADD_U32": lambda a, b: a + b,
    "V_ADD_I32": lambda a, b: a + b,
    "V_SUB_U32": lambda a, b: a - b,
    "V_SUB_I32": lambda a, b: a - b,
    "V_SUBREV_U32": lambda a, b: b - a,
    "V_AND_B32": lambda a, b: a & b,
    "V_OR_B32": lambda a, b: a | b,
    "V_XOR_B32": lambda a, b: a ^ b,
    "V_XNOR_B32": lambda a, b: ~(a ^ b),
    "V_LSHLREV_B32": lambda a, b: b << (a & U32(31)),
    "V_LSHRREV_B32": lambda a, b: b >> (a & U32(31)),
    "V_ASHRREV_I32": lambda a, b: bits(integers(b) >> integers(a & U32(31))),
    "V_ASHRREV_I16": lambda a, b: _from16(_signed16(b) >> _signed16(a & U32(15))),
    "V_LSHLREV_B16": lambda a, b: half(b << (a & U32(15))),
    "V_LSHRREV_B16": lambda a, b: half(b) >> (a & U32(15)),
    "V_ADD_U16": lambda a, b: half(a + b),
    "V_SUB_U16": lambda a, b: half(a - b),
    "V_MUL_LO_U16": lambda a, b: half(a * b),
    "V_MAX_U16": lambda a, b: np.maximum(half(a), half(b)),
    "V_MIN_U16": lambda a, b: np.minimum(half(a), half(b)),
    "V_MAX_I16": lambda a, b: _from16(np.maximum(_signed16(a), _signed16(b))),
    "V_MIN_I16": lambda a, b: _from16(np.minimum(_signed16(a), _signed16(b))),
    "V_MAX_U32": np.maximum,
    "V_MIN_U32": np.minimum,
    "V_MAX_I32": lambda a, b: bits(np.maximum(integers(a), integers(b))),
    "V_MIN_I32": lambda a, b: bits(np.minimum(integers(a), integers(b))),
    "V_MUL_LO_U32": lambda a, b: a * b,
    "V_MUL_HI_U32": lambda a, b: (a.astype(U64) * b >> U64(32)).astype(U32),
    "V_MUL_U32_U24": lambda a, b: (a & U32(0xFFFFFF)) * (b & U32(0xFFFFFF)),
    "V_MUL_I32_I24": lambda a, b: bits(_signed24(a) * _signed24(b)),
    "V_BFM_B32": lambda a, b: ((U32(1) << (a & U32(31))) - U32(1)) << (b & U32(31)),
    "V_ADD_F32": lambda a, b: bits(floats(a) + floats(b)),
    "V_SUB_F32": lambda a, b: bits(floats(a) - floats(b)),
    "V_SUBREV_F32": lambda a, b: bits(floats(b) - floats(a)),
    "V_MUL_F32": lambda a, b: bits(floats(a) * floats(b)),
    "V_MAX_F32": _largest,
    "V_MIN_F32": _smallest,
    "V_LDEXP_F32": lambda a, b: bits(np.ldexp(floats(a), integers(b))),
    "V_CVT_PK_BF16_F32": lambda a, b: bf16_bits(a) | bf16_bits(b) << U32(16),
}

THREE: Mapping[str, Ternary] = {
    "V_ADD3_U32": lambda a, b, c: a + b + c,
    "V_LSHL_ADD_U32": lambda a, b, c: (a << (b & U32(31))) + c,
    "V_ADD_LSHL_U32": lambda a, b, c: (a + b) << (c & U32(31)),
    "V_LSHL_OR_B32": lambda a, b, c: a << (b & U32(31)) | c,
    "V_AND_OR_B32": lambda a, b, c: a & b | c,
    "V_OR3_B32": lambda a, b, c: a | b | c,
    "V_XAD_U32": lambda a, b, c: (a ^ b) + c,
    "V_BFI_B32": lambda a, b, c: a & b | ~a & c,
    "V_BFE_U32": _field,
    "V_BFE_I32": _signed_field,
    "V_PERM_B32": _permuted,
    "V_ALIGNBIT_B32": lambda a, b, c: (_joined(a, b) >> (c & U32(31)).astype(U64)).astype(U32),
    "V_ALIGNBYTE_B32": lambda a, b, c: (
        _joined(a, b) >> (U32(8) * (c & U32(3))).astype(U64)
    ).astype(U32),
    "V_MAD_U32_U24": lambda a, b, c: (a & U32(0xFFFFFF)) * (b & U32(0xFFFFFF)) + c,
    "V_MAD_I32_I24": lambda a, b, c: bits(_signed24(a) * _signed24(b)) + c,
    "V_FMA_F32": _fused,
    "V_FMAC_F32": _fused,
    "V_MAX3_F32": lambda a, b, c: _largest(_largest(a, b), c),
    "V_MIN3_F32": lambda a, b, c: _smallest(_smallest(a, b), c),
    "V_MED3_F32": _middle,
    "V_MAX3_U32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "V_MIN3_U32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "V_MED3_U32": lambda a, b, c: _median(a, b, c),
    "V_MAX3_I32": lambda a, b, c: bits(
        np.maximum(np.maximum(integers(a), integers(b)), integers(c))
    ),
    "V_MIN3_I32": lambda a, b, c: bits(
        np.minimum(np.minimum(integers(a), integers(b)), integers(c))
    ),
    "V_MED3_I32": lambda a, b, c: _median(integers(a), integers(b), integers(c)),
}


def bitwise(table: int, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """V_BITOP3: bit ``4 a + 2 b + c`` of ``table`` is the result for bits a, b and c."""
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


COMPARE: Mapping[str, Callable[[NDArray[Any], NDArray[Any]], Mask]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LG": lambda a, b: (a < b) | (a > b),
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "NEQ": np.not_equal,
    "NLT": lambda a, b: ~(a < b),
    "NLE": lambda a, b: ~(a <= b),
    "NGT": lambda a, b: ~(a > b),
    "NGE": lambda a, b: ~(a >= b),
    "NLG": lambda a, b: ~((a < b) | (a > b)),
    "O": lambda a, b: (a == a) & (b == b),
    "U": lambda a, b: (a != a) | (b != b),
}
