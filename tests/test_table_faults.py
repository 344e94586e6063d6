"""Whatever a table file holds, loading it ends in a table or in one line with file and place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.table import RouteTable, Salvaged, salvage

EVIDENCE = '{"kind": "reported", "source": "a forum", "us": 5.5}'
ROUTE = f'{{"shape": [16, 64, 64], "family": "direct", "config": {{}}, "evidence": {EVIDENCE}}}'
HEAD = (
    '{"schema": "mxtune.routes/1", "device": {"arch": "gfx950", "name": "", "compute_units": 256},'
    ' "made": {"at": "", "mxtune": "0.1.0"}, "routes": ['
)
GOOD = f"{HEAD}{ROUTE}]}}"
MEASURED: dict[str, Any] = {
    "kind": "measured",
    "median_us": 5.5,
    "low_us": 5.0,
    "high_us": 6.0,
    "rounds": 100,
    "deterministic": True,
    "error": {
        "where": "gpu",
        "shape": [16, 64, 64],
        "seeds": 2,
        "worst": 0.5,
        "largest_error": 0.1,
    },
    "objects": {"lds_bytes": 0},
}


def fault(path: Path) -> str:
    """Load a file that cannot be used and return what is said after its name."""
    with pytest.raises(ConfigError) as caught:
        RouteTable.load(path)
    name, _, message = str(caught.value).partition(": ")
    assert name == str(path)
    assert len(message.splitlines()) == 1
    return message


def fault_of(tmp_path: Path, content: str | bytes) -> str:
    path = tmp_path / "routes.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return fault(path)


def test_the_table_that_the_faults_are_made_from_loads(tmp_path: Path) -> None:
    (tmp_path / "routes.json").write_text(GOOD, "utf-8")
    assert len(RouteTable.load(tmp_path / "routes.json").routes) == 1
    measured = GOOD.replace(EVIDENCE, json.dumps(MEASURED))
    (tmp_path / "routes.json").write_text(measured, "utf-8")
    assert RouteTable.load(tmp_path / "routes.json").routes[0].evidence.kind == "measured"


# BL-053, BL-054: what a killed run, an editor or a full disk leaves
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty; no routes in it"),
        (" \n\t\n", "empty; no routes in it"),
        ("null", "not a route table: expected an object at the top"),
        (f"[{ROUTE}]", "not a route table: expected an object at the top"),
        ('"routes"', "not a route table: expected an object at the top"),
        ("\0\0\0", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff\xfe{}", "cannot be read (not UTF-8)"),
        (b'{"schema": "\xe9"}', "cannot be read (not UTF-8)"),
        ('{"a": 1, "a": 2}', "not JSON: 'a' stands twice in one object"),
        ('{"a": {"b\\n": 1, "b\\n": 2}}', "not JSON: 'b\\n' stands twice in one object"),
        ("{}", "schema None; this mxtune reads 'mxtune.routes/1'"),
        (
            GOOD.replace("routes/1", "routes/99"),
            "schema 'mxtune.routes/99'; this mxtune reads 'mxtune.routes/1'; "
            "a newer mxtune wrote it, update this one",
        ),
        ('{"schema": 1}', "schema 1; this mxtune reads 'mxtune.routes/1'"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    assert fault_of(tmp_path, content) == message


def test_a_table_cut_off_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    messages = {fault_of(tmp_path, GOOD[:end]).split(":")[0] for end in range(1, len(GOOD))}
    assert messages == {"not JSON"}


@pytest.mark.parametrize("tail", [",}", "}}", "} {", "} // end"])
def test_a_slip_at_the_end_is_refused_with_its_place(tmp_path: Path, tail: str) -> None:
    message = fault_of(tmp_path, GOOD.removesuffix("}") + tail)
    assert message.startswith("not JSON: ")
    assert "line 1 column 2" in message


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000])
def test_json_that_python_gives_up_on_is_refused(tmp_path: Path, content: str) -> None:
    assert fault_of(tmp_path, content).startswith("not JSON: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("64, 64]", "64, 33]", "routes.0.shape: K must be a multiple of 32, not 33"),
        ("[16,", "[0,", "routes.0.shape: M must be between 1 and 2147483647, not 0"),
        ("[16, 64,", "[16,", "routes.0.shape.2: Field required"),
        ("[16,", '["16",', "routes.0.shape.0: Input should be a valid integer"),
        ("[16,", "[16.0,", "routes.0.shape.0: Input should be a valid integer"),
        ("[16,", "[true,", "routes.0.shape.0: Input should be a valid integer"),
        ('"direct"', "7", "routes.0.family: Input should be a valid string"),
        (' "config": {},', "", "routes.0.config: Field required"),
        ("256", '"256"', "device.compute_units: Input should be a valid integer"),
        (', "made"', ', "mode": 1, "made"', "mode: Extra inputs are not permitted"),
        (', "made"', ', "a\\nb": 1, "made"', "a\\nb: Extra inputs are not permitted"),
        ('"a forum",', '"a forum", "by": 1,', "reported.by: Extra inputs are not permitted"),
        ("5.5", "NaN", "reported.us: Input should be a finite number"),
        ("5.5", "Infinity", "reported.us: Input should be a finite number"),
        ("5.5", "-Infinity", "reported.us: Input should be a finite number"),
        ("5.5", "1e999", "reported.us: Input should be a finite number"),
        ("5.5", "0.0", "reported.us: Input should be greater than 0"),
        ("5.5", "-0.002", "reported.us: Input should be greater than 0"),
        ("5.5", '"5.5"', "reported.us: Input should be a valid number"),
        ("5.5", "true", "reported.us: Input should be a valid number"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert message in fault_of(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize("value", ["true", "16.0", "null", "[16]", "NaN"])
def test_a_setting_is_a_whole_number_or_a_word(tmp_path: Path, value: str) -> None:
    message = fault_of(tmp_path, GOOD.replace("{}", f'{{"BLOCK_M": {value}}}', 1))
    assert message.startswith("routes.0.config.BLOCK_M.int: Input should be ")
    assert "; routes.0.config.BLOCK_M.str: Input should be a valid string" in message


@pytest.mark.parametrize("name", ["median_us", "low_us", "high_us"])
@pytest.mark.parametrize("value", [0, -1.5, float("nan"), float("inf")])
def test_a_measured_time_is_positive_and_finite(tmp_path: Path, name: str, value: float) -> None:
    evidence = json.dumps(MEASURED | {name: value})
    message = fault_of(tmp_path, GOOD.replace(EVIDENCE, evidence))
    assert message.startswith(f"routes.0.evidence.measured.{name}: Input should be ")


def test_evidence_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    message = fault_of(tmp_path, GOOD.replace('"reported"', '"guessed"'))
    assert message.startswith("routes.0.evidence: Input tag 'guessed'")


def test_a_shape_that_stands_twice_is_refused(tmp_path: Path) -> None:
    message = fault_of(tmp_path, f"{HEAD}{ROUTE}, {ROUTE}]}}")
    assert message == (
        "routes.0.shape: 16x64x64 stands more than once; "
        "routes.1.shape: 16x64x64 stands more than once"
    )


def test_every_fault_is_named_up_to_five_and_the_others_are_counted(tmp_path: Path) -> None:
    wrong = ROUTE.replace("5.5", "0")
    message = fault_of(tmp_path, f"{HEAD}{', '.join([wrong] * 7)}]}}")
    assert message.count("reported.us: Input should be greater than 0") == 5
    assert message.startswith("routes.0.evidence.reported.us: ")
    assert message.endswith("; and 2 more")


def test_a_reach_below_the_own_m_is_refused(tmp_path: Path) -> None:
    message = fault_of(tmp_path, GOOD.replace('"direct",', '"direct", "reach": 15,'))
    assert message == "routes.0.reach: 15 is below the entry's own M"


def salvaged(tmp_path: Path, content: str) -> Salvaged:
    path = tmp_path / "routes.json"
    path.write_text(content, "utf-8")
    return salvage(path)


def shapes(found: Salvaged) -> list[tuple[int, int, int]]:
    assert found.table
    return [entry.shape for entry in found.table.routes]


# BL-054: a bad value costs its entry, BL-051: neither of two entries for one shape can be trusted
def test_a_faulty_entry_costs_that_entry_and_no_other(tmp_path: Path) -> None:
    other = ROUTE.replace("[16,", "[32,")
    for wrong in (ROUTE.replace("5.5", "0"), ROUTE.replace('"direct"', "7"), "null", "[]", "3"):
        found = salvaged(tmp_path, f"{HEAD}{wrong}, {other}]}}")
        assert shapes(found) == [(32, 64, 64)]
        assert found.told.startswith("routes.0")
    found = salvaged(tmp_path, f"{HEAD}{ROUTE}, {ROUTE}, {other}]}}")
    assert shapes(found) == [(32, 64, 64)]
    assert found.told.count("16x64x64 stands more than once") == 2


def test_a_faulty_default_costs_the_default(tmp_path: Path) -> None:
    found = salvaged(tmp_path, GOOD.removesuffix("}") + ', "default": {"family": "direct"}}')
    assert shapes(found) == [(16, 64, 64)]
    assert found.told == "default.config: Field required"


# BL-053, BL-058
@pytest.mark.parametrize("content", ["", "null", "[]", GOOD[:-9], GOOD.replace('"at"', '"when"')])
def test_a_file_that_is_no_table_costs_the_table_and_nothing_else(
    tmp_path: Path, content: str
) -> None:
    found = salvaged(tmp_path, content)
    assert found.table is None
    assert found.told
    assert "\n" not in found.told
    newer = salvaged(tmp_path, GOOD.replace("routes/1", "routes/99"))
    assert newer.table is None
    assert newer.told.endswith("a newer mxtune wrote it, update this one")


def test_a_sound_file_is_salvaged_whole(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.write_text(GOOD, "utf-8")
    assert salvage(path) == Salvaged(RouteTable.load(path))


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert fault(tmp_path / "pipe") == "not a file"  # opening it would wait for ever
    assert fault(tmp_path) == "not a file"
    assert fault(tmp_path / "none.json") == "cannot be read (No such file or directory)"


def test_a_file_far_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(200_000_000)
    assert fault(tmp_path / "zeros") == "200000000 bytes are no route table"
