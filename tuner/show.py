"""What a person sees of a sweep: live on a terminal, plain lines elsewhere, a table at the end."""

import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mxtune.configs.evidence import Measured, Modelled
from mxtune.configs.table import Entry
from mxtune.kernels.registry import brief
from mxtune.results.choose import by_score, ranking, scored
from mxtune.tuner.audit import audit
from mxtune.tuner.sweep import Begun, Ended, Event, ShapeDone, Tried
from mxtune.tuner.task import Task

_PLAIN_EVERY_S = 10.0
_PIPE_WIDTH = 400  # a pipe has no width: nothing in it is wrapped or cut


def make_console(*, stderr: bool = False) -> Console:
    """Return a console for results, or for everything else."""
    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else _PIPE_WIDTH
    return Console(
        file=file,
        width=width,
        highlight=False,
        markup=False,  # paths and errors hold brackets and colons of their own
        emoji=False,
        soft_wrap=not file.isatty(),
    )


def show(events: Iterator[Event], console: Console) -> Iterator[Event]:
    """Pass events on, showing them as they come."""
    view: _Live | _Plain
    with _live(console) if console.is_terminal else _plain(console) as view:
        for event in events:
            if isinstance(event, Begun):
                view.begin(event)
            elif isinstance(event, Tried):
                view.tried(event)
            elif isinstance(event, ShapeDone):
                view.done(event)
            yield event


def follow(events: Iterator[Event]) -> None:
    """Show a sweep to its end: progress and accounts on stderr, the table on stdout."""
    aside = make_console(stderr=True)
    for event in show(events, aside):
        if isinstance(event, Ended):
            make_console().print(results_table(event))
            for line in closing_lines(event):
                aside.print(line, markup=False)


@dataclass(slots=True)
class _Plain:
    console: Console
    total: int = 0
    begin_s: float = field(default_factory=time.monotonic)
    shown_s: float = field(default_factory=time.monotonic)

    def begin(self, event: Begun) -> None:
        self.total = sum(len(task.untried) for task in event.tasks)
        self.console.print(heading(event))

    def tried(self, event: Tried) -> None:
        now = time.monotonic()
        if now - self.shown_s >= _PLAIN_EVERY_S:
            self.shown_s = now
            self.console.print(progress_line(event.task))

    def done(self, event: ShapeDone) -> None:
        self.console.print(f"{time.monotonic() - self.begin_s:.0f} s: {done_line(event.task)}")


@contextmanager
def _plain(console: Console) -> Generator[_Plain, None, None]:
    yield _Plain(console)


@dataclass(slots=True)
class _Live:
    progress: Progress
    tasks: tuple[Task, ...] = ()

    def begin(self, event: Begun) -> None:
        self.progress.console.print(heading(event))
        self.tasks = event.tasks
        self.progress.add_task("", total=None)

    def tried(self, event: Tried) -> None:
        self.progress.update(
            self.progress.task_ids[0],
            total=sum(task.goal for task in self.tasks),
            completed=sum(task.looked_at for task in self.tasks),
            description=progress_line(event.task),
        )

    def done(self, event: ShapeDone) -> None:
        self.progress.console.print(done_line(event.task))


@contextmanager
def _live(console: Console) -> Generator[_Live, None, None]:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Live(progress)


def heading(event: Begun) -> str:
    """Return the line that says what is swept, how, and what is already known."""
    count = sum(task.goal for task in event.tasks)
    known = sum(task.looked_at for task in event.tasks)
    goes_on = f"; {known} known from {event.store}" if known else ""
    return f"{len(event.tasks)} shapes, {count} candidates, {event.how} {event.device}{goes_on}"


def progress_line(task: Task) -> str:
    """Return where a shape stands."""
    return f"{task.shape}: {task.looked_at}/{task.goal} tried, {_best(task)}{_faults(task)}"


def done_line(task: Task) -> str:
    """Return what a shape came to, with every candidate accounted for."""
    best = _best(task) if task.solved else "unsolved"
    parts = [f"{task.shape}: {best}{_faults(task)}; {task.looked_at} tried"]
    if task.skipped:
        parts.append(f"{task.skipped} not tried")
    if not task.solved:
        parts.append(f"the first failed with {task.first_failure}")
    return ", ".join(parts)


def _best(task: Task) -> str:
    best = next(iter(ranking(task.trials)), None)
    if best and best.samples_us:
        return f"best {best.median_us:.2f} us {brief(best.route)}"
    if best:
        return f"best by model, numbers right: {brief(best.route)}"
    leading = min(scored(task.trials), key=by_score, default=None)
    return f"leading by model: {brief(leading.route)}" if leading else "nothing right yet"


def _faults(task: Task) -> str:
    bad = {state: count for state, count in task.states().items() if state != "ok"}
    return "".join(f", {count} {state}" for state, count in sorted(bad.items()))


def closing_lines(ended: Ended) -> Iterator[str]:
    """Yield what became of every candidate, where the time went, and what a replay lost."""
    counts: Counter[str] = Counter()
    for task in ended.tasks:
        counts.update(task.states())
        counts["not tried"] += task.skipped
    parts = ", ".join(f"{count} {state}" for state, count in counts.most_common() if count)
    yield f"{counts.total()} candidates: {parts}"
    if ended.seconds:
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in ended.seconds.items())
        yield f"time of workers: {spent}"
    found = audit(ended.tasks)
    if found:
        yield f"audit: {found.tried} pruned candidates, the best {found.best:.3f} x the winner"
    if ended.regrets:
        worst = max(ended.regrets, key=ended.regrets.__getitem__)
        middle = median(ended.regrets.values())
        yield f"regret: worst {ended.regrets[worst]:.4f} at {worst}, median {middle:.4f}"
    yield f"{ended.path}: {len(ended.table.routes)} routes"


def results_table(ended: Ended) -> Table:
    """Return the table that ends a sweep."""
    table = Table(box=None, pad_edge=False)
    for name in ("shape", "route", "result", "against", "wrong", "failed"):
        table.add_column(name, no_wrap=name != "route", overflow="fold")
    entries = {entry.key: entry for entry in ended.table.routes}
    for task in ended.tasks:
        states = task.states()
        failed = sum(n for state, n in states.items() if state not in ("ok", "wrong"))
        result, against = (
            _result(entries[task.shape]) if task.shape in entries else ("unsolved", "")
        )
        route = brief(entries[task.shape].route) if task.shape in entries else ""
        table.add_row(str(task.shape), route, result, against, str(states["wrong"]), str(failed))
    return table


def _result(entry: Entry) -> tuple[str, str]:
    evidence = entry.evidence
    if isinstance(evidence, Measured):
        against = (
            f"{evidence.baseline} {evidence.baseline_us:.2f} us" if evidence.baseline_us else ""
        )
        return f"{evidence.median_us:.2f} us", against
    if isinstance(evidence, Modelled):
        rival = evidence.runner_up
        against = f"{rival.family} {rival.us:.2f}" if rival else ""
        how = "modelled, emulated" if evidence.emulated else "modelled"
        return f"score {evidence.score_us:.2f} ({how}, not timed)", against
    return "reported", evidence.source
