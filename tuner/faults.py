"""Candidates that fail on purpose, and the services that compile, check and time them.

They are routes of a family of their own that no registry knows: no sweep of a user meets them.
Each kind says what is to become of it. What takes time takes it on a Chip: on a GPU that really
waits, elsewhere it is a number that a stand-in clock reads.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Config, Route
from mxtune.kernels.family import Problem
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.results.trial import State
from mxtune.tuner import fault_launches as launches
from mxtune.tuner.fault_launches import FOREVER_S, Act, Good
from mxtune.tuner.measure import Bench
from mxtune.tuner.objects import CompileJob, ObjectFacts
from mxtune.tuner.timing import Call, Clock, Timed
from mxtune.tuner.worker import Service

if TYPE_CHECKING:
    from torch import Tensor

FAMILY = "fault"
WINNER = "correct"  # the fastest of those that are right in the long run

_FLOOR_US = 1.0  # what the stand-in clock reads around nothing
_HOTTEST = 3.0  # times as slow as a cool chip
_LUCK_CALLS = 24  # of one binding: screening it, 1 + 3 + 7 + 10 with one lost reading each


def _compiles() -> None:
    pass


def _hangs_compiler() -> None:
    time.sleep(FOREVER_S)


def _breaks_compiler() -> None:
    raise ValueError("a drill: the compiler cannot do this")


@dataclass(frozen=True, slots=True)
class Pace:
    """Microseconds that a launch takes: at first, and once luck has left it."""

    first_us: float
    later_us: float


def _steady(us: float) -> Pace:
    return Pace(us, us)


_USUAL = _steady(20.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of candidate, and the state in which its trial is to end."""

    kind: str
    expected: State
    act: Act = launches.correct
    compile: Callable[[], None] = _compiles
    later: Act | None = None  # what it does once luck has left it, if that is something else
    pace: Pace = _USUAL
    heating: float = 1.0  # what each launch does to the time of all later ones
    places: tuple[str, ...] = ("cpu", "cuda", "hip")  # the CPU, or backends of a GPU

    @property
    def route(self) -> Route:
        """The candidate of this kind."""
        return Route(FAMILY, Config.of({"kind": self.kind}))


FAULTS = (
    Fault("drifts", "ok", pace=_steady(25.0), heating=1.01),  # fast while the chip is cool
    Fault("lucky_once", "ok", pace=Pace(5.0, 60.0)),
    Fault("slow_compile", "hung", compile=_hangs_compiler),
    Fault("breaks_compiler", "failed_compile", compile=_breaks_compiler),
    Fault("aborts_compiler", "crashed", compile=os.abort),
    Fault("aborts", "crashed", launches.abort),
    Fault("segfaults", "crashed", launches.segfault),
    Fault("exits_quietly", "crashed", launches.exit_quietly),
    Fault("illegal_access", "crashed", launches.access_illegally, places=("cuda", "hip")),
    Fault(WINNER, "ok"),
    Fault("does_nothing", "wrong", launches.do_nothing),
    Fault("hangs", "hung", launches.hang),
    Fault("hangs_ignoring_sigterm", "hung", launches.hang_ignoring_sigterm),
    Fault("spins", "hung", launches.spin, places=("cuda",)),
    Fault("raises_oom", "oom", launches.raise_oom),
    Fault("allocates_everything", "oom", launches.allocate_everything),
    Fault("returns_zeros", "wrong", launches.return_zeros),
    Fault("scaled", "wrong", launches.scale),
    Fault("last_k_block_missing", "wrong", launches.miss_last_k_block),
    Fault("tile_hole", "wrong", launches.leave_tile_hole),
    Fault("rows_swapped", "wrong", launches.swap_rows),
    Fault("left_half", "wrong", launches.write_left_half),
    Fault("right_half", "wrong", launches.write_right_half),
    Fault("adds_into_output", "wrong", launches.add_into_output),
    Fault("changes_input", "wrong", launches.change_input),
    Fault("nan", "wrong", launches.return_nan),
    Fault("reads_zero", "wrong", pace=_steady(-_FLOOR_US), places=("cpu",)),  # its clock stands
    Fault("reads_zero_in_finals", "wrong", pace=Pace(20.0, -_FLOOR_US), places=("cpu",)),
    Fault("aborts_in_finals", "crashed", later=launches.abort),
    Fault("slow_but_correct", "ok", pace=_steady(60.0)),
)


def fault_of(route: Route) -> Fault:
    """Return the kind of a fault candidate."""
    return next(fault for fault in FAULTS if fault.route == route)


@dataclass(slots=True)
class Chip:
    """What launches spend time on; ``wait`` lets microseconds pass there."""

    wait: Callable[[float], None]
    heat: float = 1.0

    def spend(self, us: float, heating: float) -> None:
        """Take ``us``, longer on a hot chip, and heat it."""
        self.wait(us * self.heat)
        self.heat = min(_HOTTEST, self.heat * heating)


@dataclass(slots=True)
class HostClock:
    """A stand-in for a GPU's clock: it reads the time that launches have spent."""

    now_us: float = 0.0

    def wait(self, us: float) -> None:
        """Let time pass."""
        self.now_us += us

    def prepare(self, copies: Sequence[Call]) -> Timed:
        """Call each once, as the real clock does."""
        for call in copies:
            call()
        return Timed(tuple(copies))

    def rounds(self, calls: Sequence[Timed], count: int) -> list[tuple[float, ...]]:
        """Read every call ``count`` times, in turn."""
        rows = [[self._read(timed, turn) for timed in calls] for turn in range(count)]
        return [tuple(samples) for samples in zip(*rows, strict=True)]

    def _read(self, timed: Timed, turn: int) -> float:
        begin_us = self.now_us
        timed.copies[turn % len(timed.copies)]()
        return max(0.0, _FLOOR_US + self.now_us - begin_us)


@dataclass(slots=True)
class Stub:
    """A bound fault candidate."""

    fault: Fault
    chip: Chip
    good: Good
    calls: int = 0
    workspaces: "dict[str, Tensor]" = field(default_factory=dict[str, "Tensor"])

    def __call__(self, a: "Tensor", c: "Tensor") -> None:
        """Misbehave, and take the time for it."""
        self.calls += 1
        fault, lucky = self.fault, self.calls <= _LUCK_CALLS
        act = fault.act if lucky else fault.later or fault.act
        act(self.good, a, c)
        self.chip.spend(fault.pace.first_us if lucky else fault.pace.later_us, fault.heating)


def bind_fault(chip: Chip, route: Route, problem: Problem, weight: Mxfp4Weight) -> Stub:
    """Bind a fault candidate to a weight and to the chip that it takes time on."""
    del problem
    return Stub(fault_of(route), chip, Good(weight))


def fault_compiler() -> Service:
    """Return the service of a compile worker for fault candidates."""
    return _compile


def _compile(job: CompileJob) -> tuple[ObjectFacts, ...]:
    fault_of(job.route).compile()
    return (ObjectFacts("gemm", lds_bytes=0),)


def fault_bench(device: Device, gpu: str, regime: Regime) -> Bench:
    """Return the service that checks and times fault candidates on ``gpu``, or on ``cpu``."""
    import torch

    if gpu == "cpu":
        host = HostClock()
        return Bench(device, gpu, host, regime, partial(bind_fault, Chip(host.wait)))
    torch.cuda.set_device(gpu)
    launches.warm_up(gpu)
    chip = Chip(partial(_sleep, device))
    return Bench(device, gpu, Clock(device, gpu, regime), regime, partial(bind_fault, chip))


def _sleep(device: Device, us: float) -> None:
    import torch

    cuda: Any = torch.cuda  # nothing public makes a GPU wait
    cuda._sleep(round(us * device.clock_ghz * 1e3))
