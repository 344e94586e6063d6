"""A bound route: what a dispatcher keeps for a problem, and what the tuner times."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Plan, Problem, View
from mxtune.kernels.gpu import elsewhere, index_of, on_device, other_gpus
from mxtune.kernels.guards import Check, same_kind
from mxtune.kernels.handles import NO_GRADIENT
from mxtune.kernels.placed import view_of
from mxtune.kernels.queues import Workspaces

if TYPE_CHECKING:
    from torch import Tensor


class Launch:
    """A bound route. Calling it enqueues its kernels on the current queue and returns.

    C is written whole. Workspaces are kept for each queue, so that calls on two queues never share
    one; none is allocated once a queue has been used.
    """

    def __init__(
        self,
        problem: Problem,
        place: str,
        calls: Sequence[Callable[..., None]],
        own: Workspaces,
        plan: Plan,
    ) -> None:
        """Take the calls of the steps; each takes A, C and the workspaces of ``own``."""
        self.shape: Shape = problem.shape
        self.plan = plan
        self._problem, self._place, self._own = problem, place, own
        self._calls = tuple(calls)
        self._index = index_of(place)
        self._elsewhere = elsewhere(self._index)
        alone = not own.names and not other_gpus(self._index) and len(self._calls) == 1
        self._enqueue = self._calls[0] if alone else self.enqueue
        self._a: Check = _nothing_seen  # of an A that was found to fit
        self._both: Check = _nothing_seen  # and of an A and a C

    @property
    def workspaces(self) -> "dict[str, Tensor]":
        """The tensors of the current queue that the route writes for itself, by name."""
        return dict(zip(self._own.names, self._own.tensors(), strict=True))

    def __call__(self, a: "Tensor", out: "Tensor | None" = None) -> "Tensor":
        """Return C for ``a``; ``out`` is overwritten with it if given.

        Both lie as in the problem that the route was bound for: bf16 [M, K] and [M, N], row by row,
        on its device. Raises ConfigError for others.
        """
        if out is None:
            if not self._a(a) or a.data_ptr() & 15:
                self._accept_a(a)
            out = a.new_empty((self.shape.m, self.shape.n))
        elif not self._both(a, out) or (a.data_ptr() | out.data_ptr()) & 15:
            self._accept_both(a, out)
        self._enqueue(a, out)
        return out

    def enqueue(self, *operands: "Tensor") -> None:
        """Compute the last operand from the others: how they lie and where is the caller's word."""
        if self._elsewhere():
            with on_device(self._index):
                self._enqueue_here(*operands)
        else:
            self._enqueue_here(*operands)

    def enqueue_alone(self, *operands: "Tensor") -> None:
        """Do the same with workspaces of this call alone: nothing of it is kept.

        torch.compile lets calls allocate in the pool of a graph, where nothing may stay.
        """
        with on_device(self._index):
            tensors = (*operands, *self._own.fresh())
            for call in self._calls:
                call(*tensors)

    def _enqueue_here(self, *operands: "Tensor") -> None:
        tensors = (*operands, *self._own.tensors()) if self._own.names else operands
        for call in self._calls:
            call(*tensors)

    def _accept_a(self, a: "Tensor") -> None:
        shape, lies = self.shape, self._problem.a
        self._accept("A", a, (shape.m, shape.k), lies)
        self._a = same_kind(a)

    def _accept_both(self, a: "Tensor", c: "Tensor") -> None:
        shape = self.shape
        self._accept("A", a, (shape.m, shape.k), self._problem.a)
        self._accept("C", c, (shape.m, shape.n), self._problem.c)
        self._both = same_kind(a, c)

    def _accept(self, name: str, matrix: "Tensor", sizes: tuple[int, int], bound: View) -> None:
        """Refuse a matrix that is not what was bound for."""
        import torch

        gpu = -1 if self._index is None else self._index
        if (
            tuple(matrix.shape) != sizes
            or matrix.dtype != torch.bfloat16
            or matrix.get_device() != gpu
        ):
            raise ConfigError(
                f"bound for {self.shape} on {self._place}, called with {name} {matrix.dtype} "
                f"{list(matrix.shape)} on {matrix.device}"
            )
        lies = view_of(matrix)
        strides = (lies.row, lies.column) == (bound.row, bound.column)
        if not strides or (bound.aligned and not lies.aligned):
            raise ConfigError(
                f"bound for {name} with strides {[bound.row, bound.column]}"
                f"{', aligned to 16 bytes' * bound.aligned}; it has {list(matrix.stride())}"
                f"{'' if lies.aligned else ', not aligned'}: call the dispatcher instead"
            )
        if matrix.requires_grad and torch.is_grad_enabled():
            raise ConfigError(NO_GRADIENT)


def _nothing_seen(*tensors: "Tensor") -> bool:
    del tensors
    return False
