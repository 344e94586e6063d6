"""What crashed or hung is not tried again, here or at shapes like it, until something changes.

The store remembers it: trials of one session share the code, the device, the driver and the
versions, so a session that differs in any of them starts without a quarantine. Shapes are alike if
they have the same (N, K) and an M of the same power of two.
"""

from collections.abc import Iterable

from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.tiles import next_power_of_two
from mxtune.results.trial import Trial

_DANGEROUS = ("crashed", "hung")


def shape_class(shape: Shape) -> tuple[int, int, int]:
    """Return what shapes that behave alike have in common."""
    return next_power_of_two(shape.m), shape.n, shape.k


def quarantined(shape: Shape, trials: Iterable[Trial]) -> dict[Route, str]:
    """Return the routes not to be tried at ``shape``, with what each did where."""
    return {
        trial.route: f"{trial.state} at {trial.shape}: {trial.reason}"
        for trial in trials
        if trial.state in _DANGEROUS and shape_class(trial.shape) == shape_class(shape)
    }


def dangerous(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that crashed or hung, unless the same was tried again since and did not."""
    latest = {(trial.shape, trial.route, trial.stage): trial for trial in trials}
    return [trial for trial in latest.values() if trial.state in _DANGEROUS]


def without_dangerous(trials: Iterable[Trial]) -> list[Trial]:
    """Return ``trials`` as if nothing had crashed, hung or been quarantined: all is tried again."""
    return [t for t in trials if t.state not in (*_DANGEROUS, "quarantined")]
