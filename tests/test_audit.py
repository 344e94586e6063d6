"""The audit: whether what pruning left out would have won."""

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.candidates import Candidates
from mxtune.results.trial import Trial
from mxtune.tuner.audit import Audit, audit
from mxtune.tuner.task import Task

SHAPE = Shape(16, 256, 512)
KEPT, PRUNED, UNTRIED = (Route("fused", Config.of({"BLOCK_M": m})) for m in (16, 32, 64))


def task(*trials: Trial) -> Task:
    found = Candidates((KEPT,), 3, 0, {}, (PRUNED, UNTRIED))
    return Task(SHAPE, load_device("sm_90"), found, (KEPT,), list(trials))


def timed(route: Route, us: float) -> Trial:
    return Trial(SHAPE, route, "screen", "ok", samples_us=(us, us, us))


def test_a_pruned_candidate_that_beats_the_winner_is_a_loss() -> None:
    assert audit([task(timed(KEPT, 10.0), timed(PRUNED, 9.0))]) == Audit(1, 0.9)


def test_the_worst_loss_of_all_shapes_counts() -> None:
    tasks = [
        task(timed(KEPT, 10.0), timed(PRUNED, 20.0)),
        task(timed(KEPT, 10.0), timed(PRUNED, 12.5)),
    ]
    assert audit(tasks) == Audit(2, 1.25)


def test_without_a_sample_there_is_no_audit() -> None:
    assert audit([task(timed(KEPT, 10.0))]) is None


def test_a_wrong_pruned_candidate_proves_nothing() -> None:
    wrong = Trial(SHAPE, PRUNED, "screen", "wrong", "3 of 9 wrong", samples_us=(1.0,))
    assert audit([task(timed(KEPT, 10.0), wrong)]) is None
