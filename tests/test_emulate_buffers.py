"""Buffer instructions and loads straight to LDS: what a descriptor lets through."""

import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

from tests.tiny_kernels import (
    FILL,
    LANES,
    encoded,
    loaded,
    numbers,
    perform,
    told,
    wait,
    wave_on_numbers,
)
from tinygrad.renderer.amd.dsl import s, v

from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.wave import Wave


@pytest.fixture
def wave() -> Wave:
    """A wave on numbers, with a descriptor of their first 40 bytes in s[4:7]."""
    made = wave_on_numbers()
    describe(made, records=40)
    return made


def describe(wave: Wave, *, records: int, stride: int = 0) -> None:
    wave.set_scalar64(4, wave.scalar64(2) | stride << 48)
    wave.set_scalar64(6, records)


def buffer(name: str, **fields: object) -> bytes:
    usual = {"vdata": v[1], "vaddr": v[0], "srsrc": s[4:7], "soffset": 0}
    return encoded("MUBUF", name, **usual | fields)


def test_a_buffer_load_checks_every_dword(wave: Wave) -> None:
    wave.v[0] = 16 * LANES
    perform(wave, buffer("BUFFER_LOAD_DWORDX4", vdata=v[1:4], offen=1))
    assert loaded(wave, 4) == [
        [100, 101, 102, 103],
        [104, 105, 106, 107],
        [108, 109, 0, 0],
        [0, 0, 0, 0],
    ]
    assert told(wave) == []


def test_a_narrow_buffer_load_checks_its_bytes(wave: Wave) -> None:
    describe(wave, records=3)
    wave.v[0] = LANES
    perform(wave, buffer("BUFFER_LOAD_UBYTE", offen=1))
    assert loaded(wave) == [[100], [0], [0], [0]]
    wave.v[0] = 2 * LANES
    perform(wave, wait(vector=0), buffer("BUFFER_LOAD_USHORT", offen=1))
    assert loaded(wave) == [[100], [0], [0], [0]]  # the second reaches to byte 4


def test_every_part_of_the_offset_counts_in_the_check(wave: Wave) -> None:
    wave.set_scalar(8, 28)
    perform(wave, buffer("BUFFER_LOAD_DWORD", offen=1, offset=4, soffset=s[8]))
    assert loaded(wave) == [[108], [109], [0], [0]]


def test_a_masked_lane_of_triton_is_out_of_range(wave: Wave) -> None:
    describe(wave, records=0x7FFFFFFE)
    wave.v[0, 1] = 0x80000000
    perform(wave, buffer("BUFFER_LOAD_DWORD", offen=1))
    assert loaded(wave) == [[100], [0], [102], [103]]
    assert told(wave) == []


def test_a_structured_buffer_checks_the_index_alone(wave: Wave) -> None:
    describe(wave, records=3, stride=12)
    wave.v[0] = LANES
    perform(wave, buffer("BUFFER_LOAD_DWORDX2", vdata=v[1:2], idxen=1, offset=32))
    assert loaded(wave, 2) == [[108, 109], [111, 112], [114, 115], [0, 0]]


def test_an_index_and_an_offset_come_from_two_registers(wave: Wave) -> None:
    describe(wave, records=64, stride=8)
    wave.v[10], wave.v[11] = 3, 4 * LANES
    perform(wave, buffer("BUFFER_LOAD_DWORD", vaddr=v[10:11], idxen=1, offen=1))
    assert loaded(wave) == [[106], [107], [108], [109]]


def test_an_index_into_an_unstructured_buffer_adds_nothing(wave: Wave) -> None:
    perform(wave, buffer("BUFFER_LOAD_DWORD", vaddr=v[0], idxen=1, offset=36))
    assert loaded(wave) == [[109]] * 4


def test_a_store_out_of_range_is_dropped(wave: Wave) -> None:
    describe(wave, records=12)
    wave.v[0], wave.v[1], wave.v[2] = 8 * LANES, 7, 8
    perform(wave, buffer("BUFFER_STORE_DWORDX2", vdata=v[1:2], offen=1))
    assert numbers(wave)[:5] == [7, 8, 7, 103, 104]
    assert told(wave) == []


def test_in_range_but_beyond_the_tensor_is_out_of_bounds(wave: Wave) -> None:
    describe(wave, records=1000)
    perform(wave, buffer("BUFFER_LOAD_DWORD", offen=1, offset=8))
    assert told(wave) == [
        "out_of_bounds: reads 4 B at byte 256 of numbers, which has 256 (2 lanes)"
    ]
    assert wave.v[1, 61:].tolist() == [163, 0xA5A5A5A5, 0xA5A5A5A5]


def test_an_atomic_adds_in_range_and_returns_what_was_there(wave: Wave) -> None:
    describe(wave, records=6)
    wave.v[1] = 1000 + LANES
    perform(wave, buffer("BUFFER_ATOMIC_ADD", offen=1, sc0=1))
    assert numbers(wave)[:3] == [1100, 101, 102]
    assert loaded(wave) == [[100], [0], [0], [0]]


def test_atomics_of_all_lanes_on_one_place_add_up(wave: Wave) -> None:
    wave.v[1] = 1
    perform(wave, buffer("BUFFER_ATOMIC_ADD"))
    assert numbers(wave)[:2] == [164, 101]


@pytest.mark.parametrize(("word", "bit"), [(1, 31), (3, 23)])
def test_a_swizzled_buffer_is_refused(wave: Wave, word: int, bit: int) -> None:
    wave.s[4 + word] |= 1 << bit
    with pytest.raises(EmulationError, match="swizzled buffer"):
        perform(wave, buffer("BUFFER_LOAD_DWORD", offen=1))


# --- loads straight to LDS


def in_lds(first: int) -> bytes:
    return encoded(
        "DS", "DS_READ_B32", vdst=v[1], addr=v[0], offset0=first & 255, offset1=first >> 8
    )


def test_a_load_to_lds_puts_lane_after_lane_behind_m0(wave: Wave) -> None:
    wave.set_scalar(124, 512)
    perform(wave, buffer("BUFFER_LOAD_DWORD", offen=1, lds=1), wait(vector=0), in_lds(512))
    assert wave.v[1].tolist() == [*range(100, 110), *[0] * 54]  # out of range there is 0 too
    assert told(wave) == []


def test_a_load_to_lds_must_be_waited_for(wave: Wave) -> None:
    wave.set_scalar(124, 512)
    perform(wave, buffer("BUFFER_LOAD_DWORD", offen=1, lds=1), wait(local=0), in_lds(512))
    assert told(wave) == [
        "missing_wait: reads LDS byte 512, for which a load from memory was not waited"
    ]


def test_a_global_load_to_lds_leaves_out_the_lanes_that_are_not_active(wave: Wave) -> None:
    wave.set_scalar(124, 1024)
    load = encoded("GLOBAL", "GLOBAL_LOAD_LDS_DWORD", addr=v[0], saddr=s[2:3])
    wave.set_exec(0b1011)
    perform(wave, load, wait(vector=0))
    perform(wave, in_lds(1024))
    assert told(wave) == []
    assert loaded(wave) == [[100], [101], [FILL], [103]]
    wave.set_exec(0b100)
    perform(wave, wait(local=0), in_lds(1024))
    assert told(wave) == ["unwritten_lds: reads LDS byte 1032, which nothing has written"]
