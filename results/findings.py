"""What looking at route tables found, how it is shown, and the exit status that it comes to."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, get_args

from mxtune.configs.shapes import Shape

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # from the worst

_MOST_SAID = 400  # characters of a message: what tables hold may be of any length

# 2 is what a command line that cannot be understood exits with, everywhere.
STATUS: Mapping[Severity, int] = {"error": 3, "warning": 1, "note": 0}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a table that somebody should know, in one line."""

    severity: Severity
    rule: str  # the name of what is looked for
    file: str
    place: str  # the JSON path, or the line of a CSV; empty for the whole file
    shape: Shape | None
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _one_line(self.message))


def _one_line(text: str) -> str:
    """Return a text with what cannot be printed escaped, and its end cut off if it is long."""
    whole = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return whole if len(whole) <= _MOST_SAID else f"{whole[:_MOST_SAID]}..."


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """Order the findings of one file: by severity, then by rule, then as they were found."""
    return sorted(findings, key=lambda found: (SEVERITIES.index(found.severity), found.rule))


def exit_status(findings: Sequence[Finding]) -> int:
    """Return the status of the worst finding, 0 if there is none."""
    return max((STATUS[found.severity] for found in findings), default=0)


def lines(findings: Sequence[Finding], files: int) -> Iterator[str]:
    """Yield the findings under the name of their file, in columns, and last their counts."""
    for file, group in groupby(findings, key=lambda found: found.file):
        yield _one_line(file)
        yield from _columns([_cells(found) for found in group])
    yield counted(findings, files)


def counted(findings: Sequence[Finding], files: int) -> str:
    """Return how many findings of each severity there are, in how many files."""
    counts = Counter(found.severity for found in findings)
    told = ", ".join(_number(counts[severity], severity) for severity in SEVERITIES)
    return f"{told} in {_number(files, 'file')}"


def as_json(findings: Sequence[Finding], files: int) -> str:
    """Return the findings and their counts as JSON."""
    counts = Counter(found.severity for found in findings)
    body = {
        "files": files,
        "counts": {severity: counts[severity] for severity in SEVERITIES},
        "findings": [_plain(found) for found in findings],
    }
    return json.dumps(body, indent=1, allow_nan=False)


def _plain(found: Finding) -> dict[str, Any]:
    shape = found.shape
    return asdict(found) | {"shape": [shape.m, shape.n, shape.k] if shape else None}


def _cells(found: Finding) -> tuple[str, ...]:
    shape = str(found.shape) if found.shape else ""
    return found.severity, found.rule, found.place, shape, found.message


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        yield "  ".join(["", *padded, row[-1]])


def _number(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
