"""Reads a code object: what a GPU needs to know to start a kernel.

The kernel descriptor, the order of the first scalar registers and the metadata note are those of
the AMDGPU backend's user guide (LLVM, "Code Object", "Initial Kernel Execution State").
"""

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from mxtune.tuner.emulate.findings import EmulationError

# User SGPRs in the order of the descriptor's property bits: what each holds, how many it takes.
USER_SGPRS = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
PRELOAD_SKIP = 256  # bytes of prologue that hardware which preloads arguments jumps over
_FETCH_AHEAD = 256  # bytes behind the code that decoding may look at
_LARGEST_IMAGE = 1 << 28  # no kernel comes near it; a damaged file may ask for anything
_GFX950 = 0x4F  # EF_AMDGPU_MACH of the target
_NOTE_TYPE = 32  # NT_AMDGPU_METADATA


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument in the metadata: where it lies in the kernarg segment, and what it is."""

    offset: int
    size: int
    kind: str  # global_buffer, by_value, hidden_...


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A loaded kernel. Addresses are offsets in ``image``."""

    name: str
    image: bytes
    entry: int
    lds_bytes: int
    private_bytes: int  # of a lane
    kernarg_bytes: int
    user_sgprs: int  # how many
    properties: int  # which of USER_SGPRS there are
    preload_dwords: int
    preload_offset: int  # in dwords
    workgroup_ids: tuple[bool, bool, bool]  # which of x, y and z follow the user SGPRs
    keeps_denormals: bool  # of fp32, as its mode asks; they are kept here in any case
    arguments: tuple[Argument, ...]
    lines: "tuple[tuple[int, str], ...]"  # address of the first instruction of each source line

    @classmethod
    def read(cls, blob: bytes, kernel: str | None = None) -> "CodeObject":
        """Load ``kernel`` (the first one by default) from an ELF file for gfx950.

        Raises EmulationError if it is not such a file, is damaged or has no such kernel.
        """
        try:
            return _read(blob, kernel)
        except EmulationError:
            raise
        except Exception as error:  # damaged bytes fail in many ways in three parsers
            what = f"{type(error).__name__}: {error}".strip(": ")
            raise EmulationError(f"not an ELF file, or a damaged one ({what})") from error

    def line_of(self, pc: int) -> str | None:
        """Return the source line of an instruction as ``file.py:12``, None if unknown."""
        at = bisect_right(self.lines, pc, key=lambda row: row[0]) - 1
        return self.lines[at][1] or None if at >= 0 else None


def _read(blob: bytes, kernel: str | None) -> CodeObject:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(blob))
    machine, flags = elf.header["e_machine"], elf.header["e_flags"]
    if machine != "EM_AMDGPU" or flags & 0xFF != _GFX950:
        raise EmulationError(f"not code for gfx950 (machine {machine}, flags {flags:#x})")
    image = _image(elf)
    name, at = _descriptor(elf, kernel)
    return _from_descriptor(name, image, at, _arguments(elf, name), _lines(elf))


def _image(elf: Any) -> bytes:
    parts = [part for part in elf.iter_segments() if part["p_type"] == "PT_LOAD"]
    if not parts:
        raise EmulationError("the code object has nothing to load")
    size = max(part["p_vaddr"] + part["p_memsz"] for part in parts)
    if size > _LARGEST_IMAGE:
        raise EmulationError(f"the code object asks for {size} bytes of memory")
    image = bytearray(size + _FETCH_AHEAD)
    for part in parts:
        data = part.data()
        image[part["p_vaddr"] : part["p_vaddr"] + len(data)] = data
    return bytes(image)


def _descriptor(elf: Any, kernel: str | None) -> tuple[str, int]:
    """Return the kernel's name and the address of its descriptor."""
    table = elf.get_section_by_name(".dynsym") or elf.get_section_by_name(".symtab")
    names = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()} if table else {}
    kernels = [name.removesuffix(".kd") for name in names if name.endswith(".kd")]
    chosen = kernel or (kernels[0] if kernels else None)
    if chosen is None or chosen not in kernels:
        held = ", ".join(kernels) or "none"
        raise EmulationError(f"no kernel {chosen or ''} in the code object (it holds {held})")
    return chosen, names[f"{chosen}.kd"]


def _from_descriptor(
    name: str,
    image: bytes,
    at: int,
    arguments: tuple[Argument, ...],
    lines: tuple[tuple[int, str], ...],
) -> CodeObject:
    lds, private, kernarg = struct.unpack_from("<III", image, at)
    (entry,) = struct.unpack_from("<q", image, at + 16)
    rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIHH", image, at + 48)
    return CodeObject(
        name=name,
        image=image,
        entry=at + entry,
        lds_bytes=lds,
        private_bytes=private,
        kernarg_bytes=kernarg,
        user_sgprs=rsrc2 >> 1 & 31,
        properties=properties,
        preload_dwords=preload & 127,
        preload_offset=preload >> 7,
        workgroup_ids=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
        keeps_denormals=rsrc1 >> 16 & 3 == 3,
        arguments=arguments,
        lines=lines,
    )


def _arguments(elf: Any, kernel: str) -> tuple[Argument, ...]:
    """Read the metadata note; hand-written objects may have none."""
    msgpack: Any = import_module("msgpack")  # it has no types
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_NOTE":
            continue
        for note in section.iter_notes():
            if note["n_type"] in (_NOTE_TYPE, "NT_AMDGPU_METADATA"):
                tree: Mapping[str, Any] = msgpack.unpackb(note["n_descdata"])
                return _argument_list(tree.get("amdhsa.kernels", []), kernel)
    return ()


def _argument_list(kernels: Sequence[Mapping[str, Any]], kernel: str) -> tuple[Argument, ...]:
    for entry in kernels:
        if entry.get(".name") == kernel:
            return tuple(
                Argument(part[".offset"], part[".size"], part[".value_kind"])
                for part in entry.get(".args", [])
            )
    return ()


def _lines(elf: Any) -> tuple[tuple[int, str], ...]:
    """Return the line table of the debug information, empty without one."""
    if not elf.has_dwarf_info():
        return ()
    rows: list[tuple[int, str]] = []
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is not None:
            rows += _rows(program)
    return tuple(sorted(rows))


def _rows(program: Any) -> list[tuple[int, str]]:
    files = program["file_entry"]
    first = 0 if program["version"] >= 5 else 1  # DWARF 5 counts files from 0
    rows: list[tuple[int, str]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        line = ""
        if not state.end_sequence and state.line:
            path = PurePosixPath(files[state.file - first].name.decode())
            line = f"{path.name}:{state.line}"
        rows.append((int(state.address), line))
    return rows
