"""Decodes gfx950 machine code: an instruction, its fields, the registers it reads and writes.

The bit fields and operand sizes are tinygrad's tables of the CDNA4 manual. Registers have one
numbering everywhere, that of the manual's operand encoding: 0-105 SGPR, 106-107 VCC, 124 M0,
126-127 EXEC, 253 SCC, 256-511 VGPR, and 512-767 for AccVGPR. A set of registers is a bit mask.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from mxtune.tuner.emulate.findings import EmulationError

VCC, M0, EXEC, SCC = 106, 124, 126, 253
VGPR, ACCVGPR = 256, 512
OFF = 127  # as the scalar address of a global access: there is none

_LONGEST = 16  # bytes, a scaled MFMA
_SCALE_PREFIX = 0xD3AC  # the upper half of its first word
_JUMP = re.compile(r"S_C?BRANCH")
# Vector instructions that keep part of what their destination held.
_KEEPS = re.compile(
    r"V_(FMAC|MAC|DOT\w*C|SMFMAC|WRITELANE|CVT_PK_(FP8|BF8)_F32|CVT_SR_|CVT_SCALEF32_PK_FP4|CVT_SCALEF32_SR)|\w+_D16(_HI)?$"
)
_SCC_READERS = re.compile(r"S_(CSELECT|ADDC|SUBB|CMOV|CBRANCH_SCC)")
_SCC_KEEPERS = re.compile(
    r"S_(MOV|CMOV|CSELECT|MUL|PACK|BFM|BREV|FF0|FF1|FLBIT|SEXT|GETPC|SWAPPC|SETPC|BITSET|MOVREL)"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction. ``pc`` and ``size`` in bytes, ``reads`` and ``writes`` as sets."""

    pc: int
    size: int
    name: str  # the manual's, without the _E32 or _E64 of its encoding
    encoding: str  # SOP2, VOP3, VOP2_SDWA, MUBUF, ...
    fields: Mapping[str, int]
    literal: int
    reads: int
    writes: int

    @property
    def target(self) -> int | None:
        """Where it jumps to, None if it does not jump."""
        if not _JUMP.match(self.name):
            return None
        return self.pc + self.size + 4 * signed(self.fields["simm16"], 16)


def signed(value: int, bits: int) -> int:
    """Return the low ``bits`` of ``value`` as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def decode(image: bytes, pc: int) -> Instruction:
    """Return the instruction at ``pc``; raise EmulationError if there is none."""
    if not 0 <= pc < len(image):
        raise EmulationError(f"control leaves the code object, to {pc:#x}")
    return replace(_decoded(image[pc : pc + _LONGEST]), pc=pc)


@lru_cache(maxsize=1 << 16)  # a kernel is decoded for every run of it, slowly
def _decoded(data: bytes) -> Instruction:
    from tinygrad.renderer.amd import decode_inst

    # the table of scaled MFMAs looks at their second half alone, which may be another instruction
    scaled = int.from_bytes(data[2:4], "little") == _SCALE_PREFIX
    data = data.ljust(_LONGEST + 8, b"\0")[: None if scaled else 8]
    try:
        raw: Any = decode_inst(data, "cdna")
    except (ValueError, AssertionError) as error:
        raise EmulationError(f"no gfx950 instruction in {data[:8].hex()}") from error
    size = int(raw.size())
    number = int.from_bytes(data[:size], "little")
    kind = type(raw).__name__.replace("_LIT", "").replace("VOP3_SDST", "VOP3")
    name = re.sub(r"_E(32|64)$", "", raw.op.name)
    layout: list[tuple[str, Any]] = raw._fields
    fields: dict[str, int] = {
        field: number >> part.lo & ((1 << (part.hi - part.lo + 1)) - 1) for field, part in layout
    }
    literal = int.from_bytes(data[size - 4 : size], "little")
    return _with_registers(raw, Instruction(0, size, name, kind, fields, literal, 0, 0))


def successors(instruction: Instruction) -> tuple[int, ...]:
    """Return the addresses that may be executed next."""
    if instruction.name == "S_ENDPGM":
        return ()
    behind = instruction.pc + instruction.size
    target = instruction.target
    if target is None:
        return (behind,)
    return (target,) if instruction.name == "S_BRANCH" else (behind, target)


def reachable(image: bytes, entry: int) -> list[Instruction]:
    """Return every instruction that control can reach from ``entry``, by address."""
    found: dict[int, Instruction] = {}
    todo = [entry]
    while todo:
        pc = todo.pop()
        if pc not in found:
            found[pc] = decode(image, pc)
            todo += successors(found[pc])
    return [found[pc] for pc in sorted(found)]


def span(first: int, count: int) -> int:
    """Return the set of ``count`` registers from number ``first`` on."""
    return ((1 << count) - 1) << first


def members(registers: int) -> Iterator[int]:
    """Yield the numbers in a set of registers."""
    while registers:
        lowest = registers & -registers
        yield lowest.bit_length() - 1
        registers ^= lowest


def register_name(number: int) -> str:
    """Return a register as assembly writes it."""
    if number >= ACCVGPR:
        return f"a{number - ACCVGPR}"
    if number >= VGPR:
        return f"v{number - VGPR}"
    special = {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0", EXEC: "exec_lo", EXEC + 1: "exec_hi"}
    return special.get(number, f"s{number}") if number != SCC else "scc"


_REGISTERS = span(0, 128) | span(SCC, 1) | span(VGPR, 512)  # other numbers are constants


def _with_registers(raw: Any, bare: Instruction) -> Instruction:
    reads, writes = _operand_sets(raw, bare)
    more_reads, more_writes = _implied_sets(bare, writes)
    return replace(
        bare, reads=(reads | more_reads) & _REGISTERS, writes=(writes | more_writes) & _REGISTERS
    )


def _operand_sets(raw: Any, bare: Instruction) -> tuple[int, int]:
    """Return what the operand fields name: (read, written)."""
    reads = writes = 0
    sizes: Mapping[str, int] = raw.op_regs
    types = {name: operand[2].name for name, operand in raw.operands.items()}
    for field, value in bare.fields.items():
        operand = _operand_of(field, bare, types)
        if operand is None:
            continue
        count = _count(field, bare, sizes.get(operand, 1))
        first = _number(field, value, bare, types.get(operand, ""))
        if not _REGISTERS >> first & 1:  # the second half of a 64-bit literal, 255, is not v0
            continue
        registers = span(first, count)
        is_read, is_written = _roles(field, bare)
        reads |= registers if is_read else 0
        writes |= registers if is_written else 0
    return reads, writes


def _operand_of(field: str, bare: Instruction, types: Mapping[str, str]) -> str | None:
    """Return the operand that a field holds, by its name in the tables; None for other fields."""
    if field in types:
        unused = field == "src0" and bare.encoding.endswith(("SDWA", "SDST", "DPP16"))
        return None if unused or field == "simm16" or types[field].startswith("OPR_SIMM") else field
    plain = {"vsrc0": "src0", "vsrc1": "src1"}.get(field)
    if plain and (plain in types or field == "vsrc0"):
        return plain
    return "sdst" if field == "sdst" and bare.fields.get("sd", 1) else None


def _count(field: str, bare: Instruction, size: int) -> int:
    """Return how many registers a field names; the tables do not know every addressing mode."""
    fields = bare.fields
    by_field = {
        "vaddr": fields.get("offen", 0) + fields.get("idxen", 0),
        "saddr": 0 if fields.get("saddr") == OFF else 2,
    }
    if bare.encoding == "GLOBAL":
        by_field["addr"] = 2 if fields["saddr"] == OFF else 1
    if bare.encoding == "SCRATCH":
        by_field |= {"addr": fields["sve"], "saddr": 0 if fields["saddr"] == OFF else 1}
    if bare.encoding == "SMEM":
        by_field["soffset"] = fields["soffset_en"]
    if "SDWA" in bare.encoding:
        by_field["sdst"] = 2
    return by_field.get(field, size)


_SCALED = {"sbase": 2, "srsrc": 4}  # fields that count pairs or quadruples of SGPRs
_VECTOR = frozenset({"vaddr", "addr", "vdata", "data", "data0", "data1", "vsrc0", "vsrc1"})


def _number(field: str, value: int, bare: Instruction, kind: str) -> int:
    """Return the number of the first register that a field names."""
    fields = bare.fields
    if field in _SCALED:
        return value * _SCALED[field]
    if bare.name.startswith(("V_MFMA", "V_SMFMAC")):
        return value + _matrix_base(field, fields)
    if kind in ("OPR_ACCVGPR", "OPR_SRC_ACCVGPR"):
        return value + (VGPR if field == "src0" else ACCVGPR)
    if field == "vdst" and not kind.startswith(("OPR_SREG", "OPR_SDST")):
        return value + VGPR + VGPR * fields.get("acc", 0)
    if field in _VECTOR:
        return value + _vector_base(field, fields)
    return value


def _vector_base(field: str, fields: Mapping[str, int]) -> int:
    if field in ("vaddr", "addr"):
        return VGPR
    if field in ("vsrc0", "vsrc1"):  # an SDWA operand may be scalar
        return 0 if fields.get(f"s{field[-1]}", 0) else VGPR
    return VGPR + VGPR * fields["acc"]


def _matrix_base(field: str, fields: Mapping[str, int]) -> int:
    """Return what turns an operand field of a matrix instruction into a register's number."""
    if field == "vdst":
        return VGPR + VGPR * fields["acc_cd"]
    if field in ("scale_src0", "scale_src1"):
        return 0
    chosen = {"src0": fields["acc"] & 1, "src1": fields["acc"] >> 1, "src2": fields["acc_cd"]}
    return VGPR * chosen[field] if fields[field] >= VGPR else 0


def _roles(field: str, bare: Instruction) -> tuple[bool, bool]:
    """Return whether an operand field is read and whether it is written."""
    name, fields = bare.name, bare.fields
    if field in ("vdst", "sdata"):
        to_lds = "LOAD_LDS" in name
        no_result = name.startswith("GLOBAL_ATOMIC") and not fields["sc0"]
        return "_SWAP_B32" in name, not (to_lds or no_result)
    if field == "vdata":
        loads = name.startswith("BUFFER_LOAD")
        returns = name.startswith("BUFFER_ATOMIC") and bool(fields["sc0"])
        return not loads, (loads and not fields["lds"]) or returns
    if field == "sdst":
        if bare.encoding != "SOPK":
            return False, True
        return bool(re.match(r"S_(CMPK|ADDK|MULK|SETREG)", name)), not re.match(
            r"S_(CMPK|SETREG)", name
        )
    return True, "_SWAP_B32" in name and field == "src0"


def _implied_sets(bare: Instruction, writes: int) -> tuple[int, int]:
    """Return what an instruction reads and writes without naming it."""
    name, encoding, fields = bare.name, bare.encoding, bare.fields
    reads = more = 0
    carries = re.match(r"V_(ADD|SUB|SUBREV|ADDC|SUBB|SUBBREV)_CO_U32", name)
    if encoding.startswith("VOP2") and carries:
        more |= span(VCC, 2)
        reads |= span(VCC, 2) if carries[1].endswith(("C", "B", "BREV")) else 0
    if encoding == "VOPC" or (encoding.startswith("VOP2") and name == "V_CNDMASK_B32"):
        more, reads = (more | span(VCC, 2), reads) if encoding == "VOPC" else (more, span(VCC, 2))
    if name.startswith("V_CMPX") or "SAVEEXEC" in name:
        more |= span(EXEC, 2)
    if _keeps_destination(bare):
        reads |= writes
    if "LOAD_LDS" in name or fields.get("lds"):
        reads |= span(M0, 1)
    if name.startswith(("V_DIV_FMAS", "S_CBRANCH_VCC")):
        reads |= span(VCC, 2)
    if name == "S_SET_GPR_IDX_ON":
        more |= span(M0, 1)
    return reads | _scc_read(name), more | _scc_written(bare)


def _keeps_destination(bare: Instruction) -> bool:
    fields = bare.fields
    part_of_it = fields.get("dst_sel", 6) != 6 and fields.get("dst_unused") == 2
    some_lanes = bare.encoding.endswith("DPP16") and not (
        fields["bc"] and fields["row_mask"] == fields["bank_mask"] == 15
    )
    return bool(_KEEPS.match(bare.name)) or part_of_it or some_lanes


def _scc_read(name: str) -> int:
    return span(SCC, 1) if _SCC_READERS.match(name) else 0


def _scc_written(bare: Instruction) -> int:
    sets = bare.encoding in ("SOP1", "SOP2", "SOPC") and not _SCC_KEEPERS.match(bare.name)
    by_constant = bool(re.match(r"S_(CMPK|ADDK)", bare.name))
    return span(SCC, 1) if sets or by_constant else 0
