"""Bind a route to a weight: all one-time work, so that the launch it returns only launches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import NoRouteError
from mxtune.configs.routes import Route
from mxtune.kernels.aiter import bound_call
from mxtune.kernels.build import arguments, build, interpreting, kernel_function
from mxtune.kernels.family import SMALL_SCALES, WEIGHT, Call, Plan, Problem, Step
from mxtune.kernels.gpu import index_of, on_device
from mxtune.kernels.launch import Launch
from mxtune.kernels.launcher import Hooks, Later, enqueuer
from mxtune.kernels.observe import Observer
from mxtune.kernels.queues import Workspaces, current_queue
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.kernels.stage_times import Subject
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

OPERANDS = ("a", "c")  # that a launch is called with


def bind(
    route: Route,
    problem: Problem,
    weight: Mxfp4Weight,
    observe: Observer | None = None,
    count: Callable[..., None] | None = None,
) -> Launch:
    """Compile ``route`` for ``problem`` and fix every argument but A and C.

    ``count``, if given, is called at each launch. Raises NoRouteError if the route is not legal for
    the problem, MissingError for a Triton or an AITER that cannot run it.
    """
    route = checked_route(route)
    plan = fitted(planned(route, problem), weight)
    return bind_plan(plan, OPERANDS, problem, weight, Watch(route.family, observe, count))


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of the launches of a route: an observer of its stages, and a count of calls."""

    family: str
    observe: Observer | None = None
    count: Callable[..., None] | None = None

    def around(
        self, problem: Problem, place: str, plan: Plan, calls: tuple[Callable[..., None], ...]
    ) -> tuple[Callable[..., None], ...]:
        """Return ``calls``, one for each step of ``plan``, with the telling put around them."""
        if self.observe is not None:
            shape = problem.shape
            subject = Subject(self.family, (shape.m, shape.n, shape.k), place)
            calls = self.observe.around(subject, plan.steps, calls)
        return calls if self.count is None else (self.count, *calls)


def bind_plan(
    plan: Plan, operands: Sequence[str], problem: Problem, weight: Mxfp4Weight, watch: Watch
) -> Launch:
    """Bind the steps of ``plan``; a call brings the buffers that ``operands`` name."""
    place = weight.device
    own = Workspaces([b for b in plan.workspaces if b.name not in operands], place)
    given = (*operands, *own.names)
    calls = bound_calls(plan.steps, problem.device, tensors_of(plan, weight), given, place)
    return Launch(problem, place, watch.around(problem, place, plan, calls), own, plan)


def tensors_of(plan: Plan, weight: Mxfp4Weight) -> "dict[str, Tensor]":
    """Return the tensors of ``weight`` that a plan reads, by the name of their buffer."""
    read = {buffer.name for step in plan.steps for buffer in step.buffers.values()}
    return {
        name: getattr(weight, method)(layout)
        for name, (method, layout) in WEIGHT.items()
        if name in read
    }


def bound_calls(
    steps: Sequence[Step | Call],
    device: Device,
    tensors: "Mapping[str, Tensor]",
    given: Sequence[str],
    place: str,
) -> tuple[Callable[..., None], ...]:
    """Compile ``steps`` for ``place`` and fix every argument but the buffers that are ``given``.

    Each call takes the tensors of those, in that order; all others are in ``tensors``, by name.
    """
    own = _interpreted_call if interpreting() else _compiled_call
    with on_device(index_of(place)):
        return tuple(
            bound_call(step, tensors, given)
            if isinstance(step, Call)
            else own(step, device, tensors, given, place)
            for step in steps
        )


def planned(route: Route, problem: Problem) -> Plan:
    """Return the launches of a route, or refuse it with the reason."""
    owner = family(route.family)
    verdict = owner.legality(route.config, problem.shape, problem.device)
    if verdict.grade == "illegal":
        raise NoRouteError(f"{brief(route)} is not legal for {problem.shape}: {verdict.reason}")
    return owner.plan(route.config, problem)


def fitted(plan: Plan, weight: Mxfp4Weight) -> Plan:
    """Return ``plan`` with what it assumes of a weight put right for ``weight``."""
    as_planned, *others = variants(plan)
    return others[0] if others and not weight.small_scales else as_planned


def variants(plan: Plan) -> tuple[Plan, ...]:
    """Return ``plan`` and, if it assumes something of the weight, the one for any weight."""
    if not any(step.constants.get(SMALL_SCALES) and step.constants["BF16"] for step in plan.own):
        return (plan,)
    steps = tuple(
        replace(step, constants={**step.constants, SMALL_SCALES: False})
        if isinstance(step, Step) and SMALL_SCALES in step.constants
        else step
        for step in plan.steps
    )
    return plan, replace(plan, steps=steps)


def _compiled_call(
    step: Step, device: Device, tensors: "Mapping[str, Tensor]", given: Sequence[str], place: str
) -> Callable[..., None]:
    kernel = build(step, device, index_of(place))
    names: list[str] = kernel_function(step).arg_names
    named = arguments(step, {**tensors, **dict.fromkeys(given)})
    later = [
        Later(names.index(parameter), given.index(buffer.name))
        for parameter, buffer in step.buffers.items()
        if buffer.name in given
    ]
    fixed = [named[name] for name in names]
    return enqueuer(kernel, (*step.grid, 1), fixed, later, _hooks(), current_queue(place))


def _hooks() -> Hooks:
    from triton import knobs

    return Hooks(knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook)


def _interpreted_call(
    step: Step, device: Device, tensors: "Mapping[str, Tensor]", given: Sequence[str], place: str
) -> Callable[..., None]:
    del device, place
    launcher: Any = kernel_function(step)[(*step.grid, 1)]

    def call(*now: "Tensor") -> None:
        launcher(**arguments(step, {**tensors, **dict(zip(given, now, strict=True))}))

    return call
