"""Answers to a search, as if its candidates had been timed."""

from collections.abc import Callable

from mxtune.configs.routes import Route
from mxtune.results.trial import Stage, State, Trial
from mxtune.tuner.search import Search


def tell(
    one: Search,
    route: Route,
    us: float = 5.0,
    stage: Stage = "screen",
    state: State = "ok",
    heat: int = 0,
) -> None:
    samples = (us,) if state in ("ok", "wrong") else ()
    trial = Trial(one.task.shape, route, stage, state, samples_us=samples, facts={"heat": heat})
    one.task.trials.append(trial)


def play(one: Search, time_us: Callable[[Route], float]) -> list[list[Route]]:
    """Answer a search until it asks for nothing more; return its batches."""
    batches: list[list[Route]] = []
    while batch := one.ask():
        batches.append(batch)
        for route in batch:
            tell(one, route, time_us(route))
    return batches
