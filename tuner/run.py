"""One GEMM: pick its route, check it, time it where there is a GPU."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Literal

from mxtune.configs.devices import Device, bare_arch, load_device
from mxtune.configs.errors import ConfigError, MissingError, WrongResultError
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Route, Value
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Problem, RouteFamily
from mxtune.kernels.lookup import Choice
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.kernels.standing import standing_of
from mxtune.tuner.ask import ask
from mxtune.tuner.check import SEEDS, Verdict
from mxtune.tuner.interpret import Interpreted, InterpretJob, interpret_service
from mxtune.tuner.machine import Machine
from mxtune.tuner.measure import FinalJob, Finals, Screened, ScreenJob, gpu_service
from mxtune.tuner.model import moved_bytes, roofline_us
from mxtune.tuner.request import OFFLINE_TARGET
from mxtune.tuner.search import EFFORTS

Where = Literal["auto", "cpu", "cuda"]

LIMIT_S = 900.0  # a large shape in the interpreter takes minutes


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for."""

    shape: Shape
    routes: Path | None
    family: str | None
    settings: tuple[str, ...]  # KEY=VALUE
    where: Where


@dataclass(frozen=True, slots=True)
class Timing:
    """What a timed GEMM came to."""

    median_us: float
    low_us: float
    high_us: float
    floor_us: float
    baseline_us: float
    tflops: float
    gbs: float
    roofline_share: float


@dataclass(frozen=True, slots=True)
class Report:
    """A GEMM that was run and found right."""

    shape: Shape
    device: Device
    choice: Choice
    verdict: Verdict
    interpreted_s: float | None  # the time of the interpreter, which says nothing about the route
    timing: Timing | None


def run(wish: Wish, machine: Machine, settings: Settings) -> Report:
    """Run one GEMM; raises WrongResultError if its numbers are wrong."""
    on_gpu = _wants_gpu(wish.where, machine)
    table = RouteTable.load(wish.routes) if wish.routes else None
    device = machine.gpus[0] if on_gpu else load_device(_table_arch(table))
    choice = choice_of(wish, table, device)
    planned(choice.route, Problem.contiguous(wish.shape, device))  # refuse before any work
    return (_on_gpu if on_gpu else _interpreted)(wish.shape, device, choice, settings)


def _wants_gpu(where: Where, machine: Machine) -> bool:
    if where == "cuda" and not machine.gpus:
        raise MissingError(f"no GPU to run on: {machine.note}")
    return where != "cpu" and bool(machine.gpus)


def _table_arch(table: RouteTable | None) -> str:
    """Return what the interpreter stands in for: the GPU of the table."""
    return bare_arch(table.device.arch) if table else OFFLINE_TARGET


def choice_of(wish: Wish, table: RouteTable | None, device: Device) -> Choice:
    """Return the route that is asked for, by the table or by family and settings."""
    if not wish.family:
        if wish.settings:
            raise ConfigError("--set changes the settings of a family; name one with --family")
        shape = wish.shape
        return standing_of(table, device).lookup().find(shape.m, shape.n, shape.k)
    owner = family(wish.family)
    changes = dict(_setting(owner, text) for text in wish.settings)
    full = owner.fallback(wish.shape).changed(**changes)
    return Choice(checked_route(Route(owner.name, full)), "asked for by --family")


def _setting(owner: RouteFamily, text: str) -> tuple[str, Value]:
    """Read KEY=VALUE, KEY in any case."""
    key, equals, value = text.partition("=")
    names = {tunable.name.lower(): tunable for tunable in owner.tunables}
    if not equals or key.strip().lower() not in names:
        known = ", ".join(tunable.name for tunable in owner.tunables)
        raise ConfigError(f"--set {text}: expected KEY=VALUE, KEY one of {known}")
    tunable = names[key.strip().lower()]
    read = int(value) if isinstance(tunable.default, int) and _is_number(value) else value.strip()
    obstacle = tunable.obstacle(read)
    if obstacle:
        raise ConfigError(f"--set {text}: {obstacle}")
    return tunable.name, read


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdecimal() and text.isascii()


def _interpreted(shape: Shape, device: Device, choice: Choice, settings: Settings) -> Report:
    job = InterpretJob(choice.route, shape, device)
    variables = for_child(settings, interpret=True)
    result: Interpreted
    (result,) = ask(interpret_service, [job], variables, LIMIT_S)
    _accept(choice.route, result.verdict)
    return Report(shape, device, choice, result.verdict, result.seconds, None)


def _on_gpu(shape: Shape, device: Device, choice: Choice, settings: Settings) -> Report:
    jobs = [
        ScreenJob(shape, choice.route),
        FinalJob(shape, (choice.route,), EFFORTS["default"].final_rounds),
    ]
    variables = for_child(settings, interpret=False)
    answers = ask(partial(gpu_service, device, "cuda:0", Regime()), jobs, variables, LIMIT_S)
    screened: Screened = next(answers)
    _accept(choice.route, screened.verdict)
    finals: Finals = next(answers)
    answers.close()
    return Report(shape, device, choice, screened.verdict, None, _timing(shape, device, finals))


def _accept(route: Route, verdict: Verdict) -> None:
    if not verdict.ok:
        raise WrongResultError(f"{brief(route)}: {verdict.reason}")


def _timing(shape: Shape, device: Device, finals: Finals) -> Timing:
    samples = finals.routes[0]
    us = median(samples)
    tenths = quantiles(samples, n=10)
    return Timing(
        median_us=us,
        low_us=tenths[0],
        high_us=tenths[-1],
        floor_us=median(finals.floor),
        baseline_us=median(finals.baseline),
        tflops=2 * shape.m * shape.n * shape.k / us / 1e6,
        gbs=moved_bytes(shape) / us / 1e3,
        roofline_share=roofline_us(shape, device) / us,
    )


def lines(report: Report) -> Iterator[str]:
    """Yield what a person reads of a report."""
    shape, verdict = report.shape, report.verdict
    yield f"shape    {shape} on {report.device}"
    yield f"route    {brief(report.choice.route)}"
    yield f"why      {report.choice.why}"
    yield (
        f"numbers  right: largest error {verdict.largest_error:.3g}, within the rounding of C "
        f"and of fp32 sums; whole output, {len(SEEDS)} seeds"
    )
    if report.timing:
        yield from _time_lines(report.timing)
    else:
        yield f"time     none: interpreted in {report.interpreted_s:.1f} s, which means nothing"


def _time_lines(timing: Timing) -> Iterator[str]:
    yield (
        f"time     {timing.median_us:.2f} us, cold ({timing.low_us:.2f} to {timing.high_us:.2f}); "
        f"an empty event pair reads {timing.floor_us:.2f}"
    )
    yield f"rate     {timing.tflops:.2f} TFLOP/s, {timing.gbs:.0f} GB/s"
    yield f"roofline {timing.roofline_share:.1%} of what the GPU could do"
    yield f"against  torch.mm in bf16: {timing.baseline_us:.2f} us"


def as_json(report: Report) -> str:
    """Return a report for a program."""
    body = {
        "shape": [report.shape.m, report.shape.n, report.shape.k],
        "device": report.device.arch,
        "family": report.choice.route.family,
        "config": dict(report.choice.route.config),
        "why": report.choice.why,
        "error": {"worst": report.verdict.worst, "largest": report.verdict.largest_error},
        "interpreted_s": report.interpreted_s,
        "timing": asdict(report.timing) if report.timing else None,
    }
    return json.dumps(body, indent=1, allow_nan=False)
