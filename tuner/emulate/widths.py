"""How many bytes memory instructions move, by their names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Width:
    """How many bytes a lane moves, and how they lie in registers."""

    count: int
    is_signed: bool = False  # extended with its sign
    half: int = -1  # 0 or 1: only this half of the register is written or read


_COUNTS: Mapping[str, Width] = {
    "UBYTE": Width(1),
    "SBYTE": Width(1, is_signed=True),
    "USHORT": Width(2),
    "SSHORT": Width(2, is_signed=True),
    "BYTE": Width(1),
    "SHORT": Width(2),
    "DWORD": Width(4),
    "DWORDX2": Width(8),
    "DWORDX3": Width(12),
    "DWORDX4": Width(16),
}


def width_of(suffix: str) -> Width | None:
    """Return the width that ends a buffer or global instruction's name, None if unknown."""
    match = re.fullmatch(r"(\w+?)(_D16)?(_HI)?", suffix)
    plain = _COUNTS.get(match[1]) if match else None
    if match is None or plain is None:
        return None
    half = (1 if match[3] else 0) if match[2] else -1
    return Width(plain.count, plain.is_signed, half)
