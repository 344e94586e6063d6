"""Verify routes without their GPU: execute the machine code and compare every element."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mxtune.configs.devices import Device, bare_arch, load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Route
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Problem
from mxtune.kernels.lookup import Choice
from mxtune.kernels.registry import brief, checked_route, own_families
from mxtune.tuner.ask import ask_many
from mxtune.tuner.check import SEEDS
from mxtune.tuner.crew import Finished
from mxtune.tuner.emulate.job import (
    TARGET,
    Emulated,
    EmulateJob,
    emulate_service,
    merged,
    require_emulator,
)
from mxtune.tuner.reduced import reduced
from mxtune.tuner.run import Wish, choice_of
from mxtune.tuner.task import state_of
from mxtune.tuner.verify_request import VerifyRequest

LIMIT_S = 900.0  # of one job
_WHOLE_SHAPE_S = 60.0  # above this the reduced shape is emulated instead

# What emulating one iteration of one program takes, on one core of a laptop.
_ITERATION_S = {"quantise": 0.006, "gemm": 0.03, "fused": 0.06, "reduce": 0.002, "zero": 0.002}

Key = tuple[int, int]  # which of the checks, which of its seeds


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of one route at one shape; ``failure`` says why it could not be executed."""

    shape: Shape
    route: Route
    why: str  # this route
    result: Emulated | None
    failure: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was executed and nothing is wrong with it."""
        return self.result is not None and self.result.ok

    @property
    def cells(self) -> tuple[str, ...]:
        """Routes are told in lines."""
        return ()

    def lines(self) -> Iterator[str]:
        """Yield it as plain text: the verdict, then every finding."""
        if self.result is None:
            yield f"{self.shape}  FAILED  {brief(self.route)} ({self.why}): {self.failure}"
            return
        found = self.result
        at = f", emulated at {found.shape}" if found.shape != self.shape else ""
        executed = sum(kernel.profile.executed for kernel in found.kernels)
        cost = f"{executed} instructions in {found.seconds:.1f} s"
        word = "right" if self.ok else "WRONG"
        worst = f", worst error {found.verdict.worst:.2f} of what is allowed"
        name = f"{brief(self.route)} ({self.why})"
        yield f"{self.shape}  {word}  {name}{at}{worst if self.ok else ''}; {cost}"
        if not found.verdict.ok:
            yield f"    wrong_result: {found.verdict.reason}"
        for step, finding in found.findings:
            yield f"    {step}: {finding}"

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        data: dict[str, Any] = {
            "shape": str(self.shape),
            "family": self.route.family,
            "config": dict(self.route.config),
            "why": self.why,
            "ok": self.ok,
            "failure": self.failure,
        }
        if self.result is not None:
            data |= {
                "emulated_shape": str(self.result.shape),
                **asdict(self.result.verdict),
                "ok": self.ok,
                "findings": [
                    {"step": step, **asdict(finding)} for step, finding in self.result.findings
                ],
                "kernels": [asdict(kernel) for kernel in self.result.kernels],
                "seconds": round(self.result.seconds, 2),
            }
        return data


class RouteVerification:
    """Every route that is asked for, at every shape, with every seed of the gate."""

    def __init__(self, request: VerifyRequest) -> None:
        """Choose the routes; raises MissingError, ConfigError and NoRouteError before any work."""
        require_emulator()
        if bare_arch(request.target) != TARGET:
            raise ConfigError(f"--target {request.target}: only {TARGET} code can be executed")
        device = load_device(request.target)
        table = RouteTable.load(request.routes) if request.routes else None
        self.checks = [
            (shape, choice)
            for shape in request.shapes
            for choice in _choices(request, table, shape, device)
        ]
        self.jobs: Mapping[Key, EmulateJob] = {
            (at, seed): _job(choice.route, shape, device, seed)
            for at, (shape, choice) in enumerate(self.checks)
            for seed in SEEDS
        }

    @property
    def heading(self) -> tuple[str, ...]:
        """Routes are told in lines."""
        return ()

    def run(self, settings: Settings) -> Iterator[Finished]:
        """Yield what became of each job."""
        variables = for_child(settings, interpret=False)
        return ask_many(emulate_service, self.jobs, variables, LIMIT_S)

    def results(self, finished: Sequence[Finished]) -> Iterator[Verified]:
        """Yield what all jobs together say of each route."""
        outcomes = {item.key: item.outcome for item in finished}
        for at, (shape, choice) in enumerate(self.checks):
            route, why = choice.route, choice.why
            parts = [outcomes[at, seed] for seed in SEEDS]
            failed = [outcome for outcome in parts if outcome.state != "done"]
            if failed:
                state_of(failed[0], otherwise="crashed")  # raises for what the machine lacks
                yield Verified(shape, route, why, None, failed[0].reason)
            else:
                yield Verified(shape, route, why, merged([outcome.value for outcome in parts]))


def _job(route: Route, shape: Shape, device: Device, seed: int) -> EmulateJob:
    return EmulateJob(route, _shape_to_emulate(route, shape, device), device, seed)


def _choices(
    request: VerifyRequest, table: RouteTable | None, shape: Shape, device: Device
) -> Iterator[Choice]:
    """Yield the route asked for; without a family or a table, the fallback of each that has one."""
    if request.family or table or request.settings:
        asked = Wish(shape, request.routes, request.family, request.settings, "cpu")
        choice = choice_of(asked, table, device)
        planned(choice.route, Problem.contiguous(shape, device))  # refuse before any work
        yield choice
        return
    for owner in own_families():
        config = owner.fallback(shape)
        if owner.legality(config, shape, device).grade != "illegal":
            route = checked_route(Route(owner.name, config))
            yield Choice(route, "the fallback of its family")


def _shape_to_emulate(route: Route, shape: Shape, device: Device) -> Shape:
    plan = planned(route, Problem.contiguous(shape, device))
    if plan.foreign:  # the worker says why that cannot be
        return shape
    whole = sum(s.work.programs * s.work.iterations * _ITERATION_S[s.name] for s in plan.own)
    return shape if whole <= _WHOLE_SHAPE_S else reduced(shape, route.config)
