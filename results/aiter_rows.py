"""Rows of AITER's CSV of tuned a4w4 GEMMs: what each says, or why it cannot be used.

Columns may stand in any order and their names have any case; older files have no ``gfx``.
Source: ROCm/aiter, aiter/configs/a4w4_blockscale_tuned_gemm.csv.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal

from mxtune.configs.devices import bare_arch
from mxtune.configs.errors import ConfigError
from mxtune.configs.json_files import read_text
from mxtune.configs.shapes import Shape, read_dimension
from mxtune.kernels.aiter import ARCH

_NEEDED = ("cu_num", "m", "n", "k", "splitk", "us", "kernelname")
_OPTIONAL = ("gfx", "errratio")
_MOST_SHOWN = 100  # characters of a cell that a line repeats: kernels of CK have names of 90
_WHOLE = re.compile(r"[0-9]{1,9}")

RemarkKind = Literal[
    "malformed",  # a cell is missing or is not what its column holds
    "device",  # for another GPU than the table is
    "foreign",  # a kernel that no family of ours launches
    "unknown",  # the name of no kernel
    "wrong",  # too many of its results were
    "slower",  # another row of the same shape was taken
    "copy",  # the same in every cell as a row before
    "untimed",  # kept, but its time is none
]


@dataclass(frozen=True, slots=True)
class Remark:
    """A row that was left out, or taken with something missing, and why."""

    line: int
    kind: RemarkKind
    reason: str
    shape: Shape | None = None
    us: float | None = None

    def __str__(self) -> str:
        shape = f"{self.shape}: " if self.shape else ""
        return f"line {self.line}: {shape}{self.reason}"


@dataclass(frozen=True, slots=True)
class Row:
    """One tuned GEMM: the kernel that won, and how it did."""

    line: int
    arch: str
    compute_units: int
    shape: Shape
    kernel: str
    log2_k_split: int
    us: float | None  # None where the time is zero, negative or no number: not measured
    wrong: float | None  # share of results that the tuner found wrong; None where it is not told

    def remark(self, kind: RemarkKind, reason: str) -> Remark:
        """Say what became of this row."""
        return Remark(self.line, kind, reason, self.shape, self.us)


@dataclass(frozen=True, slots=True)
class _Header:
    """The names of the columns, in lower case, with each that is needed once."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in (*_NEEDED, *_OPTIONAL):
            if self.names.count(name) > 1:
                raise ConfigError(f"two columns are named {name}")
        missing = [name for name in _NEEDED if name not in self.names]
        if missing:
            raise ConfigError(f"no column {', '.join(missing)}; not a tuned a4w4 table of AITER's")

    def row(self, line: int, cells: Sequence[str]) -> Row:
        """Read one row; raises ConfigError for a cell that cannot be read."""
        if len(cells) != len(self.names):
            raise ConfigError(f"the header has {len(self.names)} cells, this row {len(cells)}")
        named = dict(zip(self.names, cells, strict=True))
        return Row(
            line=line,
            arch=bare_arch(named.get("gfx", "")) or ARCH,
            compute_units=read_dimension("cu_num", named["cu_num"]),
            shape=Shape.of((named["m"], named["n"], named["k"])),
            kernel=named["kernelname"],
            log2_k_split=_count("splitK", named["splitk"]),
            us=_positive("us", named["us"]),
            wrong=_share(named.get("errratio", "")),
        )


def rows_of(path: Path) -> Iterator[Row | Remark]:
    """Yield what every row below the header says.

    Raises ConfigError, naming the file and the line, for a file that is no such table.
    """
    lines = ((number, line) for number, line in _lines(path) if line.strip(" \t,"))
    place, first = next(lines, (1, ""))
    try:
        header = _Header(tuple(cell.lower() for cell in _cells(first)))
    except ConfigError as error:
        raise ConfigError(f"{path}:{place}: {error}") from error
    seen: dict[str, int] = {}
    for number, line in lines:
        found = _attempt(header, line, number)
        earlier = seen.setdefault(line, number)
        if isinstance(found, Row) and earlier != number:
            found = found.remark("copy", f"the same as line {earlier}")
        yield found
    if not seen:
        raise ConfigError(f"{path}: no rows in it")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    text = read_text(path, empty=True).removeprefix("\ufeff")  # a byte order mark
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        yield number, line.strip()


def _cells(line: str) -> tuple[str, ...]:
    """Split a row that ends with its line: a quote left open must not swallow those after it."""
    if line.count('"') % 2:
        raise ConfigError("a quote is not closed on its line")
    try:
        return tuple(cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), ()))
    except csv.Error as error:
        raise ConfigError(f"not CSV ({error})") from error


def _attempt(header: _Header, line: str, number: int) -> Row | Remark:
    try:
        return header.row(number, _cells(line))
    except ConfigError as error:
        return Remark(number, "malformed", str(error))


def shown(cell: str) -> str:
    """Return as much of a cell as one line has room for, in quotes."""
    return repr(cell if len(cell) <= _MOST_SHOWN else f"{cell[:_MOST_SHOWN]}...")


def _count(name: str, cell: str) -> int:
    if not _WHOLE.fullmatch(cell):
        raise ConfigError(f"{name} must be a whole number, not {shown(cell)}")
    return int(cell)


def _number(name: str, cell: str) -> float:
    try:
        return float(cell.replace("_", "?"))  # Python reads 1_0 as ten
    except ValueError as error:
        raise ConfigError(f"{name} must be a number, not {shown(cell)}") from error


def _positive(name: str, cell: str) -> float | None:
    value = _number(name, cell) if cell else 0.0
    return value if isfinite(value) and value > 0 else None


def _share(cell: str) -> float | None:
    value = _number("errRatio", cell) if cell else -1.0
    return value if isfinite(value) and value >= 0 else None
