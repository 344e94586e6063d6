"""Shows what a bound route does, stage by stage: to a profiler, or as one JSON line a call.

An observer is chosen when a route is bound and wraps its launches then. A route that is bound
without one launches as if this file did not exist.
"""

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from mxtune.kernels.family import Call, Step
from mxtune.kernels.stage_times import LINES, StageTimes, Subject, clock_at

if TYPE_CHECKING:
    from torch import Tensor


class Observer:
    """What is shown of each call.

    ``ranges``: a range around every stage, for torch's profiler, and on a GPU for NVTX or ROCTX
    too. ``timings``: a stream that gets one JSON line a call, ``lines`` of them at most and one
    that says so.
    """

    def __init__(
        self, *, ranges: bool = False, timings: TextIO | None = None, lines: int = LINES
    ) -> None:
        """Show nothing unless asked to."""
        self._ranges = ranges
        self._times = StageTimes(timings, lines) if timings else None

    @classmethod
    def of(cls, words: Collection[str], stream: TextIO) -> "Observer | None":
        """Return what MXTUNE_OBSERVE asks for, its lines to ``stream``; None for nothing."""
        if not words:
            return None
        return cls(ranges="ranges" in words, timings=stream if "timings" in words else None)

    def around(
        self, subject: Subject, steps: Sequence[Step | Call], calls: tuple[Callable[..., None], ...]
    ) -> tuple[Callable[..., None], ...]:
        """Return ``calls``, one for each of ``steps``, with what shows them put around."""
        labels = tuple(_label(step) for step in steps)
        if self._ranges:
            nvtx = _nvtx(subject.place)
            names = (f"mxtune {subject.name}/{label} {subject}" for label in labels)
            calls = tuple(
                _in_range(name, call, nvtx) for name, call in zip(names, calls, strict=True)
            )
        if not self._times:
            return calls
        return (self._times.timed(subject, labels, calls, clock_at(subject.place)),)

    def flush(self) -> None:
        """Write the lines of all calls so far: waits for those that still run."""
        if self._times:
            self._times.flush()


def _label(step: Step | Call) -> str:
    """Return the stage's name; AITER's functions go by theirs."""
    return step.name if isinstance(step, Step) else f"aiter.{step.function}"


def _in_range(name: str, call: Callable[..., None], nvtx: Any) -> Callable[..., None]:
    from torch.profiler import record_function

    def recorded(*tensors: "Tensor") -> None:
        with record_function(name):
            call(*tensors)

    def tagged(*tensors: "Tensor") -> None:
        nvtx.range_push(name)
        try:
            recorded(*tensors)
        finally:
            nvtx.range_pop()

    return tagged if nvtx else recorded


def _nvtx(place: str) -> Any:
    """Return torch's NVTX, which is ROCTX on AMD; None on a CPU or in a build without it."""
    if place.startswith("cpu"):
        return None
    nvtx: Any = import_module("torch.cuda.nvtx")
    try:
        nvtx.range_push("mxtune")
        nvtx.range_pop()
    except RuntimeError:  # what a build without it does
        return None
    return nvtx
