"""Loads, stores and atomics on global memory by address, and scalar loads."""

import re
from collections.abc import Callable

import numpy as np

from mxtune.tuner.emulate.access import checked_load, checked_store, chosen, get, put
from mxtune.tuner.emulate.atomics import ATOMICS, update
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import OFF, Instruction, signed
from mxtune.tuner.emulate.lds_access import land_in_lds
from mxtune.tuner.emulate.memory import Addresses
from mxtune.tuner.emulate.operands import scalar
from mxtune.tuner.emulate.waits import Outstanding
from mxtune.tuner.emulate.wave import Wave
from mxtune.tuner.emulate.widths import Width, width_of

Run = Callable[[Wave], None]
_OFFSET_BITS = 13
_SCALAR_OFFSET_BITS = 21
_ZERO = 128  # the operand that is the constant 0


def build_global(instruction: Instruction) -> Run:
    """Return what a GLOBAL instruction does; raise EmulationError if it is not known."""
    match = re.fullmatch(r"GLOBAL_(LOAD|STORE|ATOMIC)_(LDS_)?(\w+)", instruction.name)
    if match is None:
        raise EmulationError(f"{instruction.name} is not known")
    if match[1] == "ATOMIC":
        return _atomic(instruction, match[3])
    width = width_of(match[3])
    if width is None:
        raise EmulationError(f"{instruction.name} is not known")
    if match[2]:
        return _load_to_lds(instruction, width)
    return (_load if match[1] == "LOAD" else _store)(instruction, width)


def _addresses(instruction: Instruction) -> Callable[[Wave], Addresses]:
    """Return the addresses of the active lanes."""
    fields = instruction.fields
    low, base = fields["addr"], fields["saddr"]
    offset = signed(fields["offset"], _OFFSET_BITS)

    def by_lane(wave: Wave) -> Addresses:
        whole = wave.v[low].astype(np.int64) | wave.v[low + 1].astype(np.int64) << 32
        lanes: Addresses = whole[wave.active] + offset
        return lanes

    def from_base(wave: Wave) -> Addresses:
        lanes: Addresses = wave.v[low].astype(np.int64)[wave.active]
        return lanes + (wave.scalar64(base) + offset)

    return by_lane if base == OFF else from_base


def _load(instruction: Instruction, width: Width) -> Run:
    where, pc = _addresses(instruction), instruction.pc
    row = instruction.fields["vdst"] + 256 * instruction.fields["acc"]

    def run(wave: Wave) -> None:
        data = checked_load(wave, pc, where(wave), width.count)
        put(wave, row, data, width, chosen(wave))
        wave.waits.issue(Outstanding(pc, "vector", instruction.writes))
        wave.watch()

    return run


def _load_to_lds(instruction: Instruction, width: Width) -> Run:
    where = _addresses(instruction)
    offset = signed(instruction.fields["offset"], _OFFSET_BITS)

    def run(wave: Wave) -> None:
        data = checked_load(wave, instruction.pc, where(wave), width.count)
        land_in_lds(wave, instruction, data, offset, chosen(wave))

    return run


def _store(instruction: Instruction, width: Width) -> Run:
    where, pc = _addresses(instruction), instruction.pc
    row = instruction.fields["data"] + 256 * instruction.fields["acc"]

    def run(wave: Wave) -> None:
        checked_store(wave, pc, where(wave), get(wave, row, width, chosen(wave)))
        wave.waits.issue(Outstanding(pc, "vector", 0))

    return run


def _atomic(instruction: Instruction, kind: str) -> Run:
    if kind not in ATOMICS:
        raise EmulationError(f"{instruction.name} is not known")
    where, combine, fields = _addresses(instruction), ATOMICS[kind], instruction.fields
    row, to = (fields[name] + 256 * fields["acc"] for name in ("data", "vdst"))
    word = Width(4)

    def run(wave: Wave) -> None:
        before = update(
            wave, instruction.pc, where(wave), get(wave, row, word, chosen(wave)), combine
        )
        if fields["sc0"]:
            put(wave, to, before, word, chosen(wave))
        wave.waits.issue(Outstanding(instruction.pc, "vector", instruction.writes))
        wave.watch()

    return run


def build_scalar_memory(instruction: Instruction) -> Run:
    """Return what an SMEM instruction does; raise EmulationError if it is not known."""
    match = re.fullmatch(r"S_LOAD_DWORD(?:X(\d+))?", instruction.name)
    if match is None:
        if instruction.name.startswith(("S_DCACHE", "S_MEMTIME", "S_ATC")):
            return lambda _: None
        raise EmulationError(f"{instruction.name} is not known")
    fields, pc, count = instruction.fields, instruction.pc, int(match[1] or 1)
    base, to = fields["sbase"] * 2, fields["sdata"]
    fixed = signed(fields["offset"], _SCALAR_OFFSET_BITS) if fields["imm"] else 0
    beside = fields["soffset"] if fields["soffset_en"] else fields["offset"] & 127
    more = scalar(beside) if fields["soffset_en"] or not fields["imm"] else scalar(_ZERO)

    def run(wave: Wave) -> None:
        address = wave.scalar64(base) + fixed + more(wave)
        data = checked_load(wave, pc, np.array([address]), 4 * count)
        for at, word in enumerate(data[0].view(np.uint32)):
            wave.set_scalar(to + at, int(word))
        wave.waits.issue(Outstanding(pc, "scalar", instruction.writes))
        wave.watch()

    return run
