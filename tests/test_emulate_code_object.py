"""Reading a code object: what starting its kernel takes, and files that are none."""

import re
import struct

import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")
pytest.importorskip("elftools", reason="the emulator reads ELF files with pyelftools")

from tests.planted_code import compiled
from tests.planted_quantiser import assembled, lines

from mxtune.tuner.emulate.code_object import Argument, CodeObject
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import decode, reachable

GFX950, GFX942 = 0x4F, 0x4C  # the processor in the low byte of the ELF flags
FLAGS_AT = 48


@pytest.fixture(scope="module")
def elf() -> bytes:
    """What Triton makes of the quantiser."""
    return compiled("direct").objects[0].elf


@pytest.fixture(scope="module")
def by_hand() -> bytes:
    """A small object without metadata and without lines."""
    return assembled(*lines())


def test_what_triton_compiles_says_how_it_is_launched(elf: bytes) -> None:
    code = CodeObject.read(elf)
    assert (code.name, code.workgroup_ids) == ("quantise", (True, True, False))
    assert (code.private_bytes, code.keeps_denormals) == (0, True)
    assert (code.user_sgprs, code.preload_dwords, code.preload_offset) == (16, 14, 0)
    assert code.entry % 256 == 0
    pointer, number = "global_buffer", "by_value"
    assert code.arguments[:8] == (
        Argument(0, 8, pointer),  # a
        Argument(8, 8, pointer),  # codes
        Argument(16, 8, pointer),  # scales
        Argument(24, 4, number),  # M
        Argument(28, 4, number),  # K
        Argument(32, 4, number),  # the stride of a
        Argument(36, 4, number),  # the stride of codes
        Argument(40, 4, number),  # the width of scales
    )
    assert code.kernarg_bytes >= 44


def test_instructions_know_their_source_lines(elf: bytes) -> None:
    code = CodeObject.read(elf)
    assert code.line_of(code.entry - 4) is None
    found = {code.line_of(each.pc) for each in reachable(code.image, code.entry)}
    files = {re.sub(r":\d+$", "", line) for line in found if line}
    assert {"quantise.py", "mxfp4.py"} <= files <= {"quantise.py", "mxfp4.py", "standard.py"}


# One compile unit that says nothing but where its lines are, in DWARF 5.
DEBUG_SECTIONS = """
    .section .debug_abbrev,"",@progbits
    .byte 1, 0x11, 0, 0x10, 0x17, 0, 0, 0
    .section .debug_info,"",@progbits
    .long 13
    .short 5
    .byte 1, 8
    .long .debug_abbrev
    .byte 1
    .long .debug_line
    .text"""


def test_dwarf_5_counts_files_from_zero() -> None:
    files = ('.file 0 "/here" "zero.s"', '.file 1 "/there" "one.s"')
    first, *others = lines()
    code = CodeObject.read(
        assembled(*files, ".loc 0 7", first, ".loc 1 9", *others, DEBUG_SECTIONS)
    )
    assert code.line_of(code.entry) == "zero.s:7"
    assert code.line_of(code.entry + 8) == code.line_of(code.entry + 12) == "one.s:9"


def test_a_kernel_by_hand_has_its_descriptor_alone(by_hand: bytes) -> None:
    code = CodeObject.read(by_hand, "quantise_blocks")
    assert (code.name, code.kernarg_bytes, code.lds_bytes) == ("quantise_blocks", 24, 0)
    assert (code.user_sgprs, code.properties, code.preload_dwords) == (2, 8, 0)
    assert code.workgroup_ids == (True, False, False)
    assert (code.arguments, code.line_of(code.entry)) == ((), None)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\necho no object\n" * 20])
def test_what_is_no_elf_file_is_refused(data: bytes) -> None:
    with pytest.raises(EmulationError, match="not an ELF file"):
        CodeObject.read(data)


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(by_hand: bytes) -> None:
    known = re.escape("no kernel gemm in the code object (it holds quantise_blocks)")
    with pytest.raises(EmulationError, match=known):
        CodeObject.read(by_hand, "gemm")


def test_an_object_without_a_kernel_is_refused(by_hand: bytes) -> None:
    with pytest.raises(EmulationError, match=r"no kernel .*\(it holds none\)"):
        CodeObject.read(by_hand.replace(b".kd\0", b".xx\0"))


def test_code_for_another_gpu_is_refused(by_hand: bytes) -> None:
    assert by_hand[FLAGS_AT] == GFX950
    other = bytearray(by_hand)
    other[FLAGS_AT] = GFX942
    with pytest.raises(EmulationError, match="gfx950"):
        CodeObject.read(bytes(other))


def loads(data: bytes) -> bool:
    """Whether a file can be read; whatever else may be wrong with it is an EmulationError."""
    try:
        CodeObject.read(data)
    except EmulationError:
        return False
    return True


def test_a_truncated_file_is_refused(by_hand: bytes, elf: bytes) -> None:
    assert loads(by_hand)
    assert [size for size in range(0, len(by_hand) - 64, 37) if loads(by_hand[:size])] == []
    assert [size for size in range(0, len(elf) - 64, 101) if loads(elf[:size])] == []


def test_a_damaged_note_is_refused(elf: bytes) -> None:
    assert not loads(elf.replace(b"amdhsa.kernels", b"\xffmdhsa.kernels"))


def test_a_segment_of_a_terabyte_is_refused(by_hand: bytes) -> None:
    (headers,) = struct.unpack_from("<Q", by_hand, 32)
    other = bytearray(by_hand)
    struct.pack_into("<Q", other, headers + 56 + 40, 1 << 40)  # p_memsz of the second segment
    assert not loads(bytes(other))


@pytest.mark.parametrize("pc", [8, 12, 1 << 20, -4])
def test_there_is_no_instruction_outside_the_image(pc: int) -> None:
    with pytest.raises(EmulationError):
        decode(bytes.fromhex("000080bf 000081bf"), pc)
