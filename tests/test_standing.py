"""What a table is worth on a GPU: refusals cost routes, doubts are said once."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Checked, Evidence, Measured, Objects, Reported
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels import standing as module
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.registry import family
from mxtune.kernels.standing import Standing, standing_of

GFX950 = load_device("gfx950")
SHAPE = Shape(16, 64, 256)
OTHER = Shape(64, 64, 256)
REPORTED = Reported(source="a test")
MEASURED = Measured(
    median_us=5.0,
    low_us=4.9,
    high_us=5.1,
    rounds=100,
    deterministic=True,
    error=Checked(where="gpu", shape=(16, 64, 256), seeds=2, worst=0.5, largest_error=0.1),
    objects=Objects(lds_bytes=0),
)


def entry(
    shape: Shape, evidence: Evidence = REPORTED, name: str = "fused", **changes: Any
) -> Entry:
    config = family("fused").fallback(shape).changed(**changes)
    return Entry(
        shape=(shape.m, shape.n, shape.k), family=name, config=dict(config), evidence=evidence
    )


def table(*entries: Entry, arch: str = "gfx950", units: int = 256, **made: Any) -> RouteTable:
    facts = {"at": "2026-01-01T00:00:00+00:00", "mxtune": "0.1.0", "triton": "3.6.0"} | made
    return RouteTable(
        device=DeviceInfo(arch=arch, name="a GPU", compute_units=units),
        made=Made.model_validate(facts),
        routes=entries,
    )


@pytest.fixture(autouse=True)
def triton_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_triton", lambda: "3.6.0")


def told(found: Standing) -> str:
    assert len(found.warning.splitlines()) <= 1
    return found.warning


def test_a_table_for_this_gpu_is_worth_all_its_routes() -> None:
    found = standing_of(table(entry(SHAPE, MEASURED), entry(OTHER, MEASURED)), GFX950)
    assert (found.summary, told(found)) == ("2 of 2 routes usable here", "")


# BL-040, BL-042
def test_another_architecture_refuses_every_route_and_names_both() -> None:
    found = standing_of(table(entry(SHAPE), arch="gfx942:sramecc+"), GFX950)
    assert told(found) == (
        "0 of 1 routes usable here: the table is for gfx942 (a GPU), this is "
        "AMD Instinct MI355X (gfx950, 256 CUs)"
    )
    choice = found.lookup().find(16, 64, 256)
    assert choice.route.family == "direct"
    assert choice.why.startswith("always legal: the table is for gfx942")
    suffixed = standing_of(table(entry(SHAPE), arch="gfx950:sramecc+:xnack-"), GFX950)
    assert suffixed.summary == "1 of 1 routes usable here"


def test_another_scale_rule_refuses_every_route() -> None:
    found = standing_of(table(entry(SHAPE), rule="floor"), GFX950)
    assert found.summary == "0 of 1 routes usable here"
    assert "the table is for the scale rule 'floor', A is quantised by 'even'" in told(found)


# BL-054, BL-047
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (entry(SHAPE, name="unheard"), "no family is called 'unheard'"),
        (entry(SHAPE, BLOCK_M=24), "fused: BLOCK_M must be one of"),
        (entry(SHAPE, num_warps=3), "fused: num_warps must be one of"),
        (entry(SHAPE, BLOCK_K=0), "fused: BLOCK_K must be one of"),
        (entry(SHAPE, num_stages=-1), "fused: num_stages must be one of"),
        (entry(SHAPE, BLOCK_Z=1), "fused has no 'BLOCK_Z'"),
    ],
)
def test_a_route_that_cannot_be_costs_that_route(wrong: Entry, reason: str) -> None:
    found = standing_of(table(wrong, entry(OTHER)), GFX950)
    assert list(found.usable) == [OTHER]
    assert told(found).startswith("1 of 2 routes usable here: routes.0 (16x64x256): ")
    assert reason in told(found)


def test_a_kernel_of_aiter_without_aiter_costs_that_route() -> None:  # BL-047
    config = family("asm").fallback(Shape(32, 128, 256))
    asm = Entry(shape=(32, 128, 256), family="asm", config=dict(config), evidence=REPORTED)
    found = standing_of(table(asm, entry(OTHER)), GFX950)
    assert list(found.usable) == [OTHER]
    assert "aiter is not installed" in told(found)


def test_many_refusals_are_counted() -> None:
    wrong = [entry(Shape(m, 64, 256), name="unheard") for m in range(1, 8)]
    assert told(standing_of(table(*wrong), GFX950)).endswith("and 4 more")


# BL-058, BL-040
@pytest.mark.parametrize(
    ("made", "units", "doubt"),
    [
        ({"triton": "3.0.0"}, 256, "measured with triton 3.0.0, here is 3.6.0"),
        ({"triton": None}, 256, "it does not say by which triton it was measured"),
        ({"driver": "ROCm 7.0"}, 256, "measured with ROCm 7.0, here is ROCm 7.1"),
        ({}, 128, "measured on 128 CUs, here are 256"),
    ],
)
def test_what_may_change_the_winner_is_said_and_the_routes_stay(
    made: dict[str, Any], units: int, doubt: str
) -> None:
    found = standing_of(table(entry(SHAPE, MEASURED), units=units, **made), GFX950, "ROCm 7.1")
    assert told(found) == f"1 of 1 routes usable here: {doubt}"
    assert found.lookup().find(16, 64, 256).why.startswith("exact")


def test_a_table_that_nobody_measured_is_not_doubted() -> None:
    assert told(standing_of(table(entry(SHAPE), triton=None, units=128), GFX950)) == ""


def test_no_table_is_no_reason_to_warn() -> None:
    found = standing_of(None, GFX950)
    assert told(found) == ""
    assert found.lookup().find(1, 1, 32).why == "always legal: there is no table"


def test_a_dispatcher_warns_once_for_each_gpu() -> None:
    gemm = Dispatcher(table(entry(SHAPE), arch="gfx942"), source="mine.json")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for shape in (SHAPE, OTHER, SHAPE):
            assert gemm.choose(shape, GFX950).step == "always legal"
        gemm.choose(SHAPE, replace(GFX950, compute_units=128))
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert texts[0].startswith("mine.json: 0 of 1 routes usable here: the table is for gfx942")


def test_a_damaged_file_is_one_warning_and_what_is_sound_serves(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    text = table(entry(SHAPE), entry(OTHER)).text()
    path.write_text(text.replace('"family": "fused"', '"family": 7', 1), "utf-8")
    with pytest.warns(UserWarning, match="routes.json: not used: routes.0.family: Input should"):
        gemm = Dispatcher.load(path)
    assert gemm.choose(OTHER, GFX950).step == "exact"
    assert gemm.choose(SHAPE, GFX950).step == "bucket"
    path.write_text(text[:-20], "utf-8")
    with pytest.warns(UserWarning, match="routes.json: not used: not JSON"):
        gemm = Dispatcher.load(path)
    assert gemm.choose(SHAPE, GFX950).step == "always legal"
    assert path.read_text("utf-8") == text[:-20]
    with pytest.raises(ConfigError, match="cannot be read"):
        Dispatcher.load(tmp_path / "nowhere.json")
