"""Global memory: named allocations in one arena, with guard zones that nothing may touch."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Addresses = NDArray[np.int64]

BASE = 0x7F00_0000_0000  # a plausible device address; a null pointer misses the arena
POISON = 0xA5  # what reading outside every allocation gives
_ALIGNMENT = 4096
_NOBODY = -1
_GUARD_BYTES = 65536  # more than any access oversteps by; what goes further falls outside too


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor in memory: its first byte and the one behind its last, as arena offsets."""

    name: str
    start: int
    end: int


class Memory:
    """An arena of up to ``size_bytes``. Addresses are those a kernel computes with."""

    def __init__(self, size_bytes: int = 1 << 20) -> None:
        self._bytes: Bytes = np.zeros(size_bytes, np.uint8)
        self._stored_by = np.full(size_bytes, _NOBODY, np.int32)
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []
        self._free = _GUARD_BYTES

    def allocate(self, name: str, values: "NDArray[np.generic] | bytes") -> int:
        """Copy ``values`` into a new allocation and return its address."""
        data = np.frombuffer(values, np.uint8) if isinstance(values, bytes) else values
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        start = -(-self._free // _ALIGNMENT) * _ALIGNMENT
        end = start + flat.size
        self._grow(end + _GUARD_BYTES)
        self._bytes[start:end] = flat
        self._free = end + _GUARD_BYTES
        self._starts.append(start)
        self._allocations.append(Allocation(name, start, end))
        return BASE + start

    def view(self, name: str) -> Bytes:
        """Return the bytes of an allocation, live."""
        part = next(part for part in self._allocations if part.name == name)
        return self._bytes[part.start : part.end]

    def address(self, name: str) -> int:
        """Return where an allocation begins."""
        return BASE + next(part.start for part in self._allocations if part.name == name)

    def copy(self) -> "Memory":
        """Return the same contents at the same addresses, independent of this memory."""
        other = Memory(0)
        other._bytes, other._stored_by = self._bytes.copy(), self._stored_by.copy()
        other._starts, other._allocations = self._starts.copy(), self._allocations.copy()
        other._free = self._free
        return other

    def same_contents(self, other: "Memory") -> bool:
        """Whether every tensor of both holds the same bytes."""
        return np.array_equal(self._bytes, other._bytes)

    def load(self, addresses: Addresses, count: int) -> Bytes:
        """Return ``count`` bytes at each address, [len(addresses), count]; all must be inside."""
        offsets = addresses - BASE
        if (offsets % count).any():
            found: Bytes = self._bytes[offsets[:, None] + np.arange(count)]
        else:
            rows = self._bytes[: self._bytes.size // count * count].reshape(-1, count)
            found = rows[offsets // count]
        return found

    def store(self, addresses: Addresses, data: Bytes, workgroup: int) -> int | None:
        """Write a row of ``data`` at each address; all must be inside.

        Returns an address that another workgroup has stored something else to, or None.
        """
        count: int = data.shape[1]
        at: Addresses = (addresses - BASE)[:, None] + np.arange(count)
        owner = self._stored_by[at]
        clash = (owner != _NOBODY) & (owner != workgroup) & (self._bytes[at] != data)
        self._bytes[at], self._stored_by[at] = data, workgroup
        if not clash.any():
            return None
        lane, byte = np.argwhere(clash)[0]
        return int(addresses[lane] + byte)

    def update(self, addresses: Addresses, data: Bytes) -> None:
        """Write as an atomic instruction does: workgroups may meet."""
        self._bytes[(addresses - BASE)[:, None] + np.arange(data.shape[1])] = data

    def begin_launch(self) -> None:
        """Forget who stored what: launches on one queue follow one another."""
        self._stored_by[:] = _NOBODY

    def outside(self, addresses: Addresses, count: int) -> NDArray[np.bool_] | None:
        """Return which addresses touch a byte outside every allocation, None if none does."""
        offsets = addresses - BASE
        low, high = int(offsets.min()), int(offsets.max())
        at = bisect_right(self._starts, low) - 1
        if at >= 0 and high + count <= self._allocations[at].end:
            return None
        bad = np.array([not self._holds(int(offset), count) for offset in offsets])
        return bad if bad.any() else None

    def describe(self, address: int, count: int) -> str:
        """Say how an access misses the allocations."""
        offset = address - BASE
        at = bisect_right(self._starts, offset) - 1
        if at < 0 or not self._allocations:
            return f"{count} B at address {address:#x}, far from every tensor"
        near = self._allocations[at]
        if offset + count <= near.end:
            return f"{count} B at byte {offset - near.start} of {near.name}"
        if offset + count > near.end and offset - near.end < _GUARD_BYTES:
            return f"{count} B at byte {offset - near.start} of {near.name}, which has " + (
                f"{near.end - near.start}"
            )
        if at + 1 < len(self._starts) and self._starts[at + 1] - offset <= _GUARD_BYTES:
            ahead = self._allocations[at + 1]
            return f"{count} B, {ahead.start - offset} B before {ahead.name}"
        return f"{count} B at address {address:#x}, far from every tensor"

    def _holds(self, offset: int, count: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset + count <= self._allocations[at].end

    def _grow(self, size: int) -> None:
        if size > self._bytes.size:
            larger = np.zeros(max(size, 2 * self._bytes.size), np.uint8)
            larger[: self._bytes.size] = self._bytes
            self._bytes = larger
            self._stored_by = np.full(larger.size, _NOBODY, np.int32)
