"""Whether tensors are of the kind that was seen before: type, dtype, device, sizes, strides.

torch's own guards tell all of it for several tensors in one call, at a tenth of what asking for
each attribute costs. They are not public, so that there is a way without them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Check = Callable[..., bool]  # of as many tensors as it was made from


def same_kind(*tensors: "Tensor") -> Check:
    """Return a check that holds for ``tensors``, and for others only if they lie just like them."""
    guards: Any = _torchs_guards()
    if guards is None:
        return _plain(tensors)
    fixed = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    check: Check = guards(*tensors, **fixed).check
    return check


def _torchs_guards() -> Any:
    """Return torch's class of guards, or None where this torch has none."""
    try:
        return import_module("torch._C._dynamo.guards").TensorGuards
    except (ImportError, AttributeError):
        return None


def _plain(tensors: "tuple[Tensor, ...]") -> Check:
    kinds = tuple(map(_kind, tensors))

    def check(*others: "Tensor") -> bool:
        return tuple(map(_kind, others)) == kinds

    return check


def _kind(tensor: "Tensor") -> tuple[object, ...]:
    where = (type(tensor), tensor.dtype, tensor.device, tensor.requires_grad)
    return (*where, tensor.shape, tensor.stride())
