"""Private memory, where a kernel keeps what does not fit its registers."""

import re
from collections.abc import Callable

import numpy as np

from mxtune.tuner.emulate.access import chosen, get, put
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import OFF, Instruction, signed
from mxtune.tuner.emulate.memory import Addresses
from mxtune.tuner.emulate.waits import Outstanding
from mxtune.tuner.emulate.wave import LANE, Wave
from mxtune.tuner.emulate.widths import Width, width_of

Run = Callable[[Wave], None]
_OFFSET_BITS = 13


def build_scratch(instruction: Instruction) -> Run:
    """Return what a SCRATCH instruction does; raise EmulationError if it is not known."""
    match = re.fullmatch(r"SCRATCH_(LOAD|STORE)_(\w+)", instruction.name)
    width = width_of(match[2]) if match else None
    if match is None or width is None:
        raise EmulationError(f"{instruction.name} is not known")
    return (_load if match[1] == "LOAD" else _store)(instruction, width)


def _addresses(instruction: Instruction) -> Callable[[Wave], Addresses]:
    """Return the byte in their private memory that the active lanes go to."""
    fields = instruction.fields
    row, base = fields["addr"], fields["saddr"]
    offset = signed(fields["offset"], _OFFSET_BITS)

    def where(wave: Wave) -> Addresses:
        start = offset + (0 if base == OFF else wave.scalar(base))
        lanes: Addresses = wave.v[row][wave.active].astype(np.int64)
        return lanes * fields["sve"] + start

    return where


def _load(instruction: Instruction, width: Width) -> Run:
    where, pc = _addresses(instruction), instruction.pc
    row = instruction.fields["vdst"] + 256 * instruction.fields["acc"]

    def run(wave: Wave) -> None:
        addresses = _inside(wave, pc, where(wave), width.count)
        lanes = LANE[wave.active][:, None]
        data = wave.private[lanes, addresses[:, None] + np.arange(width.count)]
        put(wave, row, data, width, chosen(wave))
        wave.waits.issue(Outstanding(pc, "vector", instruction.writes))
        wave.watch()

    return run


def _store(instruction: Instruction, width: Width) -> Run:
    where, pc = _addresses(instruction), instruction.pc
    row = instruction.fields["data"] + 256 * instruction.fields["acc"]

    def run(wave: Wave) -> None:
        addresses = _inside(wave, pc, where(wave), width.count)
        lanes = LANE[wave.active][:, None]
        at = addresses[:, None] + np.arange(width.count)
        wave.private[lanes, at] = get(wave, row, width, chosen(wave))
        wave.waits.issue(Outstanding(pc, "vector", 0))

    return run


def _inside(wave: Wave, pc: int, addresses: Addresses, count: int) -> Addresses:
    """Note what lies outside the private memory, and move it to its last bytes."""
    size = wave.private.shape[1]
    bad = (addresses < 0) | (addresses + count > size)
    if not bad.any():
        return addresses
    what = f"{count} B at byte {int(addresses[bad][0])} of private memory, which has {size}"
    wave.sightings.add("out_of_bounds", pc, what)
    if size < count:
        raise EmulationError(f"a kernel without private memory uses it: {what}")
    kept: Addresses = np.where(bad, size - count, addresses)
    return kept
