"""What pruning would have lost: a sample of the candidates that it left out, really tried."""

from collections.abc import Iterable
from dataclasses import dataclass

from mxtune.results.choose import ranking
from mxtune.tuner.task import Task


@dataclass(frozen=True, slots=True)
class Audit:
    """How many pruned candidates were tried, and the best of them as a multiple of the winner."""

    tried: int
    best: float


def audit(tasks: Iterable[Task]) -> Audit | None:
    """Compare pruned candidates with the winners of their shapes; None if none was right."""
    tried, ratios = 0, list[float]()
    for task in tasks:
        pruned = set(task.found.pruned)
        ranked = [trial for trial in ranking(task.trials) if trial.times_us]
        ours = [trial for trial in ranked if trial.route in pruned]
        tried += len(ours)
        rivals = [trial.median_us for trial in ranked if trial.route not in pruned]
        if ours and rivals:
            ratios.append(min(trial.median_us for trial in ours) / min(rivals))
    return Audit(tried, min(ratios)) if ratios else None
