"""What emulation found of an ASM kernel becomes rules, and rules grade launches."""

from dataclasses import replace

import pytest

from mxtune.configs.asm_rules import AsmRule, Legality, Need, asm_rules_from, load_asm_rules
from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape
from mxtune.kernels.asm_catalogue import AsmKernel
from mxtune.tuner.emulate.asm_answers import Wrong
from mxtune.tuner.emulate.asm_cases import AsmCase, Beyond, CaseResult, Question, TileRow
from mxtune.tuner.emulate.asm_launch import AsmOptions
from mxtune.tuner.emulate.asm_table import COLUMNS, cells, facts_of, rules_text, unexpected
from mxtune.tuner.emulate.findings import Finding

TEXT = """\
made: {aiter: "1.2", how: emulated}
kernels:
  - name: "k64"
    label: "64x128"
    digest: "0123456789abcdef"
    alpha: "ignored"
    beta: "ignored"
    rules:
      - {need: n_multiple, value: 32, grade: illegal, reason: "N % 32", evidence: "a"}
      - {need: k_multiple, value: 256, grade: suspect, reason: "K % 256", evidence: "b"}
      - {need: k_at_least, value: 512, grade: suspect, reason: "K < 512", evidence: "c"}
      - {need: log2_k_split_at_most, value: 2, grade: illegal, reason: "split", evidence: "d"}
      - {need: k_share_at_least, value: 512, grade: suspect, reason: "share", evidence: "e"}
"""
SMALL = AsmKernel("k64", "k64.co", 64, 128, split_k=False, shuffled_weights=True)
WIDE = AsmKernel("k256", "k256.co", 256, 256, split_k=True, shuffled_weights=True)
WRONG = Wrong(224, 16, 14, 0, 13)


@pytest.mark.parametrize(
    ("shape", "log2_k_split", "legality"),
    [
        ((1, 2112, 7168), 0, Legality("legal")),
        ((1, 2112, 7168), 2, Legality("legal")),
        ((1, 144, 7168), 0, Legality("illegal", "64x128: N % 32")),
        ((1, 128, 896), 0, Legality("suspect", "64x128: K % 256")),
        ((1, 128, 256), 0, Legality("suspect", "64x128: K < 512")),
        ((1, 144, 896), 0, Legality("illegal", "64x128: N % 32")),
        ((1, 128, 7168), 3, Legality("illegal", "64x128: split")),
        ((1, 128, 512), 1, Legality("suspect", "64x128: share")),
    ],
)
def test_the_worst_broken_rule_decides(
    shape: tuple[int, int, int], log2_k_split: int, legality: Legality
) -> None:
    assert asm_rules_from(TEXT).grade("k64", Shape(*shape), log2_k_split) == legality


def test_a_kernel_that_was_never_emulated_is_suspect() -> None:
    legality = asm_rules_from(TEXT).grade("k65", Shape(1, 128, 512))
    assert legality == Legality("suspect", "k65 has not been emulated")


@pytest.mark.parametrize(
    ("need", "value", "met"),
    [("m_multiple", 16, True), ("m_multiple", 32, False), ("never", 0, False)],
)
def test_a_rule_says_what_it_needs(need: Need, value: int, met: bool) -> None:  # noqa: FBT001
    rule = AsmRule(need, value, "illegal", "", "")
    assert rule.met(Shape(48, 128, 512), 0) is met


@pytest.mark.parametrize(("old", "new"), [("n_multiple", "n_even"), ("illegal", "legal")])
def test_a_rule_that_means_nothing_is_refused(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match="no rule for ASM kernels"):
        asm_rules_from(TEXT.replace(old, new))


def test_only_known_architectures_have_rules() -> None:
    with pytest.raises(ConfigError, match="no rules for ASM kernels of 'gfx942'"):
        load_asm_rules("gfx942")


# --- from results to rules


def result_of(question: Question, shape: tuple[int, int, int], log2_k_split: int = 0) -> CaseResult:
    case = AsmCase(question, Shape(*shape), AsmOptions(log2_k_split=log2_k_split))
    effect = "ignored" if question in ("alpha", "beta") else ""
    return CaseResult(case, None, None, worst=0.9, effect=effect, beyond=(), faults=())


def row_of(kernel: AsmKernel, **changed: CaseResult) -> TileRow:
    """Return a kernel that is right throughout, but for the questions given."""
    m, n = kernel.tile_m, kernel.tile_n
    results: dict[str, CaseResult] = {
        "exact": result_of("exact", (m, n, 512)),
        "ragged_m": result_of("ragged_m", (33, n, 512)),
        "ragged_n": result_of("ragged_n", (17, n + 32, 512)),
        "odd_n": result_of("odd_n", (17, n + 16, 512)),
        "ragged_k": result_of("ragged_k", (17, n, 320)),
        "short_k": result_of("short_k", (17, n, 256)),
        "padding": result_of("padding", (17, n, 896)),
        "alpha": result_of("alpha", (m, n, 512)),
        "beta": result_of("beta", (m, n, 512)),
    }
    if kernel.split_k:
        results["split"] = replace(result_of("split", (17, n, 1024), 1), worst=40.0)
    return TileRow(kernel, "ab" * 32, tuple((results | changed).values()), seconds=1.0)


def rules_of(row: TileRow) -> set[tuple[str, int, str]]:
    return {(rule.need, rule.value, rule.grade) for rule in facts_of(row).rules}


ALWAYS = {("k_multiple", 64, "illegal"), ("log2_k_split_at_most", 0, "illegal")}


def test_a_kernel_that_is_right_throughout_needs_only_its_layouts() -> None:
    assert rules_of(row_of(SMALL)) == ALWAYS


def test_a_hazard_in_the_code_makes_every_launch_suspect() -> None:
    hazard = Finding("hazard", 0x4038, "v_cvt_pk_bf16_f32", "0 wait states, 1 needed")
    exact = replace(result_of("exact", (64, 128, 512)), faults=(hazard,))
    rule = facts_of(row_of(SMALL, exact=exact)).rules[0]
    assert (rule.need, rule.grade, rule.reason) == ("never", "suspect", "its code has a hazard")


def test_a_tile_that_is_wrong_where_it_fits_is_never_legal() -> None:
    exact = replace(result_of("exact", (64, 128, 512)), wrong=WRONG, reversed_wrong=WRONG)
    rule = facts_of(row_of(SMALL, exact=exact)).rules[0]
    assert (rule.need, rule.grade) == ("never", "illegal")
    assert rule.reason == "wrong even where the tile fits"


def test_columns_that_come_out_wrong_make_n_a_multiple() -> None:
    odd = replace(result_of("odd_n", (17, 144, 512)), wrong=WRONG, reversed_wrong=WRONG)
    assert rules_of(row_of(SMALL, odd_n=odd)) == ALWAYS | {("n_multiple", 32, "illegal")}


def test_what_the_order_of_workgroups_decides_is_illegal() -> None:
    ragged = replace(result_of("ragged_n", (17, 288, 512)), wrong=WRONG)
    rule = facts_of(row_of(SMALL, ragged_n=ragged)).rules[0]
    assert (rule.need, rule.value, rule.grade) == ("n_multiple", 128, "illegal")
    assert rule.reason.endswith("the last columns of C are not masked and race with the next row")
    assert rule.evidence == (
        "emulated 17x288x512: 224 elements wrong, in 16 rows and 14 columns (0 to 13); "
        "right or wrong by the order of workgroups"
    )


@pytest.mark.parametrize(("writes", "grade"), [(False, "suspect"), (True, "illegal")])
def test_overwriting_is_worse_than_reading_too_much(writes: bool, grade: str) -> None:  # noqa: FBT001
    beyond = Beyond("scale_a", writes, "4 B at byte 2048 of scale_a, which has 2048")
    short = replace(result_of("short_k", (17, 128, 256)), beyond=(beyond,))
    assert rules_of(row_of(SMALL, short_k=short)) == ALWAYS | {("k_at_least", 320, grade)}


def test_a_k_tail_that_reads_the_padding_of_scales_is_suspect() -> None:
    padding = replace(result_of("padding", (17, 128, 896)), wrong=WRONG, reversed_wrong=WRONG)
    assert rules_of(row_of(SMALL, padding=padding)) == ALWAYS | {("k_multiple", 256, "suspect")}


def test_a_split_is_suspect_where_the_catalogue_allows_it() -> None:
    assert rules_of(row_of(WIDE)) == {
        ("k_multiple", 64, "illegal"),
        ("log2_k_split_at_most", 0, "suspect"),
    }
    split = facts_of(row_of(WIDE)).rules[-1]
    assert split.reason == "splits add up in bf16, 40 times the error that the gate allows"


def test_rules_come_back_from_their_file_as_they_were() -> None:
    padding = replace(result_of("padding", (17, 128, 896)), wrong=WRONG, reversed_wrong=WRONG)
    rows = [row_of(SMALL, padding=padding), row_of(WIDE)]
    read = asm_rules_from(rules_text(rows, "1.2"))
    assert read.made == {"aiter": "1.2", "how": "emulated"}
    assert read.kernels == tuple(facts_of(row) for row in rows)


def test_a_row_of_the_table_tells_what_is_amiss_where() -> None:
    ragged = replace(result_of("ragged_n", (17, 288, 512)), wrong=WRONG)
    beyond = Beyond("scale_a", writes=False, detail="4 B at byte 2048 of scale_a, which has 2048")
    short = replace(result_of("short_k", (17, 256, 256)), beyond=(beyond,))
    row = dict(zip(COLUMNS, cells(row_of(WIDE, ragged_n=ragged, short_k=short)), strict=True))
    assert row == {
        "tile": "256x256",
        "exact": "right",
        "ragged M": "right",
        "ragged N": "by order at 288",
        "N%32=16": "right",
        "ragged K": "right",
        "short K": "beyond at 256",
        "split": "right",
        "alpha": "ignored",
        "beyond its operands": "reads beyond scale_a",
    }


def test_only_what_the_rules_do_not_say_is_unexpected() -> None:
    odd = replace(result_of("odd_n", (17, 144, 512)), wrong=WRONG, reversed_wrong=WRONG)
    padding = replace(result_of("padding", (17, 128, 896)), wrong=WRONG, reversed_wrong=WRONG)
    tail = replace(result_of("ragged_k", (17, 128, 320)), wrong=WRONG, reversed_wrong=WRONG)
    rules = asm_rules_from(TEXT)
    assert unexpected(row_of(SMALL), rules) == ()
    assert unexpected(row_of(SMALL, odd_n=odd, padding=padding), rules) == ()
    assert unexpected(row_of(SMALL, ragged_k=tail), rules) == (tail,)  # suspect, but wrong


# --- the rules that come with mxtune


@pytest.mark.parametrize(
    ("label", "shape", "grade"),
    [
        ("32x128", (16, 2112, 7168), "legal"),
        ("64x128", (64, 7168, 2048), "legal"),
        ("32x128", (4, 2880, 512), "legal"),
        ("32x128", (16, 2128, 7168), "illegal"),
        ("32x128", (16, 2112, 896), "suspect"),
        ("128x512", (16384, 800, 5120), "illegal"),
        ("192x256", (4096, 288, 512), "illegal"),
        ("256x256", (4096, 512, 4096), "legal"),
        ("256x256 plain", (300, 512, 4096), "illegal"),
        ("256x256 plain", (512, 512, 4096), "suspect"),
    ],
)
def test_the_rules_that_come_with_mxtune(
    label: str, shape: tuple[int, int, int], grade: str
) -> None:
    rules = load_asm_rules()
    name = next(facts.name for facts in rules.kernels if facts.label == label)
    assert rules.grade(name, Shape(*shape)).grade == grade


def test_every_kernel_of_the_catalogue_has_rules_and_alpha_must_be_one() -> None:
    rules = load_asm_rules("gfx950:sramecc+:xnack-")
    assert len(rules.kernels) == 35
    honoured = [facts.label for facts in rules.kernels if facts.alpha == "honoured"]
    assert honoured == ["128x512", "256x256", "256x256 plain"]
    assert {facts.beta for facts in rules.kernels} == {"ignored"}
