"""What the emulator watches: memory instructions under way, and registers that nothing wrote."""

import numpy as np
import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

from tests.tiny_kernels import encoded, perform, told, wait
from tinygrad.renderer.amd.dsl import s, v

from mxtune.tuner.emulate.lds import Lds, LdsAccess
from mxtune.tuner.emulate.waits import Counter, Outstanding, Waits, allowed_by
from mxtune.tuner.emulate.wave import Wave, blank_wave


def pending(entries: str, *, vector: int = 63, local: int = 15) -> str:
    """Issue loads in order, wait, and return which are still under way.

    ``v`` is one from memory, ``l`` one from LDS, ``s`` a scalar one; they are numbered from 0.
    """
    counters: dict[str, Counter] = {"v": "vector", "l": "lds", "s": "scalar"}
    waits = Waits(Lds(16, 0))
    for number, kind in enumerate(entries):
        waits.issue(Outstanding(4, counters[kind], 1 << number))
    waits.wait(vector, local)
    return "".join(str(n) for n in range(len(entries)) if waits.registers >> n & 1)


@pytest.mark.parametrize(
    ("entries", "vector", "local", "left"),
    [
        ("vvv", 63, 15, "012"),
        ("vvv", 1, 15, "2"),
        ("vvv", 0, 15, ""),
        ("vlvl", 1, 15, "123"),
        ("vlvl", 63, 1, "023"),
        ("lll", 63, 2, "12"),
        ("sl", 63, 1, "01"),  # the scalar load may have come back first, or not
        ("lls", 63, 1, "12"),  # but then one from LDS came back as well
        ("slsl", 63, 1, "023"),
        ("ss", 63, 1, "01"),
        ("lsl", 63, 0, ""),
        ("svl", 0, 0, ""),
    ],
)
def test_a_wait_leaves_under_way_what_may_be(
    entries: str, vector: int, local: int, left: str
) -> None:
    assert pending(entries, vector=vector, local=local) == left


@pytest.mark.parametrize(
    ("simm16", "counts"),
    [(0x0F70, (0, 15)), (0xC07F, (63, 0)), (0x4F75, (21, 15)), (0x0070, (0, 0)), (0xC37F, (63, 3))],
)
def test_a_wait_names_two_counters(simm16: int, counts: tuple[int, int]) -> None:
    assert allowed_by(simm16) == counts


LOAD = encoded("GLOBAL", "GLOBAL_LOAD_DWORD", vdst=v[1], addr=v[0], saddr=s[2:3])
LDS_LOAD = encoded("DS", "DS_READ_B32", vdst=v[1], addr=v[9])
USE = encoded("VOP1", "V_MOV_B32", vdst=v[2], src0=v[1])
CLEAR = encoded("VOP1", "V_MOV_B32", vdst=v[1], src0=0)


@pytest.fixture
def wave() -> Wave:
    """A wave with v0 and v9 at 0, a tensor's address in s[2:3], and bytes 0 to 15 in LDS."""
    made = blank_wave()
    start = np.zeros(1, np.int64)
    numbers = np.arange(16, dtype=np.uint8)[None]
    made.lds.write(LdsAccess(0, 0, start, 16, writes=True), numbers)
    made.set_scalar64(2, made.memory.allocate("tensor", bytes(100)))
    made.v[[0, 9]] = 0
    made.defined(3 << 2 | 1 << 256 | 1 << 265)
    return made


def test_a_register_that_nothing_wrote_is_named(wave: Wave) -> None:
    perform(wave, USE)
    assert told(wave) == ["unwritten_register: reads v1, which nothing has written"]


def test_a_scalar_register_that_nothing_wrote_is_named(wave: Wave) -> None:
    perform(wave, encoded("SOP1", "S_MOV_B32", sdst=s[5], ssrc0=s[2]))
    assert told(wave) == []
    perform(wave, encoded("SOP2", "S_ADD_U32", sdst=s[5], ssrc0=s[5], ssrc1=s[8]))
    assert told(wave) == ["unwritten_register: reads s8, which nothing has written"]


def test_a_register_is_written_in_the_lanes_that_were_active(wave: Wave) -> None:
    wave.set_exec(0xFF)
    perform(wave, CLEAR, USE)
    assert told(wave) == []
    wave.set_exec(0x1FF)
    perform(wave, USE)
    assert told(wave) == ["unwritten_register: reads v1, which nothing has written"]


def test_writing_the_other_lanes_fills_the_hole(wave: Wave) -> None:
    for mask in (0xFF, 0xFFFF0000, (1 << 64) - (1 << 32) | 0xFF00):
        wave.set_exec(mask)
        perform(wave, CLEAR)
    wave.set_exec((1 << 64) - 1)
    perform(wave, USE)
    assert told(wave) == []


def test_an_access_across_lanes_needs_lanes_that_are_not_active(wave: Wave) -> None:
    wave.set_exec(0xFF)
    perform(wave, CLEAR)
    perform(wave, encoded("VOP3", "V_READLANE_B32", vdst=v[4], src0=v[1], src1=63))
    assert told(wave) == ["unwritten_register: reads v1, which nothing has written"]


def test_what_a_load_brings_must_be_waited_for(wave: Wave) -> None:
    perform(wave, LOAD, wait(vector=0), USE)
    assert told(wave) == []
    perform(wave, LOAD, wait(vector=1), USE)
    assert told(wave) == ["missing_wait: reads v1, for which the load at 0x0 was not waited"]


def test_the_other_counter_does_not_help(wave: Wave) -> None:
    perform(wave, LDS_LOAD, wait(vector=0), USE)
    assert told(wave) == ["missing_wait: reads v1, for which the load at 0x0 was not waited"]


def test_overwriting_a_register_under_way_is_told(wave: Wave) -> None:
    perform(wave, LOAD, CLEAR)
    assert told(wave) == ["missing_wait: overwrites v1, for which the load at 0x0 was not waited"]


def test_loads_that_come_back_in_order_may_fill_one_register(wave: Wave) -> None:
    perform(wave, LOAD, LOAD, wait(vector=0), USE)
    perform(wave, LDS_LOAD, LDS_LOAD, wait(local=0), USE)
    assert told(wave) == []


def test_loads_of_two_kinds_may_not(wave: Wave) -> None:
    perform(wave, LOAD, LDS_LOAD)
    assert told(wave) == ["missing_wait: overwrites v1, for which the load at 0x0 was not waited"]


def test_scalar_loads_come_back_in_any_order(wave: Wave) -> None:
    load = encoded("SMEM", "S_LOAD_DWORD", sdata=s[6], sbase=s[2:3], imm=1)
    perform(wave, load, load)
    assert told(wave) == ["missing_wait: overwrites s6, for which the load at 0x0 was not waited"]


def test_a_read_of_two_places_counts_once(wave: Wave) -> None:
    def pair(to: int) -> bytes:
        return encoded("DS", "DS_READ2_B32", vdst=v[to : to + 1], addr=v[9], offset1=1)

    perform(wave, LDS_LOAD, pair(4), pair(6), wait(local=2), USE)
    assert told(wave) == []
    perform(wave, encoded("VOP1", "V_MOV_B32", vdst=v[2], src0=v[4]))
    assert told(wave) == ["missing_wait: reads v4, for which the load at 0x8 was not waited"]


def test_a_read_of_two_places_may_replace_its_own_address(wave: Wave) -> None:
    perform(wave, encoded("DS", "DS_READ2_B32", vdst=v[9:10], addr=v[9], offset0=1, offset1=2))
    assert told(wave) == []
    assert wave.v[9:11, 5].tolist() == [0x07060504, 0x0B0A0908]
