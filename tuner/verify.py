"""What a person sees of a verification: progress on stderr, results on stdout."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mxtune.configs.settings import Settings
from mxtune.tuner.crew import Finished
from mxtune.tuner.show import make_console
from mxtune.tuner.verify_asm import AsmVerification
from mxtune.tuner.verify_request import VerifyRequest
from mxtune.tuner.verify_routes import RouteVerification

_PLAIN_EVERY_S = 10.0


class Result(Protocol):
    """What came of one route or kernel."""

    @property
    def ok(self) -> bool: ...
    @property
    def cells(self) -> tuple[str, ...]: ...
    def lines(self) -> Iterator[str]: ...
    def as_json(self) -> dict[str, Any]: ...


class Verification(Protocol):
    """Jobs for workers, and what their outcomes say."""

    @property
    def jobs(self) -> Any: ...
    @property
    def heading(self) -> Sequence[str]: ...
    def run(self, settings: Settings) -> Iterator[Finished]: ...
    def results(self, finished: list[Finished]) -> "Iterator[Result]": ...


def verify(request: VerifyRequest, settings: Settings, *, as_json: bool) -> bool:
    """Verify what is asked for and print it; return whether everything is right.

    Raises MissingError, ConfigError and NoRouteError before any work.
    """
    verification: Verification = (AsmVerification if request.asm else RouteVerification)(request)
    aside = make_console(stderr=True)
    total = len(verification.jobs)
    told = _live if aside.is_terminal else _plain
    finished = list(told(verification.run(settings), total, aside))
    results = list(verification.results(finished))
    if as_json:
        print(json.dumps([result.as_json() for result in results], indent=1, allow_nan=False))
    else:
        _show(verification.heading, results)
    return all(result.ok for result in results)


def _show(heading: Sequence[str], results: Sequence[Result]) -> None:
    """Print results as a table if they have a heading, then what is wrong, line by line."""
    console = make_console()
    if heading:
        table = Table(*heading, box=None, pad_edge=False)
        for result in results:
            table.add_row(*result.cells)
        console.print(table)
    for result in results:
        for line in result.lines():
            console.print(line)


def _live(finished: Iterator[Finished], total: int, console: Console) -> Iterator[Finished]:
    columns = (
        TextColumn("emulating", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=total)
        for item in finished:
            progress.advance(bar)
            yield item


def _plain(finished: Iterator[Finished], total: int, console: Console) -> Iterator[Finished]:
    began = shown = time.monotonic()
    for count, item in enumerate(finished, 1):
        now = time.monotonic()
        if now - shown >= _PLAIN_EVERY_S or count == total:
            shown = now
            console.print(f"{now - began:.0f} s: {count} of {total} emulated")
        yield item
