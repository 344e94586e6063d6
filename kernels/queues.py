"""The queues (streams) of a GPU, and the workspaces that a bound route keeps for each of them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mxtune.kernels.family import Buffer
from mxtune.kernels.gpu import capturing, index_of

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 8  # queues that a route keeps workspaces for; the one not used for longest goes first

Queue = Callable[[], int]


def current_queue(place: str) -> Queue:
    """Return what tells the handle of the current queue at ``place``; on a CPU there is one."""
    index = index_of(place)
    if index is None:
        return lambda: 0
    driver: Any = import_module("triton.runtime").driver.active
    # torch's, at a tenth of its price
    return partial(driver.get_current_stream, index)


class Workspaces:
    """The tensors that a route writes and reads again: a set for each queue.

    Work on one queue is in order, so that a call may use what the call before has done with. A call
    that is captured into a graph gets tensors of its own, which belong to the graph.
    """

    def __init__(self, buffers: Sequence[Buffer], place: str) -> None:
        """Allocate nothing yet."""
        self._buffers, self._place = tuple(buffers), place
        self.names = tuple(buffer.name for buffer in buffers)  # in the order of `tensors`
        self._queue = current_queue(place)
        self._held: OrderedDict[int, tuple[Tensor, ...]] = OrderedDict()

    def tensors(self) -> "tuple[Tensor, ...]":
        """Return those of the current queue; what is in them means nothing."""
        if not self._buffers or capturing(self._place):
            return self.fresh()
        queue = self._queue()
        held = self._held.get(queue)
        if held is None:
            held = self._held[queue] = self.fresh()
            while len(self._held) > _MOST:
                self._held.popitem(last=False)
        return held

    def fresh(self) -> "tuple[Tensor, ...]":
        """Return new ones that nothing keeps."""
        return tuple(_empty(buffer, self._place) for buffer in self._buffers)


def _empty(buffer: Buffer, place: str) -> "Tensor":
    import torch

    dtypes = {"bf16": torch.bfloat16, "fp32": torch.float32, "u8": torch.uint8}
    return torch.empty(buffer.shape, dtype=dtypes[buffer.dtype], device=place)
