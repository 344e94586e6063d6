"""Find routes for a GPU that is not here: compile, model, and check the winner's numbers.

Every candidate is compiled for the target, so that what does not fit or loses its matrix
instructions is known. The model ranks the rest. The best is then run in Triton's interpreter and
compared with the reference, at the whole shape or, where that takes too long, at a reduced one with
the same tails and splits; if it is wrong the next best is tried.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from mxtune.configs.routes import Route
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Step
from mxtune.results.choose import by_score, ranking, scored
from mxtune.results.trial import State, Trial
from mxtune.tuner.compilers import compile_crew
from mxtune.tuner.crew import Crew, Finished, wait
from mxtune.tuner.interpret import Interpreted, InterpretJob, interpret_service
from mxtune.tuner.measure import facts_of
from mxtune.tuner.model import score_us
from mxtune.tuner.objects import CompileJob, ObjectFacts, summary
from mxtune.tuner.reduced import reduced
from mxtune.tuner.task import Done, Task, state_of
from mxtune.tuner.worker import Outcome

DEFAULT_CANDIDATES = 40  # of each shape: about 20 s of compiling on two cores
_CHECK_LIMIT_S = 300.0
_WHOLE_SHAPE_S = 20.0  # above this the reduced shape is interpreted instead
_CHECKS = 8  # how many of the best are checked before a shape is given up

# What the interpreter takes for one iteration of one program, on one core of a laptop.
_ITERATION_S = {"quantise": 0.003, "gemm": 0.006, "fused": 0.010, "reduce": 0.001}


def submit_compiles(crew: Crew, tasks: Iterable[Task]) -> None:
    """Hand every untried candidate to the compilers, shape by shape."""
    for task in tasks:
        for route in task.untried:
            crew.submit((task.shape, route), CompileJob(route, task.shape, task.device))


def sweep_offline(
    tasks: Sequence[Task], settings: Settings, deadline: float | None = None
) -> Iterator[Trial | Done]:
    """Yield a trial for each candidate as it is compiled, then checks until one is right.

    At the ``deadline``, by time.monotonic(), compiling ends; the best so far is still checked.
    """
    by_shape = {task.shape: task for task in tasks}
    interpreters = Crew(
        [interpret_service],
        limit_s=_CHECK_LIMIT_S,
        variables=for_child(settings, interpret=True),
    )
    with compile_crew(settings) as compilers, interpreters:
        submit_compiles(compilers, tasks)
        unfinished = dict(by_shape)
        checking: set[Shape] = set()
        while unfinished:
            for trial in _skipped(compilers, deadline):
                by_shape[trial.shape].trials.append(trial)
                yield trial
            for task in [t for t in unfinished.values() if not t.untried]:
                if task.shape in checking:
                    continue
                route = _next_check(task)
                if route is None:
                    del unfinished[task.shape]
                    yield Done(task.shape)
                else:
                    checking.add(task.shape)
                    shape = _shape_to_check(task, route)
                    interpreters.submit(
                        (task.shape, route), InterpretJob(route, shape, task.device)
                    )
            if not unfinished:
                return
            for finished in wait((compilers, interpreters)):
                trial = _trial(by_shape, checking, finished)
                by_shape[trial.shape].trials.append(trial)
                yield trial


def _skipped(compilers: Crew, deadline: float | None) -> list[Trial]:
    """Return what no compiler has begun, once it is too late for that."""
    if deadline is None or time.monotonic() < deadline:
        return []
    return [
        Trial(shape, route, "screen", "skipped", "the budget was spent")
        for shape, route in compilers.drop_waiting()
    ]


def _trial(by_shape: dict[Shape, Task], checking: set[Shape], finished: Finished) -> Trial:
    """Turn an outcome of either crew into a trial."""
    shape, route = finished.key
    if shape in checking:
        checking.remove(shape)
        return _checked(shape, route, finished.outcome)
    return _compiled(by_shape[shape], route, finished.outcome)


def _compiled(task: Task, route: Route, outcome: Outcome) -> Trial:
    if outcome.state != "done":
        state = state_of(outcome, otherwise="failed_compile")
        return Trial(task.shape, route, "screen", state, outcome.reason)
    objects: tuple[ObjectFacts, ...] = outcome.value
    obstacles = [facts.obstacle for facts in objects if facts.obstacle]
    if obstacles:
        return Trial(task.shape, route, "screen", "failed_compile", obstacles[0])
    facts = {
        "score_us": score_us(task.steps(route), task.device),
        "objects": summary(objects).model_dump(),
        "kernels": [asdict(part) for part in objects],
    }
    return Trial(task.shape, route, "screen", "ok", facts=facts)


def _checked(shape: Shape, route: Route, outcome: Outcome) -> Trial:
    if outcome.state != "done":
        return Trial(shape, route, "check", state_of(outcome, otherwise="crashed"), outcome.reason)
    result: Interpreted = outcome.value
    state: State = "ok" if result.verdict.ok else "wrong"
    facts = {**facts_of(result.verdict, result.shape), "seconds": round(result.seconds, 1)}
    return Trial(shape, route, "check", state, result.verdict.reason, facts=facts)


def _next_check(task: Task) -> Route | None:
    """Return the best route not checked yet; None once one is right or enough were wrong."""
    tried = [trial.route for trial in task.trials if trial.stage == "check"]
    if ranking(task.trials) or len(tried) >= _CHECKS:
        return None
    waiting = [t.route for t in sorted(scored(task.trials), key=by_score) if t.route not in tried]
    return waiting[0] if waiting else None


def _shape_to_check(task: Task, route: Route) -> Shape:
    whole = sum(_interpreting_s(step) for step in task.steps(route)) * 2  # the gate runs it twice
    return task.shape if whole <= _WHOLE_SHAPE_S else reduced(task.shape, route.config)


def _interpreting_s(step: Step) -> float:
    return step.work.programs * step.work.iterations * _ITERATION_S[step.name]
