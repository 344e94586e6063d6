"""The published JSON Schema is the one of the models, and takes what loading takes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.routes_schema import FILE, schema_text
from tests.schema_check import faults
from tests.tables import entry, measured, modelled, reported, saved, table

from mxtune.configs.errors import ConfigError
from mxtune.configs.table import Default, RouteTable

SHIPPED = sorted((FILE.parent.parent / "results" / "tables").glob("*.json"))
SCHEMA: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
FULL = table(
    entry((16, 512, 1024), "fused", measured(5.0, 0.5)),
    entry((32, 512, 1024), "direct", modelled(5.0)),
    entry((64, 512, 1024), "asm", reported(5.0)),
    entry((96, 512, 1024), "asm", reported()),
    default=Default(family="direct", config={"BLOCK_M": 64, "cache_modifier": ".cg"}),
    driver="ROCm 7.1",
)


def broken(body: object) -> list[str]:
    return list(faults(body, SCHEMA, SCHEMA))


def test_the_published_schema_is_up_to_date() -> None:
    assert FILE.read_text("utf-8") == schema_text(), "run python bench/routes_schema.py"


def test_the_schema_says_which_it_is() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["title"] == "mxtune.routes/1"
    assert SCHEMA["required"] == ["schema", "device", "made", "routes"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_table_that_comes_with_mxtune_fits_the_schema(path: Path) -> None:
    assert broken(json.loads(path.read_text("utf-8"))) == []


def test_a_table_with_everything_fits_the_schema() -> None:
    assert broken(json.loads(FULL.text())) == []


def test_a_table_with_as_little_as_loads_fits_the_schema(tmp_path: Path) -> None:
    body = {
        "schema": "mxtune.routes/1",
        "device": {"arch": "gfx950", "name": "", "compute_units": 256},
        "made": {"at": "", "mxtune": "0.1.0"},
        "routes": [],
    }
    (tmp_path / "routes.json").write_text(json.dumps(body), "utf-8")
    RouteTable.load(tmp_path / "routes.json")
    assert broken(body) == []


FAULTS: list[tuple[str, Callable[[Any], object], str]] = [
    ("no schema", lambda body: body.pop("schema"), "$: no schema"),
    ("no routes", lambda body: body.pop("routes"), "$: no routes"),
    (
        "another schema",
        lambda body: body.update(schema="mxtune.routes/9"),
        "$.schema: not 'mxtune.routes/1'",
    ),
    ("a key too many", lambda body: body.update(mode=1), "$.mode: not known"),
    (
        "a number as text",
        lambda body: body["device"].update(compute_units="256"),
        "$.device.compute_units: no integer",
    ),
    (
        "a shape of two",
        lambda body: body["routes"][0].update(shape=[16, 512]),
        "$.routes.0.shape: 2 items",
    ),
    (
        "a shape of text",
        lambda body: body["routes"][0].update(shape=["16", 512, 1024]),
        "$.routes.0.shape.0: no integer",
    ),
    (
        "a setting that is a list",
        lambda body: body["default"]["config"].update(BLOCK_M=[64]),
        '$.default: anyOf [["$.default.config.BLOCK_M: ',
    ),
    (
        "evidence without its kind",
        lambda body: body["routes"][0]["evidence"].pop("kind"),
        "$.routes.0.evidence: oneOf",
    ),
    (
        "a time of zero",
        lambda body: body["routes"][2]["evidence"].update(us=0.0),
        "$.routes.2.evidence: oneOf",
    ),
]


@pytest.mark.parametrize(
    ("damage", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_what_does_not_load_does_not_fit_the_schema(
    tmp_path: Path, damage: Callable[[Any], object], message: str
) -> None:
    path = saved(tmp_path / "routes.json", FULL)
    body = json.loads(path.read_text("utf-8"))
    damage(body)
    path.write_text(json.dumps(body), "utf-8")
    with pytest.raises(ConfigError):
        RouteTable.load(path)
    (found,) = broken(body)
    assert found.startswith(message)
