"""The clock of a GPU worker: cold caches, launches queued behind a flush, event pairs around each.

A flush writes more than the last-level cache holds, and takes longer than the host needs to enqueue
a launch; so what an event pair spans is GPU time and no waiting for the host. The pair itself reads
something around nothing: that floor is measured in the same rounds and reported, never subtracted.
"""

from collections.abc import Callable, Sequence
from typing import Any

from mxtune.configs.devices import Device

REGIME = "cold eager"

_MOST_PAIRS = 256  # recorded before they are read; ROCm falters at over a thousand


class ColdClock:
    """Times calls on one GPU, in microseconds."""

    def __init__(self, device: Device, gpu: str) -> None:
        """Take the memory that flushes write to."""
        import torch

        self._junk = torch.empty(device.flush_bytes, dtype=torch.uint8, device=gpu)

    def rounds(self, calls: Sequence[Callable[[], None]], count: int) -> list[tuple[float, ...]]:
        """Time every call ``count`` times, in turn, so that a drift of the clock hits all alike."""
        samples: list[list[float]] = [[] for _ in calls]
        per_batch = max(1, _MOST_PAIRS // len(calls))
        left = count
        while left:
            batch = min(left, per_batch)
            pairs = [[self._pair(call) for call in calls] for _ in range(batch)]
            self._wait()
            for row in pairs:
                for taken, (start, end) in zip(samples, row, strict=True):
                    taken.append(start.elapsed_time(end) * 1e3)
            left -= batch
        return [tuple(taken) for taken in samples]

    def _pair(self, call: Callable[[], None]) -> tuple[Any, Any]:
        import torch

        make: Any = torch.cuda.Event  # untyped in torch
        start, end = make(enable_timing=True), make(enable_timing=True)
        self._junk.zero_()
        start.record()
        call()
        end.record()
        return start, end

    def _wait(self) -> None:
        import torch

        torch.cuda.synchronize(self._junk.device)
