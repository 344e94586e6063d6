"""The clock of a GPU worker: event pairs around calls, in one of several regimes.

What an event pair spans is GPU time and no waiting for the host, because something long is always
queued before it: in the cold regime a flush that writes more than the last-level cache holds, in
the others a kernel that only waits. The pair itself reads something around nothing: that floor is
measured in the same rounds and reported, never subtracted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime

Call = Callable[[], object]

_MOST_PAIRS = 256  # recorded before they are read; ROCm falters at over a thousand
_DELAY_US = 60.0  # longer than the host takes to enqueue a call of three kernels
_LOST_READING = 1  # the first round of a batch, when the queue has yet to fill


@dataclass(frozen=True, slots=True)
class Timed:
    """A call to be timed, on as many copies of its operands as the regime goes round."""

    copies: tuple[Call, ...]


class Clock:
    """Times calls on one GPU, in microseconds."""

    def __init__(self, device: Device, gpu: str, regime: Regime) -> None:
        """Take the memory that flushes write to, if the regime flushes."""
        import torch

        self.regime = regime
        self._gpu = torch.device(gpu)
        size = device.flush_bytes if regime.caches == "cold" else 0
        self._junk = torch.empty(size, dtype=torch.uint8, device=gpu)
        self._delay_cycles = round(_DELAY_US * device.clock_ghz * 1e3)

    def prepare(self, copies: Sequence[Call]) -> Timed:
        """Make calls ready to be timed: warmed up, and captured if the regime replays graphs."""
        for call in copies:
            call()
        if self.regime.launching == "eager":
            return Timed(tuple(copies))
        return Timed(tuple(self._captured(call) for call in copies))

    def rounds(self, calls: Sequence[Timed], count: int) -> list[tuple[float, ...]]:
        """Time every call ``count`` times, in turn, so that a drift of the clock hits all alike."""
        samples: list[list[float]] = [[] for _ in calls]
        per_batch = max(1, _MOST_PAIRS // len(calls) - _LOST_READING)
        taken = 0
        while taken < count:
            batch = min(count - taken, per_batch)
            turns = range(taken, taken + batch + _LOST_READING)
            pairs = [[self._pair(call, turn) for call in calls] for turn in turns]
            self._wait()
            for row in pairs[_LOST_READING:]:
                for kept, (start, end) in zip(samples, row, strict=True):
                    kept.append(start.elapsed_time(end) * 1e3)
            taken += batch
        return [tuple(kept) for kept in samples]

    def _pair(self, timed: Timed, turn: int) -> tuple[Any, Any]:
        import torch

        make: Any = torch.cuda.Event  # untyped in torch
        start, end = make(enable_timing=True), make(enable_timing=True)
        call = timed.copies[turn % len(timed.copies)]
        self._fill_queue()
        start.record()
        call()
        end.record()
        return start, end

    def _fill_queue(self) -> None:
        import torch

        if self._junk.numel():
            self._junk.zero_()
        else:
            cuda: Any = torch.cuda  # nothing public makes a GPU wait
            cuda._sleep(self._delay_cycles)

    def _captured(self, call: Call) -> Call:
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return partial(_replay, graph, call)

    def _wait(self) -> None:
        import torch

        torch.cuda.synchronize(self._gpu)


def _replay(graph: Any, captured: Call) -> None:
    """Replay a graph. It holds addresses only: ``captured`` keeps what lies there alive."""
    del captured
    graph.replay()
