"""Small route tables, and the submissions made of them."""

from collections.abc import Mapping
from pathlib import Path

from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.registry import family
from mxtune.results.contest.routes import file_routes
from mxtune.results.contest.text import submission_text

TABLES = Path(__file__).parent.parent / "results" / "tables"
STARTING = TABLES / "mi355x-starting.json"
H200 = Path(__file__).parent / "data" / "h200-scaled-routes.json"  # by commit b628a81

Rows = Mapping[Shape, tuple[str, Mapping[str, Value]]]

# Every way of reading A and B, whole K and split, with tails along M and N.
SMALL: Rows = {
    Shape(17, 96, 320): ("fused", {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128}),
    Shape(5, 64, 512): ("splitk", {"BLOCK_K": 128, "split_k": 4}),
    Shape(3, 48, 192): ("fused_preshuffle", {"BLOCK_N": 32, "BLOCK_K": 128, "split_k": 2}),
}


def table_of(rows: Rows, arch: str = "gfx950", source: str = "nobody") -> RouteTable:
    """A table with these settings, what is not named as its family's fallback has it."""
    entries = tuple(
        Entry(
            shape=(shape.m, shape.n, shape.k),
            family=name,
            config=dict(family(name).fallback(shape).changed(**changes)),
            evidence=Reported(source=source, us=None),
        )
        for shape, (name, changes) in rows.items()
    )
    return RouteTable(
        device=DeviceInfo(arch=arch, name="a GPU", compute_units=256, partition=None),
        made=Made(at="2026-01-02T03:04:05+00:00", mxtune="0.1.0", rule="even"),
        routes=entries,
    )


def text_of(table: RouteTable, *shapes: Shape) -> str:
    """The submission of a table."""
    routes = file_routes(table, shapes)
    return submission_text(table, routes, leaderboard="amd-mxfp4-mm", gpu="MI355X")


def starting() -> RouteTable:
    """The table that gfx950 starts with."""
    return RouteTable.load(STARTING)
