"""Check a route's numbers in Triton's interpreter: slow, exact, needs no GPU."""

import time
from dataclasses import dataclass
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem
from mxtune.tuner.check import SEEDS, Verdict, check, make_case


@dataclass(frozen=True, slots=True)
class InterpretJob:
    """Check ``route`` at ``shape`` as if for ``device``."""

    route: Route
    shape: Shape
    device: Device


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What the interpreter said, and how long it took."""

    shape: Shape
    verdict: Verdict
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the numbers are right."""
        return self.verdict.ok

    @property
    def reason(self) -> str:
        """Why they are not."""
        return self.verdict.reason


def interpret(job: InterpretJob) -> Interpreted:
    """Run the gate on a CPU. The process must interpret Triton's kernels."""
    begin = time.monotonic()
    problem = Problem.contiguous(job.shape, job.device)
    cases = tuple(make_case(job.shape, seed, "cpu") for seed in SEEDS)

    verdict = check(cases, lambda weight: bind(job.route, problem, weight))
    return Interpreted(job.shape, verdict, time.monotonic() - begin)


def interpret_service() -> Any:
    """Return the service of an interpreting worker."""
    return interpret
