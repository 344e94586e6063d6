"""What a run executed: instructions by class, bytes by width."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mxtune.tuner.emulate.instruction import Instruction
from mxtune.tuner.emulate.widths import width_of


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts over all waves that ran. Bytes are those of active lanes, by place and width."""

    waves: int
    instructions: Mapping[str, int]  # executed, by class: valu, convert, mfma_scaled, ...
    bytes_moved: Mapping[str, int]  # "lds read 16 B", "memory load 4 B": bytes

    @property
    def executed(self) -> int:
        """Instructions executed by all waves."""
        return sum(self.instructions.values())

    def __add__(self, other: "Profile") -> "Profile":
        return Profile(
            self.waves + other.waves,
            dict(Counter(self.instructions) + Counter(other.instructions)),
            dict(Counter(self.bytes_moved) + Counter(other.bytes_moved)),
        )


NOTHING = Profile(0, {}, {})


@dataclass(frozen=True, slots=True)
class Executed:
    """How often an instruction ran, and over how many active lanes in all."""

    instruction: Instruction
    times: int
    lanes: int


def profile_of(executed: Iterable[Executed], waves: int) -> Profile:
    """Sum up what ran."""
    instructions: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for entry in executed:
        instructions[class_of(entry.instruction)] += entry.times
        traffic = _traffic(entry.instruction)
        if traffic:
            place, count = traffic
            moved[f"{place} {count} B"] += count * entry.lanes
    return Profile(waves, dict(sorted(instructions.items())), dict(sorted(moved.items())))


_CLASSES = (
    ("V_MFMA_SCALE", "mfma_scaled"),
    ("V_MFMA", "mfma_other"),
    ("V_CVT_SCALEF32", "convert"),
    ("V_ACCVGPR", "accvgpr"),
    ("V_", "valu"),
    ("SCRATCH_LOAD", "scratch_load"),
    ("SCRATCH_STORE", "scratch_store"),
    ("DS_READ", "lds_read"),
    ("DS_WRITE", "lds_write"),
    ("DS_", "lds_permute"),
    ("S_LOAD", "scalar_load"),
    ("S_BARRIER", "barrier"),
    ("S_WAITCNT", "wait"),
    ("S_NOP", "nop"),
    ("S_CBRANCH", "branch"),
    ("S_BRANCH", "branch"),
    ("S_", "salu"),
)


def class_of(instruction: Instruction) -> str:
    """Return the class that an instruction counts in."""
    name = instruction.name
    if instruction.encoding in ("MUBUF", "GLOBAL"):
        if "ATOMIC" in name:
            return "atomic"
        if instruction.fields.get("lds") or "LOAD_LDS" in name:
            return "load_to_lds"
        return "load" if "LOAD" in name else "store"
    return next((kind for prefix, kind in _CLASSES if name.startswith(prefix)), "other")


def _traffic(instruction: Instruction) -> tuple[str, int] | None:
    """Return where an instruction moves data, and how many bytes a lane."""
    name, kind = instruction.name, class_of(instruction)
    if kind in ("lds_read", "lds_write"):
        bits = int("".join(c for c in name.split("_B")[-1].split("_U")[-1] if c.isdigit()) or 32)
        pair = 2 if "READ2" in name or "WRITE2" in name else 1
        return kind.replace("_", " "), bits // 8 * pair
    if kind in ("load", "store", "load_to_lds"):
        width = width_of(
            name.removeprefix("GLOBAL_")
            .removeprefix("BUFFER_")
            .split("_", 1)[1]
            .removeprefix("LDS_")
        )
        place = {"load": "memory load", "store": "memory store", "load_to_lds": "memory to lds"}
        return (place[kind], width.count) if width else None
    return None
