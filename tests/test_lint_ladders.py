"""Lint looks along M: more rows must not be faster, gaps must not be wide, B must lie one way."""

from pathlib import Path

import pytest
from tests.tables import entry, measured, modelled, reported, saved, table

from mxtune.configs.evidence import Evidence
from mxtune.results.installed import Installed
from mxtune.results.lint import lint

HERE = Installed("2.10.0", "3.6.0", no_kernels="there is no AITER")
N, K = 512, 1024


def monotonic(tmp_path: Path, *evidence: Evidence) -> list[tuple[str, str]]:
    """Lint M = 1, 2, 4, ... with this evidence; return which shapes are slow, and why."""
    rows = [entry((2**at, N, K), "fused", found) for at, found in enumerate(evidence)]
    path = saved(tmp_path / "routes.json", table(*rows))
    found = [f for f in lint([path], None, HERE) if f.rule == "monotonic"]
    assert {f.severity for f in found} <= {"warning"}
    return [(str(f.shape), f.message) for f in found]


def test_a_measured_route_slower_than_one_for_more_rows_is_named(tmp_path: Path) -> None:
    assert monotonic(tmp_path, measured(5.0), measured(9.0, 0.5), measured(6.0, 0.5)) == [
        ("2x512x1024", "9 us, 1.50 times the 6 us of 4x512x1024 (routes.2)")
    ]


def test_measured_times_whose_spreads_meet_are_no_news(tmp_path: Path) -> None:
    assert monotonic(tmp_path, measured(9.0, 1.5), measured(6.0, 1.5)) == []
    assert len(monotonic(tmp_path, measured(9.0, 1.4), measured(6.0, 1.5))) == 1


def test_a_difference_within_the_tie_band_is_no_news(tmp_path: Path) -> None:
    assert monotonic(tmp_path, measured(10.09), measured(10.0)) == []
    assert len(monotonic(tmp_path, measured(10.11), measured(10.0))) == 1


def test_reported_times_have_a_tolerance(tmp_path: Path) -> None:
    assert monotonic(tmp_path, reported(10.9), reported(10.0)) == []
    assert monotonic(tmp_path, reported(11.1), reported(10.0)) == [
        ("1x512x1024", "11.1 us, 1.11 times the 10 us of 2x512x1024 (routes.1)")
    ]


def test_every_slow_route_is_named_once_beside_the_fastest_of_more_rows(tmp_path: Path) -> None:
    times = (measured(us) for us in (9.0, 8.0, 3.0, 7.0, 4.0, 5.0))
    assert monotonic(tmp_path, *times) == [
        ("1x512x1024", "9 us, 3.00 times the 3 us of 4x512x1024 (routes.2)"),
        ("2x512x1024", "8 us, 2.67 times the 3 us of 4x512x1024 (routes.2)"),
        ("8x512x1024", "7 us, 1.75 times the 4 us of 16x512x1024 (routes.4)"),
    ]


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        (measured(9.0), reported(5.0)),
        (reported(9.0), measured(5.0)),
        (modelled(9.0), modelled(5.0)),  # a score is no time
        (modelled(9.0), measured(5.0)),
        (reported(9.0, "a forum"), reported(5.0, "a table")),
        (reported(9.0), reported(None)),
        (reported(None), reported(5.0)),
    ],
)
def test_times_of_different_kinds_or_sources_are_never_compared(
    tmp_path: Path, slow: Evidence, fast: Evidence
) -> None:
    assert monotonic(tmp_path, slow, fast) == []


def test_other_evidence_between_two_measurements_does_not_hide_them(tmp_path: Path) -> None:
    found = monotonic(tmp_path, measured(9.0), reported(1.0), measured(5.0))
    assert [shape for shape, _ in found] == ["1x512x1024"]


def test_times_of_different_weights_are_not_compared(tmp_path: Path) -> None:
    rows = [
        entry((1, N, K), "fused", measured(9.0)),
        entry((2, N, 2 * K), "fused", measured(5.0)),
        entry((2, 2 * N, K), "fused", measured(5.0)),
    ]
    path = saved(tmp_path / "routes.json", table(*rows))
    assert [f for f in lint([path], None, HERE) if f.rule == "monotonic"] == []


def test_kernels_of_a_csv_that_are_not_ours_have_times_too(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "data" / "aiter-tuned.csv").read_text("utf-8")
    (tmp_path / "tuned.csv").write_text(
        text.replace("128,512,1024,4,0,8.0", "128,512,1024,4,0,10.0")
    )
    found = [f for f in lint([tmp_path / "tuned.csv"], None, HERE) if f.rule == "monotonic"]
    assert [(f.place, str(f.shape), f.message) for f in found] == [
        ("line 8", "128x512x1024", "10 us, 1.11 times the 9 us of 512x512x1024 (line 9)")
    ]


def holes(tmp_path: Path, *ladder: int) -> list[tuple[str, str, str]]:
    rows = [entry((m, N, K)) for m in ladder]
    found = lint([saved(tmp_path / "routes.json", table(*rows))], None, HERE)
    return [(f.severity, f.place, f.message) for f in found if f.rule == "hole"]


def test_neighbours_of_up_to_four_times_have_no_hole_between(tmp_path: Path) -> None:
    assert holes(tmp_path, 1, 4, 16, 64) == []


def test_a_wider_step_is_a_hole(tmp_path: Path) -> None:
    assert holes(tmp_path, 1, 4, 17) == [
        ("note", "routes.1", "the next M is 17, 4.2 times as much: none between")
    ]


def test_below_the_smallest_m_is_a_hole(tmp_path: Path) -> None:  # BL-045
    assert holes(tmp_path, 2, 8) == [
        ("note", "routes.0", "the smallest M here: its route serves all below")
    ]


def test_a_reach_beyond_the_next_m_is_a_warning(tmp_path: Path) -> None:
    reach = {(1, N): 4, (4, N): 15, (16, N): 99, (1, 2 * N): None}
    rows = [entry((m, n, K)).model_copy(update={"reach": r}) for (m, n), r in reach.items()]
    path = saved(tmp_path / "routes.json", table(*rows))
    found = [f for f in lint([path], None, HERE) if f.rule == "reach"]
    assert [(f.severity, f.place, str(f.shape), f.message) for f in found] == [
        ("warning", "routes.0.reach", "1x512x1024", "reaches up to M 4, but routes.2 is for 4")
    ]


def layouts(tmp_path: Path, *routes: tuple[int, str]) -> list[tuple[str, str, str]]:
    """Lint one (N, K) with a family for each M."""
    rows = [entry((m, 2880, K), family) for m, family in routes]
    found = lint([saved(tmp_path / "routes.json", table(*rows))], None, HERE)
    return [(f.severity, f.place, f.message) for f in found if f.rule == "layouts"]


def test_one_layout_of_b_is_kept_once(tmp_path: Path) -> None:
    assert layouts(tmp_path, (1, "fused"), (2, "direct"), (4, "splitk")) == []
    assert layouts(tmp_path, (1, "fused_preshuffle"), (2, "asm"), (4, "aiter")) == []


def test_two_layouts_of_b_are_a_warning_with_what_they_cost(tmp_path: Path) -> None:
    assert layouts(tmp_path, (1, "fused"), (2, "fused_preshuffle"), (4, "asm")) == [
        (
            "warning",
            "routes.1",
            "reads shuffled codes of B, 1x2880x1024 plain ones: a second copy, 1.4 MiB",
        )
    ]


def test_two_layouts_of_the_scales_are_told_apart(tmp_path: Path) -> None:
    assert layouts(tmp_path, (1, "fused"), (2, "aiter_a16")) == [
        (
            "warning",
            "routes.1",
            "reads plain scales of B, 1x2880x1024 shuffled ones: a second copy, 90.0 KiB",
        )
    ]


def test_a_setting_decides_the_layout_too(tmp_path: Path) -> None:
    rows = [entry((1, N, K), "direct"), entry((2, N, K), "direct", weights="shuffled")]
    found = lint([saved(tmp_path / "routes.json", table(*rows))], None, HERE)
    assert [f.place for f in found if f.rule == "layouts"] == ["routes.1"]


def test_a_route_that_cannot_be_used_keeps_no_layout(tmp_path: Path) -> None:
    rows = [entry((1, N, K)), entry((2, N, K), "fused_preshuffle", num_warps=1)]
    found = lint([saved(tmp_path / "routes.json", table(*rows))], None, HERE)
    assert [f.rule for f in found] == ["illegal"]
