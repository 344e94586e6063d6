"""Every family on the GPU that is here: numbers, layouts, odd operands."""

import pytest
import torch

from mxtune.configs.devices import Device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats, layouts
from mxtune.kernels.bind import bind
from mxtune.kernels.candidates import candidates
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.family import Problem
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import families, family, own_families
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import SEEDS, check, make_case

pytestmark = pytest.mark.gpu

GPU = "cuda:0"
NAMES = sorted(families())
OWN = sorted(owner.name for owner in own_families())
CONTEST = [
    "4x2880x512",
    "16x2112x7168",
    "32x4096x512",
    "32x2880x512",
    "64x7168x2048",
    "256x3072x1536",
    "8x2112x7168",
    "16x3072x1536",
    "64x3072x1536",
    "256x2880x512",
]
ODD = ["1x1x32", "3x70x96", "17x130x320", "33x96x1056", "1x64x192", "31x33x160", "127x352x352"]
TALL = ["1x256x512", "2x256x512", "31x256x512", "33x256x512", "63x256x512", "65x256x512"]


@pytest.fixture(scope="module")
def device() -> Device:
    return running_device(0)


def wrong(name: str, shape: Shape, device: Device, **changes: int | str) -> str:
    owner = family(name)
    config = owner.normalise(owner.fallback(shape).changed(**changes), shape)
    lack, verdict = owner.missing(device), owner.legality(config, shape, device)
    if lack or verdict.grade == "illegal":  # AITER's on another GPU; shuffled weights of odd sizes
        pytest.skip(lack or verdict.reason)
    problem = Problem.contiguous(shape, device)
    cases = tuple(make_case(shape, seed, GPU) for seed in SEEDS)
    return check(cases, lambda weight: bind(Route(name, config), problem, weight)).reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("word", CONTEST + ODD + TALL)
def test_a_family_is_right(name: str, word: str, device: Device) -> None:
    assert wrong(name, Shape.parse(word), device) == ""


@pytest.mark.parametrize("split", [2, 3, 5, 7])
@pytest.mark.parametrize("word", ["16x2112x7168", "1x7168x768", "1x1536x7168", "33x96x1056"])
def test_a_split_is_right(split: int, word: str, device: Device) -> None:
    assert wrong("splitk", Shape.parse(word), device, split_k=split) == ""


def test_bf16_partials_that_cancel_are_refused(device: Device) -> None:
    reason = wrong("splitk", Shape(16, 256, 4096), device, split_k=4, partial_dtype="bf16")
    assert "wrong, worst at" in reason


@pytest.mark.parametrize("name", NAMES)
def test_candidates_of_the_space_are_right(name: str, device: Device) -> None:
    shape = Shape(33, 160, 1056)
    found = candidates([family(name)], shape, device).routes
    cases = tuple(make_case(shape, seed, GPU) for seed in SEEDS)
    for route in found[:: max(1, len(found) // 6)]:
        problem = Problem.contiguous(shape, device)
        verdict = check(cases, lambda w, r=route, p=problem: bind(r, p, w))  # type: ignore[misc]
        assert verdict.reason == "", str(route)


def every_bf16() -> torch.Tensor:
    """All bit patterns, each as the maximum of a block of smaller values: [2048 * 32, 32]."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    top = bits.view(torch.bfloat16).reshape(-1, 1).to(GPU)
    shares = torch.rand(bits.numel(), 31, device=GPU, generator=torch.Generator(GPU).manual_seed(3))
    return torch.cat([top, (top.float() * (shares * 2 - 1)).bfloat16()], 1)


def test_the_quantiser_kernel_writes_the_bytes_of_the_rule(device: Device) -> None:
    a = every_bf16()
    shape = Shape(a.shape[0], 16, 32)
    weight = Mxfp4Weight.quantise(torch.zeros(16, 32, device=GPU))
    route = Route("direct", family("direct").fallback(shape))
    launch = bind(route, Problem.contiguous(shape, device), weight)
    launch(a, torch.empty(shape.m, 16, dtype=torch.bfloat16, device=GPU))
    codes, scales = formats.quantise(a)
    finite = scales[:, 0] != formats.NAN_SCALE
    assert torch.equal(launch.workspaces["a_scales"], scales)
    assert torch.equal(launch.workspaces["a_codes"][finite], codes[finite])


def test_a_nan_reaches_its_row_and_no_other(device: Device) -> None:
    shape = Shape(4, 32, 64)
    for name in OWN:
        case = make_case(shape, 1, GPU)
        a = case.a.clone()
        a[1, 5] = float("nan")
        config = family(name).fallback(shape)
        launch = bind(Route(name, config), Problem.contiguous(shape, device), case.weight)
        c = torch.empty(4, 32, dtype=torch.bfloat16, device=GPU)
        launch(a, c)
        assert c[1].isnan().all(), name
        assert c[[0, 2, 3]].isfinite().all(), name


def test_any_strides_give_what_a_contiguous_copy_gives() -> None:
    gemm = Dispatcher(None)
    weight = Mxfp4Weight.quantise(torch.randn(64, 64, device=GPU))
    wide = torch.randn(48, 256, device=GPU).bfloat16()
    flat = torch.randn(48 * 64 + 8, device=GPU).bfloat16()
    for a in (
        torch.randn(64, 48, device=GPU).bfloat16().t(),
        wide[:, 64:192:2],
        wide[:, 64:128],
        wide[:1, :64].expand(48, 64),
        flat[1 : 1 + 48 * 64].view(48, 64),
    ):
        assert torch.equal(gemm(a, weight), gemm(a.contiguous().clone(), weight))


def test_rows_far_apart_are_read_with_64_bit_offsets() -> None:
    a = torch.empty_strided((20, 64), (2**27, 1), dtype=torch.bfloat16, device=GPU)
    a.copy_(torch.randn(20, 64))
    weight = Mxfp4Weight.quantise(torch.randn(64, 64, device=GPU))
    gemm = Dispatcher(None)
    assert torch.equal(gemm(a, weight), gemm(a.contiguous(), weight))


def test_an_output_beyond_32_bit_offsets_is_right_to_its_last_row(device: Device) -> None:
    shape = Shape(65536, 32800, 64)  # 2,149,580,800 results
    a = torch.randn(shape.m, shape.k, device=GPU).bfloat16()
    weight = Mxfp4Weight.quantise(torch.randn(shape.n, shape.k, device=GPU))
    tail = formats.dequantise(*formats.quantise(a[-4:]))
    expected = formats.product(tail, weight.dequantised()).bfloat16()
    for name in ("direct", "fused"):
        config = family(name).fallback(shape)
        launch = bind(Route(name, config), Problem.contiguous(shape, device), weight)
        c = torch.full((shape.m, shape.n), float("nan"), dtype=torch.bfloat16, device=GPU)
        launch(a, c)
        torch.testing.assert_close(c[-4:], expected, rtol=2**-7, atol=1e-3)
        del c


def test_a_given_output_is_overwritten_and_a_fresh_one_is_fresh() -> None:
    gemm = Dispatcher(None)
    weight = Mxfp4Weight.quantise(torch.randn(64, 512, device=GPU))
    a = torch.randn(16, 512, device=GPU).bfloat16()
    given = torch.full((16, 64), 1e4, dtype=torch.bfloat16, device=GPU)
    first = gemm(a, weight)
    assert gemm(a, weight, out=given) is given
    assert torch.equal(first, given)
    assert gemm(a, weight).data_ptr() != first.data_ptr()


def test_a_freed_operand_is_never_mistaken_for_a_new_one() -> None:
    gemm = Dispatcher(None)
    random = torch.Generator(GPU).manual_seed(9)
    for _ in range(50):
        a = torch.randn(16, 64, device=GPU, generator=random).bfloat16()
        weight = Mxfp4Weight.quantise(torch.randn(64, 64, device=GPU, generator=random))
        exact = formats.product(formats.dequantise(*formats.quantise(a)), weight.dequantised())
        torch.testing.assert_close(gemm(a, weight).float(), exact, rtol=2**-7, atol=1e-3)


def test_a_shuffled_store_zeroes_its_padding(device: Device) -> None:
    from mxtune.kernels.build import arguments, build, kernel_function
    from mxtune.kernels.family import Buffer, Step, Work

    a = torch.randn(70, 352, device=GPU).bfloat16()
    height, width = layouts.padded_scales(70, 11)
    step = Step(
        name="quantise",
        kernel="quantise:quantise",
        grid=(height // 4, 2),
        buffers={
            "a_ptr": Buffer("a", "bf16", (70, 352)),
            "codes_ptr": Buffer("a_codes", "u8", (70, 176)),
            "scales_ptr": Buffer("a_scales", "u8", (height, width)),
        },
        integers={
            "M": 70, "K": 352, "stride_am": 352, "stride_ak": 1, "stride_qm": 176,
            "scale_width": width,
        },
        constants={
            "BLOCK_M": 4, "BLOCK_K": 256, "SHUFFLED": True, "WIDE": False, "HARDWARE": False
        },
        options={"num_warps": 4, "num_stages": 1},
        work=Work(1, 1, 0, 0, 0, 0, 0),
    )  # fmt: skip
    codes = torch.empty(70, 176, dtype=torch.uint8, device=GPU)
    scales = torch.full((height, width), 0x7F, dtype=torch.uint8, device=GPU)
    named = arguments(step, {"a": a, "a_codes": codes, "a_scales": scales})
    build(step, device)[(*step.grid, 1)](*(named[n] for n in kernel_function(step).arg_names))
    expected, plain = formats.quantise(a)
    assert torch.equal(codes, expected)
    assert torch.equal(scales, layouts.shuffle_scales(plain))


def test_settings_of_other_gpus_are_ignored_here(device: Device) -> None:
    shape = Shape(16, 64, 512)
    assert wrong("direct", shape, device, waves_per_eu=2, matrix_instr_nonkdim=16) == ""
    assert wrong("direct", shape, device, cache_modifier=".cg") == ""
