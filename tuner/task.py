"""One shape of a sweep: what is to be tried, what is known, and what a worker's outcome means."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mxtune.configs.devices import Device
from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.candidates import Candidates, candidates
from mxtune.kernels.family import Call, Problem, RouteFamily, Step
from mxtune.kernels.registry import families as all_families
from mxtune.results.choose import ranking
from mxtune.results.trial import BASELINE, FLOOR, State, Trial
from mxtune.tuner.model import score_us
from mxtune.tuner.worker import Outcome

_STATES: dict[str, State] = {
    "OutOfLdsError": "out_of_resources",
    "OutOfResources": "out_of_resources",  # triton.runtime.errors
    "OutOfMemoryError": "oom",  # torch
    "MemoryError": "oom",
}


_BESIDE = (BASELINE.family, FLOOR.family)


@dataclass(frozen=True, slots=True)
class Done:
    """A shape that is finished."""

    shape: Shape


@dataclass(slots=True)
class Task:
    """The candidates of one shape, best modelled first, and the trials there are of them."""

    shape: Shape
    device: Device
    found: Candidates
    ranked: tuple[Route, ...]  # those that may be tried
    trials: list[Trial] = field(default_factory=list[Trial])
    goal: int = 0  # how many will be tried, as far as is known

    @property
    def untried(self) -> list[Route]:
        """Candidates that have had no first look."""
        seen = self._seen()
        return [route for route in self.ranked if route not in seen]

    @property
    def looked_at(self) -> int:
        """How many candidates have had a first look."""
        return len(self._seen())

    @property
    def skipped(self) -> int:
        """Candidates that nobody looked at."""
        return len(set(self.found.routes) - self._seen())

    def _seen(self) -> set[Route]:
        return {trial.route for trial in self.trials if trial.stage == "screen"}

    @property
    def solved(self) -> bool:
        """Whether there is a route that was found right."""
        return bool(ranking(self.trials))

    @property
    def first_failure(self) -> str:
        """Why the first candidate that failed did, in its check if one got so far.

        Without any it is why there was none to try.
        """
        failed = [trial for trial in self.trials if trial.state != "ok"]
        failed.sort(key=lambda trial: trial.stage != "check")
        reasons = (trial.reason for trial in failed)
        most_rejected = max(self.found.rejected, key=self.found.rejected.__getitem__, default="")
        return next(reasons, most_rejected)

    def steps(self, route: Route) -> tuple[Step | Call, ...]:
        """Return what ``route`` launches for the usual layout of A and C."""
        return planned(route, Problem.contiguous(self.shape, self.device)).steps

    def states(self) -> Counter[State]:
        """Count the candidates by what became of them: the latest word counts."""
        latest: dict[Route, State] = {}
        for trial in self.trials:
            if trial.route not in (BASELINE, FLOOR):
                latest[trial.route] = trial.state
        return Counter(latest.values())


def make_task(
    shape: Shape,
    families: Sequence[RouteFamily],
    device: Device,
    most: int | None,
    known: Iterable[Trial],
    recorded: Collection[Route] | None = None,
) -> Task:
    """Enumerate and rank the candidates of ``shape``, and take in the trials already there.

    ``recorded``: only these can be tried, in a replay.
    """
    found = candidates(families, shape, device)
    if recorded is not None:
        found = found.among(recorded, "not in the recording")
    problem = Problem.contiguous(shape, device)
    scores = {route: score_us(planned(route, problem).steps, device) for route in found.routes}
    ranked = tuple(_ordered(found.routes, scores)[:most])
    kept = [t for t in known if t.route.family in (*all_families(), *_BESIDE)]
    return Task(shape, device, found, ranked, kept, len(ranked))


def _ordered(routes: Iterable[Route], scores: Mapping[Route, float]) -> list[Route]:
    """Order routes best first, every third one from the families in turn.

    A limit takes the best of the model, and still leaves no family out: where the model is wrong,
    it is wrong about a whole family.
    """
    best = sorted(routes, key=lambda r: (scores[r], str(r)))
    place: Counter[str] = Counter()
    turn: dict[Route, tuple[int, int]] = {}
    for at, route in enumerate(best):
        turn[route] = (place[route.family], at)
        place[route.family] += 1
    turns = sorted(best, key=turn.__getitem__)
    pairs = zip(best[0::2], best[1::2] + best[:1], turns, strict=False)
    mixed = (route for trio in pairs for route in trio)
    return list(dict.fromkeys([*mixed, *best]))


def state_of(outcome: Outcome, otherwise: State) -> State:
    """Translate what a worker did into a trial's state; ``otherwise`` is for other exceptions.

    Raises MissingError for what the machine lacks: that is no candidate's fault.
    """
    if outcome.error == MissingError.__name__:
        raise MissingError(outcome.reason.partition(": ")[2])
    if outcome.state == "crashed":
        stopped = outcome.reason.startswith("SIGTERM")  # the whole job was, no candidate does that
        return "skipped" if stopped else "crashed"
    if outcome.state == "hung":
        return "hung"
    return _STATES.get(outcome.error, otherwise)
