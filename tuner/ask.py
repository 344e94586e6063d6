"""Ask one worker a few things in turn, or many workers many, and wait for the answers."""

import os
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from mxtune.configs.errors import MissingError, MxtuneError, NoRouteError
from mxtune.tuner.crew import Crew, Finished, wait
from mxtune.tuner.worker import Factory, Job, Outcome

# Exceptions that a worker raises for what the user can mend, by the name that reaches the parent.
_USER_ERRORS: Mapping[str, type[MxtuneError]] = {
    "MissingError": MissingError,
    "NoRouteError": NoRouteError,
}


def ask(
    factory: Factory, jobs: Sequence[Job], variables: Mapping[str, str], limit_s: float
) -> Generator[Any, None, None]:
    """Yield what the service returns for each job.

    Raises MxtuneError if a job fails, the one it failed with where that was one of ours.
    """
    with Crew([factory], limit_s=limit_s, variables=variables) as crew:
        for job in jobs:
            crew.submit("job", job)
            finished = wait([crew])
            while not finished:
                finished = wait([crew])
            yield _value(finished[0].outcome)


def ask_many(
    factory: Factory, jobs: Mapping[Any, Job], variables: Mapping[str, str], limit_s: float
) -> Generator[Finished, None, None]:
    """Yield what became of each job, by its key, as several workers finish them."""
    workers = min(len(jobs), os.cpu_count() or 1)
    with Crew([factory] * workers, limit_s=limit_s, variables=variables) as crew:
        for key, job in jobs.items():
            crew.submit(key, job)
        left = len(jobs)
        while left:
            finished = wait([crew])
            left -= len(finished)
            yield from finished


def _value(outcome: Outcome) -> Any:
    if outcome.state == "done":
        return outcome.value
    kind = _USER_ERRORS.get(outcome.error)
    if kind:
        raise kind(outcome.reason.partition(": ")[2])
    raise MxtuneError(f"the worker {outcome.state}: {outcome.reason}")
