"""Every trial of a session as a row: for people a summary, for pandas and what reads its files all.

pandas is an extra: who only sweeps and dispatches does without it.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mxtune.configs.errors import ConfigError, MissingError
from mxtune.configs.shapes import Shape
from mxtune.results.choose import ranking
from mxtune.results.export import pick
from mxtune.results.statistics import spread
from mxtune.results.store import Store
from mxtune.results.trial import BASELINE, FLOOR, Session, State, Trial

_BEST = 3  # of each shape that the summary names
_PROVENANCE = (
    "arch", "device", "kind", "at", "mxtune", "torch", "triton", "driver", "rule", "regime", "code",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Journal:
    """The trials of one session, in the order they were made."""

    session: Session
    trials: tuple[Trial, ...]

    @classmethod
    def load(cls, path: Path, session: str | None) -> "Journal":
        """Read a store's newest session, or the one that is named; StoreError if there is none."""
        store = Store.open(path)
        try:
            sessions = store.sessions()
            number = pick(path, sessions, session)
            return cls(sessions[number], tuple(store.trials(number)))
        finally:
            store.close()

    @property
    def settings(self) -> list[str]:
        """The names of the settings that occur, in order."""
        return sorted({name for trial in self.trials for name in trial.route.config})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each trial, all with the same columns; None is what a trial has not."""
        settings = self.settings
        provenance = {name: self.session.provenance.get(name) for name in _PROVENANCE}
        for trial in self.trials:
            shape, config = trial.shape, dict(trial.route.config)
            yield {
                "shape": str(shape),
                **{"m": shape.m, "n": shape.n, "k": shape.k},
                "family": trial.route.family,
                **{f"config.{name}": config.get(name) for name in settings},
                **{"stage": trial.stage, "state": trial.state, "reason": trial.reason},
                **_times(trial),
                "score_us": trial.facts.get("score_us"),
                "session": self.session.key,
                **provenance,
            }


def _times(trial: Trial) -> dict[str, float | int | None]:
    times = trial.times_us
    low, high = spread(times) if times else (None, None)
    middle = trial.median_us if times else None
    return {"median_us": middle, "low_us": low, "high_us": high, "samples": len(trial.samples_us)}


def lines(journal: Journal) -> Iterator[str]:
    """Yield what people want to see: candidates by state, and the best few of each shape."""
    facts = journal.session.provenance
    how = " ".join(str(facts[name]) for name in ("kind", "regime") if facts.get(name))
    yield (
        f"session {journal.session.key}: {how} on {facts.get('device')} ({facts.get('arch')}), "
        f"{facts.get('at')}, {len(journal.trials)} trials"
    )
    by_shape: dict[Shape, list[Trial]] = {}
    for trial in journal.trials:
        if trial.route not in (BASELINE, FLOOR):
            by_shape.setdefault(trial.shape, []).append(trial)
    states: list[State] = sorted({trial.state for trials in by_shape.values() for trial in trials})
    yield ""
    counts = [(str(shape), *_counted(by_shape[shape], states)) for shape in sorted(by_shape)]
    yield from _aligned([("shape", *states), *counts])
    yield ""
    best = [row for shape in sorted(by_shape) for row in _best(by_shape[shape])]
    yield from _aligned([("shape", "us", "low", "high", "samples", "stage", "route"), *best])


def _counted(trials: Iterable[Trial], states: Iterable[State]) -> list[str]:
    """Count routes by what became of them: the latest word counts."""
    latest = Counter({trial.route: trial.state for trial in trials}.values())
    return [str(latest[state]) for state in states]


def _best(trials: list[Trial]) -> Iterator[tuple[str, ...]]:
    for trial in ranking(trials)[:_BEST]:
        times = _times(trial)
        shown = [times["median_us"], times["low_us"], times["high_us"]]
        if not trial.times_us:
            shown = [trial.facts["score_us"], None, None]
        yield (
            str(trial.shape),
            *("" if us is None else f"{us:.2f}" for us in shown),
            str(times["samples"]),
            trial.stage if trial.times_us else "modelled",
            str(trial.route),
        )


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def write_csv(journal: Journal, path: Path) -> None:
    """Write every trial as a line of CSV; raises MissingError without pandas."""
    frame = frame_of(journal)
    _replace(path, lambda partial: frame.to_csv(partial, index=False, lineterminator="\n"))


def write_parquet(journal: Journal, path: Path) -> None:
    """Write every trial as a row of Parquet; raises MissingError without pandas or pyarrow."""
    frame = frame_of(journal)
    _needed("pyarrow")
    _replace(path, lambda partial: frame.to_parquet(partial, index=False, engine="pyarrow"))


def frame_of(journal: Journal) -> Any:
    """Return the trials as a pandas DataFrame: whole numbers stay whole where some are missing."""
    return _needed("pandas").DataFrame(list(journal.rows())).convert_dtypes()


def _needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingError(
            f"{name} is not installed; writing trials needs it: pip install 'mxtune[data]'"
        ) from error


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Replace ``path`` by what ``write`` writes, in one step."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: not a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            partial = Path(folder) / path.name
            write(partial)
            os.replace(partial, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error
