"""Damage a route table in every way: it must dispatch rightly, or be refused in one line.

    python -P tests/table_fuzz.py 10000 [--seed 0]

A table with every kind of evidence loses, gains and swaps parts, has values of other types and
sizes put in, is cut off, or has bytes written over it. What a dispatcher takes of it must give a
legal route for every shape; what it or loading refuses must be told in one line, as by lint.
"""

import argparse
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Measured
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.configs.table import Entry, RouteTable, salvage
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.family import INT32
from mxtune.kernels.layouts import padded_scales
from mxtune.kernels.registry import families, family
from mxtune.results.installed import Installed
from mxtune.results.lint import lint

MOST_SAID = 1000  # characters of a refusal, its file's name aside
PROBED = tuple(
    Shape(m, n, k)
    for m, n, k in ((1, 1, 32), (3, 70, 96), (17, 2112, 7168), (64, 512, 896), (256, 3072, 1536))
)
DEVICES = (load_device("gfx950"), load_device("sm_90"))
TABLES = Path(__file__).parent.parent / "results" / "tables"


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object as pairs, so that a key can stand in it twice."""

    pairs: list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Token:
    """What is written as it stands: numbers that Python would not write so."""

    text: str


Tree = Any  # Object, list, Token, or what JSON has
Parent = tuple[list[Any], int]  # a list of pairs or of items, and a place in it


def tree_of(value: Any) -> Tree:
    """Return a JSON value with its objects as pairs."""
    if isinstance(value, dict):
        return Object([(name, tree_of(held)) for name, held in value.items()])
    return [tree_of(held) for held in value] if isinstance(value, list) else value


def text_of(tree: Tree) -> str:
    """Write a tree as JSON."""
    if isinstance(tree, Object):
        return "{" + ", ".join(f"{json.dumps(k)}: {text_of(v)}" for k, v in tree.pairs) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(text_of, tree)) + "]"
    return tree.text if isinstance(tree, Token) else json.dumps(tree)


def whole_table() -> dict[str, Any]:
    """Return a table for gfx950 with evidence of every kind and a default."""
    body: dict[str, Any] = json.loads((TABLES / "mi355x-starting.json").read_text("utf-8"))
    other: dict[str, Any] = json.loads((TABLES / "h200-amd-mxfp4-mm.json").read_text("utf-8"))
    measured = other["routes"][:2]
    modelled = deepcopy(other["routes"][3])
    held = {name: modelled["evidence"][name] for name in ("deterministic", "error", "objects")}
    modelled["evidence"] = held | {"kind": "modelled", "score_us": 5.0, "emulated": held["error"]}
    body["routes"] = [*body["routes"][4:], *measured, modelled]
    return body


BASE = whole_table()


def places(tree: Tree) -> list[Parent]:
    """Return every place below the top."""
    held: list[Any] = tree.pairs if isinstance(tree, Object) else tree
    if not isinstance(held, list):
        return []
    own = [(held, at) for at in range(len(held))]
    return own + [below for place in own for below in places(value_at(place))]


def value_at(place: Parent) -> Tree:
    """Return the value at a place."""
    held, at = place
    return held[at][1] if isinstance(held[at], tuple) else held[at]


def put(place: Parent, value: Tree) -> None:
    """Replace the value at a place by another."""
    held, at = place
    held[at] = (held[at][0], value) if isinstance(held[at], tuple) else value


NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 7168, 2**31 - 32, 2**31]),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["NaN", "Infinity", "-Infinity", "1e999", "-0", "-0.0", "1e-400", "9" * 400, "9" * 5000]
    ).map(Token),
)
WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "gfx950", "sm_90", "gfx950:xnack-", "fused", "asm", "direct", "aiter", "measured",
         "modelled", "reported", "hot graph", ".cg", "fp32", "bf16", "shuffled", "hardware",
         "32x128", "256x256", "a\nb", "\x1b[31m", "\ud800", "x" * 5000, "\n" * 3000]
    ),
)  # fmt: skip
DEEP = st.integers(1, 3000).flatmap(
    lambda depth: st.sampled_from(["[", '{"a":']).map(
        lambda opening: Token(opening * depth + "0" + ("]" if opening == "[" else "}") * depth)
    )
)
VALUES = st.one_of(
    NUMBERS, WORDS, st.sampled_from([None, True, False]), st.just([]), st.just(Object([])), DEEP
)


def change(draw: Callable[[Any], Any], tree: Tree) -> None:
    """Do one thing to one place of ``tree``."""
    if not (there := places(tree)):
        return
    place = there[draw(st.integers(0, len(there) - 1))]
    held, at = place
    kind = draw(st.sampled_from(["drop", "twice", "rename", "replace", "number", "move"]))
    if kind == "drop":
        held.pop(at)
    elif kind == "twice":
        held.insert(draw(st.integers(0, len(held))), deepcopy(held[at]))
    elif kind == "rename" and isinstance(held[at], tuple):
        held[at] = (draw(WORDS), held[at][1])
    elif kind == "number":
        numbers = [p for p in there if type(value_at(p)) in (int, float)]
        if numbers:
            put(numbers[draw(st.integers(0, len(numbers) - 1))], draw(NUMBERS))
    elif kind == "move":
        put(place, deepcopy(value_at(there[draw(st.integers(0, len(there) - 1))])))
    else:
        put(place, draw(VALUES))


@st.composite
def changed_tables(draw: Any) -> bytes:
    """A table with up to four of its places changed."""
    tree = tree_of(BASE)
    for _ in range(draw(st.integers(1, 4))):
        change(draw, tree)
    return text_of(tree).encode("utf-8", "surrogatepass")


FAMILIES = tuple(families())
SETTINGS = st.sampled_from(
    [0, 1, 2, 4, 8, 14, 16, 32, 64, 128, 256, 512, 1024, 2**31, 10**30, "", ".cg", "fp32", "bf16",
     "scaled", "shuffled", "hardware", "32x128", "128x512"]
)  # fmt: skip
SIZES = st.sampled_from([1, 7, 16, 33, 64, 255, 512, 4096, 10**5, 2**31 - 1])


@st.composite
def other_tables(draw: Any) -> bytes:
    """A table that has the right form, and shapes, families and settings that may not fit."""
    body = deepcopy(BASE)
    for _ in range(draw(st.integers(1, 6))):
        entry = body["routes"][draw(st.integers(0, len(body["routes"]) - 1))]
        route = draw(st.sampled_from([entry, entry, body["default"]]))
        kind = draw(st.sampled_from(["setting", "setting", "settings", "family", "shape", "arch"]))
        if kind == "setting":
            name = draw(st.sampled_from([*route["config"], "BLOCK_M", "split_k", "weights"]))
            route["config"][name] = draw(SETTINGS)
        elif kind == "settings":
            route["config"] = {}
        elif kind == "family":
            route["family"] = draw(st.sampled_from(FAMILIES))
        elif kind == "shape":
            entry["shape"] = [draw(SIZES), draw(SIZES), 32 * draw(st.integers(1, 2**26 - 1))]
        else:
            body["device"]["arch"] = draw(st.sampled_from(["sm_90", "gfx950:xnack-", "gfx942"]))
    return json.dumps(body).encode()


@st.composite
def damaged_tables(draw: Any) -> bytes:
    """A table that was cut off, or that has bytes in it which nobody meant."""
    content = json.dumps(BASE, indent=draw(st.sampled_from([None, 1]))).encode()
    start = draw(st.integers(0, len(content)))
    end = draw(st.sampled_from([start, start + 1, start + 40, len(content)]))
    new: bytes = draw(st.binary(max_size=12))
    return content[:start] + new + content[end:]


CONTENTS = st.one_of(
    other_tables(), changed_tables(), changed_tables(), damaged_tables(), st.binary(max_size=200)
)


def outcome(content: bytes, path: Path) -> str:
    """Load a table and dispatch from it; say what became of it. Fails if that is wrong."""
    path.write_bytes(content)
    findings = lint([path], None, Installed(no_kernels="none"))
    assert all(found.message.isprintable() for found in findings), findings
    told = [refusal(RouteTable.load, path)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told.append(refusal(Dispatcher.load, path))
        if not told[1]:
            dispatcher, table = Dispatcher.load(path), salvage(path).table
            for device in DEVICES:
                assert_dispatches(dispatcher, table.routes if table else (), device)
    lapse = max(map(unlike_one_line, [*told, *(str(warning.message) for warning in caught)]))
    what = "refused" if told[1] else "used in part" if told[0] else "used"
    return what + lapse


def refusal(load: Callable[[Path], object], path: Path) -> str:
    """Return what a loader says against a file, its name aside; empty if nothing."""
    try:
        load(path)
    except ConfigError as error:
        return str(error).removeprefix(str(path))
    return ""


def unlike_one_line(text: str) -> str:
    """Say in what a message is no line for people, empty if in nothing.

    Counted and no fault until loading shortens what it repeats: test_table_fuzz.py has the cases.
    """
    if len(text.splitlines()) > 1:
        assert "Input tag" in text, text
        return ", in several lines"
    return ", at length" if len(text) > MOST_SAID else ""


def assert_dispatches(dispatcher: Dispatcher, routes: Sequence[Entry], device: Device) -> None:
    measured = {entry.key for entry in routes if isinstance(entry.evidence, Measured)}
    held = [entry.key for entry in routes]
    held += [Shape(shape.m % 4096 + 1, shape.n, shape.k) for shape in held]  # hardly in it
    for shape in (*PROBED, *filter(_can_be, held)):
        choice = dispatcher.choose(shape, device)
        owner = family(choice.route.family)
        grade = owner.legality(choice.route.config, shape, device).grade
        assert grade == "legal" or (grade, shape in measured) == ("suspect", True), choice
        assert not owner.missing(device), choice


def _can_be(shape: Shape) -> bool:
    """Whether a weight of this shape can be: no route counts further in its scales."""
    rows, columns = padded_scales(shape.n, shape.k // SCALE_BLOCK)
    return rows * columns <= INT32


def main(words: Sequence[str] | None = None) -> None:
    """Try as many tables as are asked for, and count what became of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("examples", type=int, help="how many tables to try")
    parser.add_argument("--seed", type=int, default=0, help="luck")
    asked, counts = parser.parse_args(words), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:

        @seed(asked.seed)
        @settings(
            max_examples=asked.examples,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(CONTENTS)
        def fuzz(content: bytes) -> None:
            counts[outcome(content, Path(folder) / "routes.json")] += 1

        fuzz()
    print(f"{sum(counts.values())} tables:", "; ".join(f"{n} {what}" for what, n in counts.items()))


if __name__ == "__main__":
    main()
