"""From what emulation found: the table that is printed, and the rules that are kept."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from mxtune.configs.asm_rules import (
    GRADES,
    AsmFacts,
    AsmRule,
    AsmRules,
    Grade,
    Need,
    load_asm_rules,
)
from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels.asm_catalogue import AsmKernel
from mxtune.kernels.layouts import WEIGHT_BYTES
from mxtune.tuner.emulate.asm_cases import CaseResult, TileRow

COLUMNS = (
    "tile", "exact", "ragged M", "ragged N", "N%32=16", "ragged K", "short K", "split", "alpha",
    "beyond its operands",
)  # fmt: skip

_DIGITS = 16  # of a digest: enough to tell objects apart
_K_STEP = 256  # what the kernels' loops take in at once; they read the scales of as much
_HEAD = """\
# Where AITER's ASM kernels may be used; configs/asm_rules.py says what this means.
# Made by `mxtune verify --emulate --asm all --aiter DIR --rules FILE`; do not edit it by hand.
"""


def cells(row: TileRow) -> tuple[str, ...]:
    """Return the cells of one kernel's row, in the order of COLUMNS."""
    beyond = dict.fromkeys(access.what for result in row.results for access in result.beyond)
    return (
        row.kernel.label,
        _told(row.of("exact"), "m"),
        _told(row.of("ragged_m"), "m"),
        _told(row.of("ragged_n"), "n"),
        _told(row.of("odd_n"), "n"),
        _told(row.of("ragged_k"), "k"),
        _told(row.of("short_k"), "k"),
        _told(row.of("split"), "k") if row.kernel.split_k else "none",
        row.of("alpha")[0].effect,
        "; ".join(beyond) or "nothing",
    )


def _told(results: Sequence[CaseResult], dimension: str) -> str:
    """Say at which sizes of a dimension something is amiss, and what."""
    by_state: dict[str, list[str]] = {}
    for result in results:
        state = _state(result)
        if state:
            by_state.setdefault(state, []).append(str(getattr(result.case.shape, dimension)))
    return "; ".join(f"{state} at {', '.join(at)}" for state, at in by_state.items()) or "right"


def _state(result: CaseResult) -> str:
    if result.races:
        return "by order"
    if not result.right:
        return "wrong"
    if result.beyond:
        return "beyond"
    return "faulty" if result.faults else ""


def unexpected(row: TileRow, rules: AsmRules | None = None) -> tuple[CaseResult, ...]:
    """Return the results that are worse than ``rules`` (those that come with mxtune) have it."""
    known = rules or load_asm_rules()
    return tuple(result for result in row.results if _surprises(row.kernel, result, known))


def _surprises(kernel: AsmKernel, result: CaseResult, rules: AsmRules) -> bool:
    case = result.case
    if result.clean:
        return False
    expected = rules.grade(kernel.name, case.shape, case.options.log2_k_split).grade
    # padding that is not zero is asked about to see it go wrong: why such a K is suspect
    found = "suspect" if case.question == "padding" else _grade(result)
    return GRADES.index(found) > GRADES.index(expected)


def rules_text(rows: Iterable[TileRow], release: str | None) -> str:
    """Return the text of the file of rules."""
    made = f"made: {_flow({'aiter': release or 'unknown', 'how': 'emulated'})}\n"
    return _HEAD + made + "kernels:\n" + "".join(_entry(facts_of(row)) for row in rows)


def _entry(facts: AsmFacts) -> str:
    """Write one kernel, a line for each of its rules."""
    plain = asdict(facts)
    rules = [_flow(rule) for rule in plain.pop("rules")]
    name, *rest = (f"{key}: {json.dumps(value)}\n" for key, value in plain.items())
    lines = [f"  - {name}", *(f"    {line}" for line in rest), "    rules:\n"]
    return "".join([*lines, *(f"      - {rule}\n" for rule in rules)])


def _flow(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in values.items()) + "}"


def facts_of(row: TileRow) -> AsmFacts:
    """Return what is kept of one kernel."""
    return AsmFacts(
        name=row.kernel.name,
        label=row.kernel.label,
        digest=row.digest[:_DIGITS],
        alpha=row.of("alpha")[0].effect,
        beta=row.of("beta")[0].effect,
        rules=tuple(_rules(row)),
    )


def _rules(row: TileRow) -> Iterator[AsmRule]:
    kernel = row.kernel
    yield from _rule("never", 0, _fault_of_all(row), row.of("exact"))
    yield from _rule(
        "m_multiple", kernel.tile_m, f"M must be a multiple of {kernel.tile_m}", row.of("ragged_m")
    )
    yield from _n_rules(row)
    yield from _k_rules(row)
    yield from _split_rules(row)


def _fault_of_all(row: TileRow) -> str:
    """Say what is amiss even where the tile fits."""
    (exact,) = row.of("exact")
    kinds = ", ".join(fault.kind.replace("_", " ") for fault in exact.faults)
    return f"its code has a {kinds}" if exact.right and kinds else "wrong even where the tile fits"


def _n_rules(row: TileRow) -> Iterator[AsmRule]:
    tile_n = row.kernel.tile_n
    ragged, odd = row.of("ragged_n"), row.of("odd_n")
    raced = any(result.races for result in ragged)
    why = ": the last columns of C are not masked and race with the next row" if raced else ""
    reason = f"N must be a multiple of {tile_n}{why}"
    yield from _rule("n_multiple", tile_n, reason, ragged)
    if all(result.clean for result in ragged):
        reason = f"N must be a multiple of {SCALE_BLOCK}"
        yield from _rule("n_multiple", SCALE_BLOCK, reason, odd)


def _k_rules(row: TileRow) -> Iterator[AsmRule]:
    block = 2 * WEIGHT_BYTES if row.kernel.shuffled_weights else SCALE_BLOCK
    reason = f"K must be a multiple of {block}"
    yield AsmRule("k_multiple", block, "illegal", reason, "the layouts of B and of scales")
    short = [result for result in row.of("short_k") if not result.clean]
    if short:
        least = _next_k(row, max(result.case.shape.k for result in short))
        yield from _rule("k_at_least", least, f"K must be at least {least}", short)
    ragged = row.of("ragged_k")
    yield from _rule("k_multiple", _K_STEP, f"K must be a multiple of {_K_STEP}", ragged)
    if all(result.clean for result in ragged) and not row.of("padding")[0].clean:
        reason = f"with K no multiple of {_K_STEP} the padding of scales must be zero"
        yield _suspect("k_multiple", _K_STEP, reason, row.of("padding"))


def _next_k(row: TileRow, k: int) -> int:
    """Return the smallest K tried that is larger than ``k``."""
    return min(result.case.shape.k for result in row.results if result.case.shape.k > k)


def _split_rules(row: TileRow) -> Iterator[AsmRule]:
    if not row.kernel.split_k:
        reason, evidence = "it cannot split K", "AITER's catalogue"
        yield AsmRule("log2_k_split_at_most", 0, "illegal", reason, evidence)
        return
    results = row.of("split")
    cost = max(result.worst for result in results)
    reason = f"splits add up in bf16, {cost:.0f} times the error that the gate allows"
    yield _suspect("log2_k_split_at_most", 0, reason, results[:1])
    shares = {result: _share(result) for result in results}
    amiss = [share for result, share in shares.items() if not result.clean]
    if amiss:
        least = min((s for s in shares.values() if s > max(amiss)), default=2 * max(amiss))
        bad = [result for result in results if not result.clean]
        yield from _rule("k_share_at_least", least, f"a split must have K of at least {least}", bad)


def _share(result: CaseResult) -> int:
    return result.case.shape.k >> result.case.options.log2_k_split


def _rule(need: Need, value: int, reason: str, results: Sequence[CaseResult]) -> Iterator[AsmRule]:
    """Yield the rule if any of the results speaks for it, as strict as the worst asks."""
    amiss = [result for result in results if not result.clean]
    if amiss:
        worst = max(amiss, key=lambda result: (GRADES.index(_grade(result)), result.races))
        yield AsmRule(need, value, _grade(worst), reason, f"emulated {worst}")


def _suspect(need: Need, value: int, reason: str, results: Sequence[CaseResult]) -> AsmRule:
    return AsmRule(need, value, "suspect", reason, f"emulated {results[0]}")


def _grade(result: CaseResult) -> Grade:
    """Illegal if C may be wrong or anything else is overwritten, suspect for lesser faults."""
    if not result.right or result.races or any(access.writes for access in result.beyond):
        return "illegal"
    return "suspect"
