"""What the launches of fault candidates do: one way each in which a kernel can go wrong.

A launch gets the right answer from ``good`` and does with it what its name says.
"""

import importlib
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels import formats
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

FOREVER_S = 600.0  # far beyond any limit of a drill, and yet an end
_SPIN_NS = 60 * 10**9  # a kernel cannot be interrupted: it has to end by itself
_FAR = 1 << 40  # elements: no GPU has that much memory behind a tensor
_CAP_BYTES = 1 << 38  # of addresses: more than torch maps, less than is asked for
_TOO_MUCH_BYTES = 1 << 50
_TILE = 16


@dataclass(slots=True)
class Good:
    """The right product with one weight, worked out once for each A."""

    weight: Mxfp4Weight
    of: "Tensor | None" = None
    known: "Tensor | None" = None

    def __call__(self, a: "Tensor") -> "Tensor":
        """Return the product fp32 [M, N] of A, bf16 [M, K]."""
        if self.known is None or self.of is not a:
            self.of, self.known = a, self.of_first(a, self.weight.k)
        return self.known

    def of_first(self, a: "Tensor", k: int) -> "Tensor":
        """Return the product of the first ``k`` columns of A and B, fp32 [M, N]."""
        rounded = formats.dequantise(*formats.quantise(a, self.weight.rule))
        return formats.product(rounded[:, :k], self.weight.dequantised()[:, :k])


Act = Callable[[Good, "Tensor", "Tensor"], None]


def correct(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write the right answer."""
    c.copy_(good(a))


def abort(*_: object) -> None:
    """End the process by SIGABRT, as an assertion in a driver does."""
    os.abort()


def segfault(*_: object) -> None:
    """Read address 0."""
    import ctypes

    ctypes.string_at(0)


def exit_quietly(*_: object) -> None:
    """End the process without an error code: no success all the same."""
    os._exit(0)


def hang(*_: object) -> None:
    """Never come back."""
    time.sleep(FOREVER_S)


def hang_ignoring_sigterm(*_: object) -> None:
    """Never come back, not for a polite request either."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(FOREVER_S)


def raise_oom(*_: object) -> None:
    """Raise what torch raises when the GPU's memory is spent."""
    import torch

    raise torch.OutOfMemoryError("a drill: the device is out of memory")


def allocate_everything(_good: Good, _a: "Tensor", c: "Tensor") -> None:
    """Ask for more memory than there is; on a CPU under a cap, so that the machine has its own."""
    import torch

    if c.is_cuda:
        torch.empty(_TOO_MUCH_BYTES, dtype=torch.uint8, device=c.device)
    with _capped_memory():
        bytearray(_TOO_MUCH_BYTES)


@contextmanager
def _capped_memory() -> Generator[None, None, None]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (_CAP_BYTES, *before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def return_zeros(_good: Good, _a: "Tensor", c: "Tensor") -> None:
    """Write zeros, at once."""
    c.zero_()


def do_nothing(*_: object) -> None:
    """Leave C as it was: right only where a former candidate's answer is still there."""


def scale(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write an answer that is 3 % too large everywhere."""
    c.copy_(good(a) * 1.03)


def miss_last_k_block(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Leave the last block of K out."""
    c.copy_(good.of_first(a, a.shape[1] - SCALE_BLOCK))


def leave_tile_hole(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write zeros into one tile, the last."""
    c.copy_(good(a))
    c[-_TILE:, -_TILE:] = 0


def swap_rows(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Exchange the first and the last row."""
    c.copy_(good(a))
    c[[0, -1]] = c[[-1, 0]]


def write_left_half(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write the left half only."""
    half = c.shape[1] // 2
    c[:, :half] = good(a)[:, :half]


def write_right_half(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write the right half only."""
    half = c.shape[1] // 2
    c[:, half:] = good(a)[:, half:]


def add_into_output(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Add to what is in C: right only where that is zero."""
    c += good(a)


def change_input(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write the right answer and destroy A."""
    c.copy_(good(a))
    a.zero_()


def return_nan(good: Good, a: "Tensor", c: "Tensor") -> None:
    """Write one NaN among right values."""
    c.copy_(good(a))
    c[-1, -1] = float("nan")


def access_illegally(_good: Good, _a: "Tensor", c: "Tensor") -> None:
    """Store far outside C. GPU only: the fault comes out at the next synchronisation."""
    _kernel("store_far")[(1,)](c, _FAR)


def spin(_good: Good, _a: "Tensor", c: "Tensor") -> None:
    """Keep the GPU busy for a minute. NVIDIA only."""
    _kernel("spin")[(1,)](c, _SPIN_NS)


def warm_up(gpu: str) -> None:
    """Launch a kernel that does no harm: the first one of a process loads a tool chain."""
    import torch

    _kernel("store_far")[(1,)](torch.zeros(1, dtype=torch.bfloat16, device=gpu), 0)
    torch.cuda.synchronize(gpu)


def _kernel(name: str) -> Any:
    return getattr(importlib.import_module("mxtune.kernels.device.faults"), name)
