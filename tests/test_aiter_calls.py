"""What AITER is called with, argument by argument, in every release that can be called at all."""

import json
from inspect import signature
from typing import Any

import pytest
import torch
from tests.aiter_launched import Launched, tensors_of
from tests.aiter_releases import (
    A4W4_RETURNS,
    A4W4_TAKES_OUT,
    A4W4_WANTS_BIAS,
    A16,
    ASM,
    ASM_BEFORE_NAMES,
    PRESHUFFLE,
    Told,
    recording,
)

from mxtune.configs.devices import load_device
from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter_calls import adapted, keywords
from mxtune.kernels.aiter_source import signature_in
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Call, Problem
from mxtune.kernels.registry import checked_route, family

GFX950 = load_device("gfx950")
FP4, E8M0 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
Sizes = tuple[int, int, int]
Pair = tuple[int, int]


# M, N, K of the contest; codes of A; codes of B; scales of A and of B, padded; rows of out
CONTEST: list[tuple[Sizes, Pair, Pair, Pair, Pair, int]] = [
    ((4, 2880, 512), (4, 256), (2880, 256), (256, 16), (3072, 16), 32),
    ((16, 2112, 7168), (16, 3584), (2112, 3584), (256, 224), (2304, 224), 32),
    ((32, 4096, 512), (32, 256), (4096, 256), (256, 16), (4096, 16), 32),
    ((32, 2880, 512), (32, 256), (2880, 256), (256, 16), (3072, 16), 32),
    ((64, 7168, 2048), (64, 1024), (7168, 1024), (256, 64), (7168, 64), 64),
    ((256, 3072, 1536), (256, 768), (3072, 768), (256, 48), (3072, 48), 256),
    ((8, 2112, 7168), (8, 3584), (2112, 3584), (256, 224), (2304, 224), 32),
    ((16, 3072, 1536), (16, 768), (3072, 768), (256, 48), (3072, 48), 32),
    ((64, 3072, 1536), (64, 768), (3072, 768), (256, 48), (3072, 48), 64),
    ((256, 2880, 512), (256, 256), (2880, 256), (256, 16), (3072, 16), 256),
]
SHAPES = [row[0] for row in CONTEST]
NAME_32X128 = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E"
TEN_KEYS = {
    "BLOCK_SIZE_M": 16,
    "BLOCK_SIZE_N": 64,
    "BLOCK_SIZE_K": 256,
    "GROUP_SIZE_M": 1,
    "num_warps": 4,
    "num_stages": 2,
    "waves_per_eu": 0,
    "matrix_instr_nonkdim": 16,
    "cache_modifier": None,
    "NUM_KSPLIT": 1,
}


def route_of(name: str, **settings: Value) -> Route:
    return checked_route(Route(name, Config.of(settings)))


def call_of(name: str, shape: tuple[int, int, int], **settings: Value) -> Call:
    """The only call of a route at a shape, A and C as usual."""
    plan = planned(route_of(name, **settings), Problem.contiguous(Shape(*shape), GFX950))
    (call,) = (step for step in plan.steps if isinstance(step, Call))
    return call


# --- gemm_a4w4_asm


@pytest.mark.parametrize("release", ASM)
@pytest.mark.parametrize(("shape", "a", "b", "a_scale", "b_scale", "rows"), CONTEST, ids=str)
def test_every_argument_of_an_asm_launch(
    release: str,
    shape: tuple[int, int, int],
    a: tuple[int, int],
    b: tuple[int, int],
    a_scale: tuple[int, int],
    b_scale: tuple[int, int],
    rows: int,
) -> None:
    made = Launched(call_of("asm", shape), ASM[release])
    assert made.told_values() == {
        "kernelName": NAME_32X128,
        "bias": None,
        "alpha": 1.0,
        "beta": 0.0,
        "bpreshuffle": True,
        "log2_k_split": 0,
    }
    assert made.told_tensors() == {
        "A": (FP4, a),
        "B": (FP4, b),
        "A_scale": (E8M0, a_scale),
        "B_scale": (E8M0, b_scale),
        "out": (torch.bfloat16, (rows, shape[1])),
    }
    out = "c" if rows == shape[0] else "c_padded"
    used = {name: made.which(name) for name in made.told_tensors()}
    assert used == {
        "A": "a_codes",
        "B": "b_shuffled",
        "A_scale": "a_scales_shuffled",
        "B_scale": "b_scales_shuffled",
        "out": out,
    }


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("release", ASM_BEFORE_NAMES)
def test_a_release_whose_kernels_cannot_be_named_is_refused(
    release: str, shape: tuple[int, int, int]
) -> None:
    with pytest.raises(MissingError) as caught:
        Launched(call_of("asm", shape), ASM_BEFORE_NAMES[release])
    assert str(caught.value) == "gemm_a4w4_asm of this AITER takes no kernelName"


def test_a_kernel_for_plain_weights_gets_them() -> None:
    call = call_of("asm", (256, 3072, 1536), kernel="256x256 plain")
    made = Launched(call, ASM["#2382, 2026-03-23"])
    assert made.told["kernelName"] == ("_ZN5aiter44f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256E")
    assert made.told["bpreshuffle"] is False
    assert (made.which("B"), made.which("B_scale")) == ("b", "b_scales_shuffled")


def test_a_split_is_passed_on_and_is_not_deterministic() -> None:
    route = route_of("asm", kernel="256x256", log2_k_split=1)
    problem = Problem.contiguous(Shape(256, 2560, 2048), GFX950)
    plan = planned(route, problem)
    call = plan.steps[1]
    assert isinstance(call, Call)
    assert Launched(call, ASM["#649, 2025-07-24"]).told["log2_k_split"] == 1
    assert not plan.deterministic
    verdict = family("asm").legality(route.config, problem.shape, GFX950)
    assert verdict.grade == "suspect"
    assert "splits add up in bf16" in verdict.reason


def test_only_what_changes_nothing_may_be_left_out() -> None:
    call = call_of("asm", (32, 4096, 512))
    few = signature_in("def f(A, B, A_scale, B_scale, out, kernelName): ...", "f")
    assert keywords(call, few) == {"kernelName": NAME_32X128}
    plain = call_of("asm", (256, 3072, 1536), kernel="256x256 plain")
    with pytest.raises(MissingError, match="gemm_a4w4_asm of this AITER takes no bpreshuffle"):
        keywords(plain, few)


def test_an_argument_that_nobody_knows_makes_it_unavailable() -> None:
    more = signature_in("def f(A, B, A_scale, B_scale, out, kernelName, swizzle): ...", "f")
    with pytest.raises(MissingError) as caught:
        keywords(call_of("asm", (32, 4096, 512)), more)
    assert str(caught.value) == (
        "gemm_a4w4_asm of this AITER cannot be called as here: missing a required argument: "
        "'swizzle'"
    )


# --- gemm_a4w4

A4W4_VALUES = {"bias": None, "alpha": 1.0, "beta": 0.0, "bpreshuffle": True}


@pytest.mark.parametrize("release", A4W4_TAKES_OUT)
@pytest.mark.parametrize(("shape", "a", "b", "a_scale", "b_scale", "rows"), CONTEST, ids=str)
def test_every_argument_of_a_gemm_that_takes_out(
    release: str,
    shape: tuple[int, int, int],
    a: tuple[int, int],
    b: tuple[int, int],
    a_scale: tuple[int, int],
    b_scale: tuple[int, int],
    rows: int,
) -> None:
    made = Launched(call_of("aiter", shape), A4W4_TAKES_OUT[release])
    assert made.told_values() == A4W4_VALUES
    assert made.told_tensors() == {
        "A": (FP4, a),
        "B": (FP4, b),
        "A_scale": (E8M0, a_scale),
        "B_scale": (E8M0, b_scale),
        "out": (torch.bfloat16, (rows, shape[1])),
    }
    assert made.which("out") == ("c" if rows == shape[0] else "another")


@pytest.mark.parametrize("release", A4W4_RETURNS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_gemm_that_returns_its_result_has_it_copied_to_c(
    release: str, shape: tuple[int, int, int]
) -> None:
    m, n, _ = shape
    result = torch.arange(m * n).reshape(m, n).bfloat16()
    made = Launched(call_of("aiter", shape), A4W4_RETURNS[release], gives=result)
    assert {n: v for n, v in made.told_values().items() if n in A4W4_VALUES} == A4W4_VALUES
    assert made.told.get("apreshuffle", False) is False
    assert made.told["dtype"] == torch.bfloat16
    assert "out" not in made.told
    assert torch.equal(made.c, result)


def test_padded_rows_are_cut_off_where_out_is_taken() -> None:
    call = call_of("aiter", (4, 2880, 512))
    told: Told = {}
    takes = A4W4_TAKES_OUT["#649, 2025-07-24"]
    record = recording(takes, told)

    def fill(**given: Any) -> None:
        record(**given)
        given["out"].fill_(3)

    tensors = tensors_of(call)
    c = tensors.pop("c")
    adapted(call, fill, signature(record), tensors)(torch.zeros(1), c)
    assert set(c.flatten().tolist()) == {3.0}


@pytest.mark.parametrize("release", A4W4_WANTS_BIAS)
def test_a_release_that_wants_a_bias_is_refused(release: str) -> None:
    with pytest.raises(MissingError, match="missing a required argument: 'bias'"):
        Launched(call_of("aiter", (32, 4096, 512)), A4W4_WANTS_BIAS[release])


# --- the Triton kernels


@pytest.mark.parametrize("release", A16)
@pytest.mark.parametrize(("shape", "_a", "b", "_sa", "_sb", "_rows"), CONTEST, ids=str)
def test_every_argument_of_the_kernel_for_plain_weights(
    release: str, shape: tuple[int, int, int], _a: Any, b: Any, _sa: Any, _sb: Any, _rows: Any
) -> None:
    m, n, k = shape
    made = Launched(call_of("aiter_a16", shape), A16[release])
    config = made.told.pop("config")
    assert (json.loads(config) if release.startswith("#1456") else config) == TEN_KEYS
    assert made.told_values() == {"atomic_add": False, "dtype": torch.bfloat16}
    assert made.told_tensors() == {
        "x": (torch.bfloat16, (m, k)),
        "w": (torch.uint8, b),
        "w_scales": (torch.uint8, (n, k // 32)),
        "y": (torch.bfloat16, (m, n)),
    }
    used = {name: made.which(name) for name in made.told_tensors()}
    assert used == {"x": "a", "w": "b", "w_scales": "b_scales", "y": "c"}


@pytest.mark.parametrize("release", PRESHUFFLE)
@pytest.mark.parametrize(("shape", "_a", "b", "_sa", "b_scale", "_rows"), CONTEST, ids=str)
def test_every_argument_of_the_kernel_for_shuffled_weights(
    release: str, shape: tuple[int, int, int], _a: Any, b: Any, _sa: Any, b_scale: Any, _rows: Any
) -> None:
    m, n, k = shape
    made = Launched(call_of("aiter_preshuffle", shape), PRESHUFFLE[release])
    assert made.told.pop("config") == TEN_KEYS
    assert made.told_values() == {"prequant": True, "dtype": torch.bfloat16, "skip_reduce": False}
    assert made.told_tensors() == {
        "x": (torch.bfloat16, (m, k)),
        "w": (torch.uint8, (b[0] // 16, 16 * b[1])),
        "w_scales": (torch.uint8, (b_scale[0] // 32, k)),
        "y": (torch.bfloat16, (m, n)),
    }
    used = {name: made.which(name) for name in made.told_tensors()}
    assert used == {"x": "a", "w": "b_shuffled", "w_scales": "b_scales_shuffled", "y": "c"}
