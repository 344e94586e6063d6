"""Runs a kernel: workgroup after workgroup, its waves in turn from barrier to barrier."""

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mxtune.tuner.emulate.code_object import PRELOAD_SKIP, USER_SGPRS, CodeObject
from mxtune.tuner.emulate.execute import build
from mxtune.tuner.emulate.findings import UNDEFINED, EmulationError, Finding, Sighting, Sightings
from mxtune.tuner.emulate.hazards import Hazard, hazards
from mxtune.tuner.emulate.instruction import VGPR, Instruction, decode, reachable, span
from mxtune.tuner.emulate.lds import Lds
from mxtune.tuner.emulate.memory import Memory
from mxtune.tuner.emulate.profile import Executed, Profile, profile_of
from mxtune.tuner.emulate.wave import LANE, LANES, Poison, Wave

Workgroup = tuple[int, int, int]

# The complement of the first in every bit, so that no bit is the same by chance.
_OTHER_POISON = Poison(register=0x21524110, lds=0x5A)
_MOST_STEPS = 5_000_000  # of one wave: more is a loop without an end


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and what it is launched with. ``arguments`` is the kernarg segment."""

    code: CodeObject
    arguments: bytes
    grid: tuple[int, int, int]  # in workgroups
    threads: int  # of a workgroup
    dynamic_lds_bytes: int = 0

    @property
    def workgroups(self) -> list[Workgroup]:
        """Every workgroup, x fastest."""
        x, y, z = self.grid
        return [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found and executed. ``dismissed`` counts undefined reads without an effect."""

    findings: tuple[Finding, ...]
    profile: Profile
    seconds: float
    dismissed: int = 0


class _Operation:
    """An instruction ready to run, and how often it ran."""

    __slots__ = ("behind", "instruction", "lanes", "run", "times", "touches")

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.run: Callable[[Wave], None] = build(instruction)
        self.touches = instruction.reads | instruction.writes
        self.behind = instruction.pc + instruction.size
        self.times = self.lanes = 0


class _Program:
    """The operations of a kernel, each decoded when it is first reached."""

    def __init__(self, image: bytes) -> None:
        self._image = image
        self._at: dict[int, _Operation] = {}

    def advance(self, wave: Wave) -> None:
        """Run a wave to its next barrier or its end."""
        at = self._at
        for _ in range(_MOST_STEPS):
            operation = at.get(wave.pc) or self._load(wave.pc)
            wave.pc = operation.behind
            if operation.touches & wave.watched:
                wave.inspect(operation.instruction)
            operation.times += 1
            operation.lanes += wave.active_lanes
            operation.run(wave)
            if wave.at_barrier or wave.done:
                return
        raise EmulationError(f"a wave executed {_MOST_STEPS} instructions without an end")

    def forget(self) -> None:
        """Begin to count anew."""
        for operation in self._at.values():
            operation.times = operation.lanes = 0

    def executed(self) -> list[Executed]:
        """Return what ran."""
        ran = (operation for operation in self._at.values() if operation.times)
        return [
            Executed(operation.instruction, operation.times, operation.lanes) for operation in ran
        ]

    def _load(self, pc: int) -> _Operation:
        operation = self._at[pc] = _Operation(decode(self._image, pc))
        return operation


def run(launch: Launch, memory: Memory, *, workgroups: Sequence[Workgroup] | None = None) -> Report:
    """Execute ``launch`` on ``memory``, in the given order of workgroups.

    A register or LDS byte that is read before it is written counts only if what it holds matters:
    then, and only then, the launch runs a second time on other contents to see whether memory
    ends up different. Raises EmulationError for what the emulator does not know.
    """
    began = time.perf_counter()
    before = memory.copy()
    sightings, profile = _run(launch, memory, workgroups, Poison())
    doubtful = [seen for seen in sightings if seen.kind in UNDEFINED]
    dismissed = 0
    if doubtful and not _matters(launch, memory, before, workgroups):
        sightings = [seen for seen in sightings if seen.kind not in UNDEFINED]
        dismissed = len(doubtful)
    findings = tuple(_finding(launch.code, seen) for seen in sightings)
    return Report(findings + _hazards(launch.code), profile, time.perf_counter() - began, dismissed)


def _matters(
    launch: Launch, after: Memory, before: Memory, workgroups: Sequence[Workgroup] | None
) -> bool:
    _run(launch, before, workgroups, _OTHER_POISON)
    return not after.same_contents(before)


def _run(
    launch: Launch, memory: Memory, workgroups: Sequence[Workgroup] | None, poison: Poison
) -> tuple[list[Sighting], Profile]:
    if launch.threads % LANES:
        raise EmulationError(f"a workgroup of {launch.threads} threads, no multiple of {LANES}")
    memory.begin_launch()
    address = memory.allocate("kernel arguments", _kernarg(launch))
    program, seen, waves = _program(launch.code), Sightings(), 0
    program.forget()
    with np.errstate(all="ignore"):
        for number, workgroup in enumerate(workgroups or launch.workgroups):
            group = _start(launch, memory, address, workgroup, number, poison)
            waves += len(group)
            _run_group(program, group, seen)
    return seen.all(), profile_of(program.executed(), waves)


@lru_cache(maxsize=64)
def _program(code: CodeObject) -> _Program:
    return _Program(code.image)


@lru_cache(maxsize=1024)
def _hazards(code: CodeObject) -> tuple[Finding, ...]:
    """Return where the code itself is wrong, whatever it runs on."""
    start = code.entry + (PRELOAD_SKIP if code.preload_dwords else 0)
    return tuple(
        Finding(
            "hazard",
            found.pc - code.entry,
            found.name.lower(),
            _told(found, code.entry),
            code.line_of(found.pc),
        )
        for found in hazards(reachable(code.image, start))
    )


def _told(hazard: Hazard, origin: int) -> str:
    return str(replace(hazard, producer_pc=hazard.producer_pc - origin))


def _run_group(program: _Program, group: list[Wave], seen: Sightings) -> None:
    lds = group[0].lds
    while running := [wave for wave in group if not wave.done]:
        for wave in running:
            wave.at_barrier = False
            program.advance(wave)
        lds.barrier([entry for wave in group for entry in wave.waits.unfinished_lds()], seen)
    for wave in group:
        for sighting in wave.sightings.all():
            seen.add(sighting.kind, sighting.pc, sighting.detail)


def _kernarg(launch: Launch) -> bytes:
    return launch.arguments.ljust(max(launch.code.kernarg_bytes, len(launch.arguments), 8), b"\0")


def _start(
    launch: Launch,
    memory: Memory,
    kernarg: int,
    workgroup: Workgroup,
    number: int,
    poison: Poison,
) -> list[Wave]:
    lds = Lds(launch.code.lds_bytes + launch.dynamic_lds_bytes, poison.lds)
    group: list[Wave] = []
    for index in range(-(-launch.threads // LANES)):
        wave = Wave(memory, lds, poison, index, number)
        wave.origin = launch.code.entry
        wave.private = np.full((LANES, launch.code.private_bytes), poison.lds, np.uint8)
        wave.v[0] = index * LANES + LANE
        wave.defined(span(VGPR, 1))
        _set_scalars(wave, launch, kernarg, workgroup)
        group.append(wave)
    return group


def _set_scalars(wave: Wave, launch: Launch, kernarg: int, workgroup: Workgroup) -> None:
    """Fill the first SGPRs as the hardware does, arguments preloaded; set where to start."""
    code, at = launch.code, 0
    for bit, (name, count) in enumerate(USER_SGPRS):
        if code.properties >> bit & 1:
            if name == "kernarg_segment_ptr":
                wave.set_scalar64(at, kernarg)
                wave.defined(span(at, 2))
            at += count
    first = 4 * code.preload_offset
    data = _kernarg(launch)[first : first + 4 * code.preload_dwords]
    for word in struct.unpack(f"<{len(data) // 4}I", data):
        wave.set_scalar(at, word)
        wave.defined(span(at, 1))
        at += 1
    wave.pc = code.entry + (PRELOAD_SKIP if code.preload_dwords else 0)
    at = code.user_sgprs
    for wanted, value in zip(code.workgroup_ids, workgroup, strict=True):
        if wanted:
            wave.set_scalar(at, value)
            wave.defined(span(at, 1))
            at += 1


def _finding(code: CodeObject, seen: Sighting) -> Finding:
    name = decode(code.image, seen.pc).name.lower()
    return Finding(seen.kind, seen.pc - code.entry, name, seen.detail, code.line_of(seen.pc))
