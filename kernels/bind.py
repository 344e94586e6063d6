"""Bind a route to a weight: all one-time work, so that the launch it returns only launches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mxtune.configs.devices import Device
from mxtune.configs.errors import ConfigError, MissingError, NoRouteError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import bound_call
from mxtune.kernels.build import arguments, build, kernel_function, require_triton, version_pair
from mxtune.kernels.family import SMALL_SCALES, WEIGHT, Buffer, Call, Plan, Problem, Step
from mxtune.kernels.observe import Observer
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.kernels.stage_times import Subject
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

OPERANDS = ("a", "c")  # that a launch is called with
INTERPRETER_NEEDS = (3, 8)  # the first Triton whose interpreter has dot_scaled


@dataclass(frozen=True, slots=True)
class Launch:
    """A bound route. Calling it enqueues its kernels and returns; C is written whole.

    ``workspaces`` are the route's own tensors, by name; one launch must end before the next begins
    on another queue.
    """

    shape: Shape
    calls: tuple[Callable[..., None], ...]
    workspaces: "dict[str, Tensor]"
    plan: Plan

    def __call__(self, a: "Tensor", c: "Tensor") -> None:
        """Compute ``c`` from ``a``, both laid out as in the problem the route was bound for.

        Raises ConfigError for other sizes; strides and devices are the caller's word.
        """
        if a.shape != (self.shape.m, self.shape.k) or c.shape != (self.shape.m, self.shape.n):
            raise ConfigError(
                f"bound for {self.shape}, called with A {list(a.shape)} and C {list(c.shape)}"
            )
        for call in self.calls:
            call(a, c)


def bind(
    route: Route, problem: Problem, weight: Mxfp4Weight, observe: Observer | None = None
) -> Launch:
    """Compile ``route`` for ``problem`` and fix every argument but A and C.

    Raises NoRouteError if the route is not legal for the problem, MissingError for a Triton or an
    AITER that cannot run it.
    """
    route = checked_route(route)
    plan = fitted(planned(route, problem), weight)
    tensors, workspaces = memory_of(plan, weight)
    calls = bound_calls(plan.steps, problem.device, tensors | workspaces)
    if observe is not None:
        calls = observe.around(subject_of(route, problem, weight), plan.steps, calls)
    return Launch(problem.shape, calls, workspaces, plan)


def memory_of(
    plan: Plan, weight: Mxfp4Weight, given: Sequence[str] = OPERANDS
) -> "tuple[dict[str, Tensor], dict[str, Tensor]]":
    """Return the tensors of ``weight`` that a plan reads, and workspaces for what is not given."""
    tensors = {
        name: getattr(weight, method)(layout)
        for name, (method, layout) in WEIGHT.items()
        if any(name == b.name for step in plan.steps for b in step.buffers.values())
    }
    own = (buffer for buffer in plan.workspaces if buffer.name not in given)
    return tensors, {buffer.name: _empty(buffer, weight.device) for buffer in own}


def bound_calls(
    steps: Sequence[Step | Call],
    device: Device,
    tensors: "Mapping[str, Tensor]",
    given: Sequence[str] = OPERANDS,
) -> tuple[Callable[..., None], ...]:
    """Compile ``steps`` and fix every argument, but for the buffers that are ``given``.

    Each call takes the tensors of those, in that order; all others are in ``tensors``, by name.
    """
    own = _interpreted_call if interpreting() else _compiled_call
    return tuple(
        bound_call(step, tensors, given)
        if isinstance(step, Call)
        else own(step, device, tensors, given)
        for step in steps
    )


def subject_of(route: Route, problem: Problem, weight: Mxfp4Weight) -> Subject:
    """Return what an observer calls a bound route."""
    shape = problem.shape
    return Subject(route.family, (shape.m, shape.n, shape.k), weight.device)


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


def interpreting() -> bool:
    """Whether Triton interprets in this process: settled when its kernels were decorated."""
    version = require_triton()
    from triton import knobs

    if not knobs.runtime.interpret:
        return False
    if version_pair(version) < INTERPRETER_NEEDS:
        needed = ".".join(map(str, INTERPRETER_NEEDS))
        raise MissingError(f"interpreting needs triton {needed} or newer, found {version}")
    return True


def _empty(buffer: Buffer, device: str) -> "Tensor":
    import torch

    dtypes = {"bf16": torch.bfloat16, "fp32": torch.float32, "u8": torch.uint8}
    return torch.empty(buffer.shape, dtype=dtypes[buffer.dtype], device=device)


def _compiled_call(
    step: Step, device: Device, tensors: "Mapping[str, Tensor]", given: Sequence[str]
) -> Callable[..., None]:
    launcher = build(step, device)[(*step.grid, 1)]
    names: list[str] = kernel_function(step).arg_names
    named = arguments(step, {**tensors, **dict.fromkeys(given)})
    fixed = [named[name] for name in names]
    later = [
        (names.index(parameter), given.index(buffer.name))
        for parameter, buffer in step.buffers.items()
        if buffer.name in given
    ]

    def call(*now: "Tensor") -> None:
        values = fixed.copy()
        for place, which in later:
            values[place] = now[which]
        launcher(*values)

    return call


def _interpreted_call(
    step: Step, device: Device, tensors: "Mapping[str, Tensor]", given: Sequence[str]
) -> Callable[..., None]:
    del device
    launcher = kernel_function(step)[(*step.grid, 1)]

    def call(*now: "Tensor") -> None:
        launcher(**arguments(step, {**tensors, **dict(zip(given, now, strict=True))}))

    return call
