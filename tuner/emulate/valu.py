"""Vector arithmetic: builds what an instruction does from its encoding and the tables."""

import re
from collections.abc import Callable, Mapping

import numpy as np

from mxtune.tuner.emulate.convert import CONVERT
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import VCC, VGPR, Instruction
from mxtune.tuner.emulate.matrix import MATRIX
from mxtune.tuner.emulate.modifiers import DppSource, sdwa_source, sdwa_store
from mxtune.tuner.emulate.operands import VectorSource, modified, vector, vector64
from mxtune.tuner.emulate.valu_special import SPECIAL
from mxtune.tuner.emulate.valu_tables import COMPARE, ONE, THREE, TWO, bitwise, half
from mxtune.tuner.emulate.wave import Lanes, Wave, pack

Run = Callable[[Wave], None]
U32 = np.uint32

_FLOAT = re.compile(r"_(F32|F16|BF16)\b")
_COMPARED = {
    "U16": np.uint16,
    "I16": np.int16,
    "U32": np.uint32,
    "I32": np.int32,
    "F32": np.float32,
    "U64": np.uint64,
    "I64": np.int64,
}


def build_vector(instruction: Instruction) -> Run:
    """Return what a VOP instruction does; raise EmulationError if it is not known."""
    name = instruction.name
    _refuse(instruction)
    if name.startswith("V_CMP_"):
        return _compare(instruction)
    if instruction.encoding.endswith("SDWA"):
        return _sdwa(instruction)
    if instruction.encoding.endswith("DPP16"):
        return _dpp(instruction)
    for table in (SPECIAL, CONVERT, MATRIX):
        if name in table:
            return table[name](instruction)
    if name.startswith("V_BITOP3"):
        return _bitop3(instruction)
    return _plain(instruction)


def _refuse(instruction: Instruction) -> None:
    """Raise EmulationError for what no kernel here uses."""
    name, fields = instruction.name, instruction.fields
    if fields.get("clmp") or (fields.get("omod") and not name.startswith("V_BITOP3")):
        raise EmulationError(f"{name} with an output modifier")
    if name.startswith("V_CMPX"):
        raise EmulationError(f"{name} is not known")


def source(instruction: Instruction, at: int) -> VectorSource:
    """Fetch 32-bit operand ``at`` of a VOP1, VOP2, VOPC or VOP3 instruction, modifiers applied."""
    fields = instruction.fields
    if at == 1 and "vsrc1" in fields:
        return vector(fields["vsrc1"] + VGPR)
    fetch = vector(fields[f"src{at}"], instruction.literal)
    if not instruction.encoding.startswith("VOP3"):
        return fetch
    negate, absolute = fields.get("neg", 0) >> at & 1, fields.get("abs", 0) >> at & 1
    if (negate or absolute) and not (
        _FLOAT.search(instruction.name) or instruction.name.startswith("V_CNDMASK")
    ):
        raise EmulationError(f"{instruction.name} with a sign modifier")
    return modified(fetch, negate=negate, absolute=absolute)


def _plain(instruction: Instruction) -> Run:
    name, row = instruction.name, instruction.fields["vdst"]
    if instruction.fields.get("opsel"):
        raise EmulationError(f"{name} with op_sel")
    if name in ONE:
        one, a = ONE[name], source(instruction, 0)
        return lambda wave: wave.write(row, one(a(wave)))
    if name in TWO:
        two, a, b = TWO[name], source(instruction, 0), source(instruction, 1)
        return lambda wave: wave.write(row, two(a(wave), b(wave)))
    if name not in THREE:
        raise EmulationError(f"{name} ({instruction.encoding}) is not known")
    three, a, b = THREE[name], source(instruction, 0), source(instruction, 1)
    # an accumulating instruction adds to its destination
    c = vector(row + VGPR) if name.startswith("V_FMAC") else source(instruction, 2)
    return lambda wave: wave.write(row, three(a(wave), b(wave), c(wave)))


def _bitop3(instruction: Instruction) -> Run:
    fields, row = instruction.fields, instruction.fields["vdst"]
    if fields["opsel"]:
        raise EmulationError(f"{instruction.name} with op_sel")
    table = fields["omod"] << 6 | fields["abs"] << 3 | fields["neg"]
    a, b, c = (vector(fields[f"src{at}"]) for at in range(3))
    if instruction.name.endswith("B32"):
        return lambda wave: wave.write(row, bitwise(table, a(wave), b(wave), c(wave)))
    return lambda wave: wave.write(row, half(bitwise(table, a(wave), b(wave), c(wave))))


def _sdwa(instruction: Instruction) -> Run:
    name, fields = instruction.name, instruction.fields
    signs = ("src0_neg", "src0_abs", "src1_neg", "src1_abs")
    if not _FLOAT.search(name) and any(fields[sign] for sign in signs):
        raise EmulationError(f"{name} with a sign modifier")
    a = sdwa_source(fields, 0)
    if name in ONE:
        one = ONE[name]
        return lambda wave: sdwa_store(wave, fields, one(a(wave)))
    if name in TWO:
        two, b = TWO[name], sdwa_source(fields, 1)
        return lambda wave: sdwa_store(wave, fields, two(a(wave), b(wave)))
    raise EmulationError(f"{name} as SDWA is not known")


def _dpp(instruction: Instruction) -> Run:
    name, fields = instruction.name, instruction.fields
    if any(fields[sign] for sign in ("src0_neg", "src0_abs", "src1_neg", "src1_abs")):
        raise EmulationError(f"{name} as DPP with a sign modifier")
    row, first = fields["vdst"], DppSource(fields)
    result = _dpp_result(instruction, name)

    def run(wave: Wave) -> None:
        value, written = first(wave)
        np.copyto(wave.v[row], result(wave, value), where=written)

    return run


def _dpp_result(instruction: Instruction, name: str) -> Callable[[Wave, Lanes], Lanes]:
    if name in ONE:
        one = ONE[name]
        return lambda _, value: one(value)
    if name in TWO:
        two, b = TWO[name], vector(instruction.fields["vsrc1"] + VGPR)
        return lambda wave, value: two(value, b(wave))
    raise EmulationError(f"{name} as DPP is not known")


def _compare(instruction: Instruction) -> Run:
    _, _, condition, kind = instruction.name.split("_")
    if condition not in COMPARE or kind not in _COMPARED:
        raise EmulationError(f"{instruction.name} is not known")
    holds, a, b = COMPARE[condition], _operand(instruction, 0), _operand(instruction, 1)
    to = _mask_register(instruction.encoding, instruction.fields)
    narrow = kind.endswith("16")
    view = _COMPARED[kind]

    def run(wave: Wave) -> None:
        x, y = a(wave), b(wave)
        if narrow:
            x, y = x.astype(np.uint16), y.astype(np.uint16)
        found = holds(np.ascontiguousarray(x).view(view), np.ascontiguousarray(y).view(view))
        wave.set_scalar64(to, pack(found & wave.active))

    return run


def _operand(instruction: Instruction, at: int) -> Callable[[Wave], "np.ndarray"]:
    """Fetch an operand of a comparison: 32 or 64 bits."""
    fields = instruction.fields
    if instruction.encoding.startswith("VOPC_SDWA"):
        if instruction.name.endswith("64"):
            raise EmulationError(f"{instruction.name} as SDWA is not known")
        return sdwa_source(fields, at)
    if not instruction.name.endswith("64"):
        return source(instruction, at)
    number = fields["vsrc1"] + VGPR if at and "vsrc1" in fields else fields[f"src{at}"]
    return vector64(number, instruction.literal)


def _mask_register(encoding: str, fields: Mapping[str, int]) -> int:
    if encoding == "VOPC":
        return VCC
    if encoding.startswith("VOPC_SDWA"):
        return fields["sdst"] if fields["sd"] else VCC
    return fields["vdst"]
