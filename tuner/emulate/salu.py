"""Scalar arithmetic and control flow."""

import re
from collections.abc import Callable, Mapping

from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import M0, VCC, Instruction, signed
from mxtune.tuner.emulate.operands import scalar, scalar64
from mxtune.tuner.emulate.salu_tables import (
    BITWISE,
    COMPARE,
    COUNTED,
    LOGIC,
    PLAIN,
    SAVEEXEC,
    SHIFTS,
    SUMS,
    UNARY,
)
from mxtune.tuner.emulate.waits import allowed_by
from mxtune.tuner.emulate.wave import M32, M64, Wave

Run = Callable[[Wave], None]

# Priorities, profiling, waiting for time to pass: none changes a result.
_NO_EFFECT = frozenset(
    {
        "S_NOP",
        "S_SETPRIO",
        "S_SLEEP",
        "S_INST_PREFETCH",
        "S_ICACHE_INV",
        "S_TTRACEDATA",
        "S_SETHALT",
    }
)
_CONDITIONS: Mapping[str, Callable[[Wave], bool]] = {
    "S_BRANCH": lambda _: True,
    "S_CBRANCH_SCC0": lambda wave: not wave.scc,
    "S_CBRANCH_SCC1": lambda wave: bool(wave.scc),
    "S_CBRANCH_VCCZ": lambda wave: wave.scalar64(VCC) == 0,
    "S_CBRANCH_VCCNZ": lambda wave: wave.scalar64(VCC) != 0,
    "S_CBRANCH_EXECZ": lambda wave: wave.exec == 0,
    "S_CBRANCH_EXECNZ": lambda wave: wave.exec != 0,
}


def build_scalar(instruction: Instruction) -> Run:
    """Return what a SOP instruction does; raise EmulationError if it is not known."""
    build = {"SOPP": _control, "SOPK": _by_constant, "SOPC": _compare, "SOP1": _unary}
    return build.get(instruction.encoding, _binary)(instruction)


def _control(instruction: Instruction) -> Run:
    name = instruction.name
    if name in _CONDITIONS:
        holds, target = _CONDITIONS[name], instruction.target
        assert target is not None
        return lambda wave: setattr(wave, "pc", target) if holds(wave) else None
    if name == "S_ENDPGM":
        return lambda wave: setattr(wave, "done", True)
    if name == "S_BARRIER":
        return lambda wave: setattr(wave, "at_barrier", True)
    if name == "S_SET_GPR_IDX_OFF":
        return lambda wave: setattr(wave, "gpr_index", 0)
    if name == "S_WAITCNT":
        vector, local = allowed_by(instruction.fields["simm16"])
        return lambda wave: _wait(wave, vector, local)
    if name in _NO_EFFECT:
        return lambda _: None
    raise EmulationError(f"{name} is not known")


def _wait(wave: Wave, vector: int, local: int) -> None:
    wave.waits.wait(vector, local)
    wave.watch()


def _by_constant(instruction: Instruction) -> Run:
    name, to = instruction.name, instruction.fields["sdst"]
    value = signed(instruction.fields["simm16"], 16)
    if name == "S_MOVK_I32":
        return lambda wave: wave.set_scalar(to, value)
    if name == "S_MULK_I32":
        return lambda wave: wave.set_scalar(to, signed(wave.scalar(to), 32) * value)
    if name == "S_ADDK_I32":
        return lambda wave: _sum(wave, to, signed(wave.scalar(to), 32) + value, is_signed=True)
    match = re.fullmatch(r"S_CMPK_(\w+)_([IU])32", name)
    if not match:
        raise EmulationError(f"{name} is not known")
    holds, is_signed = COMPARE[match[1]], match[2] == "I"
    other = value if is_signed else value & 0xFFFF

    def run(wave: Wave) -> None:
        held = wave.scalar(to)
        wave.scc = int(holds(signed(held, 32) if is_signed else held, other))

    return run


def _compare(instruction: Instruction) -> Run:
    name, fields, literal = instruction.name, instruction.fields, instruction.literal
    fetch = scalar64 if name.endswith("64") else scalar
    a, b = fetch(fields["ssrc0"], literal), fetch(fields["ssrc1"], literal)
    if name == "S_SET_GPR_IDX_ON":
        return _index_on(instruction)
    if name in ("S_BITCMP0_B32", "S_BITCMP1_B32"):
        wanted = int(name[8])
        return lambda wave: setattr(wave, "scc", int(a(wave) >> (b(wave) & 31) & 1 == wanted))
    match = re.fullmatch(r"S_CMP_(\w+)_([IU])(32|64)", name)
    if not match:
        raise EmulationError(f"{name} is not known")
    holds = COMPARE[match[1]]
    if match[2] == "U":
        return lambda wave: setattr(wave, "scc", int(holds(a(wave), b(wave))))
    return lambda wave: setattr(wave, "scc", int(holds(signed(a(wave), 32), signed(b(wave), 32))))


def _index_on(instruction: Instruction) -> Run:
    """Let an SGPR move register numbers; the objects here move source 0 only."""
    fields = instruction.fields
    index = scalar(fields["ssrc0"])
    if fields["ssrc1"] != 1:
        raise EmulationError("S_SET_GPR_IDX_ON of more than source 0")

    def run(wave: Wave) -> None:
        wave.gpr_index = index(wave) & 0xFF
        wave.s[M0] = wave.s[M0] & ~0xF0FF | wave.gpr_index | 0x1000

    return run


def _unary(instruction: Instruction) -> Run:
    name, fields = instruction.name, instruction.fields
    wide = name.endswith(("B64", "I64"))
    a = (scalar64 if "64" in name else scalar)(fields["ssrc0"], instruction.literal)
    to = fields["sdst"]
    if name in ("S_MOV_B32", "S_MOV_B64"):
        return _put(a, to, wide=wide)
    if name.endswith("_SAVEEXEC_B64"):
        return _save_exec(a, to, name)
    if name in PLAIN:
        plain = PLAIN[name]
        return _put(lambda wave: plain(a(wave)), to, wide=wide)
    if name not in UNARY and name not in COUNTED:
        raise EmulationError(f"{name} is not known")
    table = UNARY if name in UNARY else COUNTED
    return _put_with_scc(lambda wave: table[name](a(wave)), to, wide=wide and name in UNARY)


def _save_exec(a: Callable[[Wave], int], to: int, name: str) -> Run:
    combine = SAVEEXEC[name.removeprefix("S_").removesuffix("_SAVEEXEC_B64")]

    def run(wave: Wave) -> None:
        mask, before = a(wave), wave.exec
        wave.set_scalar64(to, before)
        wave.set_exec(combine(mask, before))
        wave.scc = int(wave.exec != 0)

    return run


def _binary(instruction: Instruction) -> Run:
    name, fields, literal = instruction.name, instruction.fields, instruction.literal
    wide = "64" in name
    fetch = scalar64 if wide else scalar
    a, b, to = fetch(fields["ssrc0"], literal), fetch(fields["ssrc1"], literal), fields["sdst"]
    stem = re.sub(r"_[BIU](32|64)$", "", name)
    if stem == "S_CSELECT":
        return _put(lambda wave: a(wave) if wave.scc else b(wave), to, wide=wide)
    if name in SUMS:
        return _add(instruction, a, b)
    if name in LOGIC:
        logic = LOGIC[name]
        return _put(lambda wave: logic(a(wave), b(wave)), to, wide=wide)
    if stem in BITWISE:
        bitwise = BITWISE[stem]
        return _put_with_scc(lambda wave: bitwise(a(wave), b(wave)), to, wide=wide)
    if name in SHIFTS:
        shift, amount = SHIFTS[name], scalar(fields["ssrc1"], literal)
        return _put_with_scc(lambda wave: shift(a(wave), amount(wave)), to, wide=wide)
    if re.fullmatch(r"S_(MIN|MAX)_[IU]32", name):
        return _extreme(name, a, b, to)
    raise EmulationError(f"{name} is not known")


def _add(instruction: Instruction, a: Callable[[Wave], int], b: Callable[[Wave], int]) -> Run:
    add, to = SUMS[instruction.name], instruction.fields["sdst"]
    is_signed = instruction.name.endswith("I32")

    def run(wave: Wave) -> None:
        x, y = a(wave), b(wave)
        if is_signed:
            x, y = signed(x, 32), signed(y, 32)
        _sum(wave, to, add(x, y, wave.scc), is_signed=is_signed)

    return run


def _sum(wave: Wave, to: int, total: int, *, is_signed: bool) -> None:
    """Write a sum; SCC tells whether it did not fit."""
    fits = signed(total, 32) == total if is_signed else 0 <= total <= M32
    wave.set_scalar(to, total)
    wave.scc = int(not fits)


def _extreme(name: str, a: Callable[[Wave], int], b: Callable[[Wave], int], to: int) -> Run:
    """Write the smaller or larger; SCC tells whether it is the first."""
    holds = COMPARE["LT" if "MIN" in name else "GE"]
    is_signed = name.endswith("I32")

    def run(wave: Wave) -> None:
        x, y = a(wave), b(wave)
        keys = (signed(x, 32), signed(y, 32)) if is_signed else (x, y)
        wave.scc = int(holds(*keys))
        wave.set_scalar(to, x if wave.scc else y)

    return run


def _put(value: Callable[[Wave], int], to: int, *, wide: bool) -> Run:
    if wide:
        return lambda wave: wave.set_scalar64(to, value(wave))
    return lambda wave: wave.set_scalar(to, value(wave))


def _put_with_scc(value: Callable[[Wave], int], to: int, *, wide: bool) -> Run:
    """Write a result; SCC tells whether it is not zero."""
    put, mask = (Wave.set_scalar64, M64) if wide else (Wave.set_scalar, M32)

    def run(wave: Wave) -> None:
        result = value(wave) & mask
        put(wave, to, result)
        wave.scc = int(result != 0)

    return run
