"""Find routes for a GPU that is not here: compile, model, and check the winner's numbers.

Every candidate is compiled for the target, so that what does not fit or loses its matrix
instructions is known. The model ranks the rest. The best is then run in Triton's interpreter and
compared with the reference, at the whole shape or, where that takes too long, at a reduced one with
the same tails and splits; if it is wrong the next best is tried. What is right there has its
machine code executed by the emulator, at a reduced shape with tails, and must be right again.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from mxtune.configs.routes import Route
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Call, Step
from mxtune.kernels.registry import family
from mxtune.results.choose import by_score, ranking, scored
from mxtune.results.trial import Stage, State, Trial
from mxtune.tuner.check import SEEDS
from mxtune.tuner.compilers import compile_crew
from mxtune.tuner.crew import Crew, Finished, wait
from mxtune.tuner.emulate.job import (
    TARGET,
    Emulated,
    EmulateJob,
    emulate_service,
    missing_parts,
)
from mxtune.tuner.interpret import Interpreted, InterpretJob, interpret_service
from mxtune.tuner.measure import facts_of
from mxtune.tuner.model import score_us
from mxtune.tuner.objects import CompileJob, ObjectFacts, summary
from mxtune.tuner.reduced import ragged, reduced
from mxtune.tuner.task import Done, Task, state_of
from mxtune.tuner.worker import Factory, Outcome

DEFAULT_CANDIDATES = 40  # of each shape: about 20 s of compiling on two cores
_CHECK_LIMIT_S = 300.0
_WHOLE_SHAPE_S = 20.0  # above this the reduced shape is interpreted instead
_CHECKS = 8  # how many of the best are checked before a shape is given up

# What the interpreter takes for one iteration of one program, on one core of a laptop.
_ITERATION_S = {"quantise": 0.003, "gemm": 0.006, "fused": 0.01, "reduce": 0.001, "zero": 0.001}


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
    interpreters, emulators = _crew(interpret_service, settings), _crew(emulate_service, settings)
    with compile_crew(settings) as compilers, interpreters, emulators:
        submit_compiles(compilers, tasks)
        crews: dict[Stage, Crew] = {"check": interpreters, "emulate": emulators}
        unfinished = dict(by_shape)
        checking: dict[Shape, Stage] = {}
        while unfinished:
            for trial in _skipped(compilers, deadline):
                by_shape[trial.shape].trials.append(trial)
                yield trial
            for task in [t for t in unfinished.values() if not t.untried]:
                if task.shape in checking:
                    continue
                step = _next_step(task)
                if step is None:
                    del unfinished[task.shape]
                    yield Done(task.shape)
                else:
                    checking[task.shape] = step.stage
                    crews[step.stage].submit((task.shape, step.route), step.job)
            if not unfinished:
                return
            for finished in wait((compilers, *crews.values())):
                trial = _trial(by_shape, checking, finished)
                by_shape[trial.shape].trials.append(trial)
                yield trial


def _crew(service: Factory, settings: Settings) -> Crew:
    variables = for_child(settings, interpret=service is interpret_service)
    return Crew([service], limit_s=_CHECK_LIMIT_S, variables=variables)


def _skipped(compilers: Crew, deadline: float | None) -> list[Trial]:
    """Return what no compiler has begun, once it is too late for that."""
    if deadline is None or time.monotonic() < deadline:
        return []
    return [
        Trial(shape, route, "screen", "skipped", "the budget was spent")
        for shape, route in compilers.drop_waiting()
    ]


def _trial(by_shape: dict[Shape, Task], checking: dict[Shape, Stage], finished: Finished) -> Trial:
    """Turn an outcome of a crew into a trial."""
    shape, route = finished.key
    if shape in checking:
        return _checked(shape, route, checking.pop(shape), finished.outcome)
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


def _checked(shape: Shape, route: Route, stage: Stage, outcome: Outcome) -> Trial:
    if outcome.state != "done":
        return Trial(shape, route, stage, state_of(outcome, otherwise="crashed"), outcome.reason)
    result: Interpreted | Emulated = outcome.value
    facts = {**facts_of(result.verdict, result.shape), "seconds": round(result.seconds, 1)}
    if isinstance(result, Emulated):
        facts["seeds"] = 1
        facts["kernels"] = [asdict(kernel) for kernel in result.kernels]
    state: State = "ok" if result.ok else "wrong"
    return Trial(shape, route, stage, state, result.reason, facts=facts)


@dataclass(frozen=True, slots=True)
class _NextStep:
    """What is to be done next for a shape."""

    stage: Stage
    route: Route
    job: InterpretJob | EmulateJob


def _next_step(task: Task) -> _NextStep | None:
    """Check the best route not checked yet until one is right, then execute its machine code.

    None once that is done, or enough were wrong.
    """
    right = ranking(task.trials)
    if right:
        return _emulation(task, right[0].route)
    tried = [trial.route for trial in task.trials if trial.stage == "check"]
    waiting = [t.route for t in sorted(scored(task.trials), key=by_score) if t.route not in tried]
    if len(tried) >= _CHECKS or not waiting:
        return None
    job = InterpretJob(waiting[0], _shape_to_check(task, waiting[0]), task.device)
    return _NextStep("check", waiting[0], job)


def _emulation(task: Task, route: Route) -> _NextStep | None:
    done = any(trial.stage == "emulate" and trial.route == route for trial in task.trials)
    if done or task.device.arch != TARGET or missing_parts():
        return None
    job = EmulateJob(route, _ragged(task, route), task.device, SEEDS[0])
    return _NextStep("emulate", route, job)


def _ragged(task: Task, route: Route) -> Shape:
    """Return the smallest shape with tails that the route's code can be executed at."""
    shape = ragged(task.shape, route.config)
    legal = family(route.family).legality(route.config, shape, task.device).grade != "illegal"
    return shape if legal else reduced(task.shape, route.config)


def _shape_to_check(task: Task, route: Route) -> Shape:
    whole = sum(_interpreting_s(step) for step in task.steps(route)) * 2  # the gate runs it twice
    return task.shape if whole <= _WHOLE_SHAPE_S else reduced(task.shape, route.config)


def _interpreting_s(step: Step | Call) -> float:
    return step.work.programs * step.work.iterations * _ITERATION_S[step.name]
