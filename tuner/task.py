"""One shape of a sweep: what is to be tried, what is known, and what a worker's outcome means."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mxtune.configs.devices import Device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.candidates import Candidates, candidates
from mxtune.kernels.family import Problem, RouteFamily, Step
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


@dataclass(slots=True)
class Task:
    """The candidates of one shape, best modelled first, and the trials there are of them."""

    shape: Shape
    device: Device
    found: Candidates
    ranked: tuple[Route, ...]  # those that will be tried
    trials: list[Trial] = field(default_factory=list[Trial])

    @property
    def untried(self) -> list[Route]:
        """Candidates that have had no first look."""
        seen = {trial.route for trial in self.trials if trial.stage == "screen"}
        return [route for route in self.ranked if route not in seen]

    @property
    def looked_at(self) -> int:
        """How many candidates have had a first look."""
        return len(self.ranked) - len(self.untried)

    @property
    def skipped(self) -> int:
        """Candidates beyond the limit of the sweep."""
        return len(self.found.routes) - len(self.ranked)

    @property
    def solved(self) -> bool:
        """Whether there is a route that was found right."""
        return bool(ranking(self.trials))

    @property
    def first_failure(self) -> str:
        """Why the first candidate that failed did; without any, why there was none to try."""
        reasons = (trial.reason for trial in self.trials if trial.state != "ok")
        most_rejected = max(self.found.rejected, key=self.found.rejected.__getitem__, default="")
        return next(reasons, most_rejected)

    def steps(self, route: Route) -> tuple[Step, ...]:
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
) -> Task:
    """Enumerate and rank the candidates of ``shape``, and take in the trials already there."""
    found = candidates(families, shape, device)
    problem = Problem.contiguous(shape, device)
    scores = {route: score_us(planned(route, problem).steps, device) for route in found.routes}
    task = Task(shape, device, found, tuple(_by_turns(found.routes, scores)[:most]))
    wanted = {*task.ranked, BASELINE, FLOOR}
    task.trials += [trial for trial in known if trial.route in wanted]
    return task


def _by_turns(routes: Iterable[Route], scores: Mapping[Route, float]) -> list[Route]:
    """Order routes best first, families in turn: a limit must not leave a family out."""
    place: Counter[str] = Counter()
    turns: dict[Route, tuple[int, float, str]] = {}
    for route in sorted(routes, key=lambda r: (scores[r], str(r))):
        turns[route] = (place[route.family], scores[route], str(route))
        place[route.family] += 1
    return sorted(turns, key=turns.__getitem__)


def state_of(outcome: Outcome, otherwise: State) -> State:
    """Translate what a worker did into a trial's state; ``otherwise`` is for other exceptions."""
    if outcome.state == "crashed":
        return "crashed"
    if outcome.state == "hung":
        return "hung"
    return _STATES.get(outcome.error, otherwise)
