"""Vector instructions with more to them than a function of their operands."""

from collections.abc import Callable, Mapping

import numpy as np

from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import VCC, VGPR, Instruction
from mxtune.tuner.emulate.operands import (
    VectorSource,
    Wide,
    WideSource,
    constant,
    modified,
    scalar,
    scalar64,
    vector,
    vector64,
)
from mxtune.tuner.emulate.valu_tables import THREE, TWO, half
from mxtune.tuner.emulate.wave import LANE, M32, Wave, pack, unpack

Run = Callable[[Wave], None]
U32, U64 = np.uint32, np.uint64


def _second(instruction: Instruction) -> VectorSource:
    fields = instruction.fields
    if "vsrc1" in fields:
        return vector(fields["vsrc1"] + VGPR)
    return vector(fields["src1"], instruction.literal)


def _nothing(_: Instruction) -> Run:
    return lambda _: None


def _readfirstlane(instruction: Instruction) -> Run:
    fetch, to = vector(instruction.fields["src0"]), instruction.fields["vdst"]

    def run(wave: Wave) -> None:
        first = (wave.exec & -wave.exec).bit_length() - 1 if wave.exec else 0
        wave.set_scalar(to, int(fetch(wave)[first]))

    return run


def _readlane(instruction: Instruction) -> Run:
    fields = instruction.fields
    fetch, lane, to = vector(fields["src0"]), scalar(fields["src1"]), fields["vdst"]
    return lambda wave: wave.set_scalar(to, int(fetch(wave)[lane(wave) & 63]))


def _writelane(instruction: Instruction) -> Run:
    fields = instruction.fields
    value, lane, row = scalar(fields["src0"]), scalar(fields["src1"]), fields["vdst"]

    def run(wave: Wave) -> None:
        wave.v[row][lane(wave) & 63] = value(wave)

    return run


def _permlane_swap(instruction: Instruction) -> Run:
    """Swap the odd groups of 16 or 32 lanes of vdst with the even ones of src0."""
    group = 32 if "32_SWAP" in instruction.name else 16
    even = LANE[LANE // group % 2 == 0]
    odd = even + group
    first, second = instruction.fields["vdst"], instruction.fields["src0"] - VGPR

    def run(wave: Wave) -> None:
        if not wave.all_active:
            raise EmulationError(f"{instruction.name} under a partial EXEC")
        kept = wave.v[first][odd].copy()
        wave.v[first][odd] = wave.v[second][even]
        wave.v[second][even] = kept

    return run


def _cndmask(instruction: Instruction) -> Run:
    fields, row = instruction.fields, instruction.fields["vdst"]
    negate, absolute = fields.get("neg", 0), fields.get("abs", 0)
    a = modified(
        vector(fields["src0"], instruction.literal), negate=negate & 1, absolute=absolute & 1
    )
    b = modified(_second(instruction), negate=negate >> 1 & 1, absolute=absolute >> 1 & 1)
    chooser = scalar64(fields.get("src2", VCC))
    return lambda wave: wave.write(row, np.where(unpack(chooser(wave)), b(wave), a(wave)))


def _carrying(instruction: Instruction) -> Run:
    """Additions and subtractions that give a carry, some that take one."""
    fields, name = instruction.fields, instruction.name
    a, b = vector(fields["src0"], instruction.literal), _second(instruction)
    row, to, taken = fields["vdst"], fields.get("sdst", VCC), fields.get("src2", VCC)
    takes = name.startswith(("V_ADDC", "V_SUBB"))
    subtracts, reversed_ = name.startswith("V_SUB"), "REV" in name

    def run(wave: Wave) -> None:
        x, y = a(wave).astype(np.int64), b(wave).astype(np.int64)
        x, y = (y, x) if reversed_ else (x, y)
        carry = unpack(wave.scalar64(taken)).astype(np.int64) if takes else 0
        total = x - y - carry if subtracts else x + y + carry
        wave.set_scalar64(to, pack(((total < 0) | (total > M32)) & wave.active))
        wave.write(row, (total & M32).astype(U32))

    return run


def _wide(compute: Callable[[Instruction], WideSource]) -> Callable[[Instruction], Run]:
    """Build an instruction whose result fills two registers."""

    def build(instruction: Instruction) -> Run:
        fetch, row = compute(instruction), instruction.fields["vdst"]

        def run(wave: Wave) -> None:
            result = fetch(wave)
            wave.write(row, (result & U64(M32)).astype(U32))
            wave.write(row + 1, (result >> U64(32)).astype(U32))

        return run

    return build


def _lshl_add(instruction: Instruction) -> WideSource:
    fields = instruction.fields
    a, b, c = vector64(fields["src0"]), vector(fields["src1"]), vector64(fields["src2"])
    return lambda wave: (a(wave) << (b(wave) & 7).astype(U64)) + c(wave)


def _mad_u64(instruction: Instruction) -> WideSource:
    """The carry that it also gives is not used by the kernels here; it is computed all the same."""
    fields = instruction.fields
    a, b, c = vector(fields["src0"]), vector(fields["src1"]), vector64(fields["src2"])
    to = fields["sdst"]

    def fetch(wave: Wave) -> Wide:
        product, addend = a(wave).astype(U64) * b(wave), c(wave)
        total = product + addend
        wave.set_scalar64(to, pack((total < product) & wave.active))
        return total

    return fetch


def _move64(instruction: Instruction) -> WideSource:
    return vector64(instruction.fields["src0"], instruction.literal)


def _shift64(name: str) -> Callable[[Instruction], WideSource]:
    def compute(instruction: Instruction) -> WideSource:
        amount = vector(instruction.fields["src0"])
        value = vector64(instruction.fields["src1"])
        if name == "V_LSHLREV_B64":
            return lambda wave: value(wave) << (amount(wave) & 63).astype(U64)
        if name == "V_LSHRREV_B64":
            return lambda wave: value(wave) >> (amount(wave) & 63).astype(U64)
        return lambda wave: (
            value(wave).view(np.int64) >> (amount(wave) & 63).astype(np.int64)
        ).view(U64)

    return compute


def _halves(instruction: Instruction, *, high: bool) -> list[VectorSource]:
    """Fetch the operands of one half of a packed fp32 instruction, as op_sel chooses them."""
    fields = instruction.fields
    upper = fields["opsel_hi"] | fields.get("opsel_hi2", 0) << 2
    chosen = upper if high else fields["opsel"]
    signs = fields["neg_hi"] if high else fields["neg"]
    return [
        modified(_half(fields[f"src{at}"], chosen >> at & 1), negate=signs >> at & 1, absolute=0)
        for at in range(3)
    ]


def _half(number: int, second: int) -> VectorSource:
    return vector(number) if constant(number, 0) is not None else vector(number + second)


def _packed_f32(name: str) -> Callable[[Instruction], Run]:
    def build(instruction: Instruction) -> Run:
        row = instruction.fields["vdst"]
        low, high = _halves(instruction, high=False), _halves(instruction, high=True)
        results = [_packed_half(name, operands) for operands in (low, high)]

        def run(wave: Wave) -> None:
            first, second = results[0](wave), results[1](wave)
            wave.write(row, first)
            wave.write(row + 1, second)

        return run

    return build


def _packed_half(name: str, operands: list[VectorSource]) -> VectorSource:
    a, b, c = operands
    if name == "V_PK_FMA_F32":
        return lambda wave: THREE["V_FMA_F32"](a(wave), b(wave), c(wave))
    two = TWO["V_MUL_F32" if name == "V_PK_MUL_F32" else "V_ADD_F32"]
    return lambda wave: two(a(wave), b(wave))


def _packed_move(instruction: Instruction) -> Run:
    fields, row = instruction.fields, instruction.fields["vdst"]
    a = _half(fields["src0"], fields["opsel"] & 1)
    b = _half(fields["src1"], fields["opsel"] >> 1 & 1)

    def run(wave: Wave) -> None:
        first, second = a(wave).copy(), b(wave).copy()
        wave.write(row, first)
        wave.write(row + 1, second)

    return run


def _packed_16(name: str) -> Callable[[Instruction], Run]:
    """Both halves of a register at once, by the instruction for one half."""
    one = TWO[name]

    def build(instruction: Instruction) -> Run:
        fields, row = instruction.fields, instruction.fields["vdst"]
        if fields["neg"] or fields["neg_hi"] or fields["clmp"]:
            raise EmulationError(f"{instruction.name} with a sign modifier or a clamp")
        sources = [vector(fields["src0"]), vector(fields["src1"])]
        # op_sel says which half of an operand goes into the low result, op_sel_hi the high one
        low, high = (
            [U32(16 * (fields[field] >> at & 1)) for at in (0, 1)]
            for field in ("opsel", "opsel_hi")
        )

        def run(wave: Wave) -> None:
            x, y = (fetch(wave) for fetch in sources)
            first = half(one(half(x >> low[0]), half(y >> low[1])))
            second = half(one(half(x >> high[0]), half(y >> high[1])))
            wave.write(row, first | second << U32(16))

        return run

    return build


def _accvgpr_read(instruction: Instruction) -> Run:
    row, base = instruction.fields["vdst"], instruction.fields["src0"]
    # s_set_gpr_idx_on moves the source
    return lambda wave: wave.write(row, wave.v[base + wave.gpr_index])


def _accvgpr_write(instruction: Instruction) -> Run:
    fetch, row = vector(instruction.fields["src0"]), instruction.fields["vdst"] + 256
    return lambda wave: wave.write(row, fetch(wave))


def _accvgpr_move(instruction: Instruction) -> Run:
    row, base = instruction.fields["vdst"] + 256, instruction.fields["src0"]
    return lambda wave: wave.write(row, wave.v[base])


SPECIAL: Mapping[str, Callable[[Instruction], Run]] = {
    "V_NOP": _nothing,
    "V_READFIRSTLANE_B32": _readfirstlane,
    "V_READLANE_B32": _readlane,
    "V_WRITELANE_B32": _writelane,
    "V_PERMLANE16_SWAP_B32": _permlane_swap,
    "V_PERMLANE32_SWAP_B32": _permlane_swap,
    "V_CNDMASK_B32": _cndmask,
    **{
        f"V_{verb}_CO_U32": _carrying
        for verb in ("ADD", "ADDC", "SUB", "SUBB", "SUBREV", "SUBBREV")
    },
    "V_LSHL_ADD_U64": _wide(_lshl_add),
    "V_MAD_U64_U32": _wide(_mad_u64),
    "V_MOV_B64": _wide(_move64),
    **{name: _wide(_shift64(name)) for name in ("V_LSHLREV_B64", "V_LSHRREV_B64", "V_ASHRREV_I64")},
    **{name: _packed_f32(name) for name in ("V_PK_MUL_F32", "V_PK_ADD_F32", "V_PK_FMA_F32")},
    "V_PK_MOV_B32": _packed_move,
    "V_PK_MAX_U16": _packed_16("V_MAX_U16"),
    "V_PK_MIN_U16": _packed_16("V_MIN_U16"),
    "V_PK_MAX_I16": _packed_16("V_MAX_I16"),
    "V_PK_MIN_I16": _packed_16("V_MIN_I16"),
    "V_PK_ADD_U16": _packed_16("V_ADD_U16"),
    "V_PK_SUB_U16": _packed_16("V_SUB_U16"),
    "V_PK_MUL_LO_U16": _packed_16("V_MUL_LO_U16"),
    "V_PK_LSHLREV_B16": _packed_16("V_LSHLREV_B16"),
    "V_PK_LSHRREV_B16": _packed_16("V_LSHRREV_B16"),
    "V_ACCVGPR_READ": _accvgpr_read,
    "V_ACCVGPR_WRITE": _accvgpr_write,
    "V_ACCVGPR_MOV_B32": _accvgpr_move,
}
