"""A bound route: what a dispatcher keeps for a problem, and what the tuner times."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Plan, Problem
from mxtune.kernels.gpu import index_of, on_device, other_gpus
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
        import torch

        self.shape: Shape = problem.shape
        self.plan = plan
        self._problem, self._place, self._own = problem, place, own
        self._calls = tuple(calls)
        self._index = index_of(place)
        self._plain = not own.names and not other_gpus(self._index)
        shape, dtype, gpu = (
            problem.shape,
            torch.bfloat16,
            -1 if self._index is None else self._index,
        )
        # as Tensor.get_device() has it: -1 is the CPU
        self._a = ((shape.m, shape.k), (problem.a.row, problem.a.column), dtype, gpu)
        self._c = ((shape.m, shape.n), (problem.c.row, problem.c.column), dtype, gpu)

    @property
    def workspaces(self) -> "dict[str, Tensor]":
        """The tensors of the current queue that the route writes for itself, by name."""
        return dict(zip(self._own.names, self._own.tensors(), strict=True))

    def __call__(self, a: "Tensor", out: "Tensor | None" = None) -> "Tensor":
        """Return C for ``a``; ``out`` is overwritten with it if given.

        Both lie as in the problem that the route was bound for: bf16 [M, K] and [M, N], row by row,
        on its device. Raises ConfigError for others.
        """
        if (a.shape, a.stride(), a.dtype, a.get_device()) != self._a or a.data_ptr() & 15:
            self._accept("A", a)
        if out is None:
            out = a.new_empty((self.shape.m, self.shape.n))
        elif (out.shape, out.stride(), out.dtype, out.get_device()) != self._c or (
            out.data_ptr() & 15
        ):
            self._accept("C", out)
        self.enqueue(a, out)
        return out

    def enqueue(self, *operands: "Tensor") -> None:
        """Compute the last operand from the others: how they lie and where is the caller's word."""
        if self._plain:
            for call in self._calls:
                call(*operands)
            return
        with on_device(self._index):
            tensors = (*operands, *self._own.tensors())
            for call in self._calls:
                call(*tensors)

    def _accept(self, name: str, matrix: "Tensor") -> None:
        """Refuse a matrix that does not lie as it was bound for; some do and look different."""
        sizes, _, dtype, gpu = self._a if name == "A" else self._c
        bound = self._problem.a if name == "A" else self._problem.c
        if tuple(matrix.shape) != sizes or matrix.dtype != dtype or matrix.get_device() != gpu:
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
