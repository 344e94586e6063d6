"""The wait states around matrix instructions of gfx950, which depend on how long they take.

A matrix instruction runs for 2 to 16 passes of four cycles. The passes are those of LLVM's
scheduling model (SIDPGFX950FullSpeedModel in SISchedule.td), the numbers of wait states those
of GCNHazardRecognizer.cpp; "XDL" means the matrix instructions that do not take F32 or F64.
"""

import re

from mxtune.tuner.emulate.hazard_rules import (
    SCALARS,
    VECTORS,
    Rule,
    always,
    is_dot,
    is_matrix,
    is_memory,
    is_vector,
    named,
    reads_of,
    writes_of,
)
from mxtune.tuner.emulate.instruction import EXEC, VGPR, Instruction, span

_SHAPE = re.compile(
    r"V_(?:MFMA|SMFMAC|MFMA_SCALE)_[FI](?P<bits>\d+)_(?P<m>\d+)X\d+X(?P<k>\d+)_"
    r"(?:(?P<blocks>\d+)B_)?(?P<factor>[A-Z0-9]+)"
)
_FACTOR_BITS = {"F64": 64, "F32": 32, "XF32": 32, "F16": 16, "BF16": 16}  # all others have 8
_FORMAT_DWORDS = (8, 8, 6, 6, 4)  # by cbsz or blgp: FP8, BF8, FP6, BF6, FP4
_BF8 = 1  # cbsz and blgp: 0 FP8, 1 BF8, 2 and more the formats of 6 and 4 bits
_DOUBLE_UNIT = 832  # stands for the F64 matrix unit being busy


def passes(instruction: Instruction) -> int:
    """Return how many passes a matrix instruction takes."""
    shape = _shape(instruction)
    m, k, factor = int(shape["m"]), int(shape["k"]), shape["factor"]
    if factor == "F64":
        return 4 if m == 4 else 16
    if factor == "F8F6F4":
        slow = min(instruction.fields["cbsz"], instruction.fields["blgp"]) <= _BF8
        return m // 4 * (2 if slow else 1)
    short = k > 4 or factor == "XF32" or instruction.name.startswith("V_SMFMAC")
    return m // 4 if short else m // 2


def _shape(instruction: Instruction) -> re.Match[str]:
    shape = _SHAPE.match(instruction.name)
    if not shape:
        raise ValueError(f"{instruction.name} is no matrix instruction")
    return shape


def accumulator(instruction: Instruction) -> int:
    """Return the registers that a matrix instruction adds to, as many as it writes."""
    if not is_matrix(instruction):
        return 0
    if instruction.name.startswith("V_SMFMAC"):
        return instruction.writes
    fields = instruction.fields
    if fields["src2"] < VGPR:
        return 0  # starts from a constant
    return span(fields["src2"] + VGPR * fields["acc_cd"], instruction.writes.bit_count())


def factors(instruction: Instruction) -> int:
    """Return the vector registers that a matrix instruction multiplies, with scales or index."""
    if not is_matrix(instruction):
        return 0
    fields = instruction.fields
    first = fields["src0"] + VGPR * (fields["acc"] & 1)
    second = fields["src1"] + VGPR * (fields["acc"] >> 1)
    registers = span(first, _factor_count(instruction, "cbsz"))
    registers |= span(second, _factor_count(instruction, "blgp"))
    for single in ("scale_src0", "scale_src1"):
        registers |= span(fields.get(single, 0), 1)
    if instruction.name.startswith("V_SMFMAC"):
        registers |= span(fields["src2"], 1)
    return registers & VECTORS


def _factor_count(instruction: Instruction, form: str) -> int:
    """Return how many registers a factor has, the one whose format is in the field ``form``."""
    shape = _shape(instruction)
    if shape["factor"] == "F8F6F4":
        return _FORMAT_DWORDS[instruction.fields[form]]
    elements = int(shape["m"]) * int(shape["k"]) * int(shape["blocks"] or 1)
    dwords = elements * _FACTOR_BITS.get(shape["factor"], 8) // (64 * 32)  # 64 lanes share it
    sparse = instruction.name.startswith("V_SMFMAC") and form == "cbsz"
    return max(1, dwords // 2 if sparse else dwords)


def _operands(instruction: Instruction) -> int:
    return factors(instruction) | accumulator(instruction)


def is_xdl(instruction: Instruction) -> bool:
    """Whether a matrix instruction is of the kind with low-precision factors."""
    return is_matrix(instruction) and not instruction.name.endswith(("_F32", "_F64"))


def _is_double(instruction: Instruction) -> bool:
    return instruction.name.startswith("V_MFMA_F64")


def _is_other_vector(instruction: Instruction) -> bool:
    return is_vector(instruction) and not is_matrix(instruction)


def _is_no_dot(instruction: Instruction) -> bool:
    return _is_other_vector(instruction) and not is_dot(instruction)


def _is_outside(instruction: Instruction) -> bool:
    return _is_other_vector(instruction) or is_memory(instruction)


def _result_states(producer: Instruction) -> int:
    """Return when the result of an instruction other than an F64 one is in its registers."""
    count = passes(producer)
    if not is_xdl(producer):
        return count + 2
    return count + (3 if count == 2 else 4)


def _factor_states(producer: Instruction, _: Instruction) -> int:
    if _is_double(producer):
        return 6 if passes(producer) == 4 else 19
    return _result_states(producer)


def _read_states(producer: Instruction, consumer: Instruction) -> int:
    if not _is_double(producer):
        return _result_states(producer)
    if passes(producer) == 4:
        return 9 if is_memory(consumer) else 6
    return 18 if is_memory(consumer) else 19


def _overwrite_states(producer: Instruction, _: Instruction) -> int:
    if _is_double(producer):
        return 6 if passes(producer) == 4 else 11
    return _result_states(producer)


def _sum_states(producer: Instruction, consumer: Instruction) -> int:
    """Return what adding to a result needs: all but nothing if it is exactly those registers."""
    if producer.writes == accumulator(consumer):
        return _same_sum_states(producer, consumer)
    if is_xdl(producer):
        count = passes(producer)
        return count + (1 if count == 2 and not is_xdl(consumer) else 2)
    if is_xdl(consumer):
        return 0
    if _is_double(producer):
        return 4 if passes(producer) == 4 else 17
    return passes(producer)


def _same_sum_states(producer: Instruction, consumer: Instruction) -> int:
    if passes(producer) == 2:
        return 2
    short_double = _is_double(producer) and passes(producer) == 4
    return 4 if short_double and producer.name == consumer.name else 0


MATRIX_RULES = (
    Rule(
        "vector result for a matrix instruction",
        "checkMAIHazards90A, LegacyVALUNotDotWritesVGPR",
        writes_of(_is_no_dot, VECTORS),
        _operands,
        2,
    ),
    Rule(
        "EXEC for a matrix instruction",
        "checkMAIHazards90A, VALUWritesExec",
        writes_of(_is_other_vector, SCALARS),
        always(is_matrix, span(EXEC, 2)),
        4,
    ),
    Rule(
        "matrix result as a factor",
        "checkMAIHazards90A, ...OverlappedSrcAB",
        writes_of(is_matrix, VECTORS),
        factors,
        20,
        _factor_states,
    ),
    Rule(
        "matrix result as an accumulator",
        "checkMAIHazards90A, ...OverlappedXDLOrSMFMASrcC and ...FullSrcC",
        writes_of(is_matrix, VECTORS),
        accumulator,
        18,
        _sum_states,
    ),
    Rule(
        "matrix result read",
        "checkMAIVALUHazards, ...WriteVgprVALUMemExpRead",
        writes_of(is_matrix, VECTORS),
        reads_of(_is_outside, VECTORS),
        20,
        _read_states,
    ),
    Rule(
        "matrix result overwritten",
        "checkMAIVALUHazards, ...WriteVgprVALUWaw",
        writes_of(is_matrix, VECTORS),
        writes_of(_is_outside, VECTORS),
        20,
        _overwrite_states,
    ),
    Rule(
        "accumulator overwritten",
        "checkMAIVALUHazards, ...ReadVgprVALUWar",
        lambda i: accumulator(i) if is_xdl(i) else 0,
        writes_of(_is_outside, VECTORS),
        15,
        lambda producer, _: passes(producer) - 1,
    ),
    Rule(
        "F64 matrix unit",
        "checkMAIVALUHazards, DMFMAToFMA64",
        always(_is_double, span(_DOUBLE_UNIT, 1)),
        always(named("V_FMA_F64", "V_FMAC_F64"), span(_DOUBLE_UNIT, 1)),
        2,
    ),
)
