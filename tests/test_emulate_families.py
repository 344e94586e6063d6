"""Every family's machine code for gfx950, from two releases of Triton, executed instead of read.

The older release is downloaded once; without a network its tests skip.
"""

import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

import torch
from tests.emulated_routes import GFX950, ROUTES, EmulatedRun, emulate_route, routes_of
from tests.family_shapes import NAMES, takes
from tests.older_triton import Compiler

from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.configs.spaces import load_space
from mxtune.kernels import formats
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import family
from mxtune.tuner.check import SEEDS, Case
from mxtune.tuner.emulate.route import kernel_objects

# The last tile is not whole along M, along N and along K.
ANY_WEIGHTS = [Shape(17, 160, 288), Shape(3, 70, 96)]
SHUFFLED_WEIGHTS = [Shape(17, 160, 320), Shape(3, 80, 576)]  # N % 16 == 0, K % 64 == 0


def shapes_of(name: str) -> list[Shape]:
    """Return the two shapes of a family, those where weights may lie shuffled if they can."""
    either = "weights" in family(name).fallback(ANY_WEIGHTS[0])
    if either:
        return [SHUFFLED_WEIGHTS[0], ANY_WEIGHTS[1]]
    return ANY_WEIGHTS if takes(name, ANY_WEIGHTS[0]) else SHUFFLED_WEIGHTS


RUNS = [(name, shape, at) for name in NAMES for shape in shapes_of(name) for at in range(ROUTES)]


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


@pytest.mark.parametrize(("name", "shape", "number"), RUNS, ids=str)
def test_a_route_computes_the_product(name: str, shape: Shape, number: int) -> None:
    check_route(kernel_objects, name, shape, number)


@pytest.mark.parametrize(("name", "shape", "number"), RUNS, ids=str)
def test_a_route_computes_the_product_with_an_older_triton(
    older_triton: Compiler, name: str, shape: Shape, number: int
) -> None:
    check_route(older_triton, name, shape, number)


def test_codes_that_go_straight_into_a_matrix_instruction_are_waited_for(
    older_triton: Compiler,
) -> None:
    """Seen: an MFMA one instruction behind the last conversion, which LLVM does not look at."""
    shape = Shape(3, 70, 96)
    tile: dict[str, Value] = {"BLOCK_M": 4, "BLOCK_N": 128, "BLOCK_K": 512, "num_warps": 8}
    config = family("fused_atomic").fallback(shape).changed(**tile, num_stages=2, waves_per_eu=1)
    config = config.changed(convert="hardware", matrix_instr_nonkdim=16, cache_modifier=".cg")
    route = Route("fused_atomic", config)
    objects = older_triton(route, Problem.contiguous(shape, GFX950))
    run = emulate_route(route, shape, objects, SEEDS[0])
    assert_right(run)
    fused = run.reports[1].profile.instructions
    assert fused["convert"] > 0
    assert fused.get("lds_write", 0) < fused["convert"]


@pytest.mark.parametrize("name", NAMES)
def test_the_executed_routes_differ_in_all_that_is_tuned(name: str) -> None:
    routes = [route for shape in shapes_of(name) for route in routes_of(name, shape)]
    assert len(set(routes)) >= ROUTES
    for setting in ("weights", "convert", "xcd_remap"):
        assert len({route.config.get(setting) for route in routes}) == (
            2 if setting in routes[0].config else 1
        )
    for setting, values in load_space(name, GFX950.arch).items():
        if len(values) > 1:
            assert len({route.config[setting] for route in routes}) > 1, setting
