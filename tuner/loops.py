"""The main loop of a compiled gfx950 kernel, and what one trip of it executes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mxtune.tuner.emulate.code_object import PRELOAD_SKIP, CodeObject
from mxtune.tuner.emulate.instruction import Instruction, reachable
from mxtune.tuner.emulate.profile import class_of


@dataclass(frozen=True, slots=True)
class Trip:
    """Instructions of one wave in one trip of the loop with most matrix instructions, by class."""

    instructions: Mapping[str, int]

    def __getitem__(self, kind: str) -> int:
        return self.instructions.get(kind, 0)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.instructions.values())


def trip_of(elf: bytes) -> Trip:
    """Read the main loop of a code object; a kernel without one counts as a whole."""
    code = CodeObject.read(elf)
    start = code.entry + (PRELOAD_SKIP if code.preload_dwords else 0)
    body = main_loop(reachable(code.image, start))
    return Trip(dict(Counter(class_of(instruction) for instruction in body)))


def main_loop(code: Sequence[Instruction]) -> Sequence[Instruction]:
    """Return the body of the backward branch that holds most MFMAs, the shortest one on a tie."""
    bodies = [
        [other for other in code if branch.target <= other.pc <= branch.pc]
        for branch in code
        if branch.target is not None and branch.target <= branch.pc
    ]
    return max(bodies, key=lambda body: (_matrix(body), -len(body)), default=code)


def _matrix(body: Sequence[Instruction]) -> int:
    return sum(instruction.name.startswith("V_MFMA") for instruction in body)
