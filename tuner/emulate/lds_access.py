"""LDS instructions, and loads from global memory straight into LDS."""

import re
from collections.abc import Callable

import numpy as np

from mxtune.tuner.emulate.access import chosen, get, put
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import M0, Instruction
from mxtune.tuner.emulate.lds import Addresses, LdsAccess
from mxtune.tuner.emulate.memory import POISON, Bytes
from mxtune.tuner.emulate.waits import Outstanding
from mxtune.tuner.emulate.wave import LANE, Mask, Wave
from mxtune.tuner.emulate.widths import Width

Run = Callable[[Wave], None]
U32 = np.uint32

_READ = re.compile(r"DS_READ_(?:B(\d+)|([UI])(\d+))(_D16)?(_HI)?")
_WRITE = re.compile(r"DS_WRITE_B(\d+)(_D16_HI)?")
_PAIR = re.compile(r"DS_(READ|WRITE)2(ST64)?_B(32|64)")
_TRANSPOSED = re.compile(r"DS_READ_B64_TR_B(4|8|16)")
_LDS_ADDRESS = 0x3FFFF  # the bits of M0 that are an LDS address


def build_lds(instruction: Instruction) -> Run:
    """Return what a DS instruction does; raise EmulationError if it is not known."""
    name, fields = instruction.name, instruction.fields
    offset = fields["offset0"] | fields["offset1"] << 8
    if fields["gds"]:
        raise EmulationError(f"{name} on GDS")
    if match := _READ.fullmatch(name):
        half = (1 if match[5] else 0) if match[4] else -1
        width = Width(int(match[1] or match[3]) // 8, match[2] == "I", half)
        return _reads(instruction, width, (offset,))
    if match := _WRITE.fullmatch(name):
        width = Width(int(match[1]) // 8, half=1 if match[2] else -1)
        return _writes(instruction, width, (offset,))
    if match := _PAIR.fullmatch(name):
        width = Width(int(match[3]) // 8)
        step = width.count * (64 if match[2] else 1)
        offsets = (fields["offset0"] * step, fields["offset1"] * step)
        return (_reads if match[1] == "READ" else _writes)(instruction, width, offsets)
    if match := _TRANSPOSED.fullmatch(name):
        return _reads_transposed(instruction, int(match[1]), offset)
    if name in ("DS_BPERMUTE_B32", "DS_PERMUTE_B32"):
        return _permutes(instruction, offset)
    raise EmulationError(f"{name} is not known")


def _reads(instruction: Instruction, width: Width, offsets: tuple[int, ...]) -> Run:
    fields, pc = instruction.fields, instruction.pc
    row = fields["vdst"] + 256 * fields["acc"]
    registers = max(width.count // 4, 1)

    def run(wave: Wave) -> None:
        lanes = chosen(wave)
        # all addresses first: what is read may replace the register they come from
        accesses = _accesses(wave, instruction, width, offsets, writes=False)
        for at, access in enumerate(accesses):
            put(wave, row + at * registers, lds_load(wave, pc, access), width, lanes)
        wave.waits.issue(Outstanding(pc, "lds", instruction.writes, accesses))
        wave.watch()

    return run


def _writes(instruction: Instruction, width: Width, offsets: tuple[int, ...]) -> Run:
    fields, pc = instruction.fields, instruction.pc
    rows = [fields[name] + 256 * fields["acc"] for name in ("data0", "data1")]

    def run(wave: Wave) -> None:
        lanes = chosen(wave)
        accesses = _accesses(wave, instruction, width, offsets, writes=True)
        for row, access in zip(rows, accesses, strict=False):
            lds_store(wave, pc, access, get(wave, row, width, lanes))
        wave.waits.issue(Outstanding(pc, "lds", 0, accesses))
        wave.watch()

    return run


def _accesses(
    wave: Wave,
    instruction: Instruction,
    width: Width,
    offsets: tuple[int, ...],
    *,
    writes: bool,
) -> tuple[LdsAccess, ...]:
    base = wave.v[instruction.fields["addr"]]
    lanes = (base if wave.all_active else base[wave.active]).astype(np.int64)
    return tuple(
        LdsAccess(instruction.pc, wave.index, lanes + offset, width.count, writes)
        for offset in offsets
    )


def _reads_transposed(instruction: Instruction, bits: int, offset: int) -> Run:
    """Give each of 16 lanes a column of the rows of 16 values that they read together.

    The manual's text does not say which lane gets what; this is how Triton lowers to it
    (AMD's LinearLayoutConversions), and kernels with it come out right.
    """
    fields, pc, width = instruction.fields, instruction.pc, Width(8)
    row = fields["vdst"] + 256 * fields["acc"]

    def run(wave: Wave) -> None:
        if not wave.all_active:
            raise EmulationError(f"{instruction.name} under a partial EXEC")
        accesses = _accesses(wave, instruction, width, (offset,), writes=False)
        data = _transposed(lds_load(wave, pc, accesses[0]), bits)
        put(wave, row, data, width, None)
        wave.waits.issue(Outstanding(pc, "lds", instruction.writes, accesses))
        wave.watch()

    return run


def _transposed(data: Bytes, bits: int) -> Bytes:
    """Transpose [64, 8 bytes] as values of so many bits, in groups of 16 lanes."""
    if bits == 4:
        nibbles = np.stack([data & 15, data >> 4], axis=2).reshape(4, 16, 16)
        turned = nibbles.transpose(0, 2, 1).reshape(64, 8, 2)
        packed: Bytes = (turned[..., 0] | turned[..., 1] << 4).astype(np.uint8)
        return packed
    values = np.ascontiguousarray(data).view(np.uint8 if bits == 8 else np.uint16)
    turned = values.reshape(4, -1, 16).transpose(0, 2, 1)
    return np.ascontiguousarray(turned).reshape(64, -1).view(np.uint8)


def _permutes(instruction: Instruction, offset: int) -> Run:
    """Fetch from (BPERMUTE) or send to (PERMUTE) the lane that a byte address names."""
    fields, pc = instruction.fields, instruction.pc
    to = fields["vdst"] + 256 * fields["acc"]
    pulls = instruction.name == "DS_BPERMUTE_B32"

    def run(wave: Wave) -> None:
        lane = (wave.v[fields["addr"]] + U32(offset)) // U32(4) % U32(64)
        data = wave.v[fields["data0"]]
        result = np.zeros(64, U32)
        if pulls:
            result = np.where(wave.active[lane], data[lane], U32(0))
        else:
            result[lane[wave.active]] = data[wave.active]
        wave.write(to, result)
        wave.waits.issue(Outstanding(pc, "lds", instruction.writes))
        wave.watch()

    return run


def lds_load(wave: Wave, pc: int, access: LdsAccess) -> Bytes:
    """Read LDS and note what is wrong with it; beyond the end there is poison."""
    addresses, count = access.addresses, access.count
    bad = _look_inside(wave, pc, access)
    if bad is not None:
        data = np.full((addresses.size, count), POISON, np.uint8)
        inside = LdsAccess(pc, access.wave, addresses[~bad], count, writes=False)
        data[~bad] = lds_load(wave, pc, inside) if not bad.all() else data[~bad]
        return data
    if addresses.size:
        _look_landing(wave, pc, access)
        unwritten = wave.lds.unwritten(addresses, count)
        if unwritten is not None:
            what = f"reads LDS byte {unwritten}, which nothing has written"
            wave.sightings.add("unwritten_lds", pc, what)
    return wave.lds.read(access)


def lds_store(wave: Wave, pc: int, access: LdsAccess, data: Bytes) -> None:
    """Write LDS and note what is wrong with it; what is beyond the end is dropped."""
    bad = _look_inside(wave, pc, access)
    if bad is not None:
        kept = LdsAccess(pc, access.wave, access.addresses[~bad], access.count, writes=True)
        access, data = kept, data[~bad]
    if access.addresses.size:
        _look_landing(wave, pc, access)
        wave.lds.write(access, data)


def _look_inside(wave: Wave, pc: int, access: LdsAccess) -> Mask | None:
    addresses, count = access.addresses, access.count
    needed = count if count in (1, 2, 4, 8, 16) else 4
    if (addresses % needed).any():
        at = int(addresses[addresses % needed != 0][0])
        wave.sightings.add("misaligned", pc, f"{count} B at LDS byte {at}")
    bad = wave.lds.outside(addresses, count)
    if bad is not None:
        at = int(addresses[bad][0])
        verb = "writes" if access.writes else "reads"
        what = f"{verb} {count} B at byte {at} of LDS, which has {wave.lds.size}"
        wave.sightings.add("out_of_bounds", pc, what)
    return bad


def _look_landing(wave: Wave, pc: int, access: LdsAccess) -> None:
    landing = wave.lds.still_landing(access.addresses, access.count)
    if landing is not None:
        verb = "writes" if access.writes else "reads"
        what = f"{verb} LDS byte {landing}, for which a load from memory was not waited"
        wave.sightings.add("missing_wait", pc, what)


def land_in_lds(
    wave: Wave, instruction: Instruction, data: Bytes, offset: int, lanes: Mask | None
) -> None:
    """Put what a load brought straight into LDS: M0 plus ``offset``, then lane after lane."""
    pc = instruction.pc
    stride = 4 if data.shape[1] <= 4 else 16
    if data.shape[1] < 4:  # narrow loads are extended to a dword
        data = np.pad(data, ((0, 0), (0, 4 - data.shape[1])))
    base = (wave.s[M0] & _LDS_ADDRESS) + offset
    addresses: Addresses = base + (LANE if lanes is None else LANE[lanes]) * stride
    inside = (addresses >= 0) & (addresses + data.shape[1] <= wave.lds.size)
    access = LdsAccess(
        pc, wave.index, addresses[inside], data.shape[1], writes=True, from_memory=True
    )
    if base % 4:
        wave.sightings.add("misaligned", pc, f"{data.shape[1]} B to LDS byte {base}")
    if access.addresses.size:
        _look_landing(wave, pc, access)
        wave.lds.write(access, data[inside])
    wave.waits.issue(Outstanding(pc, "vector", 0, (access,)))
    wave.watch()
