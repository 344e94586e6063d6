"""Find routes on the GPU that is here: compile on every core, check and time on the GPU."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Route
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.results.choose import ranking
from mxtune.results.trial import BASELINE, FLOOR, Trial
from mxtune.tuner.crew import Crew, Finished, wait
from mxtune.tuner.measure import FinalJob, Finals, Screened, ScreenJob, facts_of, gpu_service
from mxtune.tuner.offline import Done, compile_crew, submit_compiles, summary
from mxtune.tuner.task import Task, state_of
from mxtune.tuner.worker import Outcome

DEFAULT_CANDIDATES = 400  # of each shape, the best modelled first
FINALISTS = 8
FINAL_ROUNDS = 100

_RUN_LIMIT_S = 30.0  # one candidate: load, check twice, time
_SOUND = frozenset({"OutOfLdsError", "OutOfResources", "NoRouteError", "CompilationError"})
_FINAL = "final"  # key of a shape's finals

_Key = tuple[Shape, Route] | tuple[Shape, str]


def sweep_measured(
    tasks: Sequence[Task], device: Device, gpu: str, settings: Settings
) -> Iterator[Trial | Done]:
    """Yield a trial for each candidate as it is measured, then the finals of its shape."""
    by_shape = {task.shape: task for task in tasks}
    bench = Crew(
        partial(gpu_service, device, gpu, Regime()),
        size=1,
        limit_s=_RUN_LIMIT_S,
        variables=for_child(settings, interpret=False),
        sound_after=_SOUND,
    )
    with compile_crew(settings) as compilers, bench:
        submit_compiles(compilers, tasks)
        compiled: dict[tuple[Shape, Route], dict[str, Any]] = {}
        playing: set[Shape] = set()
        unfinished = set(by_shape)
        while unfinished:
            for shape in [s for s in by_shape if s in unfinished and s not in playing]:
                task = by_shape[shape]
                if task.untried:
                    continue
                if _finalists(task):
                    playing.add(shape)
                    bench.submit((shape, _FINAL), FinalJob(shape, _finalists(task), FINAL_ROUNDS))
                else:
                    unfinished.remove(shape)
                    yield Done(shape)
            for finished in wait((compilers, bench)) if unfinished else ():
                shape, what = finished.key
                for trial in _trials(by_shape[shape], compiled, bench, finished):
                    by_shape[shape].trials.append(trial)
                    yield trial
                if what == _FINAL:
                    playing.remove(shape)


def _trials(
    task: Task, compiled: dict[tuple[Shape, Route], dict[str, Any]], bench: Crew, done: Finished
) -> list[Trial]:
    """Turn an outcome into trials; a candidate that compiled goes on to the GPU instead."""
    shape, what = done.key
    outcome = done.outcome
    if what == _FINAL:
        return _final_trials(task, outcome)
    if done.key in compiled:
        return [_screened(shape, what, compiled.pop(done.key), outcome)]
    if outcome.state != "done":
        state = state_of(outcome, otherwise="failed_compile")
        return [Trial(shape, what, "screen", state, outcome.reason)]
    compiled[done.key] = {"objects": summary(outcome.value).model_dump()}
    bench.submit(done.key, ScreenJob(shape, what))
    return []


def _screened(shape: Shape, route: Route, facts: dict[str, Any], outcome: Outcome) -> Trial:
    if outcome.state != "done":
        state = state_of(outcome, otherwise="crashed")
        return Trial(shape, route, "screen", state, outcome.reason, facts=facts)
    result: Screened = outcome.value
    return Trial(
        shape=shape,
        route=route,
        stage="screen",
        state="ok" if result.verdict.ok else "wrong",
        reason=result.verdict.reason,
        samples_us=result.samples_us,
        facts=facts | facts_of(result.verdict, shape),
    )


def _finalists(task: Task) -> tuple[Route, ...]:
    """Return the best few screened, none once the finals were held or lost."""
    if any(trial.stage == "final" for trial in task.trials):
        return ()
    return tuple(trial.route for trial in ranking(task.trials)[:FINALISTS])


def _final_trials(task: Task, outcome: Outcome) -> list[Trial]:
    """Return the samples of the finals, or what became of them for each finalist."""
    routes = _finalists(task)
    if outcome.state != "done":
        state = state_of(outcome, otherwise="crashed")
        return [Trial(task.shape, r, "final", state, f"finals: {outcome.reason}") for r in routes]
    finals: Finals = outcome.value
    named = [*zip(routes, finals.routes, strict=True), (FLOOR, finals.floor)]
    named.append((BASELINE, finals.baseline))
    return [Trial(task.shape, r, "final", "ok", samples_us=samples) for r, samples in named]
