"""What a merged table says of its making, its device and its default."""

from pathlib import Path

from tests.tables import entry, measured, table
from tests.test_merge import SHAPE, in_any_order, merged, told

from mxtune.configs.table import Default


def test_what_tables_say_of_their_making_is_kept_where_all_agree(tmp_path: Path) -> None:
    first = table(
        entry(SHAPE, "fused", measured(5.0)), driver="ROCm 7.1", aiter="0.1.5", partition="SPX"
    )
    second = table(
        entry((4, 512, 1024), "fused", measured(4.0)),
        at="2027-01-01T00:00:00+00:00",
        triton="3.7.0",
        aiter="0.1.7",
        driver="ROCm 7.1",
        partition="DPX",
    )
    text = in_any_order(tmp_path, first, second)
    made = merged(tmp_path, first, second).table.made
    assert made.model_dump() == {
        "at": "2027-01-01T00:00:00+00:00",
        "mxtune": "0.1.0",
        "torch": "2.10.0",
        "triton": None,
        "aiter": None,
        "driver": "ROCm 7.1",
        "rule": "even",
        "regime": "cold eager",
    }
    assert '"partition": null' in text


def test_a_table_without_measured_routes_has_no_say_in_the_regime(tmp_path: Path) -> None:
    timed = table(entry(SHAPE, "fused", measured(5.0)))
    other = table(entry((4, 512, 1024)), regime=None)
    assert merged(tmp_path, timed, other).table.made.regime == "cold eager"
    assert merged(tmp_path, other, timed).table.made.regime == "cold eager"


def test_a_default_is_kept_if_one_table_has_it_or_all_agree(tmp_path: Path) -> None:
    default = Default(family="fused", config={"BLOCK_M": 64})
    same = Default(family="fused", config={"BLOCK_M": 64, "BLOCK_N": 64})  # which is its default
    for tables in (
        (table(entry(SHAPE)), table(default=default)),
        (table(entry(SHAPE), default=default), table()),
        (table(entry(SHAPE), default=default), table(default=same)),
    ):
        found = merged(tmp_path, *tables)
        assert (found.table.default, found.conflicts) == (default, ())


def test_of_two_defaults_the_first_counts_and_it_is_told(tmp_path: Path) -> None:
    first, second = (Default(family=name, config={}) for name in ("fused", "direct"))
    found = merged(tmp_path, table(entry(SHAPE), default=first), table(default=second))
    assert found.table.default == first
    assert told(found, tmp_path) == [
        "default: fused 16x64x256 of a.json counts, not direct 16x64x256 of b.json: "
        "no evidence decides, and the first given counts"
    ]


def test_two_defaults_that_are_unknown_are_not_taken_for_one(tmp_path: Path) -> None:
    first, second = (Default(family=name, config={}) for name in ("faster", "fastest"))
    found = merged(tmp_path, table(entry(SHAPE), default=first), table(default=second))
    assert len(found.conflicts) == 1


def test_the_name_of_the_device_is_the_first_ones(tmp_path: Path) -> None:
    first = table(entry(SHAPE))
    renamed = first.device.model_copy(update={"name": "MI355X OAM"})
    found = merged(tmp_path, first.model_copy(update={"device": renamed}), first)
    assert found.table.device.name == "MI355X OAM"
