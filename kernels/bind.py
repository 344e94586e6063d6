"""Bind a route to a weight: all one-time work, so that the launch it returns only launches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxtune.configs.errors import ConfigError, MissingError, NoRouteError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import bound_call
from mxtune.kernels.build import arguments, build, kernel_function, require_triton, version_pair
from mxtune.kernels.family import WEIGHT, Buffer, Call, Plan, Problem, Step
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

INTERPRETER_NEEDS = (3, 8)  # the first Triton whose interpreter has dot_scaled


@dataclass(frozen=True, slots=True)
class Launch:
    """A bound route. Calling it enqueues its kernels and returns; C is written whole.

    ``workspaces`` are the route's own tensors, by name; one launch must end before the next begins
    on another queue.
    """

    shape: Shape
    calls: "tuple[Callable[[Tensor, Tensor], None], ...]"
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


def bind(route: Route, problem: Problem, weight: Mxfp4Weight) -> Launch:
    """Compile ``route`` for ``problem`` and fix every argument but A and C.

    Raises NoRouteError if the route is not legal for the problem, MissingError for a Triton or an
    AITER that cannot run it.
    """
    route = checked_route(route)
    plan = planned(route, problem)
    tensors = {
        name: getattr(weight, method)(layout)
        for name, (method, layout) in WEIGHT.items()
        if any(name == b.name for step in plan.steps for b in step.buffers.values())
    }
    workspaces = {buffer.name: _empty(buffer, weight.device) for buffer in plan.workspaces}
    own = _interpreted_call if interpreting() else _compiled_call
    calls = tuple(
        bound_call(step, tensors | workspaces)
        if isinstance(step, Call)
        else own(step, problem, tensors | workspaces)
        for step in plan.steps
    )
    return Launch(problem.shape, calls, workspaces, plan)


def planned(route: Route, problem: Problem) -> Plan:
    """Return the launches of a route, or refuse it with the reason."""
    owner = family(route.family)
    verdict = owner.legality(route.config, problem.shape, problem.device)
    if verdict.grade == "illegal":
        raise NoRouteError(f"{brief(route)} is not legal for {problem.shape}: {verdict.reason}")
    return owner.plan(route.config, problem)


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
    step: Step, problem: Problem, tensors: "dict[str, Any]"
) -> "Callable[[Tensor, Tensor], None]":
    launcher = build(step, problem.device)[(*step.grid, 1)]
    names: list[str] = kernel_function(step).arg_names
    named = arguments(step, {**tensors, "a": None, "c": None})
    fixed = [named[name] for name in names]
    at_a, at_c = (_positions(step, names, operand) for operand in ("a", "c"))

    def call(a: "Tensor", c: "Tensor") -> None:
        values = fixed.copy()
        for index in at_a:
            values[index] = a
        for index in at_c:
            values[index] = c
        launcher(*values)

    return call


def _positions(step: Step, names: list[str], operand: str) -> list[int]:
    return [names.index(name) for name, held in step.buffers.items() if held.name == operand]


def _interpreted_call(
    step: Step, problem: Problem, tensors: "dict[str, Any]"
) -> "Callable[[Tensor, Tensor], None]":
    del problem
    launcher = kernel_function(step)[(*step.grid, 1)]

    def call(a: "Tensor", c: "Tensor") -> None:
        launcher(**arguments(step, {**tensors, "a": a, "c": c}))

    return call
