"""Compile what a submission launches as its own launcher does, for a GPU that is not here.

A program: FILE TABLE TARGET, a submission, the table that it was made of, and gfx950 or sm_90. It
prints a line for each launch: the shape, the kernel, how many instructions it has, and whether they
are those that our own builds of the same step have.
"""

import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from mxtune.configs.devices import Device, load_device
from mxtune.configs.table import RouteTable
from mxtune.kernels.bind import planned
from mxtune.kernels.build import build
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import checked_route
from mxtune.results.contest.routes import FileCall, file_routes

LISTED = {"gfx950": "amdgcn", "sm_90": "ptx"}
# What tells where the code comes from, not what it does.
_NO_CODE = re.compile(r"[.$]|//|[A-Za-z_.$]\w*:")


def imported(file: str) -> Any:
    """Import a submission; AITER's functions are not called here."""
    for name in ("aiter", "aiter.ops", "aiter.ops.gemm_op_a4w4"):
        sys.modules[name] = ModuleType(name)
    sys.modules["aiter.ops.gemm_op_a4w4"].__dict__.update(gemm_a4w4_asm=None, gemm_a4w4=None)
    spec = spec_from_file_location("submission", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pretend(arch: str) -> None:
    """Let Triton's launches compile for a GPU that it cannot reach."""
    target = GPUTarget("hip", arch, 64) if arch == "gfx950" else GPUTarget("cuda", 90, 32)
    torch.version.hip = "7.1" if arch == "gfx950" else None
    found: Any = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda _: 0,
        get_current_target=lambda: target,
    )
    driver.set_active(found)


def instructions(listing: str) -> list[str]:
    """Return what a kernel executes, without what tells of its source."""
    lines = (line.split(";")[0].strip() for line in listing.splitlines())
    kept = (line for line in lines if line and not _NO_CODE.match(line))
    return [re.sub(r"\$?L?\$?_?\.?L\w+|\$L__\w+", "label", line) for line in kept]


def launches(module: Any, shape: tuple[int, int, int]) -> Iterator[list[str]]:
    """Yield the instructions of every kernel of a route, compiled as the file does it."""
    made: list[Any] = []

    def note(kernel: Any) -> Any:
        def warmup(*words: Any, **options: Any) -> Any:
            made.append(kernel.warmup(*words, **options))
            return {options["grid"]: None}

        return SimpleNamespace(warmup=warmup)

    module.KERNELS = {name: note(kernel) for name, kernel in module.KERNELS.items()}
    module.bound(module.ROUTES[shape], ready=True)
    for kernel in made:
        yield instructions(kernel.asm[LISTED[sys.argv[3]]])


def own(table: RouteTable, device: Device) -> Iterator[tuple[tuple[int, int, int], str, list[str]]]:
    """Yield the same of our own builds, but for the kernel that only copies a padded C."""
    for route in file_routes(table):
        shape = route.entry.key
        plan = planned(checked_route(route.entry.route), Problem.contiguous(shape, device))
        ours = [step for step in plan.own if step.name != "crop"]
        assert len(ours) == sum(not isinstance(step, FileCall) for step in route.steps)
        for step in ours:
            listing = str(build(step, device).asm[LISTED[device.arch]])
            yield route.entry.shape, step.name, instructions(listing)


def main(file: str, table: str, arch: str) -> None:
    """Print how the two compare."""
    pretend(arch)
    module, device = imported(file), load_device(arch)
    kernels = dict(module.KERNELS)
    found: dict[tuple[int, int, int], list[list[str]]] = {}
    for shape, name, expected in own(RouteTable.load(Path(table)), device):
        if shape not in found:
            module.KERNELS = kernels
            found[shape] = list(launches(module, shape))
        code = found[shape].pop(0)
        print("x".join(map(str, shape)), name, len(code), "same" if code == expected else "differs")
    assert not any(found.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
