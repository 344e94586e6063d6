"""Faults that other projects had, tried on every family: what a caller gets, number by number."""

import pytest
import torch
from tests.family_shapes import NAMES, READINGS, SPLITTING
from torch import Tensor

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import layouts
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem, View
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import Case, Verdict, case_of, check, judge, make_case

GFX950 = load_device("gfx950")
PARTIAL = [name for name in NAMES if any(t.name == "partial_dtype" for t in family(name).tunables)]


def normal(rows: int, columns: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=source).bfloat16()


def computed(name: str, case: Case, **settings: Value) -> Tensor:
    """What a family's fallback, changed by those ``settings`` that it has, makes of a case."""
    (m, n), k = case.expected.shape, case.a.shape[1]
    shape = Shape(m, n, k)
    config = family(name).fallback(shape)
    config = config.changed(**{key: value for key, value in settings.items() if key in config})
    row, column = case.a.stride()
    problem = Problem(shape, GFX950, View(row, column), View(shape.n, 1))
    c = torch.full(case.expected.shape, 1e4, dtype=torch.bfloat16)
    bind(Route(name, config), problem, case.weight)(case.a, c)
    return c


def accept(name: str, case: Case, **settings: Value) -> Tensor:
    c = computed(name, case, **settings)
    verdict = judge(case, c)
    assert verdict.ok, f"{name} {settings}: {verdict.reason}"
    return c


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_zeros_give_zeros_and_touch_nothing_else(name: str) -> None:
    # BL-006
    a, b = normal(4, 64), normal(64, 64, 1)
    a[2] = 0
    c = accept(name, case_of(a, Mxfp4Weight.quantise(b)))
    assert c[2].tolist() == [0.0] * 64
    assert c[[0, 1, 3]].count_nonzero() > 180
    nothing = torch.zeros(4, 64).bfloat16()
    for left, right in ((nothing, b), (a, torch.zeros(64, 64)), (nothing, torch.zeros(64, 64))):
        c = accept(name, case_of(left, Mxfp4Weight.quantise(right)))
        assert c.abs().max().item() == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite_makes_its_row_nan_and_no_other(name: str, value: float) -> None:
    # BL-008
    a = normal(4, 64)
    a[1, 5] = value
    case = case_of(a, Mxfp4Weight.quantise(normal(32, 64, 1)))
    c = accept(name, case)
    assert c.isnan().all(1).tolist() == [False, True, False, False]
    assert c[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_what_is_not_finite_in_b_makes_its_column_nan_and_no_other(
    name: str, weights: str, *, narrow: bool
) -> None:
    # a tile of 512 is wider than the 8 scales of a row: those behind belong to row n + 32
    n, k, least = (70, 160, 16) if weights == "plain" else (80, 192, 32)
    b = normal(n, k, 1)
    b[41, 3] = b[n - 1, k - 1] = float("nan")
    case = case_of(normal(4, k), Mxfp4Weight.quantise(b))
    c = accept(name, case, weights=weights, BLOCK_N=least if narrow else 64, BLOCK_K=512)
    assert c.isnan().all(0).nonzero().flatten().tolist() == [41, n - 1]
    assert c.isnan().sum().item() == 8


@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_scales_at_the_ends_of_their_range_mean_what_they_say(name: str, weights: str) -> None:
    # BL-010
    blocks = 1 if weights == "plain" else 2  # the second one is of zeros
    a = torch.zeros(16, 32 * blocks).bfloat16()
    a[:, :4] = torch.tensor([1.0, 0.5, 2.0, -1.0])
    a[8:] /= 16
    codes = torch.zeros(16, 16 * blocks, dtype=torch.uint8)
    codes[:, 0], codes[:, 1] = 0x71, 0xF9  # codes 1, 7, 9, 15: 0.5, 6, -0.5, -6
    scales = torch.tensor([0, 1, 126, 127, 128, 253, 254, 255] * 2, dtype=torch.uint8)
    each = torch.cat((scales.unsqueeze(1), torch.full((16, blocks - 1), 127)), 1).to(torch.uint8)
    case = case_of(a, Mxfp4Weight.from_packed(codes, each))
    c = accept(name, case, weights=weights)
    # 0.5 + 3 - 1 + 6 = 8.5 times the scale; 6 * 2^126 is an infinity before A makes it smaller
    infinite = float("inf")
    assert c[0, :2].tolist() == [8.5 * 2.0**-127, 8.5 * 2.0**-126]
    assert c[0, 2:7].tolist() == [4.25, 8.5, 17.0, infinite, infinite]
    assert c[8, :2].tolist() == [0.53125 * 2.0**-127, 0.53125 * 2.0**-126]
    assert c[8, 2:7].tolist() == [0.265625, 0.53125, 1.0625, infinite, infinite]
    assert c[:, 7].isnan().all()
    assert torch.equal(c[:, :7], c[:, 8:15])


@pytest.mark.parametrize("name", NAMES)
def test_small_integers_come_out_exactly(name: str) -> None:
    # BL-096
    source = torch.Generator().manual_seed(0)
    a = torch.randint(-2, 3, (16, 64), generator=source).bfloat16()
    b = torch.randint(-2, 3, (32, 64), generator=source).bfloat16()
    c = computed(name, case_of(a, Mxfp4Weight.quantise(b)))
    assert torch.equal(c.long(), a.long() @ b.long().T)


@pytest.mark.parametrize("block_k", [128, 256])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_padding_of_given_scales_adds_nothing(
    name: str, weights: str, *, large: bool, block_k: int
) -> None:
    # BL-014
    m, n, k = (16, 352, 352 if weights == "plain" else 320) if large else (32, 64, 128)
    case = make_case(Shape(m, n, k), 5, "cpu")
    scales = layouts.shuffle_scales(case.weight.scales())
    inside = layouts.shuffle_scales(torch.ones(n, k // 32, dtype=torch.uint8))
    dirty = torch.where(inside == 1, scales, 0x7F).to(torch.uint8)
    weight = Mxfp4Weight.from_packed(case.weight.codes(), dirty, scale_layout="shuffled")
    dirtied = Case(case.a, weight, case.expected, case.allowed)
    accept(name, dirtied, weights=weights, BLOCK_K=block_k)


@pytest.mark.parametrize("block_k", [128, 256])
@pytest.mark.parametrize("name", NAMES)
def test_rows_past_the_first_group_of_32_are_right(name: str, block_k: int) -> None:
    # BL-015
    accept(name, make_case(Shape(64, 64, 320), 6, "cpu"), BLOCK_K=block_k)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_does_not_depend_on_how_many_there_are(name: str) -> None:
    # BL-017
    a, weight = normal(33, 512), Mxfp4Weight.quantise(normal(64, 512, 1))
    whole = accept(name, case_of(a, weight))
    for rows in (1, 16, 31, 32):
        assert torch.equal(accept(name, case_of(a[:rows], weight)), whole[:rows])


@pytest.mark.parametrize("splits", [1, 2, 4])
@pytest.mark.parametrize("name", SPLITTING)
def test_splits_overwrite_whatever_the_output_held(name: str, splits: int) -> None:
    # BL-018, BL-019: 1e4 here; NaN and 1e30 in the gate
    shape = Shape(16, 64, 512)
    case = make_case(shape, 7, "cpu")
    once = accept(name, case, BLOCK_K=128, split_k=splits)
    assert torch.equal(accept(name, case, BLOCK_K=128, split_k=splits), once)
    route = Route(name, family(name).fallback(shape).changed(BLOCK_K=128, split_k=splits))
    problem = Problem.contiguous(shape, GFX950)
    assert check((case, case), lambda weight: bind(route, problem, weight)).ok


@pytest.mark.parametrize("name", NAMES)
def test_one_row_with_a_k_that_tiles_and_splits_do_not_divide_is_finite(name: str) -> None:
    # BL-025
    c = accept(name, make_case(Shape(1, 64, 192), 9, "cpu"), BLOCK_K=128, split_k=2)
    assert c.isfinite().all()


@pytest.mark.parametrize("name", PARTIAL)
def test_partials_in_bf16_are_refused_where_they_cancel_and_fp32_passes(name: str) -> None:
    x, y = normal(16, 256), normal(64, 256, 1)
    nearly = x.clone()
    nearly[:, ::32] *= 0.5
    case = case_of(torch.cat((x, -nearly), 1), Mxfp4Weight.quantise(torch.cat((y, y), 1)))
    accept(name, case, split_k=2, partial_dtype="fp32")
    verdict = judge(case, computed(name, case, split_k=2, partial_dtype="bf16"))
    assert verdict != Verdict(ok=True)
    assert verdict.worst > 4


@pytest.mark.parametrize("name", NAMES)
def test_offsets_past_2_31_reach_the_last_rows(name: str) -> None:
    # BL-030
    # 5 GB that nothing touches but 20 short rows
    a = torch.empty_strided((20, 64), (2**27, 1), dtype=torch.bfloat16)
    a.copy_(normal(20, 64))
    c = computed(name, case_of(a, Mxfp4Weight.quantise(normal(32, 64, 1))))
    near = case_of(a.contiguous(), Mxfp4Weight.quantise(normal(32, 64, 1)))
    assert judge(near, c).ok
    assert c[15:].abs().amax(1).min() > 1
