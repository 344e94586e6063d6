"""A first model of how long a route takes: roofline, rounds of tiles, latency and launches.

It ranks; its microseconds are not measurements and are never shown as if they were. Per step

    launch  +  max(unique bytes / bandwidth, rounds x (prologue + iterations x one iteration))

A CU holds a few programs at once, which share its units and hide each other's latency. An iteration
takes what one program needs by itself (the latency that its stages leave, then its arithmetic) or
what all programs of the CU need of a shared unit, whichever is longer. The constants are the pace
of the device, in its description, each with its source.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Call, Step

_SIMDS = 4  # of a CU, and sub-partitions of an SM


@dataclass(frozen=True, slots=True)
class Estimate:
    """Modelled microseconds of one step, and what they are made of."""

    step: str
    launch_us: float
    work_us: float
    memory_us: float

    @property
    def total_us(self) -> float:
        """All of it."""
        return self.launch_us + max(self.work_us, self.memory_us)


def estimate(steps: Sequence[Step | Call], device: Device) -> tuple[Estimate, ...]:
    """Model every step of a route."""
    return tuple(
        Estimate(
            step.name,
            (device.launch_us if index == 0 else device.dependent_us) + _more_us(step, device),
            _work_us(step, device),
            step.work.unique_bytes / (device.bandwidth_gbs * 1e3),
        )
        for index, step in enumerate(steps)
    )


def _more_us(step: Step | Call, device: Device) -> float:
    """Return what launching the further kernels of a call takes."""
    return (step.kernels - 1) * device.dependent_us if isinstance(step, Call) else 0.0


def score_us(steps: Sequence[Step | Call], device: Device) -> float:
    """Return the modelled time of a route."""
    return sum(part.total_us for part in estimate(steps, device))


def roofline_us(shape: Shape, device: Device) -> float:
    """Return the time that moving everything once takes, or the arithmetic if that takes longer."""
    moved = moved_bytes(shape)
    flops = 2 * shape.m * shape.n * shape.k
    return max(moved / (device.bandwidth_gbs * 1e3), flops / (device.fp4_tflops * 1e6))


def bound_us(shape: Shape, device: Device, regime: Regime) -> float:
    """Return what no reading can be below: moving B, or the arithmetic if B may be cached."""
    flops_us = 2 * shape.m * shape.n * shape.k / (device.fp4_tflops * 1e6)
    if regime.caches == "hot":
        return flops_us
    return max(flops_us, shape.n * shape.k * 17 / 32 / (device.bandwidth_gbs * 1e3))


def moved_bytes(shape: Shape) -> float:
    """Return the fewest bytes of a GEMM: A in bf16, B as codes and scales, C in bf16, each once."""
    return 2 * shape.m * shape.k + shape.n * shape.k * 17 / 32 + 2 * shape.m * shape.n


def _work_us(step: Step | Call, device: Device) -> float:
    work, pace = step.work, device.pace
    each_cu = -(-work.programs // device.compute_units)
    resident = min(each_cu, pace.resident)
    rounds = -(-each_cu // resident)
    flops_per_cycle = device.fp4_tflops * 1e3 / (device.clock_ghz * device.compute_units)
    matrix = pace.matrix * work.flops / flops_per_cycle
    vector = work.quantised * pace.quantise + work.multiplied * pace.unpack
    shared = max(matrix, work.load_bytes / pace.stream_bytes, vector / _SIMDS)
    ahead = min(step.options["num_stages"] - 1, work.iterations - 1)  # loads in flight at once
    own = pace.latency / max(1, ahead) + matrix + vector / min(_SIMDS, step.options["num_warps"])
    cycles = rounds * (pace.prologue + work.iterations * max(own, resident * shared))
    return cycles / (device.clock_ghz * 1e3)
