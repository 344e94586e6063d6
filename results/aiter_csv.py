"""AITER's CSV of tuned a4w4 GEMMs as a route table: its ASM kernels become routes of ``asm``.

A table is for one kind of GPU: the one that most rows are for. A file without the column ``gfx``
is for gfx950, the only GPU that AITER has these kernels for. The kernel that quantises A, which
AITER's times leave out, keeps its defaults.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path

import mxtune
from mxtune.configs.asm_rules import load_asm_rules
from mxtune.configs.devices import known_devices, load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.aiter import ARCH
from mxtune.kernels.quantise_steps import RULE
from mxtune.kernels.registry import checked_route
from mxtune.results.aiter_rows import Remark, Row, rows_of, shown

MOST_WRONG = (
    0.05  # share of wrong results up to which AITER's tuner takes a kernel (its --errRatio)
)

_CK = "a4w4_blockscale_"  # how the names of AITER's Composable Kernel instances begin

_DeviceKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class AiterTable:
    """What a CSV of AITER's comes to."""

    table: RouteTable  # in the order of the rows
    lines: tuple[int, ...]  # of each route
    remarks: tuple[Remark, ...]  # on every row that is no route or lacks something, by line
    rows: int  # below the header


@dataclass(frozen=True, slots=True)
class _Taken:
    """A row and the route that it means."""

    row: Row
    route: Route

    @property
    def rank(self) -> tuple[bool, float, int]:
        """Order the rows of one shape: checked ones first, then the fastest, then the first."""
        unchecked, us = self.row.wrong is None, self.row.us
        return unchecked, inf if us is None else us, self.row.line


def read_aiter_csv(path: Path) -> tuple[RouteTable, list[Remark]]:
    """Return the routes of a CSV of AITER's, and every row left out or changed, with the reason.

    Raises ConfigError, naming the file and the line, for a file that is no such table.
    """
    found = aiter_table(path)
    return found.table, list(found.remarks)


def aiter_table(path: Path) -> AiterTable:
    """Read a CSV of AITER's; see `read_aiter_csv`."""
    read = list(rows_of(path))
    rows = [row for row in read if isinstance(row, Row)]
    device = _most_common(rows)
    here = [row for row in rows if _device(row) == device]
    judged = [_judged(row) for row in here]
    taken = [found for found in judged if isinstance(found, _Taken)]
    winners = _winners(taken)
    remarks = [
        *(found for found in read if isinstance(found, Remark)),
        *(_elsewhere(row, device) for row in rows if _device(row) != device),
        *(found for found in judged if isinstance(found, Remark)),
        *_losers(taken, winners),
        *(_untimed(winner.row) for winner in winners.values() if winner.row.us is None),
    ]
    return AiterTable(
        table=_table(path, device, winners.values()),
        lines=tuple(winner.row.line for winner in winners.values()),
        remarks=tuple(sorted(remarks, key=lambda remark: remark.line)),
        rows=len(read),
    )


def _device(row: Row) -> _DeviceKey:
    return row.arch, row.compute_units


def _most_common(rows: Iterable[Row]) -> _DeviceKey:
    """Return the GPU of most rows; of the first, where several have as many."""
    counts = Counter(map(_device, rows)).most_common(1)
    return counts[0][0] if counts else (ARCH, load_device(ARCH).compute_units)


@cache
def _labels() -> Mapping[str, str]:
    """What ``asm`` calls each kernel, by its mangled name."""
    return {facts.name: facts.label for facts in load_asm_rules(ARCH).kernels}


def _judged(row: Row) -> _Taken | Remark:
    """Return the route that a row means, or why it means none."""
    if row.kernel.startswith(_CK):
        return row.remark("foreign", f"{shown(row.kernel)} is a CK kernel; no family calls those")
    if row.kernel not in _labels():
        return row.remark("unknown", f"no ASM kernel of AITER's is called {shown(row.kernel)}")
    if row.wrong is not None and row.wrong > MOST_WRONG:
        limit = f"at most {MOST_WRONG:g} is taken"
        return row.remark("wrong", f"{row.wrong:g} of its results were wrong; {limit}")
    config = Config.of({"kernel": _labels()[row.kernel], "log2_k_split": row.log2_k_split})
    try:
        return _Taken(row, checked_route(Route("asm", config)))
    except ConfigError as error:
        return row.remark("malformed", str(error))


def _winners(taken: Iterable[_Taken]) -> dict[Shape, _Taken]:
    """Return the best row of every shape, in the order of their lines."""
    best: dict[Shape, _Taken] = {}
    for found in sorted(taken, key=lambda found: found.rank):
        best.setdefault(found.row.shape, found)
    return dict(sorted(best.items(), key=lambda item: item[1].row.line))


def _losers(taken: Iterable[_Taken], winners: Mapping[Shape, _Taken]) -> Iterator[Remark]:
    for found in taken:
        winner = winners[found.row.shape]
        if winner is not found:
            ours, theirs = _told(found.row), _told(winner.row)
            reason = f"{ours}; line {winner.row.line} is taken: {theirs}"
            yield found.row.remark("slower", reason)


def _elsewhere(row: Row, device: _DeviceKey) -> Remark:
    (arch, units), (other, others) = device, _device(row)
    return row.remark(
        "device",
        f"for {other!r} with {others} compute units; most rows are for {arch!r} with {units}",
    )


def _told(row: Row) -> str:
    checked = "" if row.wrong is not None else ", unchecked"
    time = "no time" if row.us is None else f"{row.us:g} us"
    return f"{_labels()[row.kernel]} {time}{checked}"


def _untimed(row: Row) -> Remark:
    return row.remark("untimed", "its time is not above zero: taken as not measured")


def _table(path: Path, device: _DeviceKey, winners: Iterable[_Taken]) -> RouteTable:
    arch, units = device
    name = load_device(arch).name if arch in known_devices() else arch
    return RouteTable(
        device=DeviceInfo(arch=arch, name=name, compute_units=units),
        made=Made(at="", mxtune=mxtune.__version__, rule=RULE),
        routes=tuple(_entry(path, winner) for winner in winners),
    )


def _entry(path: Path, winner: _Taken) -> Entry:
    shape = winner.row.shape
    return Entry(
        shape=(shape.m, shape.n, shape.k),
        family=winner.route.family,
        config=dict(winner.route.config),
        evidence=Reported(source=path.name, us=winner.row.us),
    )
