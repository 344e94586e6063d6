"""Of several tables the better evidence counts, in whatever order they are given."""

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from tests.tables import entry, measured, modelled, raw_entry, reported, table

from mxtune.configs.errors import ConfigError, NoRouteError
from mxtune.configs.evidence import Evidence
from mxtune.configs.table import Default, Entry, RouteTable
from mxtune.results.merge import Merged, merge
from mxtune.results.table_files import TableFile, read_table_file

SHAPE = (16, 512, 1024)
NAMES = ("a.json", "b.json", "c.json")
HOT = {"regime": "hot graph"}


def files(folder: Path, tables: Sequence[RouteTable]) -> list[TableFile]:
    """Write tables as a.json, b.json, ... and read them."""
    for name, given in zip(NAMES, tables, strict=False):
        given.save(folder / name)
    return [read_table_file(folder / name) for name in NAMES[: len(tables)]]


def merged(folder: Path, *tables: RouteTable) -> Merged:
    return merge(files(folder, tables))


def told(found: Merged, folder: Path) -> list[str]:
    return [str(conflict).replace(f"{folder}/", "") for conflict in found.conflicts]


def in_any_order(folder: Path, *tables: RouteTable) -> str:
    """Merge in every order; return the text, which must always be the same."""
    texts = {merge(order).table.text() for order in permutations(files(folder, tables))}
    (text,) = texts
    return text


def with_route(family: str, evidence: Evidence, **made: Any) -> RouteTable:
    return table(entry(SHAPE, family, evidence), **made)


def test_one_table_alone_stays_as_it_is(tmp_path: Path) -> None:
    alone = table(
        entry(SHAPE, "fused", measured(5.0)),
        default=Default(family="direct", config={"BLOCK_M": 64}),
        partition="SPX",
        driver="ROCm 7.1",
    )
    assert merged(tmp_path, alone) == Merged(alone, ())
    assert merged(tmp_path, alone, alone) == Merged(alone, ())


def test_routes_of_different_shapes_are_all_kept_by_shape(tmp_path: Path) -> None:
    first = table(entry((64, 512, 1024)), entry((4, 512, 1024)))
    second = table(entry(SHAPE), entry((16, 512, 512)))
    found = merged(tmp_path, first, second)
    assert [route.shape for route in found.table.routes] == [
        (4, 512, 1024),
        (16, 512, 512),
        (16, 512, 1024),
        (64, 512, 1024),
    ]
    assert found.conflicts == ()
    in_any_order(tmp_path, first, second)


@pytest.mark.parametrize(
    ("better", "worse", "why"),
    [
        (measured(9.0), modelled(1.0), "measured counts more than modelled"),
        (measured(9.0), reported(1.0), "measured counts more than reported"),
        (modelled(9.0), reported(1.0), "modelled counts more than reported"),
        (measured(5.0), measured(5.5), "5 us against 5.5 us, both measured"),
        (modelled(5.0), modelled(5.5), "score 5 against score 5.5, both modelled"),
        (reported(5.0), reported(5.5), "5 us against 5.5 us, both reported"),
        (reported(5.0), reported(None), "5 us against no time, both reported"),
    ],
)
def test_the_better_evidence_counts_in_any_order(
    tmp_path: Path, better: Evidence, worse: Evidence, why: str
) -> None:
    tables = with_route("fused", better), with_route("direct", worse)
    for order in (tables, tables[::-1]):
        found = merged(tmp_path, *order)
        assert [e.family for e in found.table.routes] == ["fused"]
        assert [e.evidence for e in found.table.routes] == [better]
        won, lost = NAMES[order.index(tables[0])], NAMES[order.index(tables[1])]
        assert told(found, tmp_path) == [
            f"16x512x1024: fused 16x64x256 of {won} counts, not direct 16x64x256 of {lost}: {why}"
        ]
    in_any_order(tmp_path, *tables)


def test_of_three_tables_the_best_counts_in_any_order(tmp_path: Path) -> None:
    tables = (
        with_route("fused", measured(5.0)),
        with_route("direct", measured(4.0)),
        with_route("splitk", reported(1.0)),
    )
    text = in_any_order(tmp_path, *tables)
    assert text == tables[1].text()
    assert len(merged(tmp_path, *tables).conflicts) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [("cold eager", "hot graph"), ("cold eager", None), (None, None)],
)
def test_times_of_different_or_unknown_regimes_do_not_compare(
    tmp_path: Path, first: str | None, second: str | None
) -> None:
    slow = with_route("fused", measured(9.0), regime=first)
    fast = with_route("direct", measured(5.0), regime=second)
    found = merged(tmp_path, slow, fast)
    assert [e.family for e in found.table.routes] == ["fused"]
    regimes = f"{first or 'unknown'!r} and {second or 'unknown'!r}"
    assert told(found, tmp_path) == [
        "16x512x1024: fused 16x64x256 of a.json counts, not direct 16x64x256 of b.json: "
        f"times of the regimes {regimes} do not compare, and the first given counts"
    ]
    assert found.table.made.regime is None
    assert [e.family for e in merged(tmp_path, fast, slow).table.routes] == ["direct"]


def test_among_regimes_the_fastest_of_the_first_counts(tmp_path: Path) -> None:
    found = merged(
        tmp_path,
        with_route("fused", measured(9.0)),
        with_route("direct", measured(1.0), **HOT),
        with_route("splitk", measured(8.0)),
    )
    assert [e.family for e in found.table.routes] == ["splitk"]


def test_scores_of_different_releases_do_not_compare(tmp_path: Path) -> None:
    older = with_route("fused", modelled(9.0), mxtune="0.0.9")
    found = merged(tmp_path, older, with_route("direct", modelled(5.0)))
    assert [e.family for e in found.table.routes] == ["fused"]
    assert told(found, tmp_path) == [
        "16x512x1024: fused 16x64x256 of a.json counts, not direct 16x64x256 of b.json: "
        "scores of mxtune '0.0.9' and '0.1.0' do not compare, and the first given counts"
    ]


def test_of_equal_figures_the_first_given_counts(tmp_path: Path) -> None:
    found = merged(
        tmp_path, with_route("fused", reported(5.0)), with_route("direct", reported(5.0))
    )
    assert [e.family for e in found.table.routes] == ["fused"]
    assert told(found, tmp_path)[0].endswith(
        ": both are reported, 5 us, and the first given counts"
    )


def test_the_same_launch_is_no_conflict_and_keeps_its_better_evidence(tmp_path: Path) -> None:
    first = table(entry(SHAPE, "fused", measured(5.0)))
    second = table(entry(SHAPE, "fused", measured(4.0), group_m=4))  # of one row of tiles
    assert merged(tmp_path, first, second).conflicts == ()
    assert in_any_order(tmp_path, first, second) == second.text()


def test_a_route_that_is_unknown_here_is_merged_like_any_other(tmp_path: Path) -> None:
    newer = table(raw_entry(SHAPE, "faster", measured(4.0), **{"new\nsetting": 1}))
    found = merged(tmp_path, newer, table(entry(SHAPE, "fused", measured(5.0))))
    assert [e.family for e in found.table.routes] == ["faster"]
    assert told(found, tmp_path) == [
        "16x512x1024: 'faster' (unknown) of a.json counts, not fused 16x64x256 of b.json: "
        "4 us against 5 us, both measured"
    ]
    other = table(raw_entry(SHAPE, "fastest", measured(9.0)))
    assert len(merged(tmp_path, newer, other).conflicts) == 1


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (
            table(entry(SHAPE), arch="sm_90"),
            "device.arch is 'gfx950' in one and 'sm_90' in the other",
        ),
        (
            table(entry(SHAPE), compute_units=128),
            "device.compute_units is 256 in one and 128 in the other",
        ),
        (table(entry(SHAPE), rule="floor"), "made.rule is 'even' in one and 'floor' in the other"),
    ],
)
def test_tables_that_may_not_stand_in_one_are_refused(  # BL-004, BL-040
    tmp_path: Path, other: RouteTable, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        merged(tmp_path, table(entry(SHAPE)), table(), other)
    assert str(caught.value) == (f"{tmp_path}/b.json and {tmp_path}/c.json cannot be merged: {why}")


def test_features_of_an_architecture_are_no_difference(tmp_path: Path) -> None:  # BL-042
    first = table(entry(SHAPE), arch="gfx950:sramecc+:xnack-")
    found = merged(tmp_path, first, table(entry((4, 512, 1024))))
    assert found.table.device.arch == "gfx950"


def test_tables_without_a_route_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRouteError, match=r"^no table has a route; nothing to write$"):
        merged(tmp_path, table(), table())


def reaching(m: int, reach: int | None) -> Entry:
    return entry((m, 512, 1024), "fused", measured(m)).model_copy(update={"reach": reach})


def test_a_reach_is_kept_where_the_next_m_is_the_one_it_was_measured_beside(tmp_path: Path) -> None:
    first = table(reaching(1, 3), reaching(8, 12), reaching(16, None), reaching(64, 90))
    others = entry((2, 512, 512)), entry((99, 768, 1024))
    second = table(entry((10, 512, 1024)), entry((99, 512, 1024)), *others)
    found = merged(tmp_path, first, second).table
    assert {e.shape[0]: e.reach for e in found.routes if e.shape[1:] == (512, 1024)} == {
        1: 3,
        8: None,  # 10 is next, not 16
        10: None,
        16: None,
        64: None,  # nothing was next
        99: None,
    }
    assert in_any_order(tmp_path, first, second) == found.text()
    assert merged(tmp_path, first, table(*others)).table.routes[-2].reach == 90


def test_tables_that_come_with_mxtune_merge_and_load_again(tmp_path: Path) -> None:
    shipped = Path(__file__).parent.parent / "results" / "tables" / "mi355x-starting.json"
    csv = Path(__file__).parent / "data" / "aiter-tuned.csv"
    found = merge([read_table_file(shipped), read_table_file(csv)])
    found.table.save(tmp_path / "all.json")
    assert RouteTable.load(tmp_path / "all.json") == found.table
    assert len(found.table.routes) == 12
