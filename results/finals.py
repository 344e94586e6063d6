"""Who wins among routes as fast as each other: the simpler one, so that two sweeps agree."""

from collections import Counter
from collections.abc import Sequence

from mxtune.configs.devices import Device
from mxtune.configs.routes import Route
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import family
from mxtune.results.statistics import paired_ratio, tied
from mxtune.results.trial import Trial


def preferred(ranked: Sequence[Trial], device: Device, popular: Counter[Route]) -> list[Trial]:
    """Put the preferred one of the routes that tie with the fastest first.

    ``ranked`` is the fastest first; routes tie with it that played in the same final and were not
    shown slower, or by less than anybody would notice. Among them the one with fewer kernels wins,
    then one that gives the same bits every time, then the one that most other shapes use, then the
    first by name.
    """
    ties = ties_of(ranked)
    order = sorted(ties, key=lambda trial: _preference(trial, device, popular))
    return order + [trial for trial in ranked if trial not in ties]


def ties_of(ranked: Sequence[Trial]) -> list[Trial]:
    """Return the trials that cannot be told from the fastest, itself included."""
    if not ranked or ranked[0].stage != "final":
        return list(ranked[:1])
    best = ranked[0]
    rivals = [t for t in ranked[1:] if _same_final(t, best)]
    return [best, *(t for t in rivals if tied(paired_ratio(t.samples_us, best.samples_us)))]


def heat_of(trial: Trial) -> int:
    """Return which final of its shape a trial is of; they are numbered in the order of holding."""
    return int(trial.facts.get("heat", 0))


def _same_final(trial: Trial, best: Trial) -> bool:
    return (
        trial.stage == "final"
        and heat_of(trial) == heat_of(best)
        and _whole(trial)
        and _whole(best)
        and len(trial.samples_us) == len(best.samples_us)
    )


def _whole(trial: Trial) -> bool:
    """Whether every sample is a time: one that is not has no ratio to another."""
    return len(trial.times_us) == len(trial.samples_us)


def _preference(
    trial: Trial, device: Device, popular: Counter[Route]
) -> tuple[int, bool, int, str]:
    problem = Problem.contiguous(trial.shape, device)
    plan = family(trial.route.family).plan(trial.route.config, problem)
    used = popular[trial.route]
    return len(plan.steps), not plan.deterministic, -used, str(trial.route)
