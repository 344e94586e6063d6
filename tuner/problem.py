"""Run the contest's own harness on a submission: its files unchanged, in a child, in a folder.

The files are the user's: eval.py, utils.py, reference.py and task.py, from the problem's folder or
the one above, as they lie in gpu-mode/reference-kernels. eval.py is told a mode and a file of
specifications, writes ``key: value`` lines to the descriptor in POPCORN_FD, and ends with 0, or
with 112 where something is wrong.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import yaml

from mxtune.configs.errors import ConfigError, MissingError, WrongResultError
from mxtune.configs.settings import Settings, for_program
from mxtune.configs.shape_lists import load_shapes
from mxtune.kernels.aiter import find_aiter
from mxtune.tuner.machine import Machine

NEEDED = ("eval.py", "utils.py", "reference.py", "task.py")
STAND_INS = Path(__file__).parent / "stand_in"
_SEED = 2026  # where the problem names none
_NEWLINE = "\\n"  # as the contest's files write one within an error
_MOST_SHOWN = 200

_Results = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Mode:
    """One run of eval.py: which specifications, and how long it may take."""

    name: str
    cases: str  # tests or benchmarks
    limit_s: float


MODES = (
    Mode("test", "tests", 420.0),
    Mode("benchmark", "benchmarks", 420.0),
    Mode("leaderboard", "benchmarks", 600.0),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """The contest's files by name, and its specifications, one a line."""

    files: Mapping[str, Path]
    cases: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ProblemReport:
    """What eval.py wrote in each mode; everything in it is right."""

    results: Mapping[str, _Results]

    def lines(self) -> Iterator[str]:
        """Yield it as people read it."""
        for mode, results in self.results.items():
            if mode == "test":
                yield f"{mode:<12} all {results.get('test-count')} right"
                continue
            means: list[float] = []
            for at in range(int(results.get("benchmark-count", 0))):
                mean, best, worst = (_us(results, at, key) for key in ("mean", "best", "worst"))
                means.append(mean)
                spec = results[f"benchmark.{at}.spec"]
                yield f"{mode:<12} {mean:.2f} us ({best:.2f} to {worst:.2f})  {spec}"
            yield f"{mode:<12} {geometric_mean(means):.2f} us, the geometric mean"

    def as_json(self) -> dict[str, dict[str, str]]:
        """Return it for a program."""
        return {mode: dict(results) for mode, results in self.results.items()}


def _us(results: _Results, at: int, key: str) -> float:
    return float(results[f"benchmark.{at}.{key}"]) / 1e3  # written in nanoseconds


def read_problem(folder: Path) -> Problem:
    """Find the contest's files; raises ConfigError for what is not there or cannot be read."""
    places = {
        name: [p for p in (folder / name, folder.parent / name) if p.is_file()] for name in NEEDED
    }
    if missing := [name for name, found in places.items() if not found]:
        raise ConfigError(f"{folder}: no {missing[0]} in it or in the folder above")
    return Problem({name: found[0] for name, found in places.items()}, _cases(folder / "task.yml"))


def _cases(file: Path) -> dict[str, tuple[str, ...]]:
    """Return the specifications of task.yml, or of the contest's shapes where it is not there."""
    if not file.is_file():
        lists = {"tests": "amd-mxfp4-mm-tests", "benchmarks": "amd-mxfp4-mm"}
        return {
            cases: tuple(f"m: {s.m}; n: {s.n}; k: {s.k}; seed: {_SEED}" for s in load_shapes(name))
            for cases, name in lists.items()
        }
    try:
        task: Any = yaml.safe_load(file.read_text("utf-8"))
        return {
            cases: tuple("; ".join(f"{k}: {v}" for k, v in case.items()) for case in task[cases])
            for cases in ("tests", "benchmarks")
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file}: tests and benchmarks cannot be read ({reason})") from error


def run_problem(
    submission: Path,
    folder: Path,
    machine: Machine,
    settings: Settings,
    modes: tuple[Mode, ...] = MODES,
) -> ProblemReport:
    """Run eval.py in every one of ``modes``.

    Raises MissingError without a GPU, ConfigError for files that are no problem's, and
    WrongResultError for the first mode in which something is wrong.
    """
    problem = read_problem(folder)
    if not machine.gpus:
        raise MissingError(f"the contest's harness needs a GPU: {machine.note}")
    with tempfile.TemporaryDirectory(prefix="mxtune-problem-") as name:
        place = Path(name)
        for file, source in problem.files.items():
            shutil.copyfile(source, place / file)
        shutil.copyfile(submission, place / "submission.py")
        stand_ins = () if find_aiter().amd else (STAND_INS,)
        environment = for_program(settings, stand_ins)
        return ProblemReport({mode.name: _run(mode, problem, place, environment) for mode in modes})


def _run(mode: Mode, problem: Problem, place: Path, environment: Mapping[str, str]) -> _Results:
    """Run eval.py in one mode and return what it wrote, if all of it is right."""
    (place / "cases.txt").write_text("".join(f"{c}\n" for c in problem.cases[mode.cases]), "utf-8")
    written, said = place / f"{mode.name}.results", place / f"{mode.name}.log"
    with written.open("w", encoding="utf-8") as results, said.open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, "eval.py", mode.name, "cases.txt"],
            cwd=place,
            env={**environment, "POPCORN_FD": str(results.fileno())},
            pass_fds=(results.fileno(),),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status = _ended(program, mode.limit_s)
    found = dict(_pairs(written.read_text("utf-8", "replace")))
    if fault := _fault(status, found, mode, said):
        raise WrongResultError(f"{mode.name}: {fault}")
    return found


def _ended(program: "subprocess.Popen[bytes]", limit_s: float) -> int | None:
    """Return the exit status, None if it had to be killed, with all that it started."""
    try:
        return program.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if program.returncode is None:  # its number is still its own
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        yield key.strip(), value.strip()


def _fault(status: int | None, found: _Results, mode: Mode, said: Path) -> str:
    if status is None:
        return f"no end within {mode.limit_s:.0f} s"
    for key, value in found.items():
        if key.endswith(".error"):
            where = found.get(key.replace(".error", ".spec"), key)
            return f"{where}: {value.replace(_NEWLINE, '; ')[:_MOST_SHOWN]}"
    if status == 0 and found.get("check") == "pass":
        return ""
    lines = said.read_text("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"eval.py ended with {status}: {last[:_MOST_SHOWN]}"
