"""A launch: what waves start with, how workgroups and waves meet, and what is left undefined."""

from struct import pack

import numpy as np
import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

from tests.tiny_kernels import BARRIER, END, encoded, kernel, launched, wait
from tinygrad.renderer.amd.dsl import s, v

from mxtune.tuner.emulate import launch
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.launch import Launch, run
from mxtune.tuner.emulate.memory import Memory

FETCH = (encoded("SMEM", "S_LOAD_DWORDX2", sdata=s[8:9], sbase=s[0:1], imm=1), wait(local=0))
OFFSET = encoded("VOP2", "V_LSHLREV_B32", vdst=v[1], src0=2, vsrc1=v[0])  # of a lane's dword
BRANCH = 0xBF820000


def mov(to: int, source: object) -> bytes:
    return encoded("VOP1", "V_MOV_B32", vdst=v[to], src0=source)


def store(data: int, *, base: int = 8) -> bytes:
    return encoded(
        "GLOBAL", "GLOBAL_STORE_DWORD", addr=v[1], data=v[data], saddr=s[base : base + 1]
    )


def branch(words: int) -> bytes:
    return (BRANCH | words & 0xFFFF).to_bytes(4, "little")


@pytest.fixture
def memory() -> Memory:
    """128 dwords of 0xFFFFFFFF called out."""
    made = Memory()
    made.allocate("out", np.full(128, 0xFFFFFFFF, np.uint32))
    return made


def pointer(memory: Memory) -> bytes:
    return pack("<Q", memory.address("out"))


def out(memory: Memory) -> list[int]:
    return [int(word) for word in memory.view("out").view(np.uint32)]


# --- what a wave starts with


def test_every_lane_of_every_wave_has_its_number(memory: Memory) -> None:
    code = kernel(*FETCH, OFFSET, store(0), END)
    report = launched(code, memory, arguments=pointer(memory), threads=128)
    assert out(memory) == list(range(128))
    assert (report.findings, report.dismissed) == ((), 0)


@pytest.mark.parametrize(
    ("given", "stored"),
    [((True, True, True), 123), ((True, False, True), 13), ((False, True, False), 2)],
)
def test_workgroup_ids_follow_the_user_registers(
    memory: Memory, given: tuple[bool, bool, bool], stored: int
) -> None:
    """The ids that there are become the digits of one number."""
    code = [*FETCH, encoded("SOP1", "S_MOV_B32", sdst=s[10], ssrc0=0)]
    for register in range(2, 2 + sum(given)):
        code += [
            encoded("SOP2", "S_MUL_I32", sdst=s[10], ssrc0=s[10], ssrc1=10),
            encoded("SOP2", "S_ADD_U32", sdst=s[10], ssrc0=s[10], ssrc1=s[register]),
        ]
    loaded = kernel(*code, OFFSET, mov(2, s[10]), store(2), END, workgroup_ids=given)
    started = Launch(loaded, pointer(memory), (2, 3, 4), 64)
    report = run(started, memory, workgroups=[(1, 2, 3)])
    assert (out(memory)[0], report.findings) == (stored, ())


def test_workgroups_run_x_first() -> None:
    started = Launch(kernel(END), b"", (2, 1, 2), 64)
    assert started.workgroups == [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]


@pytest.mark.parametrize("preloaded", [0, 2])
def test_arguments_may_be_preloaded(memory: Memory, preloaded: int) -> None:
    """Code that loads its arguments itself skips that where the hardware has done it."""
    load = encoded("SMEM", "S_LOAD_DWORDX2", sdata=s[2:3], sbase=s[0:1], imm=1)
    prologue = load + wait(local=0)
    prologue += branch((256 - len(prologue) - 4) // 4)
    body = (OFFSET, mov(2, s[4]), store(2, base=2), END)
    code = kernel(prologue.ljust(256, b"\0"), *body, user_sgprs=4, preload_dwords=preloaded)
    report = launched(code, memory, arguments=pointer(memory), grid=(1, 1, 1))
    assert out(memory)[:65] == [0] * 64 + [0xFFFFFFFF]
    assert report.findings == ()
    assert report.profile.instructions.get("scalar_load", 0) == (0 if preloaded else 1)


def test_preloading_may_begin_behind_the_first_arguments(memory: Memory) -> None:
    code = kernel(
        bytes(256),
        *(OFFSET, mov(2, s[4]), store(2, base=2), END),
        user_sgprs=5,
        preload_dwords=3,
        preload_offset=2,
    )
    launched(code, memory, arguments=bytes(8) + pointer(memory) + pack("<I", 77))
    assert out(memory)[:64] == [77] * 64


# --- how waves and workgroups meet


def exchange(*between: bytes) -> tuple[bytes, ...]:
    """Write the lane's number to LDS and read that of the same lane of the other wave."""
    return (
        *FETCH,
        OFFSET,
        encoded("DS", "DS_WRITE_B32", addr=v[1], data0=v[0]),
        wait(local=0),
        *between,
        encoded("VOP2", "V_XOR_B32", vdst=v[2], src0=256, vsrc1=v[1], literal=256),
        encoded("DS", "DS_READ_B32", vdst=v[3], addr=v[2]),
        wait(local=0),
        store(3),
        END,
    )


def test_waves_meet_at_a_barrier(memory: Memory) -> None:
    code = kernel(*exchange(BARRIER), lds_bytes=512)
    report = launched(code, memory, arguments=pointer(memory), threads=128)
    assert out(memory) == [*range(64, 128), *range(64)]
    assert report.findings == ()


def test_without_a_barrier_they_race(memory: Memory) -> None:
    code = kernel(*exchange(), lds_bytes=512)
    report = launched(code, memory, arguments=pointer(memory), threads=128)
    assert {found.kind for found in report.findings} == {"lds_race", "unwritten_lds"}
    assert out(memory)[64:] == list(range(64))  # the second wave comes later


def test_lds_that_the_launch_adds_lies_behind_that_of_the_kernel(memory: Memory) -> None:
    code = kernel(*exchange(BARRIER), lds_bytes=256)
    assert launched(code, memory, arguments=pointer(memory), threads=128).findings
    started = Launch(code, pointer(memory), (1, 1, 1), 128, dynamic_lds_bytes=256)
    assert run(started, memory).findings == ()


def test_workgroups_that_store_different_values_race(memory: Memory) -> None:
    code = kernel(*FETCH, OFFSET, mov(2, s[2]), store(2), END)
    report = launched(code, memory, arguments=pointer(memory), grid=(2, 1, 1))
    assert [str(found) for found in report.findings] == [
        "store_race at 0x14 global_store_dword: stores 1 B at byte 0 of out; "
        "another workgroup has stored something else there"
    ]
    again = run(Launch(code, pointer(memory), (2, 1, 1), 64), memory, workgroups=[(1, 0, 0)])
    assert again.findings == ()  # another launch


def test_workgroups_may_store_the_same(memory: Memory) -> None:
    code = kernel(*FETCH, OFFSET, store(0), END)
    assert launched(code, memory, arguments=pointer(memory), grid=(3, 1, 1)).findings == ()


# --- what is left undefined


def test_an_undefined_register_that_cannot_matter_is_dismissed(memory: Memory) -> None:
    masked = encoded("VOP2", "V_AND_B32", vdst=v[2], src0=0, vsrc1=v[5])
    report = launched(
        kernel(*FETCH, OFFSET, masked, store(2), END), memory, arguments=pointer(memory)
    )
    assert (report.findings, report.dismissed) == ((), 1)
    assert out(memory)[:64] == [0] * 64


def test_an_undefined_register_that_reaches_memory_is_told(memory: Memory) -> None:
    masked = encoded("VOP2", "V_AND_B32", vdst=v[2], src0=1, vsrc1=v[5])
    code = kernel(*FETCH, OFFSET, masked, store(2), END)
    report = launched(code, memory, arguments=pointer(memory))
    text = "unwritten_register at 0x10 v_and_b32: reads v5, which nothing has written"
    assert [str(found) for found in report.findings] == [text]
    assert report.dismissed == 0


def test_what_a_kernel_computes_does_not_depend_on_the_second_look(memory: Memory) -> None:
    """The launch runs twice here; memory holds what the first run left."""
    add = encoded("GLOBAL", "GLOBAL_ATOMIC_ADD", addr=v[1], data=v[2], saddr=s[8:9])
    masked = encoded("VOP2", "V_AND_B32", vdst=v[2], src0=0, vsrc1=v[5])
    one = encoded("VOP2", "V_OR_B32", vdst=v[2], src0=1, vsrc1=v[2])
    code = kernel(*FETCH, OFFSET, masked, one, add, END)
    report = launched(code, memory, arguments=pointer(memory))
    assert (report.findings, report.dismissed) == ((), 1)
    assert out(memory)[:65] == [0] * 64 + [0xFFFFFFFF]


@pytest.mark.parametrize(("mask", "kinds"), [(0, []), (1, ["unwritten_lds"])])
def test_an_undefined_byte_of_lds_counts_if_it_matters(
    memory: Memory, mask: int, kinds: list[str]
) -> None:
    code = kernel(
        *FETCH,
        OFFSET,
        encoded("DS", "DS_READ_B32", vdst=v[2], addr=v[1]),
        wait(local=0),
        encoded("VOP2", "V_AND_B32", vdst=v[2], src0=mask, vsrc1=v[2]),
        store(2),
        END,
        lds_bytes=256,
    )
    report = launched(code, memory, arguments=pointer(memory))
    assert [found.kind for found in report.findings] == kinds
    assert report.dismissed == 1 - len(kinds)


# --- where it ends


def test_a_loop_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_MOST_STEPS", 1000)
    with pytest.raises(EmulationError, match="1000 instructions without an end"):
        launched(kernel(branch(-1)), Memory())


@pytest.mark.parametrize("words", [-2, 10_000])
def test_control_must_stay_in_the_code(words: int) -> None:
    with pytest.raises(EmulationError, match=r"control leaves the code object, to -?0x"):
        launched(kernel(branch(words), END), Memory())


def test_an_unknown_instruction_is_named() -> None:
    code = encoded("VOP3", "V_MQSAD_PK_U16_U8", vdst=v[0:1], src0=v[2:3], src1=v[4], src2=v[6:7])
    with pytest.raises(EmulationError, match="V_MQSAD_PK_U16_U8"):
        launched(kernel(code, END), Memory())


def test_what_was_executed_is_counted(memory: Memory) -> None:
    code = kernel(*FETCH, OFFSET, store(0), END)
    arguments = pointer(memory)
    profile = launched(code, memory, arguments=arguments, grid=(2, 1, 1), threads=128).profile
    assert profile.waves == 4
    assert profile.instructions == {
        "salu": 4,  # the ends
        "scalar_load": 4,
        "store": 4,
        "valu": 4,
        "wait": 4,
    }
    assert profile.bytes_moved == {"memory store 4 B": 1024}
