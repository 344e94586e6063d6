"""Buffer instructions: memory through a descriptor that checks ranges.

With offset = vgpr offset + instruction offset, an access of a lane goes to
base + soffset + offset + index * stride. If the instruction gives an index and the descriptor has
a stride, the access is in range when index < num_records. Otherwise each dword is in range when it
ends within num_records bytes of base. Sources: the CDNA3 manual, 9.1.5 "Buffer addressing", and
for soffset counting in the check ROCm's functional simulator (rocm-systems pull request 10928),
which was compared with hardware. Out of range a load gives 0, also to LDS, and a store is dropped;
an atomic is in range as a whole or not at all.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.access import checked_load, checked_store, chosen, get, put
from mxtune.tuner.emulate.atomics import ATOMICS, update
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import Instruction
from mxtune.tuner.emulate.lds_access import land_in_lds
from mxtune.tuner.emulate.memory import Addresses, Bytes
from mxtune.tuner.emulate.operands import ScalarSource, scalar
from mxtune.tuner.emulate.waits import Outstanding
from mxtune.tuner.emulate.wave import M32, Mask, Wave
from mxtune.tuner.emulate.widths import Width, width_of

Run = Callable[[Wave], None]

_BASE_BITS = (1 << 48) - 1
_STRIDE_BITS = 0x3FFF
_SWIZZLE = 1 << 31  # of word 1
_ADD_LANE = 1 << 23  # of word 3


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The four words that describe a buffer, as far as kernels here use them."""

    base: int
    stride: int
    records: int

    @classmethod
    def of(cls, wave: Wave, first: int) -> "Descriptor":
        """Read it from four SGPRs; raise EmulationError for modes that no kernel here sets."""
        words = wave.s[first : first + 4]
        if words[1] & _SWIZZLE or words[3] & _ADD_LANE:
            raise EmulationError("a swizzled buffer, or one that adds the lane")
        base = (words[0] | words[1] << 32) & _BASE_BITS
        return cls(base, words[1] >> 16 & _STRIDE_BITS, words[2])


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the active lanes go, and which dwords of each are in range, [lanes, dwords]."""

    addresses: Addresses
    in_range: NDArray[np.bool_]

    @property
    def whole(self) -> Mask:
        """Which lanes are in range with every dword."""
        lanes: Mask = np.logical_and.reduce(self.in_range, axis=1)
        return lanes


class Addressing:
    """Computes where a buffer instruction goes."""

    def __init__(self, instruction: Instruction, count: int, *, whole: bool) -> None:
        fields = instruction.fields
        self._descriptor, self._row = fields["srsrc"] * 4, fields["vaddr"]
        self._indexed, self._offset_in_lane = bool(fields["idxen"]), bool(fields["offen"])
        self._offset: ScalarSource = scalar(fields["soffset"])
        self._fixed = fields["offset"]
        self._unit = count if whole else min(count, 4)
        self._units = np.arange(count // self._unit) * self._unit

    def __call__(self, wave: Wave) -> Reach:
        """Return the reach of the active lanes."""
        buffer = Descriptor.of(wave, self._descriptor)
        beside = self._offset(wave)
        offset = self._lane(wave, self._row + self._indexed, used=self._offset_in_lane)
        offset = (offset + self._fixed) & M32
        addresses = buffer.base + beside + offset
        if self._indexed:
            index = self._lane(wave, self._row, used=True)
            addresses = addresses + index * buffer.stride
            if buffer.stride:
                inside = np.broadcast_to((index < buffer.records)[:, None], self._shape(index))
                return Reach(addresses, inside)
        last = (offset + beside)[:, None] + self._units + self._unit
        return Reach(addresses, last <= buffer.records)

    def _shape(self, lanes: Addresses) -> tuple[int, int]:
        return lanes.size, self._units.size

    @staticmethod
    def _lane(wave: Wave, row: int, *, used: bool) -> Addresses:
        if not used:
            return np.zeros(wave.active_lanes, np.int64)
        lanes: Addresses = wave.v[row][wave.active].astype(np.int64)
        return lanes


def build_buffer(instruction: Instruction) -> Run:
    """Return what a MUBUF instruction does; raise EmulationError if it is not known."""
    name = instruction.name
    if name.startswith(("BUFFER_WBL2", "BUFFER_INV")):
        return lambda _: None
    match = re.fullmatch(r"BUFFER_(LOAD|STORE|ATOMIC)_(\w+)", name)
    if match and match[1] == "ATOMIC" and match[2] in ATOMICS:
        return _atomic(instruction, match[2])
    width = width_of(match[2]) if match else None
    if match is None or width is None:
        raise EmulationError(f"{name} is not known")
    if match[1] == "STORE":
        return _store(instruction, width)
    return (
        _load_to_lds(instruction, width) if instruction.fields["lds"] else _load(instruction, width)
    )


def _row(instruction: Instruction) -> int:
    return instruction.fields["vdata"] + 256 * instruction.fields["acc"]


def _load(instruction: Instruction, width: Width) -> Run:
    where, row = Addressing(instruction, width.count, whole=False), _row(instruction)

    def run(wave: Wave) -> None:
        data = _fetch(wave, instruction.pc, where(wave), width.count)
        put(wave, row, data, width, chosen(wave))
        wave.waits.issue(Outstanding(instruction.pc, "vector", instruction.writes))
        wave.watch()

    return run


def _load_to_lds(instruction: Instruction, width: Width) -> Run:
    where, offset = Addressing(instruction, width.count, whole=False), instruction.fields["offset"]

    def run(wave: Wave) -> None:
        data = _fetch(wave, instruction.pc, where(wave), width.count)
        land_in_lds(wave, instruction, data, offset, chosen(wave))

    return run


def _fetch(wave: Wave, pc: int, reach: Reach, count: int) -> Bytes:
    """Load what is in range; the rest is 0."""
    whole = reach.whole
    if whole.all():
        return checked_load(wave, pc, reach.addresses, count)
    data = np.zeros((reach.addresses.size, count), np.uint8)
    data[whole] = checked_load(wave, pc, reach.addresses[whole], count)
    unit = count // reach.in_range.shape[1]
    for at in range(reach.in_range.shape[1]):
        part = reach.in_range[:, at] & ~whole
        if part.any():
            addresses = reach.addresses[part] + at * unit
            data[part, at * unit : (at + 1) * unit] = checked_load(wave, pc, addresses, unit)
    return data


def _store(instruction: Instruction, width: Width) -> Run:
    where, row = Addressing(instruction, width.count, whole=False), _row(instruction)

    def run(wave: Wave) -> None:
        reach, data = where(wave), get(wave, row, width, chosen(wave))
        _send(wave, instruction.pc, reach, data)
        wave.waits.issue(Outstanding(instruction.pc, "vector", 0))

    return run


def _send(wave: Wave, pc: int, reach: Reach, data: Bytes) -> None:
    whole = reach.whole
    checked_store(wave, pc, reach.addresses[whole], data[whole])
    unit = data.shape[1] // reach.in_range.shape[1]
    for at in range(reach.in_range.shape[1]):
        part = reach.in_range[:, at] & ~whole
        if part.any():
            sent = data[part, at * unit : (at + 1) * unit]
            checked_store(wave, pc, reach.addresses[part] + at * unit, sent)


def _atomic(instruction: Instruction, kind: str) -> Run:
    where, row = Addressing(instruction, 4, whole=True), _row(instruction)
    combine, word, returns = ATOMICS[kind], Width(4), instruction.fields["sc0"]

    def run(wave: Wave) -> None:
        reach, data = where(wave), get(wave, row, word, chosen(wave))
        inside: Mask = reach.in_range[:, 0]
        before = np.zeros_like(data)
        before[inside] = update(
            wave, instruction.pc, reach.addresses[inside], data[inside], combine
        )
        if returns:
            put(wave, row, before, word, chosen(wave))
        wave.waits.issue(Outstanding(instruction.pc, "vector", instruction.writes))
        wave.watch()

    return run
