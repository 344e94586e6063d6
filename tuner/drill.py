"""The drill: every way in which a candidate can fail goes through the real engine, and is survived.

Nothing is mocked but the candidates: workers, limits, gate, clock and finals are those of a sweep.
"""

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import MissingError
from mxtune.configs.regimes import Regime
from mxtune.configs.settings import Settings
from mxtune.configs.shapes import Shape
from mxtune.kernels.candidates import Candidates
from mxtune.results.trial import Trial
from mxtune.tuner.faults import (
    FAMILY,
    FAULTS,
    WINNER,
    Fault,
    fault_bench,
    fault_compiler,
    fault_of,
)
from mxtune.tuner.ledger import Ledger
from mxtune.tuner.machine import Machine
from mxtune.tuner.measured import RUN_LIMIT_S, sweep_measured
from mxtune.tuner.request import OFFLINE_TARGET
from mxtune.tuner.search import Effort, Search
from mxtune.tuner.task import Task

# Tries every candidate, and lets every right one play a final long enough to end all luck.
_EFFORT = Effort("drill", seeds=None, rounds=0, around=0, finalists=0, final_rounds=100)
_SHAPE = Shape(16, 256, 512)
_COMPILE_LIMIT_S = 3.0  # a stub compiles at once
_CPU_RUN_LIMIT_S = 3.0  # and takes milliseconds


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a drill takes place."""

    place: str  # cpu, or the backend of the GPU
    device: Device
    gpu: str  # as torch names it; cpu for none
    run_limit_s: float


@dataclass(frozen=True, slots=True)
class Drilled:
    """What was expected of one fault, or of the whole drill, and what came."""

    place: str
    kind: str
    expected: str
    found: str
    reason: str
    seconds: float  # since the drill began
    passed: bool


def drill(machine: Machine, settings: Settings) -> Iterator[Drilled]:
    """Yield every fault as it is over: on the CPU, then on the first GPU if there is one.

    Raises MissingError without torch.
    """
    for ground in grounds(machine):
        yield from drill_on(ground, faults_for(ground.place), settings)


def report(machine: Machine, settings: Settings, *, as_json: bool) -> int:
    """Print each fault as it is over; return 1 if one was not survived."""
    survived = True
    for drilled in drill(machine, settings):
        print(json.dumps(asdict(drilled)) if as_json else line(drilled), flush=True)
        survived = survived and drilled.passed
    return int(not survived)


def grounds(machine: Machine) -> tuple[Ground, ...]:
    """Return where drills can be held on this machine."""
    if machine.torch is None:
        raise MissingError("torch is not installed; a drill needs it: pip install 'mxtune[cpu]'")
    cpu = Ground("cpu", load_device(OFFLINE_TARGET), "cpu", _CPU_RUN_LIMIT_S)
    usable = () if machine.note else machine.gpus[:1]
    return (cpu, *(Ground(device.backend, device, "cuda:0", RUN_LIMIT_S) for device in usable))


def faults_for(place: str) -> tuple[Fault, ...]:
    """Return the faults that can be had at a place."""
    return tuple(fault for fault in FAULTS if place in fault.places)


def drill_on(ground: Ground, faults: Sequence[Fault], settings: Settings) -> Iterator[Drilled]:
    """Let ``faults`` happen, then look at the whole: the states, the finals, the processes."""
    begin = time.monotonic()
    before = set(multiprocessing.active_children())
    task = fault_task(faults, ground.device)
    for trial in sweep_faults(task, ground, settings):
        if trial.route.family == FAMILY and (trial.stage == "final" or trial.state != "ok"):
            yield _survived(ground, trial, time.monotonic() - begin)
    left = set(multiprocessing.active_children()) - before
    for kind, expected, found in (
        ("states", f"{len(faults)} candidates", _tally(task)),
        ("finals", f"won by {WINNER}", f"won by {winner(task)}"),
        ("processes", "0 left", f"{len(left)} left"),
    ):
        passed = found.startswith(expected)
        seconds = time.monotonic() - begin
        yield Drilled(ground.place, kind, expected, found, "", seconds, passed)


def fault_task(faults: Sequence[Fault], device: Device) -> Task:
    """Return a task whose candidates are ``faults``."""
    routes = tuple(fault.route for fault in faults)
    return Task(_SHAPE, device, Candidates(routes, len(routes), 0, {}, ()), routes)


def sweep_faults(task: Task, ground: Ground, settings: Settings) -> Iterator[Trial]:
    """Send a task of faults through the engine, under short limits."""
    regime = Regime()
    events = sweep_measured(
        [Search(task, _EFFORT)],
        [partial(fault_bench, ground.device, ground.gpu, regime)],
        regime,
        settings,
        Ledger(),
        compiler=fault_compiler,
        run_limit_s=ground.run_limit_s,
        compile_limit_s=_COMPILE_LIMIT_S,
    )
    return (event for event in events if isinstance(event, Trial))


def winner(task: Task) -> str:
    """Return the kind that is fastest in the finals; empty if none was held."""
    finals = [t for t in task.trials if t.stage == "final" and t.state == "ok"]
    timed = [trial for trial in finals if trial.times_us and trial.route.family == FAMILY]
    return min(timed, key=lambda t: t.median_us).route.config.text("kind") if timed else ""


def line(drilled: Drilled) -> str:
    """Return one result as plain text."""
    mark = "survived" if drilled.passed else "NOT SURVIVED"
    asked = "" if drilled.passed else f", expected {drilled.expected}"
    reason = f" ({drilled.reason})" if drilled.reason else ""
    what = f"{drilled.kind}: {drilled.found}{asked}{reason}"
    return f"{drilled.seconds:6.1f} s  {drilled.place}  {mark}  {what}"


def _survived(ground: Ground, trial: Trial, seconds: float) -> Drilled:
    fault = fault_of(trial.route)
    return Drilled(
        place=ground.place,
        kind=fault.kind,
        expected=fault.expected,
        found=trial.state,
        reason=trial.reason,
        seconds=round(seconds, 2),
        passed=trial.state == fault.expected,
    )


def _tally(task: Task) -> str:
    """Count the candidates that have a first look and a state, and the states."""
    screens = Counter(trial.route for trial in task.trials if trial.stage == "screen")
    once = sum(count == 1 for count in screens.values())
    states = ", ".join(f"{count} {state}" for state, count in sorted(task.states().items()))
    return f"{once} candidates: {states}"
