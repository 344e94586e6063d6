"""How fast the emulator is: kernel by kernel, one workgroup of a fused tile first.

    python bench/emulate.py [--repeats 5] [--json]

The first run of a kernel decodes it and looks for hazards; the others only execute. Times are the
first one and the median of the others, on one core; compiling and drawing the problem do not count.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median

import torch

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import brief, checked_route, families, family
from mxtune.tuner.check import make_case
from mxtune.tuner.emulate.launch import Report
from mxtune.tuner.emulate.route import EmulatedRoute, kernel_objects

# One program and one step of its loop: the size that a target of 0.2 s was set for.
ONE_TILE: Mapping[str, Value] = {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "num_stages": 1}
ONE_TILE_SHAPE = Shape(16, 128, 512)
RAGGED = Shape(17, 160, 288)


@dataclass(frozen=True, slots=True)
class Row:
    """The times of one kernel of a route."""

    route: str
    shape: str
    kernel: str
    workgroups: int
    instructions: int  # executed by all waves
    first_s: float
    seconds: float

    @property
    def ms_per_workgroup(self) -> float:
        """Milliseconds, once the kernel is decoded."""
        return 1e3 * self.seconds / self.workgroups

    @property
    def instructions_per_s(self) -> float:
        """Instructions of a wave, 64 lanes each."""
        return self.instructions / self.seconds

    def as_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return asdict(self) | {
            "ms_per_workgroup": round(self.ms_per_workgroup, 3),
            "instructions_per_s": round(self.instructions_per_s),
        }

    def __str__(self) -> str:
        return (
            f"{self.shape:>12} {self.kernel:9} {self.workgroups:4} workgroups"
            f" {self.instructions:7} instructions {self.first_s:7.3f} s first {self.seconds:7.3f} s"
            f" {self.ms_per_workgroup:8.2f} ms/workgroup {self.instructions_per_s:9.0f}/s"
            f"   {self.route}"
        )


def rows(route: Route, shape: Shape, repeats: int) -> Iterator[Row]:
    """Run a route so often, and yield the times of its kernels."""
    problem = Problem.contiguous(shape, load_device("gfx950"))
    plan, case = planned(route, problem), make_case(shape, 1, "cpu")
    told: dict[str, list[Report]] = {step.name: [] for step in plan.steps}
    launch = EmulatedRoute(
        kernel_objects(route, problem),
        plan,
        case.weight,
        lambda name, report: told[name].append(report),
    )
    c = torch.zeros(case.expected.shape, dtype=torch.bfloat16)
    for _ in range(1 + repeats):
        launch(case.a, c)
    for step in plan.steps:
        first, *others = told[step.name]
        yield Row(
            route=brief(route),
            shape=str(shape),
            kernel=step.name,
            workgroups=step.grid[0] * step.grid[1],
            instructions=first.profile.executed,
            first_s=round(first.seconds, 4),
            seconds=round(median(report.seconds for report in others), 4),
        )


def every_row(repeats: int) -> Iterator[Row]:
    """Yield the one tile, then each family at its fallback."""
    tile = family("fused").fallback(ONE_TILE_SHAPE).changed(**ONE_TILE)
    yield from rows(Route("fused", tile), ONE_TILE_SHAPE, repeats)
    for name, owner in sorted(families().items()):
        route = checked_route(Route(name, owner.fallback(RAGGED)))
        yield from rows(route, RAGGED, repeats)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = every_row(max(1, options.repeats))
    if options.json:
        print(json.dumps([row.as_json() for row in found], indent=1))
        return
    for row in found:
        print(row, flush=True)


if __name__ == "__main__":
    main()
