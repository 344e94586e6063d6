"""What an instruction must do to a machine: the manual's pseudo-code, run lane by lane.

What surrounds the pseudo-code is in the manual's chapters and written here: sign modifiers, SDWA,
DPP, comparisons that leave 0 for lanes that are off, and 16-bit results, which clear the upper half
of their register (the pseudo-code only names the lower one; LLVM's list of GFX9 instructions that
do so was found by experiment).
"""

from tests.pseudocode import BY_NAME, Variables, evaluate
from tests.pseudocode_values import Value
from tests.semantics_machine import EXEC, LANES, VCC, VGPR, Case, Machine

WAVE_WIDE = frozenset(
    {
        "V_READFIRSTLANE_B32",
        "V_READLANE_B32",
        "V_WRITELANE_B32",
        "V_PERMLANE16_SWAP_B32",
        "V_PERMLANE32_SWAP_B32",
    }
)
_SIGN = 0x80000000


def expected(case: Case, before: Machine) -> Machine:
    """Return ``before`` as the instruction leaves it."""
    if case.encoding == "SOPP":
        return _branch(case, before)
    if case.encoding.startswith("SOP"):
        after = _scalar(case, before)
    else:
        after = (_wave_wide if case.name in WAVE_WIDE else _vector)(case, before)
    after.pc += len(case.code)
    return after


def _branch(case: Case, before: Machine) -> Machine:
    after, variables = before.copy(), _common(case, before)
    evaluate(BY_NAME[case.name], variables)
    after.pc = variables["PC"].integer
    return after


def _common(case: Case, machine: Machine) -> Variables:
    fields = case.fields
    return {
        "SCC": Value("U", 1, machine.scc),
        "VCC": Value("U", 64, machine.pair(VCC)),
        "EXEC": Value("U", 64, machine.pair(EXEC)),
        "VCCZ": Value("U", 1, int(not machine.pair(VCC))),
        "EXECZ": Value("U", 1, int(not machine.pair(EXEC))),
        "PC": Value("I", 64, machine.pc),
        "SIMM16": Value("B", 16, fields.get("simm16", 0)),
        "OPSEL": Value("U", 4, fields.get("opsel", 0)),
        "INST": {
            "OMOD": Value("U", 2, fields.get("omod", 0)),
            "ABS": Value("U", 3, fields.get("abs", 0)),
            "NEG": Value("U", 3, fields.get("neg", 0)),
        },
    }


def _scalar(case: Case, before: Machine) -> Machine:
    after, fields, variables = before.copy(), case.fields, _common(case, before)
    sources = [f for f in ("ssrc0", "ssrc1") if f in fields]
    values = [
        Value("B", 32 * case.words(f), before.operand(fields[f], 0, case.words(f), case.literal))
        for f in sources
    ]
    to, words = fields.get("sdst"), case.words("sdst")
    held = Value("B", 64, 0 if to is None else before.operand(to, 0, words, 0))
    if case.encoding == "SOPK":
        values = [variables["SIMM16"]]
        if case.name.startswith("S_CMPK"):
            values.insert(0, Value("B", 32, held.bits))
    variables |= {f"S{at}": value for at, value in enumerate(values)}
    variables["D0"] = held
    evaluate(BY_NAME[case.name], variables)
    if to is not None and not case.name.startswith("S_CMPK"):
        bits = variables["D0"].bits
        after.s[to] = bits & 0xFFFFFFFF
        if words == 2:
            after.set_pair(to, bits)
    if "EXEC" in case.name:
        after.set_pair(EXEC, variables["EXEC"].bits)
    after.scc = variables["SCC"].bits & 1
    return after


def _wave_wide(case: Case, before: Machine) -> Machine:
    """Run pseudo-code that handles all lanes itself."""
    after, fields, variables = before.copy(), case.fields, _common(case, before)
    source, row = fields["src0"], fields["vdst"] + VGPR
    lanes = {
        lane: {
            number: Value("U", 32, before.operand(number, lane, 1, 0)) for number in (source, row)
        }
        for lane in range(LANES)
    }
    variables |= {
        "VGPR": lanes,
        "SRC0": Value("U", 32, source),
        "VDST": Value("U", 32, row),
        "S0": Value("B", 32, before.operand(source, 0, 1, 0)),
        "D0": Value("B", 64, 0),
    }
    if "src1" in case.bits:
        variables["S1"] = Value("B", 32, before.operand(fields["src1"], 0, 1, 0))
    evaluate(BY_NAME[case.name], variables)
    if "READ" in case.name:
        after.s[fields["vdst"]] = variables["D0"].bits & 0xFFFFFFFF
        return after
    for lane, registers in lanes.items():
        for number, value in registers.items():
            if number >= VGPR:
                after.v[number - VGPR, lane] = value.bits & 0xFFFFFFFF
    return after


def _vector(case: Case, before: Machine) -> Machine:
    after, mask = before.copy(), 0
    text = BY_NAME[case.name]
    for lane in before.active():
        variables = _lane(case, before, lane)
        if variables is None:
            continue
        evaluate(text, variables)
        mask |= _mask_bit(case, variables, lane)
        if "vdst" in case.bits and not case.name.startswith("V_CMP"):
            _store(case, after, lane, _result(text, variables, case, lane))
    to = _mask_register(case)
    if to is not None:
        after.set_pair(to, mask)
    return after


def _lane(case: Case, before: Machine, lane: int) -> Variables | None:
    """Return what the pseudo-code of one lane starts with, None if DPP gives it nothing to do."""
    fields, variables = case.fields, _common(case, before)
    row = fields.get("vdst", 0)
    kept = Value("B", 64, 0)
    if "vdst" in case.bits and not case.name.startswith("V_CMP"):
        kept = Value("B", 64, before.vector(row, lane, case.words("vdst")))
    for at in range(3):
        bits = _source(case, before, lane, at)
        if bits is None:
            return None
        variables[f"S{at}"] = Value("B", 64 if _width(case, at) == 2 else 32, bits)
    if case.encoding.startswith("VOP3") and case.formats.get("src2") == "FMT_NUM_M64":
        variables["VCC"] = Value("U", 64, before.operand(fields["src2"], lane, 2, 0))
    source, here = fields["src0"], row + VGPR
    registers = {here: Value("U", 32, kept.bits & 0xFFFFFFFF)}
    registers.setdefault(source, Value("U", 32, variables["S0"].bits & 0xFFFFFFFF))
    return variables | {
        "laneId": Value("U", 32, lane),
        "D0": kept,
        "SRC0": Value("U", 32, source),
        "VDST": Value("U", 32, here),
        "VGPR": {lane: registers},
    }


def _field(case: Case, at: int) -> str:
    return f"vsrc{at}" if f"vsrc{at}" in case.bits else f"src{at}"


def _width(case: Case, at: int) -> int:
    return case.words(_field(case, at))


def _source(case: Case, before: Machine, lane: int, at: int) -> int | None:
    """Return the bits of operand ``at`` as the pseudo-code sees them, 0 if there is none."""
    field = _field(case, at)
    if field not in case.bits:
        return 0
    if "SDWA" in case.encoding:
        return _part_of(case, before, lane, at)
    if case.encoding.endswith("DPP16") and at == 0:
        return _from_other_lane(case, before, lane)
    number = case.fields[field] + (VGPR if field == "vsrc1" else 0)
    if case.formats[field] == "FMT_NUM_PK2_F32":
        return _pair_of_floats(case, before, lane, at)
    bits = before.operand(number, lane, case.words(field), case.literal)
    if case.encoding == "VOP3" and case.is_float(field) and "BITOP" not in case.name:
        bits &= ~_SIGN if case.fields["abs"] >> at & 1 else ~0
        bits ^= _SIGN if case.fields["neg"] >> at & 1 else 0
    return bits


def _pair_of_floats(case: Case, before: Machine, lane: int, at: int) -> int:
    """Return both halves of a packed fp32 operand, each chosen and signed by its modifiers."""
    fields, found = case.fields, 0
    high = fields["opsel_hi"] | fields["opsel_hi2"] << 2
    for half, (choice, sign) in enumerate(
        ((fields["opsel"], fields["neg"]), (high, fields["neg_hi"]))
    ):
        second = choice >> at & 1
        word = before.operand(fields[f"src{at}"] + second, lane, 1, 0)
        found |= (word ^ (_SIGN if sign >> at & 1 else 0)) << 32 * half
    return found


def _part(selector: int) -> tuple[int, int]:
    """Return (lowest bit, width) of an SDWA selector: bytes, halves, all."""
    return ((0, 8), (8, 8), (16, 8), (24, 8), (0, 16), (16, 16), (0, 32))[selector]


def _extended(bits: int, width: int) -> int:
    return (bits - (bits >> (width - 1) << width)) & 0xFFFFFFFF


def _part_of(case: Case, before: Machine, lane: int, at: int) -> int:
    fields = case.fields
    number = fields[f"vsrc{at}"] + (0 if fields[f"s{at}"] else VGPR)
    low, width = _part(fields[f"src{at}_sel"])
    bits = before.operand(number, lane, 1, 0) >> low & ((1 << width) - 1)
    return _extended(bits, width) if fields[f"src{at}_sext"] else bits


def _from_other_lane(case: Case, before: Machine, lane: int) -> int | None:
    fields = case.fields
    if not (fields["row_mask"] >> lane // 16 & 1 and fields["bank_mask"] >> lane % 16 // 4 & 1):
        return None
    other = dpp_lane(fields["dpp"], lane)
    if other is None or not before.pair(EXEC) >> other & 1:
        return 0 if fields["bc"] else None
    return before.vector(fields["vsrc0"], other, 1)


def dpp_lane(control: int, lane: int) -> int | None:
    """Return which lane ``lane`` reads from, None for none."""
    row, place, by = lane & ~15, lane & 15, control & 15
    if control < 0x100:
        return lane & ~3 | control >> 2 * (lane & 3) & 3
    inside: dict[int, int | None] = {
        0x100: place + by if place + by < 16 else None,
        0x110: place - by if place >= by else None,
        0x120: (place - by) % 16,
        0x150: by,
    }
    if control & ~15 in inside:
        found = inside[control & ~15]
        return None if found is None else row + found
    return {
        0x130: lane + 1 if lane < 63 else None,
        0x134: (lane + 1) % 64,
        0x138: lane - 1 if lane else None,
        0x13C: (lane - 1) % 64,
        0x140: row + 15 - place,
        0x141: lane ^ 7,
        0x142: row - 1 if row else None,
        0x143: 31 if lane > 31 else None,
    }[control]


def _result(text: str, variables: Variables, case: Case, lane: int) -> int:
    if "VGPR[laneId][VDST" in text:
        bits: int = variables["VGPR"][lane][case.fields["vdst"] + VGPR].bits
        return bits
    bits = variables["D" if "D" in variables else "D0"].bits
    return bits & 0xFFFF if case.bits["vdst"] == 16 else bits


def _store(case: Case, after: Machine, lane: int, bits: int) -> None:
    row, fields = case.fields["vdst"], case.fields
    if "dst_sel" in fields:
        low, width = _part(fields["dst_sel"])
        own = bits & ((1 << width) - 1)
        if fields["dst_unused"] == 1:
            own = _extended(own, width)
        placed = own << low & 0xFFFFFFFF
        if fields["dst_unused"] == 2:
            placed |= after.vector(row, lane, 1) & ~(((1 << width) - 1) << low)
        bits = placed
    after.set_vector(row, lane, case.words("vdst"), bits)


def _mask_register(case: Case) -> int | None:
    """Return which pair of scalars gets a bit of every lane."""
    fields = case.fields
    if "sdst" in fields:
        return VCC if case.encoding.endswith("SDST") and not fields["sd"] else fields["sdst"]
    if case.name.startswith("V_CMP"):
        return fields["vdst"] if case.encoding == "VOP3" else VCC
    return VCC if "_CO_" in case.name else None


def _mask_bit(case: Case, variables: Variables, lane: int) -> int:
    if _mask_register(case) is None:
        return 0
    if case.name.startswith("V_MAD"):
        bit: int = variables["D1"].bits & 1
        return bit << lane
    held: int = variables["D0" if case.name.startswith("V_CMP") else "VCC"].bits
    return held & 1 << lane
