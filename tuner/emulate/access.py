"""What all memory instructions share: registers as bytes, checked loads and stores."""

import numpy as np

from mxtune.tuner.emulate.memory import POISON, Addresses, Bytes
from mxtune.tuner.emulate.wave import Mask, Wave
from mxtune.tuner.emulate.widths import Width

U32 = np.uint32


def chosen(wave: Wave) -> Mask | None:
    """Return the active lanes, None for all of them."""
    return None if wave.all_active else wave.active


def put(wave: Wave, row: int, data: Bytes, width: Width, lanes: Mask | None) -> None:
    """Write loaded bytes, one row for each of ``lanes``, to registers."""
    if width.count < 4:
        _put_narrow(wave, row, data, width, lanes)
        return
    words = np.ascontiguousarray(data).view(U32).T
    if lanes is None:
        wave.v[row : row + words.shape[0]] = words
    else:
        wave.v[row : row + words.shape[0], lanes] = words


def _put_narrow(wave: Wave, row: int, data: Bytes, width: Width, lanes: Mask | None) -> None:
    value = np.zeros((data.shape[0], 4), np.uint8)
    value[:, : width.count] = data
    word = value.view(U32)[:, 0]
    if width.is_signed:
        spare = np.int32(32 - 8 * width.count)
        word = ((word << U32(spare)).view(np.int32) >> spare).view(U32)
    where: Mask | slice = slice(None) if lanes is None else lanes
    if width.half >= 0:
        shift = U32(16 * width.half)
        kept = wave.v[row][where] & U32(0xFFFF0000 if width.half == 0 else 0xFFFF)
        word = kept | (word & U32(0xFFFF)) << shift
    wave.v[row][where] = word


def get(wave: Wave, row: int, width: Width, lanes: Mask | None) -> Bytes:
    """Return what a store sends, [lanes, count]."""
    rows = wave.v[row : row + max(width.count // 4, 1)]
    words = rows if lanes is None else rows[:, lanes]
    data = np.ascontiguousarray(words.T).view(np.uint8)
    start = 2 if width.half == 1 else 0
    return data[:, start : start + width.count]


def checked_load(wave: Wave, pc: int, addresses: Addresses, count: int) -> Bytes:
    """Load from global memory; what lies outside every tensor is a finding and gives poison."""
    if not addresses.size:
        return np.zeros((0, count), np.uint8)
    look_aligned(wave, pc, addresses, count)
    bad = wave.memory.outside(addresses, count)
    if bad is None:
        return wave.memory.load(addresses, count)
    _tell_outside(wave, pc, "reads", addresses[bad], count)
    data = np.full((addresses.size, count), POISON, np.uint8)
    if not bad.all():
        data[~bad] = wave.memory.load(addresses[~bad], count)
    return data


def checked_store(wave: Wave, pc: int, addresses: Addresses, data: Bytes) -> None:
    """Store to global memory; what lies outside every tensor is a finding and is dropped."""
    if not addresses.size:
        return
    count = data.shape[1]
    look_aligned(wave, pc, addresses, count)
    bad = wave.memory.outside(addresses, count)
    if bad is not None:
        _tell_outside(wave, pc, "writes", addresses[bad], count)
        addresses, data = addresses[~bad], data[~bad]
    clash = wave.memory.store(addresses, data, wave.workgroup)
    if clash is not None:
        where = wave.memory.describe(clash, 1)
        what = f"stores {where}; another workgroup has stored something else there"
        wave.sightings.add("store_race", pc, what)


def look_aligned(wave: Wave, pc: int, addresses: Addresses, count: int) -> None:
    """Note an address in global memory that does not fit its width: 4 B for dwords and more."""
    needed = min(count, 4)
    if (addresses % needed).any():
        bad = int(addresses[addresses % needed != 0][0])
        what = f"{wave.memory.describe(bad, count)}: the address is no multiple of {needed}"
        wave.sightings.add("misaligned", pc, what)


def _tell_outside(wave: Wave, pc: int, verb: str, addresses: Addresses, count: int) -> None:
    what = f"{verb} {wave.memory.describe(int(addresses[0]), count)}"
    more = f" ({addresses.size} lanes)" if addresses.size > 1 else ""
    wave.sightings.add("out_of_bounds", pc, what + more)
