"""How long each stage of a call took, as one JSON line a call.

On a GPU a stage lies between two events. Nothing waits for them: a line is written by a later call,
by `flush`, or at the end, when its events have passed. A stage whose kernel the GPU had to wait for
has that in its time: queue enough work before, or read the host's pace.
"""

import json
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from mxtune.kernels.gpu import capturing

if TYPE_CHECKING:
    from torch import Tensor

LINES = 1000  # a forgotten switch must not fill a disk
_PENDING = 64  # calls whose events are kept; beyond that the oldest is waited for


@dataclass(frozen=True, slots=True)
class Subject:
    """What is observed: a family, or the quantiser alone; its M, N, K or M, K; and where it is."""

    name: str
    sizes: tuple[int, ...]
    place: str

    def __str__(self) -> str:
        return "x".join(map(str, self.sizes))


class Clock(Protocol):
    """Marks points of time between launches."""

    name: str

    def mark(self) -> Any:
        """Return this point of the queue, or of time."""
        ...

    def passed(self, mark: Any) -> bool:
        """Whether it has come."""
        ...

    def between_us(self, start: Any, end: Any) -> float:
        """Wait for ``end`` and return the time from ``start`` to it."""
        ...


def clock_at(place: str) -> Clock:
    """Return the clock of a GPU, or on a CPU the host's."""
    return _Wall() if place.startswith("cpu") else _Events()


class _Wall:
    """The host's clock: an interpreted launch has ended when it returns."""

    name = "wall"

    def mark(self) -> int:
        return perf_counter_ns()

    def passed(self, mark: int) -> bool:
        del mark
        return True

    def between_us(self, start: int, end: int) -> float:
        return (end - start) / 1e3


class _Events:
    """The GPU's clock, on the current stream."""

    name = "events"

    def mark(self) -> Any:
        event = import_module("torch").cuda.Event(enable_timing=True)
        event.record()
        return event

    def passed(self, mark: Any) -> bool:
        return bool(mark.query())

    def between_us(self, start: Any, end: Any) -> float:
        end.synchronize()
        return 1e3 * float(start.elapsed_time(end))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One call: its marks are one more than its stages."""

    subject: Subject
    labels: tuple[str, ...]
    clock: Clock
    marks: list[Any]

    def line(self, number: int) -> str:
        between = zip(self.marks[:-1], self.marks[1:], strict=True)
        times = [round(self.clock.between_us(start, end), 3) for start, end in between]
        stages = [{"stage": label, "us": us} for label, us in zip(self.labels, times, strict=True)]
        facts = {"route": self.subject.name, "shape": list(self.subject.sizes)}
        return json.dumps({"call": number, **facts, "clock": self.clock.name, "stages": stages})


class _Lines:
    """A stream that takes so many readings, in the order of their calls."""

    def __init__(self, stream: TextIO, most: int) -> None:
        self._stream, self._most = stream, most
        self._pending: deque[_Reading] = deque()
        self._taken = self._written = 0

    @property
    def full(self) -> bool:
        return self._taken >= self._most

    def add(self, reading: _Reading) -> None:
        self._taken += 1
        self._pending.append(reading)
        while self._pending and (len(self._pending) > _PENDING or _passed(self._pending[0])):
            self._write()

    def flush(self) -> None:
        while self._pending:
            self._write()

    def _write(self) -> None:
        self._written += 1
        line = self._pending.popleft().line(self._written)
        self._print(line)
        if self._written == self._most:
            self._print(json.dumps({"note": f"{self._most} calls were told; no more will be"}))

    def _print(self, line: str) -> None:
        if not self._stream.closed:  # at the end of the process it may be
            print(line, file=self._stream, flush=True)


def _passed(reading: _Reading) -> bool:
    return reading.clock.passed(reading.marks[-1])


class StageTimes:
    """Times the stages of the calls it is put around, and tells a stream."""

    def __init__(self, stream: TextIO, most: int) -> None:
        """Tell of ``most`` calls at most."""
        self._lines = _Lines(stream, most)
        weakref.finalize(self, self._lines.flush)  # nobody may ask for the last ones

    def timed(
        self,
        subject: Subject,
        labels: tuple[str, ...],
        calls: tuple[Callable[..., None], ...],
        clock: Clock,
    ) -> Callable[..., None]:
        """Return one call that makes all of ``calls`` and tells their times by ``labels``."""

        def timed(*tensors: "Tensor") -> None:
            if self._lines.full or capturing(subject.place):  # a graph's events tell no time
                for call in calls:
                    call(*tensors)
                return
            marks = [clock.mark()]
            for call in calls:
                call(*tensors)
                marks.append(clock.mark())
            self._lines.add(_Reading(subject, labels, clock, marks))

        return timed

    def flush(self) -> None:
        """Write what is pending, waiting for it."""
        self._lines.flush()
