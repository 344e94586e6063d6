"""The routes that a family is executed with in the emulator, and one such run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.candidates import candidates
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import checked_route, family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import POISONS, SEEDS, Case, Verdict, check_one, make_case
from mxtune.tuner.emulate.launch import Report
from mxtune.tuner.emulate.route import EmulatedRoute, KernelObject

if TYPE_CHECKING:
    from torch import Tensor

GFX950 = load_device("gfx950")
ROUTES = 3  # of a family at a shape

_BESIDES: Mapping[str, Value] = {"convert": "hardware", "xcd_remap": 1}

_MOST_WORK = 1.5  # of the fallback's: what takes longer to emulate is left out
_PER_ITERATION = 2000  # values whose handling takes as long as the rest of an iteration


@cache
def routes_of(name: str, shape: Shape) -> tuple[Route, ...]:
    """Return the fallback and those candidates that differ most from it and from one another.

    What a space leaves alone but the emulator should see is changed in the last of them.
    """
    owner = family(name)
    fallback = checked_route(Route(name, owner.fallback(shape)))
    found = candidates([owner], shape, GFX950)
    legal = found.routes if len(found.routes) >= ROUTES else found.routes + found.pruned
    limit = _MOST_WORK * _work(fallback, shape)
    left = sorted((route for route in legal if _work(route, shape) <= limit), key=str)
    chosen = [fallback]
    while left and len(chosen) < ROUTES:
        chosen.append(max(left, key=lambda route: _least_distance(route, chosen)))
    varied = {key for key in _BESIDES if len({route.config[key] for route in chosen}) > 1}
    last = chosen.pop().config.changed(**{k: v for k, v in _BESIDES.items() if k not in varied})
    return (*chosen, Route(name, last))


def _work(route: Route, shape: Shape) -> float:
    steps = planned(route, Problem.contiguous(shape, GFX950)).steps
    return sum(
        step.work.programs
        * step.work.iterations
        * (step.work.quantised + step.work.multiplied + _PER_ITERATION)
        for step in steps
    )


def _least_distance(route: Route, others: Sequence[Route]) -> int:
    """Count the settings in which a route differs from the most similar of ``others``."""
    return min(
        sum(route.config[key] != value for key, value in other.config.items()) for other in others
    )


@dataclass(frozen=True, slots=True)
class EmulatedRun:
    """What a route made of a problem: the gate's verdict, C, its workspaces, what was seen."""

    case: Case
    verdict: Verdict
    c: "Tensor"
    workspaces: "dict[str, Tensor]"
    reports: tuple[Report, ...]


def emulate_route(
    route: Route, shape: Shape, objects: tuple[KernelObject, ...], seed: int
) -> EmulatedRun:
    """Run compiled kernels of ``route`` through the gate, with one of its seeds."""
    plan = planned(route, Problem.contiguous(shape, GFX950))
    reports: list[Report] = []
    bound: list[_Kept] = []

    def bind(weight: Mxfp4Weight) -> _Kept:
        launch = EmulatedRoute(objects, plan, weight, lambda _, report: reports.append(report))
        bound.append(_Kept(launch))
        return bound[0]

    case = case_of_shape(shape, seed)
    verdict = check_one(case, POISONS[SEEDS.index(seed)], bind)
    return EmulatedRun(case, verdict, bound[0].c, bound[0].workspaces, tuple(reports))


@cache
def case_of_shape(shape: Shape, seed: int) -> Case:
    """Draw the gate's problem."""
    return make_case(shape, seed, "cpu")


class _Kept:
    """A bound route that keeps the C it was called with."""

    def __init__(self, launch: EmulatedRoute) -> None:
        self._launch = launch
        self.workspaces = launch.workspaces
        self.c: Tensor

    def __call__(self, a: "Tensor", c: "Tensor") -> None:
        self._launch(a, c)
        self.c = c
