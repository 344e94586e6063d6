"""The GEMM as an operator of torch, `mxtune::gemm`, which torch.compile keeps whole.

Importing this registers it, so it imports torch; nothing imports it before torch is there.
"""

from typing import TYPE_CHECKING, Any

import torch

from mxtune.configs.errors import ConfigError
from mxtune.kernels.handles import NO_GRADIENT, found

if TYPE_CHECKING:
    from torch import Tensor

NAME = "mxtune::gemm"


def _gemm(a: "Tensor", engine: int, weight: int, n: int) -> "Tensor":
    """Compute bf16 [M, N] for A bf16 [M, K] by a dispatcher's engine and a weight, both handles."""
    del n
    result: Tensor = found(engine)(a, found(weight), alone=True)
    return result


def _fake(a: "Tensor", engine: int, weight: int, n: int) -> "Tensor":
    del engine, weight
    return a.new_empty((a.shape[0], n))


def _backward(context: Any, gradient: "Tensor") -> None:
    del context, gradient
    raise ConfigError(NO_GRADIENT)


torch.library.define(NAME, "(Tensor a, SymInt engine, SymInt weight, SymInt n) -> Tensor")
torch.library.impl(NAME, "default")(_gemm)
torch.library.register_fake(NAME)(_fake)
torch.library.register_autograd(NAME, _backward)
