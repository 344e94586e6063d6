"""Computes GEMMs for a dispatcher: binds what it meets for the first time, then only launches.

It is imported once torch is, and so imports torch at its top: a call has no time to.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol

import torch

import mxtune.kernels.operator  # noqa: F401  which registers it
from mxtune.configs.devices import Device
from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem, View
from mxtune.kernels.gpu import capturing, index_of
from mxtune.kernels.handles import NO_GRADIENT, handle_of
from mxtune.kernels.launch import Launch
from mxtune.kernels.lookup import Choice
from mxtune.kernels.misses import Misses
from mxtune.kernels.observe import Observer
from mxtune.kernels.placed import view_of
from mxtune.kernels.plans import Plans
from mxtune.kernels.reuse import LastActivation
from mxtune.kernels.shared import SharedLaunch, bind_shared, shares
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor


class Chooser(Protocol):
    """Tells the route for a shape at a place, and the GPU there."""

    def __call__(
        self, shape: Shape, place: str, *, quantised: bool = False
    ) -> tuple[Choice, Device]: ...


class Engine:
    """The bound routes of a dispatcher, by weight and by how A and C lie."""

    def __init__(
        self, choose: Chooser, misses: Misses, observe: Observer | None, *, reuse: bool
    ) -> None:
        """Take how routes are chosen; ``reuse`` is for implicitly kept activations."""
        self._choose, self._misses, self._observe = choose, misses, observe
        self._last = LastActivation() if reuse else None
        self._plans, self._shared = Plans[Launch](), Plans[SharedLaunch]()
        self._sharing = Plans[bool]()
        self.handle = handle_of(self)

    def __call__(
        self,
        a: "Tensor | Mxfp4Activation",
        w: Mxfp4Weight,
        out: "Tensor | None" = None,
        *,
        alone: bool = False,
    ) -> "Tensor":
        """See Dispatcher; ``alone``: keep no workspace of the call."""
        if torch.compiler.is_compiling():
            return _traced(self, a, w, out)
        if self._last is not None or isinstance(a, Mxfp4Activation):
            return self._otherwise(a, w, out)
        key = (
            (a.shape, a.stride(), a.dtype, a.get_device(), a.data_ptr() & 15),
            None if out is None else _lies(out),
        )
        launch = self._plans.get(key, w)
        if launch is None:
            launch = self._bound(key, a, w, out)
        if a.requires_grad and torch.is_grad_enabled():
            raise ConfigError(NO_GRADIENT)
        if out is None:
            out = a.new_empty((a.shape[0], w.n))
        if launch is not None:
            (launch.enqueue_alone if alone else launch.enqueue)(a, out)
        return out

    def plan(self, m: int, w: Mxfp4Weight) -> Launch:
        """Bind the route for M rows of A, row by row and aligned, and a C of the same kind."""
        index = index_of(w.device)
        lies = ((m, w.k), (w.k, 1), torch.bfloat16, -1 if index is None else index, 0)
        shape = Shape(m, w.n, w.k)

        def make() -> Launch:
            return self._bind(shape, View(w.k, 1), View(w.n, 1), w)

        return self._plans.of((lies, None), w, make)

    def _bound(
        self, key: tuple[Hashable, Hashable], a: "Tensor", w: Mxfp4Weight, out: "Tensor | None"
    ) -> Launch | None:
        """Bind a route for operands that are met for the first time; None if there is no work.

        A given C that lies as a fresh one would is served by the same launch.
        """
        check_operands(a, w)
        if out is not None:
            check_out(out, a, w)
        if not a.shape[0] * w.n:
            return None
        shape = Shape(a.shape[0], w.n, w.k)
        fresh = View(w.n, 1)
        c = fresh if out is None else view_of(out)
        shared = (key[0], None) if c == fresh else key
        launch = self._plans.of(shared, w, lambda: self._bind(shape, view_of(a), c, w))
        return self._plans.of(key, w, lambda: launch)

    def _bind(self, shape: Shape, a: View, c: View, w: Mxfp4Weight) -> Launch:
        _refuse_capture(shape, w.device)
        choice, device = self._choose(shape, w.device)
        problem = Problem(shape, device, a, c)
        return bind(choice.route, problem, w, self._observe, self._counter(choice, shape))

    def _counter(self, choice: Choice, shape: Shape) -> Callable[..., None] | None:
        return None if choice.step == "exact" else self._misses.counter(shape)

    def _otherwise(
        self, a: "Tensor | Mxfp4Activation", w: Mxfp4Weight, out: "Tensor | None"
    ) -> "Tensor":
        """Compute with an A that was quantised before, or that may be kept quantised."""
        check_operands(a, w)
        if isinstance(a, torch.Tensor) and a.requires_grad and torch.is_grad_enabled():
            raise ConfigError(NO_GRADIENT)
        if out is None:
            out = torch.empty((a.shape[0], w.n), dtype=torch.bfloat16, device=a.device)
        else:
            check_out(out, a, w)
        if out.numel():
            self._enqueue(a, w, out)
        return out

    def _enqueue(self, a: "Tensor | Mxfp4Activation", w: Mxfp4Weight, out: "Tensor") -> None:
        shape, c = Shape(a.shape[0], w.n, w.k), view_of(out)
        if isinstance(a, Mxfp4Activation):
            self._shared_launch(shape, c, w)(a, out)
        elif self._last and self._sharing.of(shape, w, lambda: self._shares(shape, w)):
            launch = self._shared_launch(shape, c, w)
            launch(self._last.quantised(a, launch.scale_layout, self._observe), out)
        else:
            lies = view_of(a)
            key = (lies, c, shape)
            self._plans.of(key, w, lambda: self._bind(shape, lies, c, w)).enqueue(a, out)

    def _shared_launch(self, shape: Shape, c: View, w: Mxfp4Weight) -> SharedLaunch:
        return self._shared.of((shape, c), w, lambda: self._bind_shared(shape, c, w))

    def _bind_shared(self, shape: Shape, c: View, w: Mxfp4Weight) -> SharedLaunch:
        _refuse_capture(shape, w.device)
        choice, device = self._choose(shape, w.device, quantised=True)
        problem = Problem(shape, device, View(w.k, 1), c)
        count = self._counter(choice, shape)
        return bind_shared(choice.route, problem, w, self._observe, count)

    def _shares(self, shape: Shape, w: Mxfp4Weight) -> bool:
        """Whether the route for a tensor is one that an Mxfp4Activation would take too."""
        choice, device = self._choose(shape, w.device)
        return shares(choice.route, shape, device)


def _lies(matrix: "Tensor") -> tuple[object, ...]:
    """Return all of a matrix that a launch is bound for."""
    shape, strides = matrix.shape, matrix.stride()
    return shape, strides, matrix.dtype, matrix.get_device(), matrix.data_ptr() & 15


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _untraced(engine: Engine, a: Mxfp4Activation, w: Mxfp4Weight, out: "Tensor | None") -> "Tensor":
    return engine(a, w, out)


def _traced(
    engine: Engine, a: "Tensor | Mxfp4Activation", w: Mxfp4Weight, out: "Tensor | None"
) -> "Tensor":
    """Put the operator into the graph that torch.compile makes; what is no tensor breaks it."""
    if isinstance(a, Mxfp4Activation):
        untraced: Tensor = _untraced(engine, a, w, out)  # pyright: ignore[reportCallIssue]
        return untraced
    if a.dtype != torch.bfloat16 or a.ndim != 2 or a.shape[1] != w.k:
        check_operands(a, w)
    if a.requires_grad and torch.is_grad_enabled():
        raise ConfigError(NO_GRADIENT)
    c: Tensor = torch.ops.mxtune.gemm(a, engine.handle, w.handle, w.n)
    return c if out is None else out.copy_(c)


def _refuse_capture(shape: Shape, place: str) -> None:
    """Refuse to bind while a graph is captured: compiling and allocating would break it."""
    if capturing(place):
        raise ConfigError(
            f"no route is bound for {shape} on {place} yet, and none can be while a graph is "
            "captured: warm up first, with one call before the capture"
        )


def check_operands(a: "Tensor | Mxfp4Activation", w: Mxfp4Weight) -> None:
    """Raise ConfigError for an A that does not fit the weight."""
    if not isinstance(a, Mxfp4Activation) and a.dtype != torch.bfloat16:
        raise ConfigError(f"A must be bfloat16, not {a.dtype}: quantise others with a.bfloat16()")
    if len(a.shape) != 2 or a.shape[1] != w.k:
        raise ConfigError(f"A must be [M, {w.k}] for this weight, not {list(a.shape)}")
    if str(a.device) != w.device:
        raise ConfigError(f"A is on {a.device} and the weight on {w.device}; move one of them")


def check_out(out: "Tensor", a: "Tensor | Mxfp4Activation", w: Mxfp4Weight) -> None:
    """Raise ConfigError for an output that C cannot be written to."""
    wanted = (a.shape[0], w.n)
    if out.dtype != torch.bfloat16 or tuple(out.shape) != wanted or str(out.device) != w.device:
        raise ConfigError(
            f"out must be {torch.bfloat16} {list(wanted)} on {a.device}, "
            f"not {out.dtype} {list(out.shape)} on {out.device}"
        )
    if out.shape[1] > 1 and out.stride(1) != 1:
        raise ConfigError(f"out must have unit stride along N, not strides {list(out.stride())}")
