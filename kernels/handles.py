"""Numbers that stand for objects.

An operator of torch takes tensors and numbers only. So each dispatcher and each weight has a
number, by which a compiled graph finds it again as long as it lives.
"""

import itertools
from typing import Any
from weakref import WeakValueDictionary

from mxtune.configs.errors import ConfigError

NO_GRADIENT = "an MXFP4 GEMM has no gradient: call it under torch.no_grad(), or with a.detach()"

_NEXT = itertools.count(1)
_LIVING: WeakValueDictionary[int, Any] = WeakValueDictionary()


def handle_of(thing: object) -> int:
    """Return a new number for ``thing``, which it does not keep alive."""
    handle = next(_NEXT)
    _LIVING[handle] = thing
    return handle


def found(handle: int) -> Any:
    """Return what a number stands for; raises ConfigError if that is gone."""
    thing = _LIVING.get(handle)
    if thing is None:
        raise ConfigError(
            "a compiled graph uses a dispatcher or a weight that is gone: keep both alive, or "
            "compile again"
        )
    return thing
