"""Verify a submission as the contest would: its numbers on drawn inputs, and its times on a GPU.

With the contest's files it is their harness that runs, see `problem.py`. Without them it is ours:
inputs are drawn anew for every call, every element of every result is checked, caches are flushed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, geometric_mean

from mxtune.configs.errors import ConfigError, MissingError, WrongResultError
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shape_lists import load_shapes
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import find_aiter
from mxtune.kernels.layouts import weight_obstacle
from mxtune.tuner.crew import Crew, wait
from mxtune.tuner.harness_child import Check, Checked, submission_service
from mxtune.tuner.machine import Machine, probe
from mxtune.tuner.problem import run_problem
from mxtune.tuner.worker import Outcome

LIMIT_S = 900.0  # of one shape: the interpreter takes minutes for a large one
TIMED_LIST, CHECKED_LIST = "amd-mxfp4-mm", "amd-mxfp4-mm-tests"
SMALL = (Shape(4, 64, 64), Shape(17, 96, 320))  # that the interpreter checks unless told otherwise
SEED = 2026


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """Which file to verify, at which shapes, and with whose harness."""

    file: Path
    shapes: tuple[Shape, ...] = ()  # none: the contest's, or small ones without a GPU
    problem: Path | None = None  # folder of the contest's files

    def __post_init__(self) -> None:
        if not self.file.is_file():
            raise ConfigError(f"{self.file}: no such file")
        if self.problem and self.shapes:
            raise ConfigError("--problem brings its own shapes; leave MxNxK out")
        for shape in self.shapes:
            if reason := weight_obstacle(shape.n, shape.k // 2):
                raise ConfigError(f"{shape}: the contest's B is shuffled, and {reason}")


def submission_among(
    words: Sequence[str], problem: Path | None, others: Sequence[object] = ()
) -> SubmissionRequest | None:
    """Return what is asked for if the first word is a Python file; more words are shapes.

    ``others`` are the options that go with routes: none of them may be set then.
    """
    if not words or not words[0].endswith(".py"):
        if problem:
            raise ConfigError("--problem verifies a submission; name its file, as submission.py")
        return None
    if any(others):
        raise ConfigError(f"{words[0]} is called as it is; only --problem and --json go with it")
    shapes = tuple(Shape.parse(word) for word in words[1:])
    return SubmissionRequest(Path(words[0]), shapes, problem)


def verify_submission(request: SubmissionRequest, settings: Settings, *, as_json: bool) -> None:
    """Verify a submission and print what it comes to.

    Raises ConfigError for a file that cannot be imported or has no custom_kernel, WrongResultError
    for one that raises or whose result is wrong, MissingError for what this machine lacks.
    """
    machine = probe(settings)
    if machine.torch is None or machine.triton is None:
        raise MissingError(machine.note)
    if request.problem:
        report = run_problem(request.file, request.problem, machine, settings)
        print(json.dumps(report.as_json(), indent=1) if as_json else "\n".join(report.lines()))
        return
    results = dict(verified(request, machine, settings))
    print(_as_text(results) if as_json else "\n".join(_lines(results, machine)))


def verified(
    request: SubmissionRequest, machine: Machine, settings: Settings
) -> Iterator[tuple[Shape, Checked]]:
    """Yield what came of each shape; raises as `verify_submission` does at the first fault."""
    on_gpu = bool(machine.gpus)
    file, own = request.file, find_aiter().amd
    factory = partial(submission_service, str(file.absolute()), own_aiter=own)
    variables = for_child(settings, interpret=not on_gpu)
    with Crew([factory], limit_s=LIMIT_S, variables=variables) as crew:
        _accept_import(file, _answer(crew, None), own_aiter=own)
        for check in _checks(request, on_gpu=on_gpu):
            yield check.shape, _accept(file, check, _answer(crew, check))


def _checks(request: SubmissionRequest, *, on_gpu: bool) -> Iterator[Check]:
    """Yield the shapes to call it at; on a GPU those that count are timed."""
    if request.shapes or not on_gpu:
        for shape in request.shapes or SMALL:
            yield Check(shape, SEED, timed=on_gpu)
        return
    yield from (Check(shape, SEED, timed=False) for shape in load_shapes(CHECKED_LIST))
    yield from (Check(shape, SEED, timed=True) for shape in load_shapes(TIMED_LIST))


def _answer(crew: Crew, job: Check | None) -> Outcome:
    crew.submit("check", job)
    finished = wait([crew])
    while not finished:
        finished = wait([crew])
    return finished[0].outcome


def _accept_import(file: Path, outcome: Outcome, *, own_aiter: bool) -> None:
    if outcome.state != "done":
        hint = "" if own_aiter else "; AITER is not installed, and little of it is stood in for"
        lacks_aiter = "aiter" in outcome.reason
        raise ConfigError(
            f"{file}: cannot be imported: {outcome.reason}{hint if lacks_aiter else ''}"
        )
    if outcome.value.fault:
        raise ConfigError(f"{file}: {outcome.value.fault}")


def _accept(file: Path, check: Check, outcome: Outcome) -> Checked:
    if outcome.state != "done":
        raise WrongResultError(f"{file}: {check.shape}: {outcome.state}: {outcome.reason}")
    checked: Checked = outcome.value
    if checked.fault:
        raise WrongResultError(f"{file}: {check.shape}: {checked.fault}")
    return checked


def _as_text(results: dict[Shape, Checked]) -> str:
    rows = [{"shape": str(s), "times_us": list(r.times_us)} for s, r in results.items()]
    return json.dumps(rows, indent=1, allow_nan=False)


def _lines(results: dict[Shape, Checked], machine: Machine) -> Iterator[str]:
    for shape, result in results.items():
        yield f"{shape!s:<14} right{_time(result.times_us)}"
    means = [fmean(result.times_us) for result in results.values() if result.times_us]
    if means:
        yield (
            f"{'geometric mean':<14} {geometric_mean(means):.2f} us of {len(means)} shapes, "
            f"cold caches, on {machine.gpus[0].name}"
        )
    else:
        yield "time           none: interpreted; name shapes as MxNxK to check the routes they have"


def _time(times_us: Sequence[float]) -> str:
    if not times_us:
        return ""
    low, high = min(times_us), max(times_us)
    return f"  {fmean(times_us):.2f} us ({low:.2f} to {high:.2f} in {len(times_us)} calls)"
