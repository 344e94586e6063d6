"""Random but legal encodings of an instruction, by tinygrad's constructors."""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.pseudocode import BY_NAME
from tests.semantics_machine import VCC, VGPR, Case
from tinygrad.renderer.amd.dsl import Reg
from tinygrad.runtime.autogen.amd.cdna import enum, ins
from tinygrad.runtime.autogen.amd.cdna.operands import OPERANDS

_BASES = "SOP1 SOP2 SOPC SOPK SOPP VOP1 VOP2 VOPC VOP3 VOP3SD VOP3P".split()  # noqa: SIM905
_VARIANTS = {
    "VOP1": ("VOP1_SDWA", "VOP1_DPP16"),
    "VOP2": ("VOP2_SDWA", "VOP2_DPP16"),
    "VOPC": ("VOPC_SDWA_SDST",),
}
_ROWS = tuple(range(8, 24, 2))  # few, so that destinations are sources, too
_SCALARS = tuple(range(20, 40, 2))
_SDWA_MARK, _DPP_MARK = 249, 250
_QUADS = (0xE4, 0x4E, 0xB1, 0x1B, 0x00)
_SHIFTS = (0x101, 0x10F, 0x111, 0x118, 0x121, 0x12C, 0x130, 0x134, 0x138, 0x13C)
_DPP_CONTROLS = (*_QUADS, *_SHIFTS, 0x140, 0x141, 0x142, 0x143, 0x153)


def enumerator(name: str, encoding: str) -> Any:
    """Return tinygrad's opcode of ``name`` in ``encoding``; raise KeyError if there is none."""
    base = encoding.split("_")[0]
    members = getattr(enum, f"{base}Op").__members__
    for suffix in ("_E32", "_E64", ""):
        if name + suffix in members:
            return members[name + suffix]
    raise KeyError(f"{name} {encoding}")


def encodings() -> Iterator[tuple[str, str]]:
    """Yield every arithmetic instruction that has pseudo-code, with each of its encodings."""
    for base in _BASES:
        members = getattr(enum, f"{base}Op").__members__
        for name in dict.fromkeys(re.sub(r"_E(32|64)$", "", member) for member in members):
            op = enumerator(name, base)
            if name not in BY_NAME or op not in OPERANDS:
                continue
            wide = any(bits > 32 for _, bits, _ in OPERANDS[op].values())
            for encoding in (base, *(() if wide else _VARIANTS.get(base, ()))):
                if op in _class(name, encoding).op.allowed:
                    yield name, encoding


def random_case(name: str, encoding: str, seed: int) -> Case:
    """Encode ``name`` with operands and modifiers drawn by ``seed``."""
    op = enumerator(name, encoding)
    draw = random.Random(f"{name} {encoding} {seed}")
    operands = OPERANDS[op].items()
    formats = {field: form.name for field, (form, _, _) in operands}
    bits = {field: size for field, (_, size, _) in operands}
    chosen: dict[str, Any] = {
        field: _operand(field, formats[field], bits[field], kind.name, draw)
        for field, (_, _, kind) in operands
    }
    floats = frozenset(field for field, form in formats.items() if form.endswith("NUM_F32"))
    chosen |= _modifiers(name, encoding, floats, chosen, draw)
    if encoding.endswith("DPP16") or "SDWA" in encoding:
        chosen["vsrc0"], mark = _register(draw), _DPP_MARK if "DPP" in encoding else _SDWA_MARK
        chosen["src0"] = Reg(mark, 1)
    built = _class(name, encoding)(op, **chosen)
    code, fields = _encoded(built)
    literal = int.from_bytes(code[-4:], "little") if "literal" in fields else 0
    return Case(name, encoding, code, fields, literal, bits, formats)


def _class(name: str, encoding: str) -> Any:
    if encoding == "VOP3" and name.startswith("V_CMP"):
        return ins.VOP3_SDST
    return getattr(ins, encoding)


def _encoded(built: Any) -> tuple[bytes, dict[str, int]]:
    """Return the bytes of an instruction and its raw bit fields."""
    code: bytes = built.to_bytes()
    number = int.from_bytes(code, "little")
    fields = type(built)._fields
    return code, {
        field: number >> part.lo & ((1 << (part.hi - part.lo + 1)) - 1) for field, part in fields
    }


def _register(draw: random.Random, words: int = 1, base: int = VGPR) -> Reg:
    return Reg(base + draw.choice(_ROWS) + (draw.randrange(2) if words == 1 else 0), words)


def _scalar(draw: random.Random, words: int) -> Reg:
    number = draw.choice((*_SCALARS, VCC))
    return Reg(number + (draw.randrange(2) if words == 1 else 0), words)


def _operand(field: str, form: str, bits: int, kind: str, draw: random.Random) -> Any:
    """Draw what an operand field may hold: a register, an inline constant or a literal."""
    words = max(1, bits // 32)
    if field == "simm16":
        return draw.choice((0, 1, 5, 0x7FFF, 0x8000, 0xFFFF, draw.randrange(1 << 16)))
    if kind in ("OPR_SREG", "OPR_SREG_NOVCC") and field == "vdst" and bits == 32:
        return Reg(VGPR + draw.choice(_SCALARS), 1)  # an SGPR in a field for VGPRs
    if kind in ("OPR_SREG", "OPR_SDST", "OPR_SREG_NOVCC"):
        return _scalar(draw, words)
    if kind in ("OPR_VGPR", "OPR_SRC_VGPR", "OPR_VGPR_OR_LDS"):
        return _register(draw, words)
    ways: list[Callable[[], Any]] = [lambda: _scalar(draw, words)]
    ways.append(lambda: _inline(draw, form, bits))
    if not kind.startswith("OPR_SSRC"):
        ways += 3 * [lambda: _register(draw, words)]
    if kind in ("OPR_SRC", "OPR_SSRC") and bits <= 32:
        ways.append(lambda: draw.choice((0x1234567, 0x80000000, 0x7FFFFF, draw.getrandbits(32))))
    return draw.choice(ways)()


def _inline(draw: random.Random, form: str, bits: int) -> Any:
    if bits == 32 and draw.randrange(2):
        return draw.choice((0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0))
    if "PK2_F32" in form:
        return 0
    return draw.choice((0, 1, 5, 8, 16, 31, 32, 63, 64, -1, -4, -16))


def _modifiers(
    name: str,
    encoding: str,
    floats: frozenset[str],
    operands: Mapping[str, Any],
    draw: random.Random,
) -> dict[str, Any]:
    """Draw the fields that change what an encoding does with its operands."""
    if "SDWA" in encoding:
        return _sdwa(encoding, operands, floats, draw)
    if encoding.endswith("DPP16"):
        return _dpp(draw)
    if encoding == "VOP3P":
        return _packed(name, operands, draw)
    return _vop3(name, floats, draw) if encoding == "VOP3" else {}


def _dpp(draw: random.Random) -> dict[str, Any]:
    rows, banks = (draw.choice((15, 15, draw.randrange(16))) for _ in range(2))
    control = draw.choice(_DPP_CONTROLS)
    return {"dpp": control, "bc": draw.randrange(2), "row_mask": rows, "bank_mask": banks}


def _vop3(name: str, floats: frozenset[str], draw: random.Random) -> dict[str, Any]:
    """Draw a truth table, a byte of FP4, or the signs of floats."""
    if name.startswith("V_BITOP3"):
        return {"omod": draw.randrange(4), "abs": draw.randrange(8), "neg": draw.randrange(8)}
    if "FP4" in name:
        return {"opsel": draw.randrange(4) * (4 if "PK_FP4" in name else 1)}
    signs = [at for at in range(3) if f"src{at}" in floats]
    return {
        key: sum(draw.randrange(2) << at for at in signs) if draw.randrange(2) else 0
        for key in ("neg", "abs")
    }


def _sdwa(
    encoding: str, operands: Mapping[str, Any], floats: frozenset[str], draw: random.Random
) -> dict[str, Any]:
    """Draw parts of registers; a float is not extended with a sign, and is written whole."""
    extends = 1 if floats else 2
    found: dict[str, Any] = {"src0_sel": draw.randrange(7), "src0_sext": draw.randrange(extends)}
    found["src1_sel"] = draw.randrange(7) if "vsrc1" in operands else 6
    found["src1_sext"] = draw.randrange(extends) if "vsrc1" in operands else 0
    if encoding.endswith("SDST"):
        sd = draw.randrange(2)
        return found | {"sd": sd, "sdst": _scalar(draw, 2) if sd else Reg(0, 1)}
    whole = {"dst_sel": 6, "dst_unused": 0}
    parts = {"dst_sel": draw.randrange(7), "dst_unused": draw.randrange(3)}
    return found | (whole if floats else parts)


def _packed(name: str, operands: Mapping[str, Any], draw: random.Random) -> dict[str, int]:
    """Draw which half is taken for which; a constant has no other half, and a move no signs."""
    registers = [at for at in range(3) if isinstance(operands.get(f"src{at}"), Reg)]

    def some() -> int:
        return sum(draw.randrange(2) << at for at in registers)

    if not name.endswith("F32"):
        return {"opsel": some() if name == "V_PK_MOV_B32" else 0}
    high = some()
    return {
        "opsel": some(),
        "opsel_hi": high & 3,
        "opsel_hi2": high >> 2,
        "neg": some(),
        "neg_hi": some(),
    }
