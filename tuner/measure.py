"""The service of a GPU worker: check candidates, time them, time the best against each other."""

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import Launch, bind
from mxtune.kernels.family import Problem
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import SEEDS, Case, Verdict, check, make_case
from mxtune.tuner.timing import ColdClock

SCREEN_ROUNDS = 10
FINAL_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class ScreenJob:
    """Check one candidate and take a first reading."""

    shape: Shape
    route: Route


@dataclass(frozen=True, slots=True)
class FinalJob:
    """Time candidates that were right against each other, the floor and the baseline."""

    shape: Shape
    routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class Screened:
    """What a first look found; no samples if the result was wrong."""

    verdict: Verdict
    samples_us: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Finals:
    """Samples of every route, in the order of the job, of the floor and of the baseline."""

    routes: tuple[tuple[float, ...], ...]
    floor: tuple[float, ...]
    baseline: tuple[float, ...]


@dataclass(slots=True)
class GpuBench:
    """One GPU and the problem it is working on; jobs of one shape come one after another."""

    device: Device
    gpu: str
    clock: ColdClock
    cases: dict[Shape, tuple[Case, ...]] = field(default_factory=dict[Shape, tuple[Case, ...]])

    def __call__(self, job: ScreenJob | FinalJob) -> Screened | Finals:
        """Do a job."""
        return self.screen(job) if isinstance(job, ScreenJob) else self.finals(job)

    def screen(self, job: ScreenJob) -> Screened:
        """Run the gate, then time what passed it."""
        cases = self._cases(job.shape)
        verdict = check(cases, partial(self._bind, job.route, job.shape))
        if not verdict.ok:
            return Screened(verdict)
        call = self._timed_call(job.route, cases[0])
        (samples,) = self.clock.rounds([call], SCREEN_ROUNDS)
        return Screened(verdict, samples)

    def finals(self, job: FinalJob) -> Finals:
        """Interleave all routes, a call of nothing and torch's own bf16 product."""
        case = self._cases(job.shape)[0]
        calls = [self._timed_call(route, case) for route in job.routes]
        calls += [lambda: None, _library_call(case)]
        for call in calls:
            call()
        *routes, floor, baseline = self.clock.rounds(calls, FINAL_ROUNDS)
        return Finals(tuple(routes), floor, baseline)

    def _cases(self, shape: Shape) -> tuple[Case, ...]:
        if shape not in self.cases:
            self.cases.clear()  # the last shape's operands may be large
            self.cases[shape] = tuple(make_case(shape, seed, self.gpu) for seed in SEEDS)
        return self.cases[shape]

    def _bind(self, route: Route, shape: Shape, weight: Mxfp4Weight) -> Launch:
        return bind(route, Problem.contiguous(shape, self.device), weight)

    def _timed_call(self, route: Route, case: Case) -> Any:
        import torch

        m, n = case.expected.shape
        launch = self._bind(route, Shape(m, n, case.weight.k), case.weight)
        return partial(launch, case.a, torch.empty((m, n), dtype=torch.bfloat16, device=self.gpu))


def gpu_service(device: Device, gpu: str) -> GpuBench:
    """Open the GPU. Runs in a worker only."""
    return GpuBench(device, gpu, ColdClock(device, gpu))


def facts_of(verdict: Verdict, shape: Shape) -> dict[str, Any]:
    """Return a verdict as the store keeps it."""
    return {
        "checked_shape": [shape.m, shape.n, shape.k],
        "seeds": len(SEEDS),
        **{name: value for name, value in asdict(verdict).items() if name not in ("ok", "reason")},
    }


def _library_call(case: Case) -> Any:
    import torch

    b = case.weight.dequantised().bfloat16()
    c = torch.empty(case.expected.shape, dtype=torch.bfloat16, device=case.a.device)
    return partial(torch.mm, case.a, b.T, out=c)
