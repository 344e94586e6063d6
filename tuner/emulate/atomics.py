"""Atomic additions on global memory."""

from collections.abc import Callable, Mapping

import numpy as np

from mxtune.tuner.emulate.access import checked_load
from mxtune.tuner.emulate.memory import Addresses, Bytes
from mxtune.tuner.emulate.valu_tables import bf16_bits, bits, floats
from mxtune.tuner.emulate.wave import Lanes, Wave

U32 = np.uint32
Combine = Callable[[Lanes, Lanes], Lanes]


def _add_two_bf16(a: Lanes, b: Lanes) -> Lanes:
    low = bf16_bits(bits(floats(a << U32(16)) + floats(b << U32(16))))
    top = U32(0xFFFF0000)
    high = bf16_bits(bits(floats(a & top) + floats(b & top)))
    return low | high << U32(16)


ATOMICS: Mapping[str, Combine] = {
    "ADD": lambda a, b: a + b,
    "ADD_F32": lambda a, b: bits(floats(a) + floats(b)),
    "PK_ADD_BF16": _add_two_bf16,
}


def update(wave: Wave, pc: int, addresses: Addresses, data: Bytes, combine: Combine) -> Bytes:
    """Combine a dword of each lane with memory, lane after lane; return what was there before."""
    before = checked_load(wave, pc, addresses, 4)
    if wave.memory.outside(addresses, 4) is not None if addresses.size else True:
        return before
    distinct = np.unique(addresses).size == addresses.size
    groups = [slice(None)] if distinct else [slice(at, at + 1) for at in range(addresses.size)]
    for group in groups:
        old = wave.memory.load(addresses[group], 4)
        before[group] = old
        new = combine(_words(old), _words(data[group]))
        wave.memory.update(addresses[group], new.reshape(-1, 1).view(np.uint8))
    return before


def _words(data: Bytes) -> Lanes:
    return np.ascontiguousarray(data).view(U32)[:, 0]
