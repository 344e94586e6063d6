"""Where operands lie: on which GPU, and how in its memory."""

from typing import TYPE_CHECKING

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import MissingError
from mxtune.kernels.build import interpreting
from mxtune.kernels.family import View
from mxtune.kernels.gpu import index_of, running_device

if TYPE_CHECKING:
    from torch import Tensor

INTERPRETED_AS = "gfx950"  # the GPU that an interpreter without a table stands in for
_ALIGNED = 16  # bytes


def device_at(place: str, interpreted_as: str = INTERPRETED_AS) -> Device:
    """Return the GPU of ``place``, such as ``cuda:0``; for a CPU, the one it is interpreted as."""
    index = index_of(place)
    if index is not None:
        return running_device(index)
    if not interpreting():
        raise MissingError(
            "the operands are on the CPU: move them to a GPU, or set TRITON_INTERPRET=1 before "
            "Python starts to interpret"
        )
    return load_device(interpreted_as)


def view_of(matrix: "Tensor") -> View:
    """Return how a matrix lies in memory."""
    row, column = matrix.stride()
    if matrix.shape[0] == 1:
        row = matrix.shape[1]  # torch leaves the stride of a single row undefined
    if matrix.shape[1] == 1:
        column = 1  # and that of a single column
    return View(row, column, matrix.data_ptr() % _ALIGNED == 0)
