"""What the emulator finds besides the numbers."""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "out_of_bounds",  # touches memory outside every tensor
    "unwritten_register",  # a result depends on a register that nothing wrote
    "unwritten_lds",  # a result depends on an LDS byte that nothing wrote
    "missing_wait",  # uses what a memory instruction has not been waited for
    "lds_race",  # two waves touch an LDS byte, one writes, no barrier between them
    "store_race",  # two workgroups store different values to the same byte
    "hazard",  # too few wait states where the hardware does not wait by itself
    "misaligned",  # an address that the instruction cannot take
    "wrong_result",  # the numbers differ from the reference
]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Whether these matter shows only in the results: a compiler may read a register for nothing.
UNDEFINED: frozenset[Kind] = frozenset({"unwritten_register", "unwritten_lds"})


class EmulationError(Exception):
    """The emulator cannot go on: an instruction or a mode that it does not know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with a kernel. ``pc`` counts bytes from the kernel's first instruction."""

    kind: Kind
    pc: int
    instruction: str
    detail: str
    line: str | None = None

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.kind} at {self.pc:#x} {self.instruction}{where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding as the running wave sees it: absolute address, no source line yet."""

    kind: Kind
    pc: int
    detail: str


class Sightings:
    """Collects what waves see, the first of each kind at each instruction."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Kind, int], Sighting] = {}

    def add(self, kind: Kind, pc: int, detail: str) -> None:
        """Note something wrong at the instruction at ``pc``."""
        self._seen.setdefault((kind, pc), Sighting(kind, pc, detail))

    def all(self) -> list[Sighting]:
        """Return everything noted, in the order in which it was seen."""
        return list(self._seen.values())
