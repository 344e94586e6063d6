"""Route tables as files: where each route stands, whoever wrote the file.

A CSV is AITER's table of tuned a4w4 GEMMs; any other file is a route table of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.shapes import Shape
from mxtune.configs.table import Entry, RouteTable
from mxtune.results.aiter_csv import aiter_table
from mxtune.results.aiter_rows import Remark


@dataclass(frozen=True, slots=True)
class Placed:
    """One route of a table and where it stands: ``routes.3``, or ``line 14`` of a CSV."""

    place: str
    shape: Shape
    entry: Entry


@dataclass(frozen=True, slots=True)
class TableFile:
    """A route table and the file that it was read from."""

    name: str
    table: RouteTable
    routes: tuple[Placed, ...]
    remarks: tuple[Remark, ...] = ()  # on rows of a CSV that are no route, or lack something
    rows: int = 0  # of a CSV

    @property
    def left_out(self) -> str:
        """Say how many rows of a CSV are no route; empty if all are."""
        lost = max(0, self.rows - len(self.routes))
        return f"{self.name}: {lost} of {self.rows} rows left out; lint lists them" if lost else ""


def read_table_file(path: Path) -> TableFile:
    """Read a table by the suffix of its file; raises ConfigError for one that is none."""
    if path.suffix.lower() == ".csv":
        return _of_csv(path)
    table = RouteTable.load(path)
    places = (f"routes.{number}" for number in range(len(table.routes)))
    return TableFile(str(path), table, _placed(places, table))


def _of_csv(path: Path) -> TableFile:
    found = aiter_table(path)
    places = (f"line {line}" for line in found.lines)
    routes = _placed(places, found.table)
    return TableFile(str(path), found.table, routes, found.remarks, found.rows)


def _placed(places: Iterable[str], table: RouteTable) -> tuple[Placed, ...]:
    rows = zip(places, table.routes, strict=True)
    return tuple(Placed(place, entry.key, entry) for place, entry in rows)
