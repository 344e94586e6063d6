"""Which candidates of a shape to try, given what the ones before came to.

First the seeds: routes already known to win (here, at neighbouring shapes, in an imported table)
and the best of the model, families in turn. Then steps from the best few to routes that differ in
one setting by one notch, as long as that finds something faster. The search only names routes; who
tries them (a GPU, a recording) tells it the outcome.
"""

import itertools
import random
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Route, Value
from mxtune.results.finals import heat_of
from mxtune.results.trial import BASELINE, FLOOR, Trial
from mxtune.tuner.task import Task


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look: the thresholds of a search, in one place."""

    name: str
    seeds: int | None  # the best modelled candidates; None: all of them
    rounds: int  # of local refinement, at most
    around: int  # of the best candidates that each round starts from
    finalists: int  # at most, beside the incumbents; 0: every right candidate plays
    final_rounds: int
    audit: int = 0  # candidates that pruning left out which are tried all the same


# A candidate is dropped while it is being timed once its median exceeds these multiples of the best
# of its shape: after 3 readings, then after 10 (the thresholds of PyTorch's TunableOp).
DROP_AFTER = ((3, 1.5), (10, 1.15))

# A family is followed up from its own best candidate while that is within this of the best.
_FAMILY_REACH = 1.6

EFFORTS = {
    effort.name: effort
    for effort in (
        Effort("quick", seeds=15, rounds=1, around=2, finalists=8, final_rounds=60),
        Effort("default", seeds=96, rounds=4, around=4, finalists=12, final_rounds=150),
        Effort(
            "exhaustive", seeds=None, rounds=0, around=0, finalists=0, final_rounds=30, audit=24
        ),
    )
}


def effort_of(name: str) -> Effort:
    """Return an effort by name."""
    if name not in EFFORTS:
        raise ConfigError(f"no effort is called {name!r}: one of {', '.join(EFFORTS)}")
    return EFFORTS[name]


@dataclass(slots=True)
class Search:
    """The search of one shape."""

    task: Task
    effort: Effort
    known: tuple[Route, ...] = ()  # routes that won elsewhere, tried first
    quarantined: Mapping[Route, str] = field(default_factory=dict[Route, str])  # and why
    most: int | None = None  # routes to try at most
    asked: set[Route] = field(default_factory=set[Route])
    rounds_left: int = 0
    best: Route | None = None
    over: bool = False

    def __post_init__(self) -> None:
        self.rounds_left = self.effort.rounds
        self.asked.update(trial.route for trial in self.task.trials if trial.stage == "screen")

    def ask(self) -> list[Route]:
        """Return the next routes to try; none while answers are missing, or at the end."""
        if self.waiting or self.over:
            return []
        batch = [route for route in self._seeds() if route not in self.asked]
        while not batch and self.rounds_left:
            batch = self._refinements()
        batch = list(dict.fromkeys(batch))
        if self.most is not None:
            batch = batch[: max(0, self.most - len(self.asked))]
        self.asked.update(batch)
        self.task.goal = len(self.asked)
        return batch

    def stop(self) -> None:
        """Ask for nothing more: the budget is spent."""
        self.over = True

    @property
    def waiting(self) -> bool:
        """Whether a route that was asked for has no outcome yet."""
        told = {trial.route for trial in self.task.trials if trial.stage == "screen"}
        return not self.asked <= told

    def _seeds(self) -> Iterator[Route]:
        yield from self.known
        yield from self.task.ranked[: self.effort.seeds]
        pruned = list(self.task.found.pruned)
        count = min(self.effort.audit, len(pruned))
        yield from random.Random(str(self.task.shape)).sample(pruned, count)

    def _leaders(self) -> list[Route]:
        """Return the best few, and the best of every family that is not far behind them."""
        ranked = fastest(self.task.trials)
        chosen = [trial.route for trial in ranked[: self.effort.around]]
        for trial in ranked:
            near = trial.median_us <= _FAMILY_REACH * ranked[0].median_us
            if near and trial.route.family not in {route.family for route in chosen}:
                chosen.append(trial.route)
        return chosen

    def _refinements(self) -> list[Route]:
        """Take one round: the untried neighbours of the best, if the last round found a better."""
        leaders = self._leaders()
        if not leaders or leaders[0] == self.best:
            self.rounds_left = 0
            return []
        self.rounds_left -= 1
        self.best = leaders[0]
        axes = notches(self.task.found.routes)
        legal = set(self.task.found.routes)
        steps = (step for route in leaders for step in neighbours(route, axes, legal))
        return [route for route in dict.fromkeys(steps) if route not in self.asked]


def fastest(trials: Iterable[Trial]) -> list[Trial]:
    """Return the right candidates by their first reading, the fastest first."""
    right = [t for t in trials if t.stage == "screen" and t.state == "ok" and t.times_us]
    return sorted(right, key=lambda t: (t.median_us, str(t.route)))


_HEAT = 24  # routes that play together: a round of them takes a few milliseconds


def heats(search: "Search") -> list[tuple[Route, ...]]:
    """Return who plays in the finals: the best few and the incumbents, or everybody in groups.

    Every group after the first has the leader in it too, so that groups can be compared.
    """
    ranked = [trial.route for trial in fastest(search.task.trials)]
    incumbents = [route for route in search.known if route in ranked]
    if search.effort.finalists:
        playing = ranked[: search.effort.finalists]
        return [tuple(dict.fromkeys([*playing, *incumbents]))] if playing else []
    starts = range(_HEAT, len(ranked), _HEAT - 1)
    rest = [(ranked[0], *ranked[at : at + _HEAT - 1]) for at in starts]
    return [tuple(ranked[:_HEAT]), *rest] if ranked else []


_DECIDERS = 16  # routes of the last final, where everybody played in groups before


def decider(search: "Search") -> tuple[Route, ...]:
    """Return who plays in the last final: the best of all groups; nobody if there was but one.

    The leader of the first look played in every group. Times are compared as multiples of its own,
    so that a group that met a slower moment loses nothing by that.
    """
    finals = [t for t in search.task.trials if (t.stage, t.state) == ("final", "ok") and t.times_us]
    ranked = fastest(search.task.trials)
    if not ranked or search.effort.finalists or len({heat_of(t) for t in finals}) < 2:
        return ()
    pace = {heat_of(t): t.median_us for t in finals if t.route == ranked[0].route}
    playing = [t for t in finals if t.route not in (FLOOR, BASELINE) and heat_of(t) in pace]
    playing.sort(key=lambda t: (t.median_us / pace[heat_of(t)], str(t.route)))
    return tuple(dict.fromkeys(t.route for t in playing))[:_DECIDERS]


Axes = dict[tuple[str, str], list[Value]]


def notches(routes: Iterable[Route]) -> Axes:
    """Return the values of each setting of each family that occur, in order."""
    seen: dict[tuple[str, str], set[Value]] = {}
    for route in routes:
        for name, value in route.config.items():
            seen.setdefault((route.family, name), set()).add(value)
    return {axis: sorted(values, key=_notch) for axis, values in seen.items()}


def _notch(value: Value) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, value)


def neighbours(route: Route, axes: Axes, among: Container[Route]) -> Iterator[Route]:
    """Yield the nearest routes of ``among`` on either side along each setting.

    Spaces are sparse: a value that other routes have need not go with the rest of this one's.
    """
    for name, value in route.config.items():
        values = axes.get((route.family, name), [])
        at = values.index(value) if value in values else -1
        for side in (values[:at][::-1], values[at + 1 :]) if at >= 0 else ():
            steps = (Route(route.family, route.config.changed(**{name: v})) for v in side)
            yield from itertools.islice((step for step in steps if step in among), 1)
