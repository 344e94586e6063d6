"""The search asks for the right routes in the right order, once each, and knows when to end."""

from collections.abc import Iterable

import pytest
from tests.search_play import play, tell

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.candidates import Candidates
from mxtune.results.trial import BASELINE, FLOOR
from mxtune.tuner.search import (
    EFFORTS,
    Effort,
    Search,
    decider,
    effort_of,
    fastest,
    heats,
    neighbours,
    notches,
)
from mxtune.tuner.task import Task

MI355X = load_device("gfx950")
SHAPE = Shape(1, 32, 128)
SMALL = Effort("small", seeds=2, rounds=4, around=1, finalists=2, final_rounds=5)


def at(x: int, y: int = 1, family: str = "grid") -> Route:
    return Route(family, Config.of({"x": x, "y": y}))


GRID = [at(x, y) for x in (1, 2, 4, 8) for y in (1, 2, 3)]


def search(
    ranked: Iterable[Route],
    effort: Effort = SMALL,
    known: tuple[Route, ...] = (),
    pruned: tuple[Route, ...] = (),
    shape: Shape = SHAPE,
) -> Search:
    """Return a search of made-up candidates, in the order of their model."""
    routes = tuple(ranked)
    found = Candidates(tuple(sorted(routes, key=str)), len(routes), 0, {}, pruned)
    return Search(Task(shape, MI355X, found, routes), effort, known)


def test_the_seeds_are_what_won_elsewhere_and_the_best_of_the_model() -> None:
    one = search([at(1), at(2), at(4), at(8)], known=(at(4), at(8, 3)))
    assert one.ask() == [at(4), at(8, 3), at(1), at(2)]
    assert one.task.goal == 4


def test_a_route_that_is_known_and_modelled_best_is_asked_for_once() -> None:
    assert search([at(1), at(2)], known=(at(2), at(2))).ask() == [at(2), at(1)]


def test_what_was_tried_before_is_not_asked_for_again() -> None:
    before = search([at(1), at(2), at(4)])
    tell(before, at(1), state="crashed")
    tell(before, at(2), stage="final")  # no first look
    assert Search(before.task, SMALL).ask() == [at(2)]


def test_nothing_is_asked_for_while_an_answer_is_missing() -> None:
    one = search(GRID)
    first, second = one.ask()
    assert (one.ask(), one.waiting) == ([], True)
    tell(one, first)
    tell(one, second, stage="final")
    assert (one.ask(), one.waiting) == ([], True)
    tell(one, second, state="hung")
    assert one.ask() != []


def test_a_search_that_is_stopped_asks_for_nothing_more() -> None:
    one = search(GRID)
    for route in one.ask():
        tell(one, route)
    one.stop()
    assert one.ask() == []


def test_an_audit_tries_the_same_few_of_the_pruned_every_time() -> None:
    audit = Effort("audit", seeds=None, rounds=0, around=0, finalists=0, final_rounds=1, audit=3)
    pruned = tuple(at(x) for x in range(100, 140))
    batches = [search([at(1), at(2)], audit, pruned=pruned).ask() for _ in range(2)]
    assert batches[0] == batches[1] == [at(1), at(2), at(120), at(128), at(111)]
    other = search([at(1), at(2)], audit, pruned=pruned, shape=Shape(2, 32, 128)).ask()
    assert (len(set(other)), other == batches[0]) == (5, False)
    assert set(search([at(1)], audit, pruned=pruned[:2]).ask()) == {at(1), at(100), at(101)}
    assert [effort.audit for effort in EFFORTS.values()] == [0, 0, 24]  # exhaustive alone


def test_a_refinement_goes_one_notch_along_one_setting_to_legal_routes_only() -> None:
    legal = [route for route in GRID if route != at(8, 2)]
    one = search([at(4, 2), at(4, 1), *legal])
    for route, us in zip(one.ask(), (5.0, 6.0), strict=True):
        tell(one, route, us)
    # not (8, 2), which is not legal, nor (4, 1), which was tried, nor (1, 2), two notches away
    assert one.ask() == [at(2, 2), at(4, 3)]


def test_a_search_climbs_down_until_a_round_finds_nothing_better() -> None:
    batches = play(search([at(1, 1), at(1, 2), *GRID]), lambda r: 9 - r.config.number("x"))
    assert batches == [
        [at(1, 1), at(1, 2)],
        [at(2, 1)],
        [at(4, 1), at(2, 2)],
        [at(8, 1), at(4, 2)],
        [at(8, 2)],
    ]


def test_a_round_that_finds_only_a_better_second_is_the_last() -> None:
    one = search([at(1), at(8, 3), *GRID], Effort("wide", 2, 4, 2, 2, 5))
    times = {at(1): 1.0, at(8, 3): 3.0, at(8, 2): 2.0}
    assert len(play(one, lambda route: times.get(route, 9.0))) == 2


def test_a_search_ends_with_its_rounds() -> None:
    one = search([at(1), at(1, 2), *GRID], Effort("short", 2, 1, 1, 2, 5))
    assert play(one, lambda r: 9 - r.config.number("x")) == [[at(1), at(1, 2)], [at(2)]]


def test_without_a_right_candidate_there_is_nothing_to_refine() -> None:
    one = search(GRID)
    for route in one.ask():
        tell(one, route, state="wrong")
    assert one.ask() == []


@pytest.mark.parametrize(("us", "followed"), [(16.0, [at(2, 1, "other")]), (16.1, [])])
def test_a_family_is_followed_up_while_its_best_is_within_reach(
    us: float, followed: list[Route]
) -> None:
    one = search([at(1), at(1, 1, "other"), at(2), at(2, 1, "other")])
    for route, time_us in zip(one.ask(), (10.0, us), strict=True):
        tell(one, route, time_us)
    assert one.ask() == [at(2), *followed]


def test_notches_are_the_values_that_occur_in_order() -> None:
    words = [Route("words", Config.of({"cache": word})) for word in (".cg", "", ".ca")]
    assert notches([at(8), at(16, 2), at(2), *words]) == {
        ("grid", "x"): [2, 8, 16],
        ("grid", "y"): [1, 2],
        ("words", "cache"): ["", ".ca", ".cg"],
    }


def test_a_value_that_does_not_occur_has_no_neighbours() -> None:
    routes = [at(2), at(8)]
    assert list(neighbours(at(4), notches(routes), routes)) == []
    assert list(neighbours(at(2), notches(routes), routes)) == [at(8)]


def test_a_value_that_only_other_routes_have_is_stepped_over() -> None:
    routes = [at(1), at(2, 2), at(4), at(8)]
    assert list(neighbours(at(1), notches(routes), routes)) == [at(4)]
    assert list(neighbours(at(4), notches(routes), routes)) == [at(1), at(8)]


def test_the_fastest_are_right_and_have_a_time() -> None:
    one = search(GRID)
    tell(one, at(8), 3.0)
    tell(one, at(4), 3.0)
    tell(one, at(1), 2.0)
    tell(one, at(2), 0.0)  # its clock stood still: no time
    tell(one, at(1, 2), state="wrong")
    tell(one, at(1, 3), 1.0, stage="final")
    assert [trial.route for trial in fastest(one.task.trials)] == [at(1), at(4), at(8)]


def screened(effort: str, count: int, known: tuple[Route, ...] = ()) -> Search:
    """Return a search whose candidates x = 1, 2, ... take x microseconds."""
    one = search([at(x) for x in range(1, count + 1)], effort_of(effort), known)
    for x in range(1, count + 1):
        tell(one, at(x), x)
    return one


@pytest.mark.parametrize(("effort", "finalists"), [("quick", 8), ("default", 12)])
def test_the_best_few_and_the_incumbents_play(effort: str, finalists: int) -> None:
    best = tuple(at(x) for x in range(1, finalists + 1))
    assert heats(screened(effort, 30)) == [best]
    # one of them is among the best already; one was found wrong
    known = (at(2), at(29), at(99))
    assert heats(screened(effort, 30, known)) == [(*best, at(29))]


def test_everybody_plays_in_groups_that_share_the_leader() -> None:
    assert heats(screened("exhaustive", 24)) == [tuple(at(x) for x in range(1, 25))]
    assert heats(screened("exhaustive", 60)) == [
        tuple(at(x) for x in range(1, 25)),
        (at(1), *(at(x) for x in range(25, 48))),
        (at(1), *(at(x) for x in range(48, 61))),
    ]


@pytest.mark.parametrize("effort", ["quick", "default", "exhaustive"])
def test_without_a_right_candidate_nobody_plays(effort: str) -> None:
    assert heats(screened(effort, 0, (at(1),))) == []
    assert decider(screened(effort, 0, (at(1),))) == ()


def test_the_last_final_is_between_the_best_as_multiples_of_the_leader() -> None:
    one = screened("exhaustive", 4)
    finals = [(1, 10.0, 0), (2, 11.0, 0), (1, 20.0, 1), (3, 19.0, 1), (4, 26.0, 1)]
    for x, us, heat in finals:  # the second group met a clock of half the speed
        tell(one, at(x), us, "final", heat=heat)
    tell(one, FLOOR, 1.0, "final", heat=1)
    tell(one, BASELINE, 2.0, "final", heat=1)
    tell(one, at(5), 0.5, "final", "wrong", heat=1)  # an impossible reading
    assert decider(one) == (at(3), at(1), at(2), at(4))


def test_sixteen_play_in_the_last_final() -> None:
    one = screened("exhaustive", 40)
    for heat, group in enumerate(heats(one)):
        for route in group:
            tell(one, route, route.config.number("x"), "final", heat=heat)
    assert decider(one) == tuple(at(x) for x in range(1, 17))


def test_one_group_needs_no_last_final() -> None:
    one = screened("exhaustive", 3)
    tell(one, at(1), 1.0, "final")
    assert decider(one) == ()


def test_an_effort_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'heroic': one of quick, default, exhaustive$"):
        effort_of("heroic")
