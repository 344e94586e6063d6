"""The wait states that gfx950 leaves to the program: which two instructions, how many between them.

Numbers and conditions are those by which LLVM places its s_nop for gfx950: each rule names the
function of llvm/lib/Target/AMDGPU/GCNHazardRecognizer.cpp. The matrix unit has its own file.
Left out is what LLVM adds beyond data hazards: before a memory access after V_CMPX, which does
not read EXEC as an operand; between memory instructions in case XNACK replays them; behind packed
arithmetic, whose op_sel_hi it takes for a shifted result; and before DPP that reads loaded data.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from mxtune.tuner.emulate.instruction import ACCVGPR, EXEC, M0, VCC, VGPR, Instruction, span

Registers = Callable[[Instruction], int]

SCALARS = span(0, 128)
VECTORS = span(VGPR, 512)
_EXEC_MASK = span(EXEC, 2)
# What is no operand but is written and read all the same gets numbers behind the registers.
_HARDWARE = 768  # 64 hardware registers of S_SETREG
_DWORD = 6  # dst_sel of a whole register

_TRANSCENDENTAL = re.compile(r"V_(EXP|LOG|RCP|RSQ|SQRT|SIN|COS)_")
_PICKS_BYTE = re.compile(r"V_CVT_(SR_(FP8|BF8)|SCALEF32_(PK_FP4|SR_FP8|SR_BF8))_")
_ALWAYS_SHIFTS = "V_CVT_SCALEF32_SR_PK_FP4_"
_WIDE_STORE = re.compile(r"\w+_(STORE_(DWORDX[34]|FORMAT_XYZW?)|ATOMIC_CMPSWAP_X2)$")
_USES_M0 = re.compile(r"S_(MOVREL|SENDMSG|TTRACEDATA)|DS_\w+_ADDTID|DS_GWS_|DS_ORDERED_COUNT")


@dataclass(frozen=True, slots=True)
class Rule:
    """Wait states between two instructions, if one register is in both of their sets.

    ``wait_states`` is the most a pair can need; ``of_pair`` gives the number where it varies.
    """

    name: str
    source: str
    produces: Registers
    consumes: Registers
    wait_states: int
    of_pair: Callable[[Instruction, Instruction], int] | None = None

    def needed(self, producer: Instruction, consumer: Instruction) -> int:
        """Return the wait states that must lie between the two."""
        return self.of_pair(producer, consumer) if self.of_pair else self.wait_states


def is_vector(instruction: Instruction) -> bool:
    """Whether the vector unit executes it, matrix instructions included."""
    return instruction.encoding.startswith("VOP")


def is_matrix(instruction: Instruction) -> bool:
    """Whether the matrix unit executes it."""
    return instruction.name.startswith(("V_MFMA_", "V_SMFMAC_"))


def is_dot(instruction: Instruction) -> bool:
    """Whether it is one of the V_DOT instructions, which have a pipeline of their own."""
    return instruction.name.startswith("V_DOT")


def is_memory(instruction: Instruction) -> bool:
    """Whether it reaches memory or LDS from vector registers."""
    return instruction.encoding == "DS" or is_vector_memory(instruction)


def is_vector_memory(instruction: Instruction) -> bool:
    """Whether it goes through the vector memory path."""
    return instruction.encoding in ("MUBUF", "MTBUF", "GLOBAL", "FLAT", "SCRATCH")


def writes_of(kind: Callable[[Instruction], bool], among: int) -> Registers:
    """Return the function that gives what an instruction of a kind writes."""
    return lambda i: i.writes & among if kind(i) else 0


def reads_of(kind: Callable[[Instruction], bool], among: int) -> Registers:
    """Return the function that gives what an instruction of a kind reads."""
    return lambda i: i.reads & among if kind(i) else 0


def touches_of(kind: Callable[[Instruction], bool], among: int) -> Registers:
    """Return the function that gives what an instruction of a kind reads or writes."""
    return lambda i: (i.reads | i.writes) & among if kind(i) else 0


def always(kind: Callable[[Instruction], bool], registers: int) -> Registers:
    """Return the function that gives the same registers for every instruction of a kind."""
    return lambda i: registers if kind(i) else 0


def named(*starts: str) -> Callable[[Instruction], bool]:
    """Return the predicate for instructions whose names start so."""
    return lambda i: i.name.startswith(starts)


def _is_transcendental(instruction: Instruction) -> bool:
    return bool(_TRANSCENDENTAL.match(instruction.name))


def _is_plain_vector(instruction: Instruction) -> bool:
    return is_vector(instruction) and not _is_transcendental(instruction)


def _shifts_result(instruction: Instruction) -> bool:
    """Whether the result is moved to another place in its register than the lowest."""
    fields, name = instruction.fields, instruction.name
    if "SDWA" in instruction.encoding:
        return fields.get("dst_sel", _DWORD) != _DWORD
    if instruction.encoding != "VOP3":
        return False
    places = 0b1100 if _PICKS_BYTE.match(name) else 0b1000
    return bool(fields["opsel"] & places) or name.startswith(_ALWAYS_SHIFTS)


def _is_dpp(instruction: Instruction) -> bool:
    return "DPP" in instruction.encoding


def _lane_select(instruction: Instruction) -> int:
    if instruction.name not in ("V_READLANE_B32", "V_WRITELANE_B32"):
        return 0
    return span(instruction.fields["src1"], 1) & SCALARS


def _stored(instruction: Instruction) -> int:
    """Return the registers of a store that fetches its data later than the next instruction."""
    if not is_vector_memory(instruction) or not _WIDE_STORE.match(instruction.name):
        return 0
    fields = instruction.fields
    first = fields["vdata"] if "vdata" in fields else fields["data"]
    dwords = 3 if instruction.name.endswith(("DWORDX3", "XYZ")) else 4
    return span(first + (ACCVGPR if fields["acc"] else VGPR), dwords)


def _stored_states(producer: Instruction, _: Instruction) -> int:
    # an offset in an SGPR leaves one cycle of the two: measured, LLVM pull request 197267
    return 1 if producer.fields.get("soffset", 128) < 128 else 2


def _is_scalar(instruction: Instruction) -> bool:
    return instruction.encoding in ("SOP1", "SOP2", "SOPK")


def _m0_used(instruction: Instruction) -> int:
    shared = instruction.encoding == "DS" and bool(instruction.fields.get("gds"))
    # Loads into LDS are not among them, though LLVM puts an S_NOP before each: AITER's objects,
    # which run in production, set M0 right before nearly all of theirs (1296 of 1356 in f4gemm).
    uses = bool(_USES_M0.match(instruction.name)) or shared
    return span(M0, 1) if uses else 0


def _hardware_register(*starts: str) -> Registers:
    def register(instruction: Instruction) -> int:
        if not instruction.name.startswith(starts):
            return 0
        return span(_HARDWARE + (instruction.fields["simm16"] & 63), 1)

    return register


def _dot_states(producer: Instruction, consumer: Instruction) -> int:
    """A dot product takes the sum of the same instruction before it without a wait."""
    if producer.name != consumer.name:
        return 3
    factors = span(consumer.fields["src0"], 1) | span(
        consumer.fields.get("src1", consumer.fields.get("vsrc1", 0) + VGPR), 1
    )
    return 3 if factors & producer.writes else 0


def _is_no_matrix(instruction: Instruction) -> bool:
    reads_or_writes = is_vector(instruction) or is_memory(instruction)
    return reads_or_writes and not is_matrix(instruction)


_ANY_LANE = named("V_READLANE", "V_READFIRSTLANE", "V_WRITELANE")
_READ_LANE = named("V_READLANE", "V_READFIRSTLANE")
_PERMLANE = named("V_PERMLANE")
_VECTOR_RESULT = writes_of(is_vector, VECTORS)
_SCALAR_RESULT = writes_of(is_vector, SCALARS)

RULES = (
    Rule(
        "transcendental result",
        "checkVALUHazards, hasTransForwardingHazard",
        writes_of(_is_transcendental, VECTORS),
        reads_of(_is_plain_vector, VECTORS),
        1,
    ),
    Rule(
        "partly written register",
        "checkVALUHazards, hasDstSelForwardingHazard and hasCvtScaleForwardingHazard",
        writes_of(_shifts_result, VECTORS),
        touches_of(is_vector, VECTORS),
        1,
    ),
    Rule(
        "scalar from a vector instruction",
        "checkVALUHazards, hasVDecCoExecHazard",
        _SCALAR_RESULT,
        reads_of(is_vector, SCALARS),
        2,
    ),
    Rule(
        "scalar from a vector instruction, for memory",
        "checkVMEMHazards",
        _SCALAR_RESULT,
        reads_of(is_vector_memory, SCALARS),
        5,
    ),
    Rule("lane number", "checkRWLaneHazards", _SCALAR_RESULT, _lane_select, 4),
    Rule(
        "register read across lanes",
        "checkVALUHazards, hasVDecCoExecHazard",
        _VECTOR_RESULT,
        reads_of(_READ_LANE, VECTORS),
        1,
    ),
    Rule(
        "EXEC for an access across lanes",
        "checkVALUHazards, hasVDecCoExecHazard",
        _SCALAR_RESULT,
        always(_ANY_LANE, _EXEC_MASK),
        4,
    ),
    Rule("DPP operand", "checkDPPHazards", _VECTOR_RESULT, reads_of(_is_dpp, VECTORS), 2),
    Rule("EXEC for DPP", "checkDPPHazards", _SCALAR_RESULT, always(_is_dpp, _EXEC_MASK), 5),
    Rule(
        "permlane operand",
        "checkPermlaneHazards",
        _VECTOR_RESULT,
        touches_of(_PERMLANE, VECTORS),
        2,
    ),
    Rule(
        "EXEC for permlane",
        "checkPermlaneHazards",
        writes_of(named("V_CMPX"), SCALARS),
        always(_PERMLANE, _EXEC_MASK),
        4,
    ),
    Rule(
        "VCC for V_DIV_FMAS",
        "checkDivFMasHazards",
        _SCALAR_RESULT,
        always(named("V_DIV_FMAS"), span(VCC, 2)),
        4,
    ),
    Rule(
        "data of a wide store",
        "createsVALUHazard, checkVALUHazardsHelper",
        _stored,
        _VECTOR_RESULT,
        2,
        _stored_states,
    ),
    Rule(
        "dot product read",
        "checkMAIVALUHazards, DotWriteDifferentVALURead and DotWriteSameDotReadSrcAB",
        writes_of(is_dot, VECTORS),
        reads_of(_is_no_matrix, VECTORS),
        3,
        _dot_states,
    ),
    Rule(
        "dot product overwritten",
        "checkMAIVALUHazards, DotWriteDifferentVALUWrite",
        writes_of(is_dot, VECTORS),
        writes_of(_is_no_matrix, VECTORS),
        3,
        lambda producer, consumer: 3 if producer.name != consumer.name else 0,
    ),
    Rule("M0", "checkReadM0Hazards", writes_of(_is_scalar, span(M0, 1)), _m0_used, 1),
    Rule(
        "hardware register",
        "checkGetRegHazards, checkSetRegHazards",
        _hardware_register("S_SETREG"),
        _hardware_register("S_SETREG", "S_GETREG"),
        2,
    ),
)
