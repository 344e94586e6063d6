"""Memory instructions: which bytes they move, what they check, what is said when they miss."""

import numpy as np
import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

from tests.tiny_kernels import FILL, LANES, encoded, loaded, numbers, perform, told, wave_on_numbers
from tinygrad.renderer.amd.dsl import s, v

from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.wave import Wave


@pytest.fixture
def wave() -> Wave:
    return wave_on_numbers()


def test_a_load_outside_every_tensor_gives_poison(wave: Wave) -> None:
    load = encoded("GLOBAL", "GLOBAL_LOAD_DWORD", vdst=v[1], addr=v[0], saddr=s[2:3], offset=-8)
    perform(wave, load)
    assert loaded(wave) == [[0xA5A5A5A5], [0xA5A5A5A5], [100], [101]]
    assert told(wave)[0].endswith("far from every tensor (2 lanes)")


def test_lanes_that_are_not_active_do_not_miss(wave: Wave) -> None:
    wave.set_exec(0b1100)
    load = encoded("GLOBAL", "GLOBAL_LOAD_DWORD", vdst=v[1], addr=v[0], saddr=s[2:3], offset=-8)
    perform(wave, load)
    assert loaded(wave) == [[FILL], [FILL], [100], [101]]
    assert told(wave) == []


def test_a_store_beyond_a_tensor_is_dropped_and_told(wave: Wave) -> None:
    store = encoded("GLOBAL", "GLOBAL_STORE_DWORD", addr=v[0], data=v[1], saddr=s[2:3], offset=4)
    perform(wave, store)
    assert numbers(wave) == [100, *[FILL] * 63]
    assert told(wave) == ["out_of_bounds: writes 4 B at byte 256 of numbers, which has 256"]


def test_an_address_must_fit_the_width(wave: Wave) -> None:
    wave.v[0] = 4 * LANES // 2
    wave.set_exec(0xFF)
    for width in ("UBYTE", "USHORT"):
        perform(wave, encoded("GLOBAL", f"GLOBAL_LOAD_{width}", vdst=v[1], addr=v[0], saddr=s[2:3]))
    assert told(wave) == []
    perform(wave, encoded("GLOBAL", "GLOBAL_LOAD_DWORD", vdst=v[1], addr=v[0], saddr=s[2:3]))
    text = "4 B at byte 2 of numbers: the address is no multiple of 4"
    assert told(wave) == [f"misaligned: {text}"]


def test_a_scalar_load_is_checked_as_well(wave: Wave) -> None:
    wave.set_scalar(8, 24)
    perform(
        wave,
        encoded("SMEM", "S_LOAD_DWORDX2", sdata=s[10:11], sbase=s[2:3], imm=1, offset=248),
        encoded("SMEM", "S_LOAD_DWORD", sdata=s[12], sbase=s[2:3], soffset=s[8], soffset_en=1),
    )
    assert (wave.s[10:13], told(wave)) == ([162, 163, 106], [])
    perform(
        wave, encoded("SMEM", "S_LOAD_DWORDX4", sdata=s[12:15], sbase=s[2:3], imm=1, offset=256)
    )
    assert told(wave)[-1] == "out_of_bounds: reads 16 B at byte 256 of numbers, which has 256"


# --- LDS


def test_lds_beyond_its_end_is_out_of_bounds(wave: Wave) -> None:
    wave.v[0] = 65536 - 8
    perform(
        wave,
        encoded("DS", "DS_WRITE_B64", addr=v[0], data0=v[1:2], offset0=8),
        encoded("DS", "DS_READ_B32", vdst=v[1], addr=v[0], offset0=12),
    )
    assert told(wave) == [
        "out_of_bounds: writes 8 B at byte 65536 of LDS, which has 65536",
        "out_of_bounds: reads 4 B at byte 65540 of LDS, which has 65536",
    ]
    assert loaded(wave) == [[0xA5A5A5A5]] * 4


def test_an_lds_address_must_fit_the_width(wave: Wave) -> None:
    perform(wave, encoded("DS", "DS_WRITE_B32", addr=v[0], data0=v[1], offset0=2))
    assert told(wave) == ["misaligned: 4 B at LDS byte 2"]


def test_lds_holds_what_was_written_width_by_width(wave: Wave) -> None:
    wave.v[1], wave.v[0] = 0x81828384, 8 * LANES
    perform(
        wave,
        encoded("DS", "DS_WRITE_B32", addr=v[0], data0=v[1]),
        encoded("DS", "DS_WRITE_B8", addr=v[0], data0=v[1], offset0=4),
        encoded("DS", "DS_READ_I8", vdst=v[1], addr=v[0], offset0=1),
        encoded("DS", "DS_READ_U16", vdst=v[2], addr=v[0], offset0=2),
        encoded("DS", "DS_READ_U8", vdst=v[3], addr=v[0], offset0=4),
    )
    assert loaded(wave, 3)[1] == [0xFFFFFF83, 0x8182, 0x84]
    assert told(wave) == []


# --- private memory


def scratch(name: str, **fields: object) -> bytes:
    return encoded("SCRATCH", f"SCRATCH_{name}", saddr=s[8], **fields)


def test_each_lane_has_its_own_private_memory(wave: Wave) -> None:
    wave.private = np.zeros((64, 16), np.uint8)
    wave.set_scalar(8, 4)
    wave.set_exec(0b1011)
    perform(wave, scratch("STORE_DWORD", data=v[0], offset=8))
    wave.set_exec(0b1110)
    perform(wave, scratch("LOAD_DWORD", vdst=v[1], offset=8))
    assert loaded(wave) == [[FILL], [4], [0], [12]]
    assert wave.private[3].tolist() == [0] * 12 + [12, 0, 0, 0]
    assert told(wave) == []


def test_a_private_address_may_come_from_a_register(wave: Wave) -> None:
    wave.private = np.tile(np.arange(16, dtype=np.uint8), (64, 1))
    wave.set_scalar(8, 4)
    wave.v[0] = LANES % 4
    perform(wave, scratch("LOAD_UBYTE", vdst=v[1], addr=v[0], sve=1, offset=-2))
    assert loaded(wave) == [[2], [3], [4], [5]]


def test_private_memory_has_an_end(wave: Wave) -> None:
    wave.private = np.zeros((64, 16), np.uint8)
    wave.set_scalar(8, 12)
    perform(wave, scratch("LOAD_DWORDX2", vdst=v[1:2]))
    text = "8 B at byte 12 of private memory, which has 16"
    assert told(wave) == [f"out_of_bounds: {text}"]


def test_a_kernel_without_private_memory_cannot_use_it(wave: Wave) -> None:
    wave.set_scalar(8, 0)
    with pytest.raises(EmulationError, match="without private memory"):
        perform(wave, scratch("LOAD_DWORD", vdst=v[1]))
