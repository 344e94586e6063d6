"""What is bound for the problems of each weight, so many at most."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from mxtune.kernels.family import Problem
from mxtune.kernels.weight import Mxfp4Weight

T = TypeVar("T")

MOST = 256  # for one weight; the one not used for longest goes first


class Plans(Generic[T]):
    """Things made once for a problem and a weight; they go when the weight does."""

    def __init__(self) -> None:
        """Begin with none."""
        self._held: WeakKeyDictionary[Mxfp4Weight, OrderedDict[Problem, T]] = WeakKeyDictionary()

    def of(self, problem: Problem, w: Mxfp4Weight, make: Callable[[Problem, Mxfp4Weight], T]) -> T:
        """Return what ``make`` made of ``problem`` and ``w``, now or before."""
        held = self._held.setdefault(w, OrderedDict())
        if problem not in held:
            held[problem] = make(problem, w)
            if len(held) > MOST:
                held.popitem(last=False)
        held.move_to_end(problem)
        return held[problem]
