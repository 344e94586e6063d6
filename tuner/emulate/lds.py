"""LDS of one workgroup: its bytes, who touched each since the last barrier, what was written.

A race is two waves touching the same byte between two barriers, one of them writing. An access
that was not waited for before a barrier counts on both sides of it, but for one case: what a load
brings in from memory, issued behind the barrier, comes hundreds of cycles after LDS has served a
read issued before it, and hand-written kernels build on that. Bytes that a load brings in straight
from memory are in flight until its wave waits for the load.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.findings import Sightings
from mxtune.tuner.emulate.memory import Bytes

Addresses = NDArray[np.int64]
_ROW = 16  # bytes of the widest access; the size is rounded up to it


@dataclass(frozen=True, slots=True)
class LdsAccess:
    """What an instruction of a wave does to LDS: ``count`` bytes at each address."""

    pc: int
    wave: int
    addresses: Addresses
    count: int
    writes: bool
    from_memory: bool = False  # a load brings in what is written
    late: bool = False  # issued before the last barrier


class Lds:
    """``size_bytes`` of LDS, filled with ``poison``."""

    def __init__(self, size_bytes: int, poison: int) -> None:
        size = max(-(-size_bytes // _ROW), 1) * _ROW
        self.size = size_bytes
        self._bytes: Bytes = np.full(size, poison, np.uint8)
        self._written = np.zeros(size, np.bool_)
        # a bit for each wave, since the last barrier
        self._readers, self._late_readers, self._writers, self._loaders = (
            np.zeros(size, np.uint16) for _ in range(4)
        )
        self._landing = np.zeros(size, np.uint16)  # a bit for each wave with a load in flight
        self._log: list[LdsAccess] = []
        self._in_flight = 0

    def read(self, access: LdsAccess) -> Bytes:
        """Return the bytes of an access, [lanes, count]; all must be inside."""
        self._log.append(access)
        found: Bytes = self._rows(self._bytes, access.addresses, access.count)
        return found

    def write(self, access: LdsAccess, data: Bytes) -> None:
        """Write a row of ``data`` at each address; all must be inside."""
        addresses, count = access.addresses, access.count
        if self._holds_already(addresses, data):
            return  # waves of a replicated layout write the same twice: no harm in any order
        self._log.append(access)
        if (addresses % count).any():
            at = addresses[:, None] + np.arange(count)
            self._bytes[at], self._written[at] = data, True
        else:
            rows = addresses // count
            _by(self._bytes, count)[rows] = data
            _by(self._written, count)[rows] = True

    def outside(self, addresses: Addresses, count: int) -> NDArray[np.bool_] | None:
        """Return which addresses are beyond the end, None if none is."""
        if not addresses.size or (addresses.min() >= 0 and addresses.max() + count <= self.size):
            return None
        bad: NDArray[np.bool_] = (addresses < 0) | (addresses + count > self.size)
        return bad

    def unwritten(self, addresses: Addresses, count: int) -> int | None:
        """Return an address among these that nothing wrote, or None."""
        rows = self._rows(self._written, addresses, count)
        if rows.all():
            return None
        lane, byte = np.argwhere(~rows)[0]
        return int(addresses[lane] + byte)

    def land(self, access: LdsAccess, *, landing: bool) -> None:
        """Mark bytes that a load from memory will fill, or has filled."""
        at = access.addresses[:, None] + np.arange(access.count)
        bit = 1 << access.wave
        if landing:
            self._landing[at] |= np.uint16(bit)
        else:
            self._landing[at] &= np.uint16(~bit & 0xFFFF)
        self._in_flight += 1 if landing else -1

    def still_landing(self, addresses: Addresses, count: int) -> int | None:
        """Return an address among these that a load in flight will fill, or None."""
        if not self._in_flight:
            return None
        rows = self._rows(self._landing, addresses, count)
        if not rows.any():
            return None
        lane, byte = np.argwhere(rows)[0]
        return int(addresses[lane] + byte)

    def barrier(self, unfinished: Sequence[LdsAccess], to: Sightings) -> None:
        """End an interval: tell of its races, begin the next one with what is unfinished."""
        waves = {access.wave for access in self._log}
        if len(waves) > 1 and any(access.writes for access in self._log):
            self._tell_races(to)
        self._log = [replace(access, late=True) for access in unfinished]

    def _holds_already(self, addresses: Addresses, data: Bytes) -> bool:
        count = data.shape[1]
        same = np.array_equal(self._rows(self._bytes, addresses, count), data)
        return same and bool(self._rows(self._written, addresses, count).all())

    def _tell_races(self, to: Sightings) -> None:
        for access in self._log:
            self._mark(self._shadow_of(access), access)
        writers = self._writers | self._loaders
        readers = self._readers | np.where(self._writers != 0, self._late_readers, 0)
        several = writers & (writers - np.uint16(1))
        racing = (several != 0) | ((writers != 0) & (readers & ~writers != 0))
        if racing.any():
            touched = writers | readers
            for access in self._log:
                self._name_race(access, racing, touched, to)
        for shadow in (self._readers, self._late_readers, self._writers, self._loaders):
            shadow[:] = 0

    def _shadow_of(self, access: LdsAccess) -> NDArray[np.uint16]:
        if access.writes:
            return self._loaders if access.from_memory else self._writers
        return self._late_readers if access.late else self._readers

    def _name_race(
        self,
        access: LdsAccess,
        racing: NDArray[np.bool_],
        touched: NDArray[np.uint16],
        to: Sightings,
    ) -> None:
        rows = self._rows(racing, access.addresses, access.count)
        if not rows.any():
            return
        lane, byte = np.argwhere(rows)[0]
        at = int(access.addresses[lane] + byte)
        waves = ", ".join(str(wave) for wave in range(16) if int(touched[at]) >> wave & 1)
        what = f"wave {access.wave} {'writes' if access.writes else 'reads'} LDS byte {at}"
        to.add("lds_race", access.pc, f"{what}, which waves {waves} touch with no barrier between")

    def _mark(self, shadow: NDArray[np.uint16], access: LdsAccess) -> None:
        bit, count = np.uint16(1 << access.wave), access.count
        if (access.addresses % count).any():
            shadow[access.addresses[:, None] + np.arange(count)] |= bit
        else:
            _by(shadow, count)[access.addresses // count] |= bit

    def _rows(self, source: Any, addresses: Addresses, count: int) -> Any:
        if (addresses % count).any():
            return source[addresses[:, None] + np.arange(count)]
        return _by(source, count)[addresses // count]


def _by(source: Any, count: int) -> Any:
    """View an array as rows of ``count``; what is left at its end is out of reach."""
    return source[: source.size // count * count].reshape(-1, count)
