"""From trials to a route table: the fastest of what was right."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import NoRouteError
from mxtune.configs.evidence import Checked, Measured, Modelled, Objects, RunnerUp
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import fallback_route, families, family
from mxtune.results.devices import device_of
from mxtune.results.finals import heat_of, preferred, ties_of
from mxtune.results.reach import reaches
from mxtune.results.statistics import spread
from mxtune.results.trial import BASELINE, FLOOR, Session, Trial

_DEFAULT_SHAPE = Shape(64, 64, 256)  # sets the tile of the default route, which is always legal


def table_of(session: Session, trials: Iterable[Trial]) -> RouteTable:
    """Choose the best route of every shape that has a right one.

    Raises NoRouteError if no shape has.
    """
    by_shape: dict[Shape, list[Trial]] = {}
    for trial in trials:
        by_shape.setdefault(trial.shape, []).append(trial)
    ranked = {shape: ranking(by_shape[shape]) for shape in sorted(by_shape)}
    device = device_of(session)
    popular = Counter(trials[0].route for trials in ranked.values() if trials)
    best = {s: preferred(trials, device, popular) for s, trials in ranked.items() if trials}
    reach = reaches({shape: trials[0].route for shape, trials in best.items()}, by_shape)
    entries = [
        _entry(trials, by_shape[shape], device).model_copy(update={"reach": reach.get(shape)})
        for shape, trials in best.items()
    ]
    if not entries:
        raise NoRouteError("no shape has a route that was found right; nothing to write")
    facts = session.provenance
    default = fallback_route(_DEFAULT_SHAPE)
    return RouteTable(
        device=DeviceInfo.model_validate(facts["device_info"]),
        made=Made.model_validate({name: facts.get(name) for name in Made.model_fields}),
        routes=tuple(entries),
        default=Default(family=default.family, config=dict(default.config)),
    )


def ranking(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that may be chosen, the best first.

    Finals decide among the measured, the last of them above all; a route that was in no final comes
    after them. Offline it is the score, and only a route whose numbers were checked may be chosen.
    A route that was wrong once is out, and so is a final of a route whose screening, where the
    check is, did not succeed.
    """
    trials = list(trials)
    wrong = _wrong(trials)
    timed = [trial for trial in trials if _timed(trial) and trial.route not in wrong]
    screened = {trial.route: trial for trial in timed if trial.stage == "screen"}
    finals = {t.route: t for t in timed if t.stage == "final" and t.route in screened}
    if screened:
        late = [trial for route, trial in screened.items() if route not in finals]
        return _by_final(finals.values()) + sorted(late, key=_by_time)
    checked = {trial.route for trial in trials if trial.stage == "check" and trial.state == "ok"}
    return sorted((t for t in scored(trials) if t.route in checked - wrong), key=by_score)


def _by_final(finals: Iterable[Trial]) -> list[Trial]:
    """Order finals: those of the last one come first, since it was held between the best of all."""
    finals = list(finals)
    last = max((heat_of(trial) for trial in finals), default=0)
    return sorted(finals, key=lambda trial: (heat_of(trial) != last, *_by_time(trial)))


def scored(trials: Iterable[Trial]) -> list[Trial]:
    """Return the modelled trials that compiled."""
    return [t for t in trials if t.stage == "screen" and t.state == "ok" and "score_us" in t.facts]


def by_score(trial: Trial) -> tuple[float, str]:
    """Order modelled trials; equal scores by name, so that two sweeps agree."""
    return trial.facts["score_us"], str(trial.route)


def _wrong(trials: Iterable[Trial]) -> set[Route]:
    return {trial.route for trial in trials if trial.state == "wrong"}


def _by_time(trial: Trial) -> tuple[float, str]:
    return trial.median_us, str(trial.route)


def _timed(trial: Trial) -> bool:
    return trial.state == "ok" and bool(trial.times_us) and trial.route.family in families()


def _entry(ranked: list[Trial], trials: list[Trial], device: Device) -> Entry:
    """Return the entry of one shape: its best route and what that rests on."""
    best, runner_up = ranked[0], ranked[1] if len(ranked) > 1 else None
    first_look = next(
        t for t in trials if t.route == best.route and t.stage == "screen" and t.state == "ok"
    )
    problem = Problem.contiguous(best.shape, device)
    common: dict[str, Any] = {
        "deterministic": family(best.route.family).plan(best.route.config, problem).deterministic,
        "objects": Objects(**first_look.facts["objects"]),
    }
    evidence = (
        _measured(best, runner_up, trials, first_look, common)
        if best.times_us
        else _modelled(best, runner_up, trials, common)
    )
    return Entry(
        shape=(best.shape.m, best.shape.n, best.shape.k),
        family=best.route.family,
        config=dict(best.route.config),
        evidence=evidence,
    )


def _measured(
    best: Trial,
    runner_up: Trial | None,
    trials: list[Trial],
    first_look: Trial,
    common: dict[str, Any],
) -> Measured:
    low, high = spread(best.times_us)
    beside = (t for t in trials if t.route in (BASELINE, FLOOR) and t.times_us)
    readings = {t.route: t.median_us for t in beside}
    return Measured(
        median_us=round(best.median_us, 3),
        low_us=round(low, 3),
        high_us=round(high, 3),
        ties=len(ties_of([t for t in ranking(trials) if t.stage == "final"])),
        rounds=len(best.times_us),
        floor_us=round(readings[FLOOR], 3) if FLOOR in readings else None,
        baseline=BASELINE.family if BASELINE in readings else "",
        baseline_us=round(readings[BASELINE], 3) if BASELINE in readings else None,
        runner_up=_runner_up(runner_up, runner_up.median_us if runner_up else 0),
        error=_checked("gpu", first_look),
        **common,
    )


def _modelled(
    best: Trial, runner_up: Trial | None, trials: list[Trial], common: dict[str, Any]
) -> Modelled:
    check = next(
        t for t in trials if t.route == best.route and t.stage == "check" and t.state == "ok"
    )
    out = _wrong(trials) | {best.route}
    losers = [t for t in sorted(scored(trials), key=by_score) if t.route not in out]
    rival = runner_up or (losers[0] if losers else None)
    return Modelled(
        score_us=round(best.facts["score_us"], 3),
        runner_up=_runner_up(rival, rival.facts["score_us"] if rival else 0),
        error=_checked("interpreter", check),
        emulated=_emulated(best.route, trials),
        **common,
    )


def _emulated(route: Route, trials: Iterable[Trial]) -> Checked | None:
    """Return what executing the route's machine code came to, if somebody did."""
    found = [t for t in trials if t.route == route and (t.stage, t.state) == ("emulate", "ok")]
    return _checked("emulator", found[-1]) if found else None


def _runner_up(trial: Trial | None, us: float) -> RunnerUp | None:
    if trial is None:
        return None
    return RunnerUp(family=trial.route.family, config=dict(trial.route.config), us=round(us, 3))


def _checked(where: str, trial: Trial) -> Checked:
    facts = trial.facts
    return Checked.model_validate(
        {
            "where": where,
            "shape": tuple(facts["checked_shape"]),
            "seeds": facts["seeds"],
            "worst": facts["worst"],
            "largest_error": facts["largest_error"],
        }
    )
