"""Routes that take an A quantised before: all of them that begin by quantising it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mxtune.configs.devices import Device
from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.bind import Watch, bind_plan, fitted, planned
from mxtune.kernels.family import A_CODES, A_SCALES, Plan, Problem, Step
from mxtune.kernels.launch import Launch
from mxtune.kernels.observe import Observer
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor


class SharedLaunch:
    """A bound route without its quantiser: codes and scales of A come with the call."""

    def __init__(self, launch: Launch, scale_layout: str) -> None:
        """Take a launch whose A is codes and scales, these in ``scale_layout``."""
        self.shape, self.plan, self.scale_layout = launch.shape, launch.plan, scale_layout
        self._launch = launch

    @property
    def workspaces(self) -> "dict[str, Tensor]":
        """The tensors of the current queue that the route writes for itself, by name."""
        return self._launch.workspaces

    def __call__(self, a: Mxfp4Activation, c: "Tensor") -> None:
        """Compute ``c``, laid out as in the problem that the route was bound for.

        Raises ConfigError for other sizes; strides and devices are the caller's word.
        """
        if a.shape != (self.shape.m, self.shape.k) or c.shape != (self.shape.m, self.shape.n):
            raise ConfigError(
                f"bound for {self.shape}, called with A {list(a.shape)} and C {list(c.shape)}"
            )
        self._launch.enqueue(a.codes, a.scales(self.scale_layout), c)


def shares(route: Route, shape: Shape, device: Device) -> bool:
    """Whether ``route``, legal for ``shape`` on ``device``, can take an A quantised before."""
    plan = family(route.family).plan(route.config, Problem.contiguous(shape, device))
    return _scales_read(plan) is not None


def bind_shared(
    route: Route,
    problem: Problem,
    weight: Mxfp4Weight,
    observe: Observer | None = None,
    count: Callable[..., None] | None = None,
) -> SharedLaunch:
    """Compile ``route`` but for its quantiser; of ``problem`` only the shape and C count.

    Raises ConfigError for a route that does not begin by quantising A, and what `bind` raises.
    """
    route = checked_route(route)
    whole = fitted(planned(route, problem), weight)
    scales = _scales_read(whole)
    if scales is None:
        raise ConfigError(f"{brief(route)} takes no A quantised before")
    plan = Plan(whole.steps[1:], whole.deterministic)
    operands = (A_CODES, scales, "c")
    watch = Watch(route.family, observe, count)
    launch = bind_plan(plan, operands, problem, weight, watch)
    return SharedLaunch(launch, A_SCALES[scales])


def _scales_read(plan: Plan) -> str | None:
    """Return the buffer of A's scales that a first step writes for all others, or None.

    None if A is quantised otherwise: inside the GEMM, or to values in bf16.
    """
    first, others = plan.steps[0], plan.steps[1:]
    written = {buffer.name for buffer in first.buffers.values()} - {"a"}
    scales = written & A_SCALES.keys()
    read_later = any(b.name == "a" for step in others for b in step.buffers.values())
    if not isinstance(first, Step) or read_later or written != {A_CODES} | scales or not scales:
        return None
    return next(iter(scales))
