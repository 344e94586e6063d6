"""The correctness gate against kernels that are wrong in every way seen so far. No Triton."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch
from torch import Tensor

from mxtune.configs.shapes import Shape
from mxtune.kernels import formats
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import Case, Verdict, case_of, check, judge, make_case

Compute = Callable[[Tensor, Mxfp4Weight, Tensor], None]
SMALL = Shape(32, 64, 256)
LARGE = Shape(256, 3072, 64)


@dataclass
class Stub:
    """A route that does whatever ``compute`` does with A, the weight and C."""

    weight: Mxfp4Weight
    compute: Compute
    workspaces: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def __call__(self, a: Tensor, c: Tensor) -> None:
        self.compute(a, self.weight, c)


@cache
def cases(shape: Shape, rule: str = "even") -> tuple[Case, Case]:
    return make_case(shape, 1, "cpu", rule), make_case(shape, 2, "cpu", rule)


def verdict_on(compute: Compute, shape: Shape = SMALL, rule: str = "even") -> Verdict:
    return check(cases(shape, rule), lambda weight: Stub(weight, compute))


def result(a: Tensor, weight: Mxfp4Weight, splits: int = 1) -> Tensor:
    """What a right kernel has in its accumulators: fp32, added split by split."""
    left = formats.dequantise(*formats.quantise(a, weight.rule)).chunk(splits, 1)
    right = weight.dequantised().chunk(splits, 1)
    total = torch.zeros(a.shape[0], weight.n)
    for part_a, part_b in zip(left, right, strict=True):
        total += part_a @ part_b.T
    return total


def position(reason: str) -> tuple[int, int]:
    found = re.search(r" at \((\d+), (\d+)\)", reason)
    assert found, f"no position in {reason!r}"
    return int(found[1]), int(found[2])


def right(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
    c.copy_(result(a, weight))


def test_a_right_kernel_is_accepted_with_its_largest_share_of_the_allowance() -> None:
    verdict = verdict_on(right)
    assert (verdict.ok, verdict.reason) == (True, "")
    assert 0.9 < verdict.worst <= 1  # half a unit in the last place of bf16 is nearly all of it
    assert 0 < verdict.largest_error < 1


@pytest.mark.parametrize("rule", ["even", "floor", "round_up"])
def test_the_answer_follows_the_rule_of_the_weight(rule: str) -> None:
    assert verdict_on(right, rule=rule).ok


def returns_zeros(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:  # noqa: ARG001
    c.zero_()


def is_scaled(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
    c.copy_(result(a, weight) * 1.03)


def drops_the_last_block_of_k(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
    short = a.clone()
    short[:, -32:] = 0
    c.copy_(result(short, weight))


def truncates(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
    bits = result(a, weight).view(torch.int32) & -65536
    c.copy_(bits.view(torch.float32))


def adds_to_what_it_finds(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
    c.copy_(c.float().nan_to_num() + result(a, weight))


@pytest.mark.parametrize(
    "compute",
    [returns_zeros, is_scaled, drops_the_last_block_of_k, truncates, adds_to_what_it_finds],
)
def test_wrong_values_are_refused_with_the_worst_position(compute: Compute) -> None:
    # BL-083
    verdict = verdict_on(compute)
    assert not verdict.ok
    assert re.fullmatch(r"\d+ of 2048 wrong, worst at \(\d+, \d+\): \S+ for \S+", verdict.reason), (
        verdict.reason
    )
    assert verdict.worst > 1


def test_a_hole_of_one_tile_is_refused_and_located() -> None:
    # BL-084
    def one_tile_hole(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        right(a, weight, c)
        c[32:48, 1600:1616] = 0

    verdict = verdict_on(one_tile_hole, LARGE)
    assert not verdict.ok
    assert int(verdict.reason.split()[0]) <= 256
    row, column = position(verdict.reason)
    assert (32 <= row < 48, 1600 <= column < 1616) == (True, True)


def test_two_exchanged_rows_are_refused_and_located() -> None:
    # BL-084
    def one_row_swapped(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        right(a, weight, c)
        c[[5, 9]] = c[[9, 5]]

    verdict = verdict_on(one_row_swapped, LARGE)
    assert not verdict.ok
    assert position(verdict.reason)[0] in (5, 9)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_halves_written_one_after_the_other_are_refused(order: tuple[int, int]) -> None:
    # BL-085
    def writes_left_half(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        c[:, :32] = result(a, weight)[:, :32]

    def writes_right_half(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        c[:, 32:] = result(a, weight)[:, 32:]

    stubs = (writes_left_half, writes_right_half)
    reasons = (
        "1024 of 2048 not finite, first at (0, 32)",
        "1024 of 2048 not finite, first at (0, 0)",
    )
    for index in order:
        assert verdict_on(stubs[index]) == Verdict(ok=False, reason=reasons[index])


def test_what_is_not_written_or_not_finite_is_refused_with_its_position() -> None:
    def does_nothing(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        pass

    def adds(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        c += result(a, weight)

    def has_one(value: float) -> Compute:
        def compute(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
            right(a, weight, c)
            c[3, 7] = value

        return compute

    everywhere = "2048 of 2048 not finite, first at (0, 0)"
    assert verdict_on(does_nothing).reason == everywhere
    assert verdict_on(adds).reason == everywhere
    assert verdict_on(has_one(float("nan"))).reason == "1 of 2048 not finite, first at (3, 7)"
    assert verdict_on(has_one(float("-inf"))).reason == "1 of 2048 not finite, first at (3, 7)"


def test_a_kernel_that_changes_its_input_is_refused() -> None:
    def changes_its_input(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        right(a, weight, c)
        a[0, 0] = -a[0, 0] + 1

    verdict = verdict_on(changes_its_input)
    assert verdict == Verdict(ok=False, reason="it changed its input")
    assert torch.equal(cases(SMALL)[0].a, make_case(SMALL, 1, "cpu").a)


@pytest.mark.parametrize("splits", [1, 2, 8, 16])
def test_right_sums_are_accepted_however_they_are_split(splits: int) -> None:
    # BL-086
    def compute(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
        c.copy_(result(a, weight, splits))

    verdict = verdict_on(compute, Shape(16, 256, 4096))
    assert (verdict.ok, verdict.reason) == (True, "")


def test_a_sum_of_large_terms_that_cancel_may_err_by_what_adding_them_costs() -> None:
    # BL-086: 2^22 - 2^22 + 31 * 32 * 2^-4, added in fp32 from left to right
    a, b = torch.full((2, 1056), 0.25), torch.full((2, 1056), 0.25)
    a[:, :32] = a[:, -32:] = 0
    a[:, 0], a[:, -1] = 2048.0, -2048.0
    b[:, 0] = b[:, -1] = 2048.0
    case = case_of(a.bfloat16(), Mxfp4Weight.quantise(b))
    assert case.expected[0, 0].item() == 62.0
    assert judge(case, torch.full((2, 2), 66.0).bfloat16()).ok
    assert judge(case, torch.full((2, 2), 58.0).bfloat16()).ok
    assert judge(case, torch.full((2, 2), 98.0).bfloat16()).reason.startswith("4 of 4 wrong")


def test_a_nan_or_infinity_of_the_answer_must_be_in_the_result() -> None:
    a = torch.ones(2, 32, dtype=torch.bfloat16)
    a[1, 5] = float("nan")
    case = case_of(a, Mxfp4Weight.quantise(torch.ones(3, 32)))
    assert case.expected[0].tolist() == [32.0, 32.0, 32.0]
    assert case.expected[1].isnan().tolist() == [True, True, True]
    expected = torch.tensor([[32.0] * 3, [float("nan")] * 3]).bfloat16()
    assert judge(case, expected) == Verdict(ok=True)
    finite = expected.clone()
    finite[1, 2] = 31.0
    assert judge(case, finite).reason == "1 of 6 wrong, worst at (1, 2): 31 for nan"


def test_a_problem_of_zeros_is_right_only_when_every_result_is_zero() -> None:
    # BL-006
    case = case_of(torch.zeros(2, 32).bfloat16(), Mxfp4Weight.quantise(torch.ones(2, 32)))
    assert judge(case, torch.zeros(2, 2).bfloat16()) == Verdict(ok=True)
    spoilt = torch.tensor([[0.0, 0.0], [2.0**-120, 0.0]]).bfloat16()
    assert judge(case, spoilt).reason == "1 of 4 wrong, worst at (1, 0): 7.52316e-37 for 0"


def test_even_the_smallest_problem_is_not_all_zeros() -> None:
    for seed in (1, 2):
        case = make_case(Shape(1, 1, 32), seed, "cpu")
        assert case.expected.item() != 0


@pytest.mark.parametrize("shape", [Shape(1, 16, 32), Shape(16, 2112, 7168)])
def test_a_gate_has_scales_as_in_a_model_and_larger_ones(shape: Shape) -> None:
    assert [make_case(shape, seed, "cpu").weight.small_scales for seed in (1, 2)] == [True, False]


def test_workspaces_are_poisoned_and_a_quantiser_is_judged_byte_by_byte() -> None:
    # BL-089
    found: list[int] = []

    def bind(weight: Mxfp4Weight) -> Stub:
        codes = torch.zeros(32, 128, dtype=torch.uint8)
        scales = torch.zeros(32, 8, dtype=torch.uint8)

        def compute(a: Tensor, weight: Mxfp4Weight, c: Tensor) -> None:
            found.extend((int(codes.min()), int(scales.min())))
            written = formats.quantise(a)
            codes.copy_(written[0])
            scales.copy_(written[1])
            codes[2, 3] ^= 1
            right(a, weight, c)

        return Stub(weight, compute, {"a_codes": codes, "a_scales": scales})

    verdict = check(cases(SMALL), bind)
    assert found == [255, 255]
    assert verdict == Verdict(
        ok=False, reason="a_codes: 1 of 4096 bytes differ from rule even, first at (2, 3)"
    )
