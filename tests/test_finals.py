"""Among routes as fast as each other the simpler one wins, and only those of one final compare."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import checked_route
from mxtune.results.choose import ranking
from mxtune.results.finals import heat_of, preferred, ties_of
from mxtune.results.trial import Stage, Trial

SHAPE = Shape(64, 128, 512)
H200 = load_device("sm_90")
Trials = Callable[..., Trial]
SLOPE = tuple(10 + at for at in range(20))  # a clock that slows to a third


def route(family: str, **settings: int) -> Route:
    return checked_route(Route(family, Config.of(settings)))


FUSED = route("fused")  # one kernel
DIRECT = route("direct")  # two
SPLIT = route("splitk", split_k=2)  # three


def final(which: Route, *samples_us: float, heat: int | None = 0, stage: Stage = "final") -> Trial:
    facts = {} if heat is None else {"heat": heat}
    return Trial(SHAPE, which, stage, "ok", samples_us=samples_us, facts=facts)


def order(ranked: Sequence[Trial], popular: Counter[Route] | None = None) -> list[Route]:
    return [trial.route for trial in preferred(ranked, H200, popular or Counter())]


def test_among_ties_the_fewest_kernels_win() -> None:
    ranked = [final(SPLIT, 9.98, 9.98), final(DIRECT, 9.99, 9.99), final(FUSED, 10.0, 10.0)]
    assert order(ranked) == [FUSED, DIRECT, SPLIT]


def test_a_simpler_route_that_is_slower_stays_behind() -> None:
    ranked = [final(SPLIT, *SLOPE), final(FUSED, *(1.02 * us for us in SLOPE))]
    assert order(ranked) == [SPLIT, FUSED]


def test_the_route_that_most_other_shapes_use_wins_before_the_name() -> None:
    small, large = route("fused", BLOCK_M=16), route("fused", BLOCK_M=32)
    ranked = [final(small, 5.0), final(large, 5.0)]
    assert order(ranked) == [small, large]
    assert order(ranked[::-1]) == [small, large]
    assert order(ranked, Counter({small: 1, large: 2})) == [large, small]
    assert order(ranked, Counter({small: 2, large: 2})) == [small, large]


def test_fewer_kernels_win_over_what_other_shapes_use() -> None:
    ranked = [final(DIRECT, 5.0), final(FUSED, 5.0)]
    assert order(ranked, Counter({DIRECT: 9})) == [FUSED, DIRECT]


@dataclass
class MadeUp:
    """A family of one kernel whose bits differ from call to call, unless ``fixed`` is set."""

    steps: tuple[str, ...] = ("gemm",)
    deterministic: bool = True

    def plan(self, config: Config, problem: object) -> "MadeUp":
        del problem
        return MadeUp(deterministic=config["fixed"] == 1)


def test_the_same_bits_every_time_win_over_what_other_shapes_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # every family there is gives the same bits: the tie-break needs one that does not
    monkeypatch.setattr("mxtune.results.finals.family", lambda _: MadeUp())
    free, fixed = (Route("made up", Config.of({"fixed": at})) for at in (0, 1))
    ranked = [final(free, 5.0), final(fixed, 5.0)]
    assert order(ranked, Counter({free: 9})) == [fixed, free]


def test_routes_behind_the_ties_keep_their_order() -> None:
    slow = [final(route("fused", BLOCK_M=m), us) for m, us in ((32, 7.0), (16, 8.0))]
    assert order([final(SPLIT, 5.0), final(DIRECT, 5.0), *slow]) == [
        DIRECT,
        SPLIT,
        route("fused", BLOCK_M=32),
        route("fused", BLOCK_M=16),
    ]


def test_drift_that_is_larger_than_the_difference_fools_nobody() -> None:
    best = final(SPLIT, *SLOPE)
    slower = final(FUSED, *(1.03 * us for us in SLOPE))
    draw = random.Random(1)
    level = final(DIRECT, *(us * draw.gauss(1, 0.01) for us in SLOPE))
    assert ties_of([best, level, slower]) == [best, level]


def test_only_routes_of_the_same_final_tie() -> None:
    best = final(SPLIT, 5.0, 5.0, heat=1)
    same = final(FUSED, 5.0, 5.0, heat=1)
    others = [
        final(DIRECT, 5.0, 5.0, heat=0),
        final(DIRECT, 5.0, 5.0, heat=None),  # of a store from before heats were numbered
        final(DIRECT, 5.0, heat=1),  # cut short
        final(DIRECT, 5.0, 0.0, heat=1),  # a reading that is no time pairs with nothing
        final(DIRECT, 5.0, 5.0, heat=1, stage="screen"),
    ]
    for other in others:
        assert ties_of([best, other, same]) == [best, same]


def test_nothing_ties_with_a_best_that_has_a_reading_which_is_no_time() -> None:
    best = final(SPLIT, 0.0, 5.0, 5.0)
    assert ties_of([best, final(FUSED, 5.0, 5.0, 5.0)]) == [best]


def test_without_finals_the_fastest_ties_with_nobody() -> None:
    screened = [final(SPLIT, 5.0, stage="screen"), final(FUSED, 5.0, stage="screen")]
    assert ties_of(screened) == screened[:1]
    assert order(screened) == [SPLIT, FUSED]
    assert ties_of([]) == []


def test_a_final_without_a_number_is_of_the_first() -> None:
    assert (heat_of(final(FUSED, heat=None)), heat_of(final(FUSED, heat=3))) == (0, 3)


def ranked_sizes(trial_of: Trials, *finals: tuple[int, float, int]) -> list[int]:
    """Return BLOCK_M of the ranking of finals (BLOCK_M, microseconds, heat), all screened alike."""
    trials = [trial_of(m, 9.0) for m in sorted({m for m, _, _ in finals})]
    trials += [trial_of(m, us, stage="final", facts={"heat": heat}) for m, us, heat in finals]
    return [trial.route.config.number("BLOCK_M") for trial in ranking(trials)]


def test_the_last_final_decides_over_a_faster_reading_of_an_earlier_one(trial_of: Trials) -> None:
    assert ranked_sizes(trial_of, (16, 3.0, 0), (32, 5.0, 1), (64, 4.0, 1)) == [64, 32, 16]


def test_finals_before_the_last_are_ordered_by_time(trial_of: Trials) -> None:
    finals = ((16, 4.0, 0), (32, 3.0, 1), (64, 9.0, 2))
    assert ranked_sizes(trial_of, *finals) == [64, 32, 16]


def test_of_a_route_that_played_twice_the_last_final_counts(trial_of: Trials) -> None:
    finals = ((16, 3.0, 0), (32, 3.5, 0), (16, 6.0, 1), (32, 5.0, 1))
    assert ranked_sizes(trial_of, *finals) == [32, 16]
