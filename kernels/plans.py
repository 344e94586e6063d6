"""What is bound for the calls of each weight, so many at most."""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from mxtune.kernels.weight import Mxfp4Weight

T = TypeVar("T")

MOST = 256  # for one weight; the one not used for longest goes first


class Plans(Generic[T]):
    """Things made once for a kind of call and a weight; they go when the weight does."""

    def __init__(self) -> None:
        """Begin with none."""
        self._held: dict[int, OrderedDict[Hashable, T]] = {}  # by the id of a weight that lives
        self._lock = Lock()  # several threads may launch at once

    def get(self, key: Hashable, w: Mxfp4Weight) -> T | None:
        """Return what is held for ``key`` and ``w``, if there is something."""
        held = self._held.get(id(w))
        if held is None:
            return None
        with self._lock:
            found = held.get(key)
            if found is not None:
                held.move_to_end(key)
        return found

    def of(self, key: Hashable, w: Mxfp4Weight, make: Callable[[], T]) -> T:
        """Return what is held for ``key`` and ``w``, made now if need be."""
        found = self.get(key, w)
        if found is None:
            found = make()
            self._keep(key, w, found)
        return found

    def _keep(self, key: Hashable, w: Mxfp4Weight, made: T) -> None:
        with self._lock:
            held = self._held.get(id(w))
            if held is None:
                held = self._held[id(w)] = OrderedDict()
                # before the id can be another's
                weakref.finalize(w, self._held.pop, id(w), None).atexit = False
            held[key] = made
            if len(held) > MOST:
                held.popitem(last=False)
