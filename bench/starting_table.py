"""Write the table that gfx950 starts with: what somebody reported to be fast on an MI355X.

    python bench/starting_table.py [--out results/tables/mi355x-starting.json]

The shapes are those of a contest, its routes those of a participant's published submission, which
gives no times. Each is one of our routes with the settings it names; where it names none, ours keep
their defaults, but for `convert`: A becomes the same bytes by either way, in a seventh of the
instructions by the hardware's. The file is made from what stands here and never edited.

Not in the table, which has one route a shape: the second choices, below; they are in the spaces
that a sweep searches. Not expressible: the iterations and stages of the quantiser, which ours has
no loop for, nor more than one stage in the kernel that adds partial sums up. A graph-replayed
atomic route has no place either: whoever launches captures.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mxtune import __version__
from mxtune.configs.devices import Device, load_device
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.registry import checked_route, family
from mxtune.kernels.tiles import next_power_of_two

ARCH = "gfx950"
SOURCE = "a contest participant's published submission on an MI355X"
AT = "2026-11-30T00:00:00+00:00"
FILE = Path(__file__).parent.parent / "results" / "tables" / "mi355x-starting.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a shape, and the family and the settings that it names."""

    shape: Shape
    family: str
    settings: Mapping[str, Value]

    @property
    def route(self) -> Route:
        """The route with every setting: A is quantised as the report says for the shape."""
        known = {tunable.name for tunable in family(self.family).tunables}
        launch = quantiser(self.shape.m, self.shape.k).settings if "quant_m" in known else {}
        own = {"convert": "hardware", **launch, **self.settings}
        return checked_route(Route(self.family, Config.of(own)))


@dataclass(frozen=True, slots=True)
class Quantiser:
    """A launch of the kernel that quantises A."""

    rows: int
    columns: int
    iterations: int
    stages: int
    warps: int

    @property
    def settings(self) -> dict[str, Value]:
        """What our quantiser has of it: one block a program."""
        return {"quant_m": self.rows, "quant_k": self.columns, "quant_warps": self.warps}


TUNED = {
    (4, 512): Quantiser(4, 512, 1, 1, 4),
    (32, 512): Quantiser(16, 256, 1, 1, 4),
    (256, 1536): Quantiser(64, 256, 1, 1, 8),
}


def quantiser(m: int, k: int) -> Quantiser:
    """Return the launch for A of M rows and K columns: a tuned one, or what the rule gives."""
    if (m, k) in TUNED:
        return TUNED[m, k]
    if k <= 1024:
        return Quantiser(
            min(8, next_power_of_two(m)), max(32, min(256, next_power_of_two(k))), 1, 1, 4
        )
    if m <= 32:
        return Quantiser(next_power_of_two(m), 32, 1, 1, 1)
    return Quantiser(32, 128, 4, 2, 4) if k <= 16384 else Quantiser(64, 64, 4, 2, 4)


PRESHUFFLED: Mapping[str, Value] = {
    "BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "group_m": 1,
    "matrix_instr_nonkdim": 16, "cache_modifier": ".cg",
}  # fmt: skip
FUSED: Mapping[str, Value] = {
    "BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 512, "num_warps": 8, "num_stages": 1,
}  # fmt: skip
SPLIT: Mapping[str, Value] = {"split_k": 14, "num_warps": 4, "num_stages": 1, "reduce_warps": 4}

FIRST = (
    Row(Shape(4, 2880, 512), "asm", {"kernel": "32x128"}),
    Row(
        Shape(16, 2112, 7168),
        "fused_preshuffle",
        {**PRESHUFFLED, **SPLIT, "waves_per_eu": 1, "reduce_m": 16, "reduce_n": 64},
    ),
    Row(Shape(32, 2880, 512), "fused", FUSED),
    Row(Shape(32, 4096, 512), "fused", FUSED),
    Row(
        Shape(64, 7168, 2048),
        "fused_preshuffle",
        {**PRESHUFFLED, "split_k": 1, "num_warps": 8, "num_stages": 2, "waves_per_eu": 4},
    ),
    Row(Shape(256, 2880, 512), "asm", {"kernel": "64x128"}),
    Row(Shape(256, 3072, 1536), "asm", {"kernel": "32x128"}),
)
SECOND = (
    Row(
        Shape(16, 2112, 7168),
        "splitk",
        {**SPLIT, "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 512, "partial_dtype": "fp32"},
    ),
    Row(Shape(64, 7168, 2048), "asm", {"kernel": "32x128"}),
)
# For any other shape: AITER's own choice. Its launch is the rule's for large M and K.
OTHERS = {"convert": "hardware", **quantiser(256, 2048).settings}


def starting_table() -> RouteTable:
    """Return the table."""
    device = load_device(ARCH)
    default = checked_route(Route("aiter", Config.of(OTHERS)))
    return RouteTable(
        device=_info(device),
        made=Made(at=AT, mxtune=__version__),
        routes=tuple(_entry(row) for row in FIRST),
        default=Default(family=default.family, config=dict(default.config)),
    )


def _info(device: Device) -> DeviceInfo:
    return DeviceInfo(arch=device.arch, name=device.name, compute_units=device.compute_units)


def _entry(row: Row) -> Entry:
    shape, route = (row.shape.m, row.shape.n, row.shape.k), row.route
    return Entry(
        shape=shape,
        family=route.family,
        config=dict(route.config),
        evidence=Reported(source=SOURCE),
    )


def main() -> None:
    """Parse, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=FILE)
    starting_table().save(parser.parse_args().out)


if __name__ == "__main__":
    main()
