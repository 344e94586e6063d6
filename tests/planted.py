"""Twelve faults, planted in machine code that is right, and what the emulator must say of each.

    python -m tests.planted

prints what it does say.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.planted_code import Code, Edits, Outcome, changed, launched, patched
from tests.planted_quantiser import assembled, conversion, lines, quantised

_ALL_OF_VMCNT, _ALL_OF_LGKMCNT = 0xC00F, 0x0F00  # bits of S_WAITCNT; all set: waits for nothing
_ZERO, _ONE, _MINUS_ONE, _MINUS_TWO = 128, 242, 193, 194  # operands: 0, 1.0, -1, -2
_NOT_EQUAL, _GREATER_OR_EQUAL = 5, 6  # the low bits of a comparison's opcode


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, where it is planted, exactly which kinds it gives, and words of one of the texts."""

    name: str
    where: str
    plant: Callable[[], Outcome]
    kinds: frozenset[str]
    words: tuple[str, ...]


# --- the quantiser with the hardware conversion


def _with_lines(change: Callable[[list[str]], list[str]]) -> Callable[[], Outcome]:
    return lambda: quantised(assembled(*change(lines())))


def _before(line: str, new: str) -> Callable[[], Outcome]:
    return _with_lines(lambda code: [*code[: code.index(line)], new, *code[code.index(line) :]])


def _wrong_byte() -> Outcome:
    """Let one conversion write byte 2 instead of 1, by two bits of the machine code."""
    elf = assembled(*lines())
    code = Code.read(elf)
    chosen = [each for each in code.called("V_CVT_SCALEF32") if each.fields["opsel"] == 0b0100]
    return quantised(patched(elf, code.with_fields(chosen[0], opsel=0b1000)))


def _one_after_the_other(code: list[str]) -> list[str]:
    """Put the conversions of one word behind each other."""
    at = code.index(conversion(0, 1))
    code[at + 1], code[at + 2] = code[at + 2], code[at + 1]
    return code


# --- the routes


def _scale_up(code: Code) -> Edits:
    edits: dict[int, bytes] = {}
    for each in code.on_line("V_ADD_U32", "mxfp4.py", "tl.maximum(field - 2, 0)"):
        if each.fields["src0"] == _MINUS_TWO:
            edits |= code.with_fields(each, src0=_MINUS_ONE)
    return edits


def _no_barrier(code: Code) -> Edits:
    return code.without(code.called("S_BARRIER")[0])


def _no_wait_for_memory(code: Code) -> Edits:
    waits = [each for each in code.called("S_WAITCNT") if each.fields["simm16"] & 15 < 15]
    return _not_waiting(code, waits[0].pc, _ALL_OF_VMCNT)


def _no_wait_for_lds(code: Code) -> Edits:
    """Drop the wait before the last matrix instruction."""
    last = code.called("V_MFMA_SCALE")[-1]
    waits = [each.pc for each in code.called("S_WAITCNT") if each.pc < last.pc]
    return _not_waiting(code, waits[-1], _ALL_OF_LGKMCNT)


def _not_waiting(code: Code, pc: int, counter: int) -> Edits:
    (wait,) = (each for each in code.instructions if each.pc == pc)
    return code.with_fields(wait, simm16=wait.fields["simm16"] | counter)


def _one_row_more(code: Code) -> Edits:
    """Turn the first ``>`` of the mask, that of the rows, into ``>=``."""
    rows = code.on_line("V_CMP_GT_I32", "tile.py", "inside = (row[:, None] < M)")[0]
    return code.with_fields(rows, op=rows.fields["op"] & ~7 | _GREATER_OR_EQUAL)


def _every_row(code: Code) -> Edits:
    """Read row 0 instead of the first row past the end alone, not of all behind it."""
    edits: dict[int, bytes] = {}
    for each in code.on_line("V_CMP_GT_I32", "tile.py", "tl.where(row < extent, row, 0)"):
        edits |= code.with_fields(each, op=each.fields["op"] & ~7 | _NOT_EQUAL)
    return edits


def _read_first(code: Code) -> Edits:
    return code.without(code.called("DS_WRITE")[0])


def _scales_exchanged(code: Code) -> Edits:
    first = code.called("V_MFMA_SCALE")[0]
    a, b = first.fields["scale_src0"], first.fields["scale_src1"]
    return code.with_fields(first, scale_src0=b, scale_src1=a)


def _sum_from_one(code: Code) -> Edits:
    """Write 1.0 where the sums of the first matrix instruction are set to 0."""
    first = code.called("V_MFMA_SCALE")[0]
    setting = [*code.called("V_MOV_B32"), *code.called("V_ACCVGPR_WRITE")]
    zeros = [each for each in setting if each.fields["src0"] == _ZERO and each.pc < first.pc]
    last = {each.writes: each for each in zeros if each.writes & first.writes}
    edits: dict[int, bytes] = {}
    for each in last.values():
        edits |= code.with_fields(each, src0=_ONE)
    return edits


FAULTS = (
    Fault(
        "wrong nibble",
        "conversion by hand: the two values of a pair change places",
        _before(conversion(0, 0), "v_alignbit_b32 v4, v4, v4, 16"),
        frozenset({"wrong_result"}),
        ("codes:",),
    ),
    Fault(
        "wrong byte select",
        "conversion by hand: byte 2 for byte 1",
        _wrong_byte,
        frozenset({"unwritten_register", "wrong_result"}),
        ("codes:",),
    ),
    Fault(
        "scale byte off by one",
        "direct, quantise: 1 for 2 taken from the exponent",
        lambda: changed("direct", "quantise", _scale_up),
        frozenset({"wrong_result"}),
        ("differ from rule even",),
    ),
    Fault(
        "scale byte off by one",
        "conversion by hand: in the stored byte alone",
        _before(conversion(0, 0), "v_add_u32_e32 v21, 1, v21"),
        frozenset({"wrong_result"}),
        ("scales: 64 of 64 bytes differ",),
    ),
    Fault(
        "missing barrier",
        "direct, quantise: the only one",
        lambda: changed("direct", "quantise", _no_barrier),
        frozenset({"lds_race", "unwritten_lds", "wrong_result"}),
        ("lds_race", "ds_read", "with no barrier between"),
    ),
    Fault(
        "missing barrier",
        "fused: the first one",
        lambda: changed("fused", "fused", _no_barrier),
        frozenset({"lds_race", "wrong_result"}),
        ("lds_race", "ds_read", "with no barrier between"),
    ),
    Fault(
        "missing wait",
        "direct, quantise: for the load of A",
        lambda: changed("direct", "quantise", _no_wait_for_memory),
        frozenset({"missing_wait"}),
        ("reads v", "was not waited"),
    ),
    Fault(
        "missing wait",
        "direct, gemm: for LDS, before the last MFMA",
        lambda: changed("direct", "gemm", _no_wait_for_lds),
        frozenset({"missing_wait"}),
        ("v_mfma_scale", "reads v", "was not waited"),
    ),
    Fault(
        "mask off by one",
        "direct, gemm: row <= M",
        lambda: changed("direct", "gemm", _one_row_more),
        frozenset({"out_of_bounds"}),
        ("buffer_store", "writes", "of c, which has 5440"),
    ),
    Fault(
        "hazard pair",
        "conversion by hand: two bytes of one word in turn",
        _with_lines(_one_after_the_other),
        frozenset({"hazard"}),
        ("v_cvt_scalef32_pk_fp4_bf16", "partly written register: 0 wait states", "1 needed"),
    ),
    Fault(
        "weight rows read past the end",
        "direct, gemm: N != row for N > row",
        lambda: changed("direct", "gemm", _every_row),
        frozenset({"out_of_bounds"}),
        ("buffer_load", "reads", "of b, which has 23040"),
    ),
    Fault(
        "LDS read before write",
        "direct, quantise: nothing has written yet",
        lambda: changed("direct", "quantise", _read_first),
        frozenset({"unwritten_lds", "wrong_result"}),
        ("ds_read", "reads LDS byte", "which nothing has written"),
    ),
    Fault(
        "swapped scale registers",
        "direct, gemm: of the first MFMA",
        lambda: changed("direct", "gemm", _scales_exchanged),
        frozenset({"wrong_result"}),
        ("of 2720 wrong", "worst at"),
    ),
    Fault(
        "strides in bytes",
        "fused: that of A",
        lambda: launched("fused", "fused", lambda old: {"stride_am": 2 * old["stride_am"]}),
        frozenset({"out_of_bounds", "wrong_result"}),
        ("buffer_load", "reads", "of a, which has 9792"),
    ),
    Fault(
        "wrong accumulator init",
        "direct, gemm: 1 for 0",
        lambda: changed("direct", "gemm", _sum_from_one),
        frozenset({"wrong_result"}),
        ("2720 of 2720 wrong", "worst at", ": 1 for 4.76837e-06"),
    ),
)


def main() -> None:
    """Plant one fault after the other and print what is found."""
    for fault in FAULTS:
        found = fault.plant()
        print(f"{fault.name} ({fault.where}): {', '.join(sorted(found.kinds)) or 'nothing'}")
        print(f"    {found.text_with(fault.words) or found.texts}")


if __name__ == "__main__":
    main()
