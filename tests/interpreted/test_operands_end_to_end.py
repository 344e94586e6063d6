"""Operands as callers have them: cut from larger buffers, strided, misaligned, empty."""

import pytest
import torch
from tests.family_shapes import NAMES, READINGS, SPLITTING
from torch import Tensor

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.build import arguments, kernel_function
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.family import WEIGHT, Problem, View
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import Case, case_of, judge, make_case

GFX950 = load_device("gfx950")
# What lies behind each operand: two codes of 6, a scale of NaN, bf16 and fp32 of 3.39e38.
BEHIND = {"b": 0x77, "b_shuffled": 0x77, "a_codes": 0x77, "b_scales_shuffled": 255, "a_scales": 255}


def normal(rows: int, columns: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=source).bfloat16()


def weight_of(n: int, k: int) -> Mxfp4Weight:
    return Mxfp4Weight.quantise(normal(n, k, 1))


def front_of(tensor: Tensor, byte: int) -> Tensor:
    """The same values at the front of a buffer twice as large, the rest of it filled."""
    values = tensor.contiguous().view(torch.uint8).flatten()
    buffer = torch.full((2 * values.numel(),), byte, dtype=torch.uint8)
    buffer[: values.numel()] = values
    return buffer[: values.numel()].view(tensor.dtype).view(tensor.shape)


def behind(tensor: Tensor) -> Tensor:
    """The bytes after ``tensor`` in its buffer."""
    everything = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return everything[tensor.numel() * tensor.element_size() :]


def fenced(name: str, config: Config, case: Case) -> Tensor:
    """Run a route with garbage behind all that it reads or writes; that must stay as it was."""
    (m, n), k = case.expected.shape, case.a.shape[1]
    shape = Shape(m, n, k)
    problem = Problem.contiguous(shape, GFX950)
    bound = bind(Route(name, config), problem, case.weight)
    tensors = {"a": case.a, "c": torch.zeros(m, n).bfloat16()}
    for step in bound.plan.own:
        for key in {buffer.name for buffer in step.buffers.values()} & set(WEIGHT):
            method, layout = WEIGHT[key]
            tensors[key] = getattr(case.weight, method)(layout)
    tensors |= {key: torch.zeros_like(tensor) for key, tensor in bound.workspaces.items()}
    tensors = {key: front_of(tensor, BEHIND.get(key, 0x7F)) for key, tensor in tensors.items()}
    for step in bound.plan.own:
        kernel_function(step)[(*step.grid, 1)](**arguments(step, tensors))
    for key, tensor in tensors.items():
        assert set(behind(tensor).tolist()) == {BEHIND.get(key, 0x7F)}, f"{key} overrun"
    return tensors["c"]


def ragged(weights: str, k: int) -> Shape:
    """A shape that no tile divides; shuffled weights want 16 and 64 to divide N and K."""
    return Shape(17, 33, k) if weights == "plain" else Shape(17, 48, -(-k // 64) * 64)


def reading(name: str, weights: str, shape: Shape) -> Config:
    """The fallback of a family with weights in one of the layouts that it reads."""
    config = family(name).fallback(shape)
    return config.changed(weights=weights) if "weights" in config else config


@pytest.mark.parametrize("k", [96, 160, 544])
@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_what_lies_behind_an_operand_is_neither_read_nor_written(
    name: str, weights: str, k: int
) -> None:
    # BL-026
    shape = ragged(weights, k)
    case, config = make_case(shape, 8, "cpu"), reading(name, weights, shape)
    for tile in (config, config.changed(BLOCK_K=128, BLOCK_N=32)):
        verdict = judge(case, fenced(name, tile, case))
        assert verdict.ok, f"{name} {tile}: {verdict.reason}"


@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_products_in_bf16_read_nothing_behind_an_operand_either(name: str, weights: str) -> None:
    shape = ragged(weights, 160)
    config = reading(name, weights, shape).changed(multiply="bf16", BLOCK_K=128, num_warps=1)
    assert judge(make_case(shape, 8, "cpu"), fenced(name, config, make_case(shape, 8, "cpu"))).ok


@pytest.mark.parametrize("name", SPLITTING)
def test_a_split_reads_its_own_share_and_nothing_behind_it(name: str) -> None:
    # BL-021
    case = make_case(Shape(32, 64, 1024), 8, "cpu")
    config = family(name).fallback(Shape(32, 64, 1024))
    one = fenced(name, config.changed(split_k=1), case).float()
    four = fenced(name, config.changed(split_k=4), case)
    assert judge(case, four).ok
    assert ((four.float() - one).abs() <= 2.0**-7 * one.abs() + 2.0**-9).all()


STRIDED = ["transposed", "every other column", "columns 64 to 127", "flipped", "one row", "2 bytes"]


def strided(how: str) -> Tensor:
    """A of 16 or 48 rows and K = 64 that is not simply contiguous."""
    wide, flat = normal(16, 128), torch.zeros(16 * 64 + 8).bfloat16()
    flat[1:1025] = normal(16, 64).flatten()
    views = {
        "transposed": normal(64, 48).t(),
        "every other column": wide[:, ::2],
        "columns 64 to 127": wide[:, 64:128],
        "flipped": normal(16, 64).flip(0),
        "one row": normal(1, 64).expand(16, 64),
        "2 bytes": flat[1:1025].view(16, 64),
    }
    return views[how]


@pytest.mark.parametrize("how", STRIDED)
@pytest.mark.parametrize("name", NAMES)
def test_strides_of_a_do_not_change_the_result(name: str, how: str) -> None:
    # BL-033, BL-035
    a, weight = strided(how), weight_of(64, 64)
    shape = Shape(a.shape[0], 64, 64)
    view = View(a.stride(0), a.stride(1), aligned=a.data_ptr() % 16 == 0)
    problem = Problem(shape, GFX950, view, View(64, 1))
    c = torch.full((shape.m, 64), 1e4).bfloat16()
    bind(Route(name, family(name).fallback(shape)), problem, weight)(a, c)
    assert judge(case_of(a.contiguous(), weight), c).ok


def test_the_dispatcher_takes_every_stride_and_start_with_one_weight() -> None:
    # BL-033, BL-035
    gemm, weight = Dispatcher(None), weight_of(64, 64)
    for how in ("2 bytes", *STRIDED):
        a = strided(how)
        contiguous = a.clone(memory_format=torch.contiguous_format)
        assert contiguous.data_ptr() % 16 == 0
        c = gemm(contiguous, weight)
        assert judge(case_of(contiguous, weight), c).ok, how
        assert torch.equal(gemm(a, weight), c), how


def test_a_given_output_is_overwritten_and_its_neighbours_are_not() -> None:
    # BL-018
    gemm, case = Dispatcher(None), make_case(Shape(16, 64, 512), 9, "cpu")
    first = gemm(case.a, case.weight)
    wide = torch.full((16, 100), 1e4).bfloat16()
    out = wide[:, 10:74]
    assert gemm(case.a, case.weight, out) is out
    assert judge(case, first).ok
    assert torch.equal(out, first)
    assert torch.equal(gemm(case.a, case.weight), first)
    around = torch.cat((wide[:, :10], wide[:, 74:]), 1)
    assert set(around.flatten().tolist()) == {9984.0}  # 1e4 in bf16


def test_empty_operands_give_empty_results() -> None:
    # BL-028
    gemm, weight = Dispatcher(None), weight_of(32, 64)
    assert gemm(torch.empty(0, 64).bfloat16(), weight).shape == (0, 32)
    empty = Mxfp4Weight.quantise(torch.empty(0, 64).bfloat16())
    assert gemm(normal(4, 64), empty).shape == (4, 0)
