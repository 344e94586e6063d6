"""A damaged table dispatches rightly or is refused in one line, however it was damaged."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.table_fuzz import BASE, CONTENTS, main, outcome, refusal, text_of, tree_of

from mxtune.configs.table import RouteTable

FEW = 300  # python -P tests/table_fuzz.py 10000 tries more


@settings(
    max_examples=FEW,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(CONTENTS)
def test_a_damaged_table_dispatches_rightly_or_is_refused(tmp_path: Path, content: bytes) -> None:
    assert outcome(content, tmp_path / "routes.json").startswith(("used", "refused"))


def test_the_table_that_is_damaged_is_whole(tmp_path: Path) -> None:
    assert outcome(json.dumps(BASE).encode(), tmp_path / "routes.json") == "used"
    kinds = {entry["evidence"]["kind"] for entry in BASE["routes"]}
    assert kinds == {"measured", "modelled", "reported"}
    assert json.loads(text_of(tree_of(BASE))) == BASE


def test_more_are_tried_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    main(["20", "--seed", "3"])
    assert capsys.readouterr().out.startswith("20 tables: ")


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "routes.json"
    path.write_text(text, "utf-8")
    found = refusal(RouteTable.load, path)
    assert found
    return found


def many_shapes_twice(body: Any) -> None:
    body["routes"] = [
        {**body["routes"][0], "shape": [m, 64, 64]} for m in range(1, 201) for _ in "ab"
    ]


LONG = "x" * 5000
NESTED: Any = 0
for _ in range(300):
    NESTED = {"a": NESTED}

LONG_PARTS: dict[str, Callable[[Any], object]] = {
    "schema": lambda body: body.update(schema=LONG),
    "schema, nested": lambda body: body.update(schema=NESTED),
    "unknown key": lambda body: body.update({LONG: 1}),
    "setting": lambda body: body["default"]["config"].update({LONG: None}),
    "repeated shapes": many_shapes_twice,
}
LONG_VALUES: dict[str, Callable[[Any], object]] = {
    "shape": lambda body: body["routes"][0].update(shape=[10**4000, 64, 64]),
    "kind of evidence": lambda body: body["routes"][0]["evidence"].update(kind=LONG),
}


@pytest.mark.parametrize("damage", LONG_PARTS.values(), ids=list(LONG_PARTS))
def test_a_refusal_is_short_whatever_the_file_holds(
    tmp_path: Path, damage: Callable[[Any], object]
) -> None:
    body = deepcopy(BASE)
    damage(body)
    assert len(refused(tmp_path, json.dumps(body))) <= 1000


def test_a_key_that_stands_twice_is_shortened(tmp_path: Path) -> None:
    assert len(refused(tmp_path, f'{{"{LONG}": 1, "{LONG}": 2}}')) <= 1000


@pytest.mark.parametrize("damage", LONG_VALUES.values(), ids=list(LONG_VALUES))
def test_a_refusal_is_short_whatever_a_value_is(
    tmp_path: Path, damage: Callable[[Any], object]
) -> None:
    body = deepcopy(BASE)
    damage(body)
    assert len(refused(tmp_path, json.dumps(body))) <= 1000


def test_a_kind_of_evidence_in_two_lines_is_refused_in_one(tmp_path: Path) -> None:
    body = deepcopy(BASE)
    body["routes"][0]["evidence"]["kind"] = "measured\nhere"
    assert len(refused(tmp_path, json.dumps(body)).splitlines()) == 1


def test_a_table_nested_too_deep_has_its_place_told(tmp_path: Path) -> None:
    body = {**BASE, "note": NESTED}
    assert refused(tmp_path, json.dumps(body)).startswith(": the file: Invalid JSON: recursion")
