"""Statistics whose answers were written down first, and an interval held to what it promises."""

import random

import pytest

from mxtune.results.statistics import Interval, paired_ratio, spread, tied

ROUNDS = 60


def noisy(seed: int, times: float = 1.0) -> tuple[list[float], list[float]]:
    """Return rounds of two routes, the first ``times`` as slow: 3 % noise, and drift of both."""
    draw = random.Random(seed)
    level = [10 + at / 20 for at in range(ROUNDS)]
    ours = [times * us * draw.gauss(1, 0.03) for us in level]
    return ours, [us * draw.gauss(1, 0.03) for us in level]


@pytest.mark.parametrize(
    ("samples", "low", "high"),
    [
        ([7.0], 7.0, 7.0),
        ([10.0, 20.0], 11.0, 19.0),
        ([11.0, 1.0, 10.0, 2.0, 9.0, 3.0, 8.0, 4.0, 7.0, 5.0, 6.0], 2.0, 10.0),
        ([5.0, 5.0, 5.0, 5.0], 5.0, 5.0),
        ([0.0, 0.0, 0.0, 0.0, 1000.0], 0.0, 600.0),
    ],
)
def test_the_spread_is_the_tenth_and_ninetieth_percentile(
    samples: list[float], low: float, high: float
) -> None:
    assert spread(samples) == pytest.approx((low, high))


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    # the ratio of the medians would be 6 / 4
    ratio = paired_ratio([2.0, 6.0, 30.0], [1.0, 4.0, 10.0])
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 1.5, 3.0)


def test_a_ratio_without_noise_is_certain() -> None:
    assert paired_ratio([3.0] * 9, [2.0] * 9) == Interval(1.5, 1.5, 1.5)
    assert paired_ratio([3.0], [2.0]) == Interval(1.5, 1.5, 1.5)


def test_rounds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])


def test_a_planted_difference_of_five_percent_is_always_found() -> None:
    for seed in range(20):
        ratio = paired_ratio(*noisy(seed, 1.05))
        assert 1.0 < ratio.low <= ratio.value <= ratio.high
        assert 1.02 < ratio.value < 1.08
        assert not tied(ratio)


def test_no_difference_is_hardly_ever_found_slower() -> None:
    ratios = [paired_ratio(*noisy(seed)) for seed in range(1000, 1100)]
    assert sum(ratio.low > 1 for ratio in ratios) <= 5
    assert sum(not tied(ratio) for ratio in ratios) <= 5


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    ratios = [paired_ratio(*noisy(seed, 1.05)) for seed in range(2000, 2100)]
    assert 90 <= sum(ratio.low <= 1.05 <= ratio.high for ratio in ratios) <= 100


def test_the_same_samples_have_the_same_interval() -> None:
    ours, theirs = noisy(7)
    first = paired_ratio(ours, theirs)
    assert paired_ratio(ours, theirs) == first
    assert paired_ratio(ours, theirs, seed=1) != first


def test_drift_that_hits_both_routes_cancels() -> None:
    drift = [10.0 * 1.05**at for at in range(40)]  # the last round takes 6.7 times the first
    ratio = paired_ratio([1.02 * us for us in drift], drift)
    assert (ratio.low, ratio.high) == pytest.approx((1.02, 1.02))


@pytest.mark.parametrize(
    ("ratio", "as_good"),
    [
        (Interval(1.2, 0.99, 1.4), True),  # not shown to be slower
        (Interval(1.2, 1.0, 1.4), True),
        (Interval(1.2, 1.001, 1.4), False),
        (Interval(1.01, 1.005, 1.02), True),  # slower, by too little to matter
        (Interval(1.011, 1.005, 1.02), False),
        (Interval(0.9, 0.8, 0.95), True),
    ],
)
def test_a_route_ties_unless_it_is_slower_by_what_matters(ratio: Interval, as_good: bool) -> None:  # noqa: FBT001
    assert tied(ratio) is as_good
