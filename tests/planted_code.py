"""Changes machine code that is right, and says what the emulator finds in what is left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile
from tinygrad.renderer.amd import decode_inst

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import device
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Plan, Problem
from mxtune.kernels.registry import checked_route, family
from mxtune.tuner.check import Verdict
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.findings import Finding
from mxtune.tuner.emulate.gate import emulate_objects
from mxtune.tuner.emulate.instruction import Instruction, reachable
from mxtune.tuner.emulate.route import KernelObject, kernel_objects

SHAPE = Shape(17, 160, 288)  # one row beyond a tile, half a tile, and a part of a step along K
CONFIGS: Mapping[str, Mapping[str, Value]] = {
    "direct": {"BLOCK_M": 16, "num_warps": 2, "num_stages": 2},
    "fused": {"BLOCK_M": 32, "num_warps": 2, "num_stages": 1},
}
NOP = bytes.fromhex("000080bf")

Edits = Mapping[int, bytes]  # new bytes by address


@dataclass(frozen=True, slots=True)
class Outcome:
    """The kinds of what was found, and what was said of each."""

    kinds: frozenset[str]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict, findings: tuple[Finding, ...]) -> "Outcome":
        kinds, texts = {str(found.kind) for found in findings}, [str(each) for each in findings]
        if not verdict.ok:
            kinds.add("wrong_result")
            texts.insert(0, f"wrong_result: {verdict.reason}")
        return cls(frozenset(kinds), tuple(texts))

    def text_with(self, words: tuple[str, ...]) -> str | None:
        """Return the first text that holds all ``words``, or None."""
        return next((each for each in self.texts if all(word in each for word in words)), None)


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's instructions by address, and its source lines."""

    loaded: CodeObject
    instructions: tuple[Instruction, ...]

    @classmethod
    def read(cls, elf: bytes) -> "Code":
        loaded = CodeObject.read(elf)
        return cls(loaded, tuple(reachable(loaded.image, loaded.entry)))

    def called(self, name: str) -> list[Instruction]:
        """Return the instructions whose names begin with ``name``."""
        return [each for each in self.instructions if each.name.startswith(name)]

    def on_line(self, name: str, file: str, text: str) -> list[Instruction]:
        """Return those that come from the line of a device file that holds ``text``."""
        source = (Path(device.__path__[0]) / file).read_text("utf-8").splitlines()
        (number,) = (at for at, line in enumerate(source, 1) if text in line)
        line = f"{file}:{number}"
        return [each for each in self.called(name) if self.loaded.line_of(each.pc) == line]

    def bytes_of(self, instruction: Instruction) -> bytes:
        return self.loaded.image[instruction.pc : instruction.pc + instruction.size]

    def with_fields(self, instruction: Instruction, **values: int) -> Edits:
        """Return the instruction with other values in some of its bit fields."""
        old = self.bytes_of(instruction)
        places = dict(type(decode_inst(old.ljust(24, b"\0"), "cdna"))._fields)
        number = int.from_bytes(old, "little")
        for name, value in values.items():
            low, high = places[name].lo, places[name].hi
            mask = (1 << (high - low + 1)) - 1
            number = number & ~(mask << low) | (value & mask) << low
        return {instruction.pc: number.to_bytes(instruction.size, "little")}

    def without(self, instruction: Instruction) -> Edits:
        """Return wait states in its place."""
        return {instruction.pc: NOP * (instruction.size // len(NOP))}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A route compiled for gfx950."""

    objects: tuple[KernelObject, ...]
    plan: Plan


@cache
def compiled(name: str) -> Compiled:
    settings = family(name).fallback(SHAPE).changed(**CONFIGS[name])
    route, problem = Route(name, settings), Problem.contiguous(SHAPE, load_device("gfx950"))
    return Compiled(kernel_objects(checked_route(route), problem), planned(route, problem))


def outcome(route: Compiled) -> Outcome:
    """Run a route behind the gate."""
    ran = emulate_objects(route.objects, route.plan, SHAPE, seed=1)
    return Outcome.of(ran.verdict, tuple(found for _, found in ran.findings))


def changed(name: str, step: str, change: Callable[[Code], Edits]) -> Outcome:
    """Run a route, one kernel of it changed."""

    def patch(held: KernelObject) -> KernelObject:
        edits = change(Code.read(held.elf))
        return replace(held, elf=patched(held.elf, edits))

    return _with_step(name, step, patch)


def launched(
    name: str, step: str, integers: Callable[[Mapping[str, int]], dict[str, int]]
) -> Outcome:
    """Run a route, one kernel of it launched with other integers."""

    def relaunch(held: KernelObject) -> KernelObject:
        wrong = {**held.step.integers, **integers(held.step.integers)}
        return replace(held, step=replace(held.step, integers=wrong))

    return _with_step(name, step, relaunch)


def _with_step(name: str, step: str, change: Callable[[KernelObject], KernelObject]) -> Outcome:
    route = compiled(name)
    objects = [change(each) if each.step.name == step else each for each in route.objects]
    assert objects != list(route.objects)
    return outcome(replace(route, objects=tuple(objects)))


def patched(elf: bytes, edits: Edits) -> bytes:
    """Return the file with other bytes at some addresses."""
    parts = list(ELFFile(BytesIO(elf)).iter_segments("PT_LOAD"))
    image = bytearray(elf)
    for address, new in edits.items():
        (part,) = (each for each in parts if 0 <= address - each["p_vaddr"] < each["p_filesz"])
        at = address - part["p_vaddr"] + part["p_offset"]
        image[at : at + len(new)] = new
    return bytes(image)
