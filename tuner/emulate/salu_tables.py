"""What scalar instructions compute: plain functions of integers, by the manual's name.

Operands are unsigned; whoever writes the result cuts it to 32 or 64 bits.
"""

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne

from mxtune.tuner.emulate.instruction import signed
from mxtune.tuner.emulate.wave import M32, M64

One = Callable[[int], int]
Two = Callable[[int, int], int]


def _low_mask(width: int) -> int:
    return (1 << width) - 1


def _field(value: int, where: int, offset_mask: int) -> int:
    """S_BFE_U32 and _U64: offset in the low bits of ``where``, width in bits 22:16."""
    return value >> (where & offset_mask) & _low_mask(where >> 16 & 127)


def _signed_field(value: int, where: int, offset_mask: int) -> int:
    """S_BFE_I32 and _I64: a field that reaches past the top is filled with the sign."""
    width = where >> 16 & 127
    shifted = signed(value, offset_mask + 1) >> (where & offset_mask)
    return signed(shifted, width) if width else 0


def _first_one(value: int) -> int:
    return (value & -value).bit_length() - 1  # -1 if there is none


COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": eq,
    "LG": ne,
    "GT": gt,
    "GE": ge,
    "LT": lt,
    "LE": le,
}

SUMS: Mapping[str, Callable[[int, int, int], int]] = {
    "S_ADD_U32": lambda a, b, _: a + b,
    "S_ADD_I32": lambda a, b, _: a + b,
    "S_ADDC_U32": lambda a, b, carry: a + b + carry,
    "S_SUB_U32": lambda a, b, _: a - b,
    "S_SUB_I32": lambda a, b, _: a - b,
    "S_SUBB_U32": lambda a, b, borrow: a - b - borrow,
    **{
        f"S_LSHL{by}_ADD_U32": (lambda a, b, _, by=by: (a << by) + b)  # type: ignore[misc]
        for by in (1, 2, 3, 4)
    },
}

# SCC tells whether the result is not zero.
BITWISE: Mapping[str, Two] = {
    "S_AND": lambda a, b: a & b,
    "S_OR": lambda a, b: a | b,
    "S_XOR": lambda a, b: a ^ b,
    "S_ANDN2": lambda a, b: a & ~b,
    "S_ORN2": lambda a, b: a | ~b,
    "S_NAND": lambda a, b: ~(a & b),
    "S_NOR": lambda a, b: ~(a | b),
    "S_XNOR": lambda a, b: ~(a ^ b),
}

# The second operand is 32 bits wide even where the first is 64; SCC as above.
SHIFTS: Mapping[str, Two] = {
    "S_LSHL_B32": lambda a, b: a << (b & 31),
    "S_LSHL_B64": lambda a, b: a << (b & 63),
    "S_LSHR_B32": lambda a, b: a >> (b & 31),
    "S_LSHR_B64": lambda a, b: a >> (b & 63),
    "S_ASHR_I32": lambda a, b: signed(a, 32) >> (b & 31),
    "S_ASHR_I64": lambda a, b: signed(a, 64) >> (b & 63),
    "S_BFE_U32": lambda a, b: _field(a, b, 31),
    "S_BFE_U64": lambda a, b: _field(a, b, 63),
    "S_BFE_I32": lambda a, b: _signed_field(a, b, 31),
    "S_BFE_I64": lambda a, b: _signed_field(a, b, 63),
}

# SCC keeps its value.
LOGIC: Mapping[str, Two] = {
    "S_MUL_I32": lambda a, b: a * b,
    "S_MUL_HI_U32": lambda a, b: a * b >> 32,
    "S_MUL_HI_I32": lambda a, b: signed(a, 32) * signed(b, 32) >> 32,
    "S_PACK_LL_B32_B16": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16,
    "S_PACK_LH_B32_B16": lambda a, b: a & 0xFFFF | b & 0xFFFF0000,
    "S_PACK_HH_B32_B16": lambda a, b: a >> 16 | b & 0xFFFF0000,
    "S_BFM_B32": lambda a, b: _low_mask(a & 31) << (b & 31),
    "S_BFM_B64": lambda a, b: _low_mask(a & 63) << (b & 63),
}

PLAIN: Mapping[str, One] = {
    "S_BREV_B32": lambda a: int(f"{a:032b}"[::-1], 2),
    "S_BREV_B64": lambda a: int(f"{a:064b}"[::-1], 2),
    "S_FF1_I32_B32": _first_one,
    "S_FLBIT_I32_B32": lambda a: 32 - a.bit_length() if a else -1,
    "S_SEXT_I32_I8": lambda a: signed(a, 8),
    "S_SEXT_I32_I16": lambda a: signed(a, 16),
}

UNARY: Mapping[str, One] = {
    "S_NOT_B32": lambda a: ~a & M32,
    "S_NOT_B64": lambda a: ~a & M64,
    "S_ABS_I32": lambda a: abs(signed(a, 32)),
}

# 32-bit results, of whatever they count in.
COUNTED: Mapping[str, One] = {
    "S_BCNT1_I32_B32": int.bit_count,
    "S_BCNT1_I32_B64": int.bit_count,
}

# What EXEC becomes of a mask and the EXEC before.
SAVEEXEC: Mapping[str, Two] = {
    **{name.removeprefix("S_"): function for name, function in BITWISE.items()},
    "ANDN1": lambda mask, before: ~mask & before,
    "ORN1": lambda mask, before: ~mask | before,
}
