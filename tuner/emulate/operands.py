"""Turns operand fields into functions that fetch the operand from a wave.

Vector operands are uint32 [64], 64-bit ones uint64 [64], scalar operands plain integers.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import EXEC, SCC, VCC, VGPR
from mxtune.tuner.emulate.wave import LANES, M32, M64, Lanes, Wave

Wide = NDArray[np.uint64]
VectorSource = Callable[[Wave], Lanes]
WideSource = Callable[[Wave], Wide]
ScalarSource = Callable[[Wave], int]

LITERAL = 255
_VCCZ, _EXECZ = 251, 252
SIGN = np.uint32(0x80000000)
MAGNITUDE = np.uint32(0x7FFFFFFF)

# The inline constants that are floats, as fp32 bits.
_FLOATS: Mapping[int, int] = {
    240: 0x3F000000,  # 0.5
    241: 0xBF000000,
    242: 0x3F800000,  # 1
    243: 0xBF800000,
    244: 0x40000000,  # 2
    245: 0xC0000000,
    246: 0x40800000,  # 4
    247: 0xC0800000,
    248: 0x3E22F983,  # 1 / (2 pi)
}


def constant(number: int, literal: int) -> int | None:
    """Return an operand that is a constant, negative ones as 64-bit two's complement."""
    if number == LITERAL:
        return literal
    if 128 <= number <= 192:
        return number - 128
    if 193 <= number <= 208:
        return (192 - number) & M64
    return _FLOATS.get(number)


def vector(number: int, literal: int = 0) -> VectorSource:
    """Fetch a 32-bit operand of every lane."""
    if number >= VGPR:
        row = number - VGPR
        return lambda wave: wave.v[row]
    fixed = constant(number, literal)
    if fixed is not None:
        filled = np.full(LANES, fixed & M32, np.uint32)
        return lambda _: filled
    fetch = scalar(number, literal)
    return lambda wave: np.full(LANES, fetch(wave), np.uint32)


def vector64(number: int, literal: int = 0) -> WideSource:
    """Fetch a 64-bit operand of every lane: two registers, the low half first."""
    if number >= VGPR:
        row = number - VGPR
        return lambda wave: wave.v[row] | wave.v[row + 1].astype(np.uint64) << np.uint64(32)
    fetch = scalar64(number, literal)
    return lambda wave: np.full(LANES, fetch(wave), np.uint64)


def scalar(number: int, literal: int = 0) -> ScalarSource:
    """Fetch a 32-bit scalar operand."""
    fixed = constant(number, literal)
    if fixed is not None:
        low = fixed & M32
        return lambda _: low
    if number == SCC:
        return lambda wave: wave.scc
    if number == _VCCZ:
        return lambda wave: int(wave.scalar64(VCC) == 0)
    if number == _EXECZ:
        return lambda wave: int(wave.exec == 0)
    if number in (EXEC, EXEC + 1):
        return lambda wave: wave.scalar(number)
    if number < 128:
        return lambda wave: wave.s[number]
    raise EmulationError(f"operand {number} is not known")


def scalar64(number: int, literal: int = 0) -> ScalarSource:
    """Fetch a 64-bit scalar operand; a literal is extended with its sign."""
    fixed = constant(number, literal)
    if fixed is not None:
        if number == LITERAL and literal >> 31:
            fixed |= M64 ^ M32
        whole = fixed
        return lambda _: whole
    if number >= 128:
        return scalar(number, literal)
    return lambda wave: wave.scalar64(number)


def modified(source: VectorSource, *, negate: int, absolute: int) -> VectorSource:
    """Apply the float modifiers: the magnitude first, then the sign."""
    if absolute and negate:
        return lambda wave: source(wave) | SIGN
    if absolute:
        return lambda wave: source(wave) & MAGNITUDE
    return (lambda wave: source(wave) ^ SIGN) if negate else source
