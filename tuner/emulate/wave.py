"""A wave: its registers, its EXEC mask, and the watch over what it reads before it is there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.findings import Sightings
from mxtune.tuner.emulate.instruction import (
    EXEC,
    VGPR,
    Instruction,
    members,
    register_name,
    span,
)
from mxtune.tuner.emulate.lds import Lds
from mxtune.tuner.emulate.memory import Bytes, Memory
from mxtune.tuner.emulate.waits import Counter, Waits

Lanes = NDArray[np.uint32]
Mask = NDArray[np.bool_]

LANES = 64
LANE = np.arange(LANES, dtype=np.int64)
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
EVERY_REGISTER = span(0, 108) | span(VGPR, 512)


@dataclass(frozen=True, slots=True)
class Poison:
    """What registers and LDS hold before anything is written to them."""

    register: int = 0xDEADBEEF
    lds: int = 0xA5


class Wave:
    """64 lanes. ``v`` uint32 [512, 64]: rows 0-255 VGPRs, 256-511 AccVGPRs."""

    def __init__(
        self, memory: Memory, lds: Lds, poison: Poison, index: int = 0, workgroup: int = 0
    ) -> None:
        self.memory, self.lds = memory, lds
        self.index, self.workgroup = index, workgroup
        self.sightings = Sightings()
        self.v: Lanes = np.full((512, LANES), poison.register, np.uint32)
        self.s = [poison.register] * 128
        self.private: Bytes = np.zeros((LANES, 0), np.uint8)  # of each lane
        self.origin = 0  # what addresses are told from
        self.scc = self.pc = self.gpr_index = 0
        self.done = self.at_barrier = False
        self.waits = Waits(lds)
        self._unwritten = EVERY_REGISTER
        self._holes: dict[int, int] = {}  # lanes of a vector register that nothing wrote
        self.watched = self._unwritten
        self.exec = 0
        self.active: Mask = np.zeros(LANES, np.bool_)
        self.active_lanes = 0
        self.set_exec(M64)

    # --- scalar registers

    def set_exec(self, value: int) -> None:
        """Set the EXEC mask."""
        self.exec = value & M64
        self.all_active = self.exec == M64
        self.active = unpack(self.exec)
        self.active_lanes = self.exec.bit_count()

    def scalar(self, number: int) -> int:
        """Return a 32-bit scalar register."""
        if number == EXEC:
            return self.exec & M32
        return self.exec >> 32 if number == EXEC + 1 else self.s[number]

    def set_scalar(self, number: int, value: int) -> None:
        """Write a 32-bit scalar register."""
        value &= M32
        if number == EXEC:
            self.set_exec(self.exec & ~M32 | value)
        elif number == EXEC + 1:
            self.set_exec(self.exec & M32 | value << 32)
        else:
            self.s[number] = value

    def scalar64(self, number: int) -> int:
        """Return a pair of scalar registers."""
        return self.exec if number == EXEC else self.s[number] | self.s[number + 1] << 32

    def set_scalar64(self, number: int, value: int) -> None:
        """Write a pair of scalar registers."""
        value &= M64
        if number == EXEC:
            self.set_exec(value)
        else:
            self.s[number], self.s[number + 1] = value & M32, value >> 32

    # --- vector registers

    def write(self, row: int, value: Lanes) -> None:
        """Write the active lanes of a row of ``v``."""
        if self.all_active:
            self.v[row] = value
        else:
            np.copyto(self.v[row], value, where=self.active)

    # --- what is not there yet

    def defined(self, registers: int) -> None:
        """Note that registers hold something from now on."""
        self._unwritten &= ~registers
        self.watch()

    def watch(self) -> None:
        """Bring up to date the set of registers that a look is due at."""
        self.watched = self._unwritten | self.waits.registers

    def inspect(self, instruction: Instruction) -> None:
        """Look at what an instruction touches among the registers that are watched."""
        self._look_for_missing_waits(instruction)
        unread = instruction.reads & self._unwritten
        if unread:
            self._look_for_unwritten(instruction, unread)
        fresh = instruction.writes & self._unwritten
        if fresh:
            self._fill(instruction, fresh)

    def _look_for_missing_waits(self, instruction: Instruction) -> None:
        pending = self.waits.registers
        used, lost = instruction.reads & pending, instruction.writes & pending
        counter = counter_of(instruction)
        if lost and counter and self.waits.in_order_with(counter, lost):
            lost = 0
        for registers, verb in ((used, "reads"), (lost & ~used, "overwrites")):
            blamed = self.waits.blamed(registers) if registers else None
            if blamed:
                at = blamed.pc - self.origin
                name = register_name(next(members(registers & blamed.registers)))
                what = f"{verb} {name}, for which the load at {at:#x} was not waited"
                self.sightings.add("missing_wait", instruction.pc, what)
                self.waits.forget(blamed)  # its later uses are the same fault

    def _look_for_unwritten(self, instruction: Instruction, registers: int) -> None:
        lanes = M64 if _crosses_lanes(instruction) else self.exec
        for number in members(registers):
            holes = self._holes.get(number, M64)
            if number < VGPR or holes & lanes:
                what = f"reads {register_name(number)}, which nothing has written"
                self.sightings.add("unwritten_register", instruction.pc, what)
                return

    def _fill(self, instruction: Instruction, registers: int) -> None:
        """Note what an instruction is about to write."""
        lanes = M64 if instruction.name.startswith(_WHOLE) else self.exec
        for number in members(registers):
            holes = self._holes.get(number, M64) & ~lanes if number >= VGPR else 0
            if holes:
                self._holes[number] = holes
            else:
                self._holes.pop(number, None)
                self._unwritten &= ~(1 << number)
        self.watch()


# What writes every lane whatever EXEC says. A lane that V_WRITELANE leaves is read by nobody else
# than the V_READLANE of another lane, so its register counts as written.
_WHOLE = ("V_MFMA", "V_WRITELANE")
_LANES_OF_OTHERS = ("V_MFMA", "V_READLANE", "DS_BPERMUTE", "DS_PERMUTE", "DS_SWIZZLE")


def _crosses_lanes(instruction: Instruction) -> bool:
    across = instruction.encoding.endswith("DPP16")
    return across or instruction.name.startswith(_LANES_OF_OTHERS)


def counter_of(instruction: Instruction) -> Counter | None:
    """Return the counter that a memory instruction is waited for with."""
    if instruction.encoding == "DS":
        return "lds"
    if instruction.encoding == "SMEM":
        return "scalar"
    return "vector" if instruction.encoding in ("GLOBAL", "MUBUF", "SCRATCH") else None


def unpack(mask: int) -> Mask:
    """Return a 64-bit mask as one bool for each lane."""
    eight = np.frombuffer(mask.to_bytes(8, "little"), np.uint8)
    return np.unpackbits(eight, bitorder="little").view(np.bool_)


def pack(lanes: Mask) -> int:
    """Return one bool for each lane as a 64-bit mask."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def blank_wave() -> Wave:
    """Return a wave with 64 KiB of LDS, an empty memory and poisoned registers."""
    poison = Poison()
    return Wave(Memory(0), Lds(1 << 16, poison.lds), poison)
