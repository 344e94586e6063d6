"""A wave's registers and what an instruction's operands are, read from the manual's encodings.

Written for the tests alone: nothing here is shared with the emulator that it is compared with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LANES = 64
VCC, EXEC, VGPR, LITERAL = 106, 126, 256, 255
_FLOATS = {0.5: 240, -0.5: 241, 1.0: 242, -1.0: 243, 2.0: 244, -2.0: 245, 4.0: 246, -4.0: 247}
_FLOAT_BITS = {
    number: int(np.float32(value).view(np.uint32)) for value, number in _FLOATS.items()
} | {248: 0x3E22F983}


@dataclass(slots=True)
class Machine:
    """``v`` uint32 [512, 64]; ``s`` 128 scalar registers with VCC at 106 and EXEC at 126."""

    v: NDArray[np.uint32]
    s: list[int]
    scc: int
    pc: int

    def copy(self) -> "Machine":
        return Machine(self.v.copy(), list(self.s), self.scc, self.pc)

    def pair(self, number: int) -> int:
        return self.s[number] | self.s[number + 1] << 32

    def set_pair(self, number: int, bits: int) -> None:
        self.s[number], self.s[number + 1] = bits & 0xFFFFFFFF, bits >> 32 & 0xFFFFFFFF

    def active(self) -> list[int]:
        mask = self.pair(EXEC)
        return [lane for lane in range(LANES) if mask >> lane & 1]

    def vector(self, row: int, lane: int, words: int) -> int:
        return sum(int(self.v[row + word, lane]) << 32 * word for word in range(words))

    def set_vector(self, row: int, lane: int, words: int, bits: int) -> None:
        for word in range(words):
            self.v[row + word, lane] = bits >> 32 * word & 0xFFFFFFFF

    def operand(self, number: int, lane: int, words: int, literal: int) -> int:
        """Return the bits of an operand by its number in the encoding."""
        mask = (1 << 32 * words) - 1
        if number >= VGPR:
            return self.vector(number - VGPR, lane, words)
        if number < 128:
            return self.s[number] if words == 1 else self.pair(number)
        if number == LITERAL:
            return literal
        if number in _FLOAT_BITS:
            return _FLOAT_BITS[number]
        return (number - 128 if number <= 192 else 192 - number) & mask


@dataclass(frozen=True, slots=True)
class Case:
    """One encoded instruction: ``code`` is its bytes, ``fields`` the raw bit fields."""

    name: str
    encoding: str
    code: bytes
    fields: Mapping[str, int]
    literal: int
    bits: Mapping[str, int]  # how wide each operand is, by field
    formats: Mapping[str, str]  # what it holds, by field: FMT_NUM_F32 ...

    def words(self, field: str) -> int:
        return max(1, self.bits.get(field, 32) // 32)

    def is_float(self, field: str) -> bool:
        """Whether sign modifiers apply to an operand."""
        return self.formats.get(field, "").endswith("NUM_F32")


def fill_random(machine: Machine, rows: Sequence[int], random: np.random.Generator) -> None:
    """Put numbers into vector registers that are hard on every kind of instruction."""

    def whole(low: int, high: int) -> NDArray[np.uint32]:
        return random.integers(low, high, (len(rows), LANES), np.uint32)

    # two bf16, or an fp32, between 1/64 and 64
    halves = [whole(121, 133) << 7 | whole(0, 128) | whole(0, 2) << 15 for _ in range(2)]
    machine.v[list(rows)] = np.choose(
        np.minimum(whole(0, 6), 4),
        [
            whole(0, 1 << 32),
            whole(0, 70),
            SPECIAL[whole(0, len(SPECIAL))],
            halves[0] | halves[1] << 16,
            whole(0, 2) << 31,  # +0.0 and -0.0, often: the pairs of them matter
        ],
    )


SPECIAL: NDArray[np.uint32] = np.array(
    [
        0,
        1,
        2,
        31,
        32,
        63,
        0x7F,
        0x80,
        0xFF,
        0x7FFF,
        0x8000,
        0xFFFF,
        0x10000,
        0x7FFFFF,
        0x800000,  # the least normal fp32
        0xFFFFFF,
        0x7FFFFFFF,
        0x80000000,  # -0.0
        0x80000001,
        0xFFFFFFFF,
        0xFFFFFFF0,
        0x3F800000,  # 1.0
        0xBF800000,
        0x3F000000,
        0x40000000,
        0x40400000,
        0x3F808000,  # halfway between two bf16
        0x3F818000,
        0x7F7FFFFF,  # the largest fp32
        0xFF7FFFFF,
        0x7F800000,  # infinity
        0xFF800000,
        0x7FC00000,  # quiet NaN
        0x7F800001,  # signalling NaN
        0xFFA00000,
        0x00400000,  # denormals
        0x80000010,
        0x4F000000,  # 2 ** 31
        0xCF000000,
        0x4F800000,  # 2 ** 32
        0x7F7F7F7F,
        0x80808080,
        0x0C0D0B08,  # byte selectors of every kind
        0x090A0F07,
    ],
    np.uint32,
)
