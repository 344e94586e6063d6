"""The service of a GPU worker: check candidates, time them, time the best against each other."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from typing import Any, Protocol

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import SEEDS, Bound, Case, Verdict, check, make_case
from mxtune.tuner.search import DROP_AFTER
from mxtune.tuner.timing import Call, Clock, Timed

SCREEN_ROUNDS = 20
_MOST_COPIES = 64  # of B, in the rotating regime
_SPARE_MEMORY = 0.5  # share of the free memory that copies may take

Binder = Callable[[Route, Problem, Mxfp4Weight], Bound]


class Timer(Protocol):
    """What times calls: a GPU's clock, or a stand-in."""

    def prepare(self, copies: "list[Call]") -> Timed:
        """Make a call ready, on one copy of its operands or several."""
        ...

    def rounds(self, calls: "list[Timed]", count: int) -> list[tuple[float, ...]]:
        """Time calls in turn; microseconds."""
        ...


@dataclass(frozen=True, slots=True)
class ScreenJob:
    """Check one candidate and take a first reading.

    ``best_us`` is the best reading of its shape so far: timing ends early for a clear loser.
    """

    shape: Shape
    route: Route
    best_us: float | None = None


@dataclass(frozen=True, slots=True)
class FinalJob:
    """Time candidates that were right against each other, the floor and the baseline."""

    shape: Shape
    routes: tuple[Route, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Screened:
    """What a first look found; no samples if the result was wrong."""

    verdict: Verdict
    samples_us: tuple[float, ...] = ()
    check_s: float = 0.0
    time_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finals:
    """Samples of every route, in the order of the job, of the floor and of the baseline."""

    routes: tuple[tuple[float, ...], ...]
    floor: tuple[float, ...]
    baseline: tuple[float, ...]
    time_s: float = 0.0


@dataclass(slots=True)
class Bench:
    """One GPU and the problem it is working on; jobs of one shape come one after another."""

    device: Device
    gpu: str
    clock: Timer
    regime: Regime
    binder: Binder = bind
    cases: dict[Shape, tuple[Case, ...]] = field(default_factory=dict[Shape, tuple[Case, ...]])

    def __call__(self, job: ScreenJob | FinalJob) -> Screened | Finals:
        """Do a job."""
        return self.screen(job) if isinstance(job, ScreenJob) else self.finals(job)

    def screen(self, job: ScreenJob) -> Screened:
        """Run the gate, then time what passed it, as long as it may still win."""
        begin = time.monotonic()
        cases = self._cases(job.shape)
        verdict = check(cases, lambda weight: self._bind(job.route, job.shape, weight))
        checked = time.monotonic()
        if not verdict.ok:
            return Screened(verdict, check_s=checked - begin)
        timed = self._timed(job.route, cases[0])
        samples: tuple[float, ...] = ()
        for rounds in (*(count for count, _ in DROP_AFTER), SCREEN_ROUNDS):
            samples += self.clock.rounds([timed], rounds - len(samples))[0]
            if is_loser(samples, job.best_us):
                break
        return Screened(verdict, samples, checked - begin, time.monotonic() - checked)

    def finals(self, job: FinalJob) -> Finals:
        """Interleave all routes, a call of nothing and torch's own bf16 product."""
        begin = time.monotonic()
        case = self._cases(job.shape)[0]
        calls = [self._timed(route, case) for route in job.routes]
        calls += [Timed((lambda: None,)), self.clock.prepare([_library_call(case)])]
        *routes, floor, baseline = self.clock.rounds(calls, job.rounds)
        return Finals(tuple(routes), floor, baseline, time.monotonic() - begin)

    def _cases(self, shape: Shape) -> tuple[Case, ...]:
        if shape not in self.cases:
            self.cases.clear()  # the last shape's operands may be large
            self.cases[shape] = tuple(make_case(shape, seed, self.gpu) for seed in SEEDS)
        return self.cases[shape]

    def _bind(self, route: Route, shape: Shape, weight: Mxfp4Weight) -> Bound:
        return self.binder(route, Problem.contiguous(shape, self.device), weight)

    def _timed(self, route: Route, case: Case) -> Timed:
        """Return the launch into an output of its own, on as many copies of B as are gone round."""
        import torch

        m, n = case.expected.shape
        shape = Shape(m, n, case.weight.k)
        c = torch.empty((m, n), dtype=torch.bfloat16, device=self.gpu)
        weights = [case.weight, *(case.weight.copy() for _ in range(self._copies(shape) - 1))]
        launches = [self._bind(route, shape, weight) for weight in weights]
        return self.clock.prepare([partial(launch, case.a, c) for launch in launches])

    def _copies(self, shape: Shape) -> int:
        """Return how many copies of B the regime goes round, as far as they fit into memory."""
        if self.regime.caches != "rotating":
            return 1
        import torch

        each = shape.n * shape.k * 17 // 32
        free, _ = torch.cuda.mem_get_info(torch.device(self.gpu))
        wanted = -(-2 * self.device.l2_bytes // each) + 1
        return max(1, min(wanted, _MOST_COPIES, int(free * _SPARE_MEMORY) // (2 * each)))


def is_loser(samples: tuple[float, ...], best_us: float | None) -> bool:
    """Whether a candidate is so far behind the best of its shape that timing it on is lost."""
    if best_us is None:
        return False
    limits = [times for count, times in DROP_AFTER if len(samples) >= count]
    return bool(limits) and median(samples) > limits[-1] * best_us


def gpu_service(device: Device, gpu: str, regime: Regime) -> Bench:
    """Open the GPU. Runs in a worker only."""
    import torch

    torch.cuda.set_device(gpu)
    return Bench(device, gpu, Clock(device, gpu, regime), regime)


def facts_of(verdict: Verdict, shape: Shape) -> dict[str, Any]:
    """Return a verdict as the store keeps it."""
    return {
        "checked_shape": [shape.m, shape.n, shape.k],
        "seeds": len(SEEDS),
        **{name: value for name, value in asdict(verdict).items() if name not in ("ok", "reason")},
    }


def _library_call(case: Case) -> Call:
    import torch

    b = case.weight.dequantised().bfloat16()
    c = torch.empty(case.expected.shape, dtype=torch.bfloat16, device=case.a.device)

    def call() -> None:
        torch.mm(case.a, b.T, out=c)

    return call
