"""Lint tells what a table was made with and for: versions, scale rule, GPU."""

from pathlib import Path
from typing import Any

import pytest
from tests.tables import entry, measured, saved, table

from mxtune.configs.table import Default, RouteTable
from mxtune.results.installed import Installed, installed
from mxtune.results.lint import lint

HERE = Installed("2.10.0+cpu", "3.6.0", "0.1.7 commit 0123abc", no_kernels="not looked at")
BARE = Installed(no_kernels="there is no AITER")
OURS, AITERS = entry((1, 512, 1024)), entry((1, 512, 1024), "aiter_a16")


def told(
    tmp_path: Path, given: RouteTable, *, here: Installed = HERE, target: str | None = None
) -> list[tuple[str, str, str, str]]:
    found = lint([saved(tmp_path / "routes.json", given)], target, here)
    return [(f.severity, f.rule, f.place, f.message) for f in found if f.rule != "layouts"]


def test_a_table_made_with_what_is_here_is_sound(tmp_path: Path) -> None:
    assert told(tmp_path, table(OURS, torch="2.10.0+rocm7.1")) == []  # a build, not a release
    assert told(tmp_path, table(AITERS, aiter="0.1.7 commit 0123abc")) == []


def test_other_versions_are_notes(tmp_path: Path) -> None:  # BL-058
    given = table(AITERS, torch="2.9.1", triton="3.7.0", aiter="0.1.5")
    assert told(tmp_path, given) == [
        (
            "note",
            "versions",
            "made.torch",
            "made with torch '2.9.1'; '2.10.0+cpu' is installed here",
        ),
        ("note", "versions", "made.triton", "made with triton '3.7.0'; '3.6.0' is installed here"),
        (
            "note",
            "versions",
            "made.aiter",
            "made with aiter '0.1.5'; '0.1.7 commit 0123abc' is installed here",
        ),
    ]


def test_versions_are_only_compared_with_what_is_installed(tmp_path: Path) -> None:
    assert told(tmp_path, table(OURS, torch="2.9.1", triton="3.7.0"), here=BARE) == []


@pytest.mark.parametrize("triton", ["3.0.0", "3.5.1", "3.10.0", "4.0"])
def test_a_triton_out_of_range_is_a_warning(tmp_path: Path, triton: str) -> None:  # BL-058
    assert told(tmp_path, table(OURS, triton=triton), here=BARE) == [
        (
            "warning",
            "versions",
            "made.triton",
            f"made with triton {triton!r}: verify its routes again; triton 3.6 to 3.9 is supported",
        )
    ]


@pytest.mark.parametrize("triton", ["main", "", "3", "three.six", "3.6\n\x1b[31m"])
def test_a_triton_without_a_version_is_one_line(tmp_path: Path, triton: str) -> None:
    found = told(tmp_path, table(OURS, triton=triton), here=BARE)
    assert len(found) <= 1
    assert all(message.isprintable() for _, _, _, message in found)


def test_a_triton_that_is_no_version_is_unknown(tmp_path: Path) -> None:
    assert told(tmp_path, table(OURS, triton="main"), here=BARE) == [
        (
            "warning",
            "versions",
            "made.triton",
            "'main' is no version of triton: unknown what made it",
        )
    ]


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        (table(OURS, torch=None, triton=None), "torch, triton"),
        (table(AITERS, triton=None), "triton, aiter"),
        (table(OURS, default=Default(family="aiter", config={})), "aiter"),
    ],
)
def test_no_version_is_unknown_and_not_equal(  # BL-058
    tmp_path: Path, given: RouteTable, unknown: str
) -> None:
    why = f"no version of {unknown} is recorded: unknown whether it fits"
    assert told(tmp_path, given) == [("note", "versions", "made", why)]


def test_another_scale_rule_is_an_error(tmp_path: Path) -> None:  # BL-004
    why = "its routes were found under the scale rule 'floor'; ours is 'even'"
    assert told(tmp_path, table(OURS, rule="floor")) == [("error", "scale-rule", "made.rule", why)]


def test_a_table_without_routes_is_a_warning(tmp_path: Path) -> None:
    assert told(tmp_path, table()) == [("warning", "empty", "routes", "there is no route in it")]


def test_a_table_for_other_compute_units_names_both(tmp_path: Path) -> None:  # BL-040
    why = "for 128 compute units; AMD Instinct MI355X has 256: times may not hold there"
    assert told(tmp_path, table(OURS, compute_units=128)) == [
        ("warning", "device", "device.compute_units", why)
    ]


def test_a_partition_has_fewer_compute_units_rightly(tmp_path: Path) -> None:  # BL-040
    why = "for 128 compute units, 'DPX'; AMD Instinct MI355X has 256: times may not hold there"
    assert told(tmp_path, table(OURS, compute_units=128, partition="DPX")) == [
        ("note", "device", "device.compute_units", why)
    ]


def test_a_gpu_that_nobody_described_is_an_error_and_the_rest_is_judged(tmp_path: Path) -> None:
    given = table(
        entry((1, 512, 1024), evidence=measured(9.0)),
        entry((2, 512, 1024), evidence=measured(5.0)),
        arch="gfx942",
    )
    assert told(tmp_path, given) == [
        (
            "error",
            "device",
            "device.arch",
            "no device is called 'gfx942': one of gfx950, sm_90; "
            "its routes are not judged without --target",
        ),
        (
            "warning",
            "monotonic",
            "routes.0",
            "9 us, 1.80 times the 5 us of 2x512x1024 (routes.1)",
        ),
    ]
    assert [place for _, _, place, _ in told(tmp_path, given, target="gfx950")] == [
        "device.arch",
        "routes.0",
    ]


def test_an_architecture_with_features_is_the_bare_one(tmp_path: Path) -> None:  # BL-042
    given = table(OURS, arch="gfx950:sramecc+:xnack-")
    assert told(tmp_path, given) == []
    assert told(tmp_path, given, target="gfx950:sramecc+:xnack+") == []


def test_what_is_installed_is_found_without_importing_it() -> None:
    found = installed()
    versions: dict[str, Any] = {
        name: found.version_of(name) for name in ("torch", "triton", "aiter")
    }
    assert versions == {"torch": found.torch, "triton": found.triton, "aiter": found.aiter}
    assert bool(found.kernels) != bool(found.no_kernels)
