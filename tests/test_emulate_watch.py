"""What the emulator watches: who touches which byte of memory and of LDS, and in which order."""

from collections.abc import Sequence

import numpy as np
import pytest

from mxtune.tuner.emulate.findings import Sightings
from mxtune.tuner.emulate.lds import Lds, LdsAccess
from mxtune.tuner.emulate.memory import Addresses, Memory

A, B = 0x7F0000010000, 0x7F0000021000  # where two tensors of 100 B come to lie


def at(*addresses: int) -> Addresses:
    return np.array(addresses, np.int64)


def row(*values: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    return np.array([values], np.uint8)


@pytest.fixture
def memory() -> Memory:
    """Two tensors of 100 B, full of 1 and of 2."""
    made = Memory(0)
    made.allocate("a", np.full(100, 1, np.uint8))
    made.allocate("b", bytes([2] * 100))
    return made


def test_tensors_are_aligned_and_lie_apart(memory: Memory) -> None:
    assert (memory.address("a"), memory.address("b")) == (A, B)
    assert memory.view("a").tolist() == [1] * 100
    assert memory.load(at(B + 96, B + 1), 4).tolist() == [[2] * 4, [2] * 4]


def test_an_access_must_lie_in_a_tensor_with_every_byte(memory: Memory) -> None:
    assert memory.outside(at(A, A + 96, A + 4), 4) is None
    assert memory.outside(at(A, B), 100) is None  # in two of them
    outside = memory.outside(at(A + 96, A + 97, A - 1, B + 96, B + 100, 0), 4)
    assert outside is not None
    assert outside.tolist() == [False, True, True, False, True, True]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (A + 8, "4 B at byte 8 of a"),
        (A + 98, "4 B at byte 98 of a, which has 100"),
        (A + 100, "4 B at byte 100 of a, which has 100"),
        (A + 65635, "4 B at byte 65635 of a, which has 100"),
        (B - 8, "4 B, 8 B before b"),
        (A - 8, "4 B at address 0x7f000000fff8, far from every tensor"),
        (B + (1 << 20), "4 B at address 0x7f0000121000, far from every tensor"),
        (0, "4 B at address 0x0, far from every tensor"),
    ],
)
def test_a_miss_is_described_by_the_tensor_next_to_it(
    memory: Memory, address: int, text: str
) -> None:
    assert memory.describe(address, 4) == text


def test_an_empty_tensor_has_no_byte(memory: Memory) -> None:
    address = memory.allocate("empty", b"")
    assert memory.outside(at(address), 1) is not None
    assert memory.describe(address, 1) == "1 B at byte 0 of empty, which has 0"


def test_memory_grows_and_keeps_what_it_holds(memory: Memory) -> None:
    memory.allocate("large", np.full(5_000_000, 3, np.uint8))
    assert memory.view("large").sum() == 15_000_000
    assert (memory.view("a").sum(), memory.view("b").sum()) == (100, 200)


def test_a_copy_goes_its_own_way(memory: Memory) -> None:
    other = memory.copy()
    assert memory.same_contents(other)
    other.store(at(A), row(9), 0)
    assert not memory.same_contents(other)
    assert (memory.view("a")[0], other.view("a")[0]) == (1, 9)


def test_two_workgroups_may_store_the_same_and_nothing_else(memory: Memory) -> None:
    assert memory.store(at(A + 4), row(5, 6, 7, 8), 0) is None
    assert memory.store(at(A + 4), row(9, 6, 7, 8), 0) is None  # its own
    assert memory.store(at(A + 4), row(9, 6, 7, 8), 1) is None
    assert memory.store(at(A + 4), row(9, 6, 0, 8), 2) == A + 6
    assert memory.view("a")[4:8].tolist() == [9, 6, 0, 8]


def test_launches_and_atomics_do_not_race(memory: Memory) -> None:
    memory.store(at(A), row(5), 0)
    memory.begin_launch()
    assert memory.store(at(A), row(6), 1) is None
    memory.update(at(A + 1), row(7))
    assert memory.store(at(A + 1), row(8), 2) is None


def access(
    wave: int, first: int, count: int = 4, *, writes: bool = False, pc: int = 0
) -> LdsAccess:
    return LdsAccess(pc, wave, at(first), count, writes)


def load_to(wave: int, first: int) -> LdsAccess:
    return LdsAccess(0, wave, at(first), 4, writes=True, from_memory=True)


def races(lds: Lds, unfinished: Sequence[LdsAccess] = ()) -> list[tuple[int, str]]:
    """Pass a barrier and return the races before it: (pc, detail)."""
    sightings = Sightings()
    lds.barrier(unfinished, sightings)
    assert {seen.kind for seen in sightings.all()} <= {"lds_race"}
    return [(seen.pc, seen.detail) for seen in sightings.all()]


@pytest.fixture
def lds() -> Lds:
    return Lds(40, 0xA5)


def test_reading_what_another_wave_writes_is_a_race(lds: Lds) -> None:
    lds.write(access(0, 8, pc=4, writes=True), row(1, 2, 3, 4))
    assert lds.read(access(2, 10, 2, pc=12)).tolist() == [[3, 4]]
    lds.read(access(1, 12, pc=16))
    assert races(lds) == [
        (4, "wave 0 writes LDS byte 10, which waves 0, 2 touch with no barrier between"),
        (12, "wave 2 reads LDS byte 10, which waves 0, 2 touch with no barrier between"),
    ]


def test_a_barrier_orders_two_waves(lds: Lds) -> None:
    lds.write(access(0, 8, writes=True), row(1, 2, 3, 4))
    assert races(lds) == []
    lds.read(access(1, 8))
    assert races(lds) == []
    lds.write(access(0, 8, writes=True), row(4, 3, 2, 1))
    assert races(lds) == []


def test_a_wave_does_not_race_with_itself_nor_readers_with_each_other(lds: Lds) -> None:
    lds.write(access(0, 8, writes=True), row(1, 2, 3, 4))
    lds.read(access(0, 8))
    lds.read(access(1, 16))
    lds.read(access(2, 16))
    assert races(lds) == []


def test_two_waves_may_write_the_same_and_nothing_else(lds: Lds) -> None:
    for wave in (0, 1):
        lds.write(access(wave, 8, writes=True), row(1, 2, 3, 4))
    assert races(lds) == []
    for wave in (0, 1):
        lds.write(access(wave, 8, pc=wave, writes=True), row(1, wave, 3, 4))
    detail = "writes LDS byte 8, which waves 0, 1 touch with no barrier between"
    assert races(lds) == [(0, f"wave 0 {detail}"), (1, f"wave 1 {detail}")]


def test_a_read_not_waited_for_races_with_a_write_behind_the_barrier(lds: Lds) -> None:
    late = access(0, 8)
    lds.read(late)
    assert races(lds, [late]) == []
    lds.write(access(1, 8, pc=4, writes=True), row(1, 2, 3, 4))
    assert [pc for pc, _ in races(lds)] == [0, 4]


def test_a_read_not_waited_for_comes_before_a_load_behind_the_barrier(lds: Lds) -> None:
    late = access(0, 8)
    lds.read(late)
    assert races(lds, [late]) == []
    lds.write(load_to(1, 8), row(1, 2, 3, 4))
    assert races(lds) == []


def test_a_load_races_with_a_read_in_its_own_interval(lds: Lds) -> None:
    lds.write(load_to(1, 8), row(1, 2, 3, 4))
    lds.read(access(0, 8))
    assert len(races(lds)) == 1  # both have pc 0


def test_a_write_not_waited_for_races_with_a_read_behind_the_barrier(lds: Lds) -> None:
    late = access(0, 8, writes=True)
    lds.write(late, row(1, 2, 3, 4))
    assert races(lds, [late]) == []
    lds.read(access(1, 8, pc=4))
    assert [pc for pc, _ in races(lds)] == [0, 4]
    assert races(lds) == []  # waited for by now


def test_a_byte_of_lds_is_unwritten_until_it_is_written(lds: Lds) -> None:
    lds.write(access(0, 8, writes=True), row(1, 2, 3, 4))
    assert lds.unwritten(at(8, 10), 2) is None
    assert lds.unwritten(at(8), 8) == 12
    assert lds.unwritten(at(8, 6), 2) == 6
    assert lds.read(access(0, 12)).tolist() == [[0xA5] * 4]


def test_bytes_land_when_the_last_load_to_them_is_waited_for(lds: Lds) -> None:
    for wave in (0, 3):
        lds.land(load_to(wave, 8), landing=True)
    lds.land(load_to(0, 8), landing=False)
    assert lds.still_landing(at(4, 11), 1) == 11
    assert lds.still_landing(at(4, 12), 4) is None
    lds.land(load_to(3, 8), landing=False)
    assert lds.still_landing(at(8), 4) is None


def test_lds_ends_where_the_kernel_said(lds: Lds) -> None:
    assert lds.outside(at(0, 36), 4) is None
    outside = lds.outside(at(36, 37, 40, -1), 4)
    assert outside is not None
    assert outside.tolist() == [False, True, True, True]
