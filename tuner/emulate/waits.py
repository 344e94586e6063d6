"""Memory instructions that a wave has not waited for, and what depends on them.

vmcnt counts vector memory in order. lgkmcnt counts LDS in order and scalar loads in any order; so
with scalar loads outstanding only waiting for zero tells anything about them.
"""

from dataclasses import dataclass, replace
from typing import Literal

from mxtune.tuner.emulate.lds import Lds, LdsAccess

Counter = Literal["vector", "lds", "scalar"]


@dataclass(frozen=True, slots=True)
class Outstanding:
    """An instruction under way: the registers it will write, the LDS bytes it touches."""

    pc: int
    counter: Counter
    registers: int
    lds: tuple[LdsAccess, ...] = ()


class Waits:
    """What one wave has under way."""

    def __init__(self, lds: Lds) -> None:
        self._lds = lds
        self._vector: list[Outstanding] = []
        self._local: list[Outstanding] = []  # LDS and scalar loads
        self.registers = 0  # set of those that an instruction under way will write

    def issue(self, entry: Outstanding) -> None:
        """Note that a memory instruction is under way."""
        (self._vector if entry.counter == "vector" else self._local).append(entry)
        self.registers |= entry.registers
        if entry.counter == "vector":
            for access in entry.lds:
                self._lds.land(access, landing=True)

    def wait(self, vector: int, local: int) -> None:
        """Wait until at most so many of each counter are under way."""
        if len(self._vector) > vector:
            done = self._vector[: len(self._vector) - vector]
            self._vector = self._vector[len(done) :]
            self._landed(done)
        if len(self._local) > local:
            self._local = _left(self._local, local)
        self._gather()

    def _gather(self) -> None:
        self.registers = 0
        for entry in (*self._vector, *self._local):
            self.registers |= entry.registers

    def blamed(self, registers: int) -> Outstanding | None:
        """Return what is under way to any of ``registers``."""
        for entry in (*self._vector, *self._local):
            if entry.registers & registers:
                return entry
        return None

    def forget(self, blamed: Outstanding) -> None:
        """Look no longer at the registers of an instruction under way: it was told of."""
        told = replace(blamed, registers=0)
        for entries in (self._vector, self._local):
            entries[:] = [told if entry is blamed else entry for entry in entries]
        self._gather()

    def in_order_with(self, counter: Counter, registers: int) -> bool:
        """Whether all that is under way to ``registers`` arrives before a new ``counter`` load."""
        return counter != "scalar" and all(
            entry.counter == counter
            for entry in (*self._vector, *self._local)
            if entry.registers & registers
        )

    def unfinished_lds(self) -> list[LdsAccess]:
        """Return the LDS instructions under way."""
        return [access for entry in self._local for access in entry.lds]

    def _landed(self, done: list[Outstanding]) -> None:
        for entry in done:
            for access in entry.lds:
                self._lds.land(access, landing=False)


def _left(local: list[Outstanding], allowed: int) -> list[Outstanding]:
    """Return what may still be under way once the counter has fallen to ``allowed``."""
    scalar = [entry for entry in local if entry.counter == "scalar"]
    if not scalar:
        return local[len(local) - allowed :] if allowed else []
    if not allowed:
        return []
    # Scalar loads may be the ones that came back: only the LDS instructions beyond their number
    # are sure to be done.
    sure = max(0, len(local) - allowed - len(scalar))
    lds = [at for at, entry in enumerate(local) if entry.counter == "lds"]
    return [entry for at, entry in enumerate(local) if at not in lds[:sure]]


def allowed_by(simm16: int) -> tuple[int, int]:
    """Return what S_WAITCNT lets be under way: vector memory, LDS and scalar loads."""
    return simm16 & 15 | (simm16 >> 14 & 3) << 4, simm16 >> 8 & 15
