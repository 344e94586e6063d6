"""Every family's machine code for gfx950, from two releases of Triton, executed instead of read.

The older release is downloaded once; without a network its tests skip.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

import torch
from tests.emulated_routes import GFX950, ROUTES, EmulatedRun, emulate_route, routes_of

from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.configs.spaces import load_space
from mxtune.kernels import formats
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import families
from mxtune.tuner.check import SEEDS, Case
from mxtune.tuner.crew import Crew, wait
from mxtune.tuner.emulate.route import KernelObject, kernel_objects

# The last tile is not whole along M, along N and along K; one block of scales alone.
SHAPES = [Shape(17, 160, 288), Shape(33, 96, 544), Shape(3, 70, 96), Shape(1, 32, 32)]
NAMES = sorted(families())
COMPILE_LIMIT_S = 120.0

Compiler = Callable[[Route, Problem], tuple[KernelObject, ...]]


@pytest.fixture(scope="session")
def older_triton() -> Iterator[Compiler]:
    """Compile in a child that has an older Triton, and a cache for what that compiles."""
    folder = Path(__file__).parent
    sys.path.append(str(folder))  # the child finds its service by the module's name
    release = import_module("triton_release")
    _install(release.RELEASE, release.FOLDER)
    cache = {"TRITON_CACHE_DIR": f"{release.FOLDER}-objects", "TRITON_INTERPRET": "0"}
    with Crew([release.service], limit_s=COMPILE_LIMIT_S, variables=cache) as crew:

        def compiled(route: Route, problem: Problem) -> tuple[KernelObject, ...]:
            crew.submit("route", (route, problem))
            finished = wait([crew])
            while not finished:
                finished = wait([crew])
            outcome = finished[0].outcome
            assert outcome.state == "done", outcome.reason
            objects: tuple[KernelObject, ...] = outcome.value
            return objects

        yield compiled


def _install(release: str, folder: Path) -> None:
    """Put a release of Triton into ``folder``, whole or not at all."""
    if folder.is_dir():
        return
    partial = folder.with_name(f"{folder.name}.partial")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade"]
    try:
        subprocess.run(
            [*command, "--target", str(partial), f"triton=={release}"],
            check=True,
            capture_output=True,
            timeout=600,
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"triton {release} cannot be downloaded: {error}")
    partial.rename(folder)


def place_among_bf16(values: torch.Tensor) -> torch.Tensor:
    """Number bf16 values in their order, so that neighbours differ by one."""
    bits = values.view(torch.int16).int()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def exact_product(case: Case) -> torch.Tensor:
    """Return C in fp64 as the codes and scales say, before it is rounded."""
    a = formats.dequantise(*formats.quantise(case.a))
    return a.double() @ case.weight.dequantised().double().T


def assert_right(run: EmulatedRun) -> None:
    assert run.verdict.ok, run.verdict.reason
    assert [found for report in run.reports for found in report.findings] == []
    answer = exact_product(run.case).bfloat16()
    assert (place_among_bf16(run.c) - place_among_bf16(answer)).abs().max() <= 1
    for name, answer in zip(("a_codes", "a_scales"), formats.quantise(run.case.a), strict=True):
        if name in run.workspaces:
            assert torch.equal(run.workspaces[name], answer)
    executed = [report.profile.instructions for report in run.reports]
    assert any(classes.get("mfma_scaled", 0) for classes in executed)


def check_route(compiler: Compiler, name: str, shape: Shape, number: int) -> None:
    route = routes_of(name, shape)[number]
    objects = compiler(route, Problem.contiguous(shape, GFX950))
    seed = SEEDS[number % len(SEEDS)]
    assert_right(emulate_route(route, shape, objects, seed))


@pytest.mark.parametrize("number", range(ROUTES))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_route_computes_the_product(name: str, shape: Shape, number: int) -> None:
    check_route(kernel_objects, name, shape, number)


@pytest.mark.parametrize("number", range(ROUTES))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_route_computes_the_product_with_an_older_triton(
    older_triton: Compiler, name: str, shape: Shape, number: int
) -> None:
    check_route(older_triton, name, shape, number)


@pytest.mark.parametrize("name", NAMES)
def test_the_executed_routes_differ_in_all_that_is_tuned(name: str) -> None:
    routes = [route for shape in SHAPES for route in routes_of(name, shape)]
    assert len(set(routes)) >= ROUTES
    for setting, values in load_space(name, GFX950.arch).items():
        if len(values) > 1:
            assert len({route.config[setting] for route in routes}) > 1, setting
