"""The bench of a GPU worker, on the CPU: a clock that reads what it is told, kernels in torch."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from mxtune.configs.devices import load_device
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats
from mxtune.kernels.family import Problem
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import Verdict
from mxtune.tuner.measure import (
    Bench,
    FinalJob,
    Finals,
    Screened,
    ScreenJob,
    facts_of,
    is_loser,
)
from mxtune.tuner.timing import Call, Timed

MI355X = load_device("gfx950")
SHAPE, OTHER = Shape(16, 64, 128), Shape(8, 32, 128)
FIRST, SECOND, WRONG = (Route(name, Config()) for name in ("first", "second", "wrong"))


@dataclass
class Reads:
    """A clock that calls what it is given and reads ``us`` in turn, the last of them for ever."""

    us: tuple[float, ...] = (5.0,)
    asked: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    called: list[Call] = field(default_factory=list[Call])

    def prepare(self, copies: list[Call]) -> Timed:
        return Timed(tuple(copies))

    def rounds(self, calls: list[Timed], count: int) -> list[tuple[float, ...]]:
        self.asked.append((len(calls), count))
        samples: list[list[float]] = [[] for _ in calls]
        for _ in range(count):
            for kept, timed in zip(samples, calls, strict=True):
                timed.copies[0]()
                self.called.append(timed.copies[0])
                kept.append(self.us[min(len(self.called), len(self.us)) - 1])
        return [tuple(kept) for kept in samples]


@dataclass
class Launch:
    """A route in torch: right, unless it is the wrong one; it writes down what it launches."""

    route: Route
    weight: Mxfp4Weight
    launched: list[str]
    outputs: list[int]
    workspaces: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def __call__(self, a: Tensor, c: Tensor) -> None:
        self.launched.append(self.route.family)
        self.outputs.append(c.data_ptr())
        rounded = formats.dequantise(*formats.quantise(a, self.weight.rule))
        c.copy_(rounded @ self.weight.dequantised().T)
        if self.route == WRONG:
            c[3, 5] += 1.0


@dataclass
class Kernels:
    """Binds made-up routes and remembers what was bound and launched."""

    problems: list[Problem] = field(default_factory=list[Problem])
    launched: list[str] = field(default_factory=list[str])
    outputs: list[int] = field(default_factory=list[int])

    def __call__(self, route: Route, problem: Problem, weight: Mxfp4Weight) -> Launch:
        self.problems.append(problem)
        return Launch(route, weight, self.launched, self.outputs)


def bench(clock: Reads, kernels: Kernels | None = None) -> Bench:
    return Bench(MI355X, "cpu", clock, Regime(), kernels or Kernels())


def screened(clock: Reads, best_us: float | None = None, route: Route = FIRST) -> Screened:
    result = bench(clock)(ScreenJob(SHAPE, route, best_us))
    assert isinstance(result, Screened)
    return result


@pytest.mark.parametrize(
    ("readings", "us", "loses"),
    [
        (2, 99.0, False),  # too few to tell
        (3, 15.0, False),
        (3, 15.1, True),
        (9, 15.0, False),
        (9, 15.1, True),
        (10, 11.5, False),
        (10, 11.6, True),
        (20, 11.5, False),
        (20, 11.6, True),
        (20, 3.0, False),
    ],
)
def test_a_loser_is_far_behind_the_best_of_10_us(readings: int, us: float, loses: bool) -> None:  # noqa: FBT001
    assert is_loser((us,) * readings, 10.0) is loses


def test_a_loser_is_judged_by_its_median() -> None:
    assert not is_loser((10.0, 10.0, 900.0), 10.0)
    assert is_loser((1.0, 16.0, 16.0), 10.0)


def test_without_a_best_nobody_loses() -> None:
    assert not is_loser((900.0,) * 20, None)


def test_a_right_candidate_is_timed_twenty_times() -> None:
    clock = Reads()
    result = screened(clock)
    assert result.verdict.ok
    assert result.samples_us == (5.0,) * 20
    assert clock.asked == [(1, 3), (1, 7), (1, 10)]
    assert min(result.check_s, result.time_s) > 0


def test_a_wrong_candidate_is_not_timed() -> None:
    clock = Reads()
    result = screened(clock, route=WRONG)
    assert not result.verdict.ok
    assert result.verdict.reason.startswith("1 of 1024 wrong, worst at (3, 5): ")
    assert (result.samples_us, result.time_s, clock.asked) == ((), 0.0, [])


@pytest.mark.parametrize(
    ("us", "samples"),
    [
        ((15.1,), 3),
        ((15.0,), 10),
        ((11.6,), 10),
        ((11.5,), 20),
        ((16.0, 11.0, 11.0), 20),  # one slow reading is no verdict
        ((11.0, 11.0, 11.0, 13.0), 10),
    ],
)
def test_the_timing_of_a_loser_ends_early(us: tuple[float, ...], samples: int) -> None:
    clock = Reads(us)
    result = screened(clock, best_us=10.0)
    assert len(result.samples_us) == len(clock.called) == samples
    assert result.samples_us[:3] == (us * 3)[:3]


def test_finals_interleave_the_routes_the_floor_and_the_baseline() -> None:
    clock, kernels = Reads(tuple(float(at) for at in range(1, 13))), Kernels()
    result = bench(clock, kernels)(FinalJob(SHAPE, (SECOND, FIRST), rounds=3))
    assert isinstance(result, Finals)
    assert result.routes == ((1.0, 5.0, 9.0), (2.0, 6.0, 10.0))
    assert (result.floor, result.baseline) == ((3.0, 7.0, 11.0), (4.0, 8.0, 12.0))
    assert clock.asked == [(4, 3)]
    assert kernels.launched == ["second", "first"] * 3
    assert len(set(kernels.outputs)) == 2  # each writes into an output of its own


def test_the_floor_does_nothing_and_the_baseline_is_torchs_product_in_bf16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    products: list[tuple[Tensor, Tensor, Tensor]] = []
    monkeypatch.setattr(torch, "mm", lambda a, b, out: products.append((a, b, out)))
    clock = Reads()
    one = bench(clock)
    one(FinalJob(SHAPE, (FIRST,), rounds=1))
    products.clear()
    _, floor, baseline = clock.called
    floor()
    assert products == []
    baseline()
    ((a, b, out),) = products
    case = one.cases[SHAPE][0]
    assert torch.equal(a, case.a)
    assert torch.equal(b, case.weight.dequantised().bfloat16().T)
    assert (out.shape, out.dtype) == ((16, 64), torch.bfloat16)


def test_candidates_of_one_shape_are_checked_on_the_same_operands() -> None:
    one = bench(Reads())
    one.screen(ScreenJob(SHAPE, FIRST))
    first = one.cases[SHAPE]
    one.screen(ScreenJob(SHAPE, SECOND))
    one.finals(FinalJob(SHAPE, (FIRST,), rounds=1))
    assert one.cases == {SHAPE: first}
    one.screen(ScreenJob(OTHER, FIRST))
    assert list(one.cases) == [OTHER]  # those of the last shape may be large
    assert [case.expected.shape for case in one.cases[OTHER]] == [(8, 32), (8, 32)]


def test_routes_are_bound_to_the_usual_layout_of_the_shape_on_the_gpu() -> None:
    kernels = Kernels()
    bench(Reads(), kernels).screen(ScreenJob(OTHER, FIRST))
    assert {(p.shape, p.device.arch, p.a.row, p.c.row) for p in kernels.problems} == {
        (Shape(8, 32, 128), "gfx950", 128, 32)
    }
    assert len(kernels.problems) == 3  # two seeds, and once to be timed


def test_a_verdict_is_kept_without_what_the_state_says() -> None:
    verdict = Verdict(ok=False, reason="wrong", worst=2.5, largest_error=0.125)
    assert facts_of(verdict, SHAPE) == {
        "checked_shape": [16, 64, 128],
        "seeds": 2,
        "worst": 2.5,
        "largest_error": 0.125,
    }
