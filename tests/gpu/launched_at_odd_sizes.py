"""A program for a memory checker: every family of ours at sizes that no tile divides.

With the argument ``past-the-end`` it launches a kernel that writes one value too many instead,
which shows that the checker sees such an access at all.
"""

import sys

import torch

from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.device.faults import store_far
from mxtune.kernels.family import Problem, RouteFamily
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import own_families
from mxtune.tuner.check import make_case

GPU = "cuda:0"
SHAPES = [(1, 1, 32), (3, 70, 96), (17, 130, 320), (33, 96, 1056), (31, 33, 160), (65, 352, 352)]
SPLITS = [1, 3]


def main() -> None:
    """Launch, and say how many launches there were."""
    if sys.argv[1:] == ["past-the-end"]:
        write_past_the_end()
        return
    launched = sum(launches(owner, Shape(*sizes)) for owner in own_families() for sizes in SHAPES)
    print(f"{launched} launched")


def launches(owner: RouteFamily, shape: Shape) -> int:
    """Launch a family at a shape, with and without a split of K, and return how often."""
    device = running_device(0)
    case = make_case(shape, 1, GPU)
    count = 0
    for config in configs(owner, shape):
        if owner.legality(config, shape, device).grade == "illegal":
            continue
        c = torch.empty(shape.m, shape.n, dtype=torch.bfloat16, device=GPU)
        problem = Problem.contiguous(shape, device)
        bind(Route(owner.name, config), problem, case.weight)(case.a, c)
        torch.cuda.synchronize()
        count += 1
    return count


def configs(owner: RouteFamily, shape: Shape) -> set[Config]:
    """Return the settings to launch with, in both ways to multiply."""
    own = owner.fallback(shape)
    split = [own.changed(split_k=s) for s in SPLITS] if "split_k" in own else [own]
    ways = [c.changed(multiply=way) for c in split for way in ("scaled", "bf16")]
    return {owner.normalise(config, shape) for config in ways}


def write_past_the_end() -> None:
    """Write the value behind the last of a tensor."""
    values = torch.ones(128, dtype=torch.bfloat16, device=GPU)
    store_far[(1,)](values, values.numel())
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
