"""Find routes on the GPUs that are here: compile on every core, check and time on each GPU.

Compiling the next candidates overlaps timing the present ones. What a compiler built reaches the
GPU worker through Triton's cache. Each GPU is a lane with one worker and a warm spare; screening
goes to whichever lane is free, the finals of one shape stay on one GPU.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Route
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.results.finals import heat_of
from mxtune.results.trial import BASELINE, FLOOR, Trial
from mxtune.tuner.compilers import COMPILE_LIMIT_S, compile_crew
from mxtune.tuner.crew import Crew, Finished, wait
from mxtune.tuner.ledger import Ledger
from mxtune.tuner.measure import FinalJob, Finals, Screened, ScreenJob, facts_of
from mxtune.tuner.model import bound_us
from mxtune.tuner.objects import CompileJob, compile_service, summary
from mxtune.tuner.search import Search, decider, fastest, heats
from mxtune.tuner.task import Done, state_of
from mxtune.tuner.worker import Factory, Outcome

RUN_LIMIT_S = 10.0  # of one candidate: load, check twice, time

# A GPU worker goes on after these; after any other exception its context may be spoilt.
_SOUND = frozenset({"OutOfLdsError", "OutOfResources", "NoRouteError", "CompilationError"})


@dataclass(frozen=True, slots=True)
class _Heat:
    """The key of a final: which routes of a shape play together."""

    shape: Shape
    number: int
    routes: tuple[Route, ...]
    place: int  # the lane that all finals of a shape are held on
    again: bool = False  # without those that failed alone, after it had failed


@dataclass(frozen=True, slots=True)
class _Alone:
    """The key of a final that one route plays alone, to find who made its heat fail."""

    shape: Shape
    heat: _Heat
    route: Route


def sweep_measured(
    searches: Sequence[Search],
    factories: Sequence[Factory],
    regime: Regime,
    settings: Settings,
    ledger: Ledger,
    deadline: float | None = None,
    compiler: Factory = compile_service,
    *,
    run_limit_s: float = RUN_LIMIT_S,
    compile_limit_s: float = COMPILE_LIMIT_S,
) -> Iterator[Trial | Done]:
    """Yield a trial for each candidate as it is measured, then the finals of its shape.

    ``factories`` make the service of each lane, ``compiler`` that of each core: tests and drills
    put services there that fail on purpose. At the ``deadline`` the searches end; their finals are
    still held.
    """
    bench = Crew(
        factories,
        limit_s=run_limit_s,
        variables=for_child(settings, interpret=False),
        sound_after=_SOUND,
        spares=True,
    )
    spared = 1 + len(factories)  # for the parent and every GPU worker
    with compile_crew(settings, compiler, compile_limit_s, spared_cores=spared) as compilers, bench:
        bench.start()
        yield from _Run(searches, compilers, bench, regime, ledger, deadline).trials()


@dataclass(slots=True)
class _Run:
    """One measured sweep under way."""

    searches: Sequence[Search]
    compilers: Crew
    bench: Crew
    regime: Regime
    ledger: Ledger
    deadline: float | None  # by time.monotonic(): what is not begun then is skipped
    compiled: dict[tuple[Shape, Route], dict[str, Any]] = field(
        default_factory=dict[tuple[Shape, Route], dict[str, Any]]
    )
    heats_begun: Counter[Shape] = field(default_factory=Counter[Shape])
    heats_left: Counter[Shape] = field(default_factory=Counter[Shape])
    places: dict[Shape, int] = field(default_factory=dict[Shape, int])  # the lane of its finals
    undecided: set[Shape] = field(default_factory=set[Shape])  # whose last final is not held
    alone: dict[_Heat, dict[Route, Outcome]] = field(
        default_factory=dict[_Heat, dict[Route, Outcome]]
    )

    def trials(self) -> Iterator[Trial | Done]:
        unfinished = {search.task.shape: search for search in self.searches}
        by_shape = dict(unfinished)
        while unfinished:
            yield from self._stop_if_late(by_shape)
            for shape, search in list(unfinished.items()):
                yield from self._advance(search)
                if not search.waiting and self._finished(search):
                    del unfinished[shape]
                    yield Done(shape)
            for finished in wait((self.compilers, self.bench)) if unfinished else ():
                shape = getattr(finished.key, "shape", None) or finished.key[0]
                for trial in self._take(by_shape[shape], finished):
                    by_shape[shape].task.trials.append(trial)
                    yield trial

    def _stop_if_late(self, searches: Mapping[Shape, Search]) -> Iterator[Trial]:
        """End the searches at the deadline; what no compiler has begun is skipped."""
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        for search in searches.values():
            search.stop()
        for shape, route in self.compilers.drop_waiting():
            trial = Trial(shape, route, "screen", "skipped", "the budget was spent")
            searches[shape].task.trials.append(trial)
            yield trial

    def _advance(self, search: Search) -> Iterator[Trial]:
        """Hand out what the search asks for next; quarantined routes are answered at once."""
        task = search.task
        for route in search.ask():
            reason = search.quarantined.get(route)
            if reason:
                trial = Trial(task.shape, route, "screen", "quarantined", reason)
                task.trials.append(trial)
                yield trial
            else:
                job = CompileJob(route, task.shape, task.device)
                self.compilers.submit((task.shape, route), job)

    def _finished(self, search: Search) -> bool:
        """Start the finals of a shape whose search is over; say when they are over too."""
        shape = search.task.shape
        if shape not in self.places:
            self.places[shape] = len(self.places) % max(1, self.bench.size)
            earlier = [heat_of(t) for t in search.task.trials if t.stage == "final"]
            self.heats_begun[shape] = 1 + max(earlier, default=-1)
            groups = () if held(search) else heats(search)
            self.undecided.update([shape] if groups else [])
            for routes in groups:
                self._hold(search, routes, self.places[shape])
        if self.heats_left[shape] == 0 and shape in self.undecided:
            self.undecided.remove(shape)
            last = decider(search)
            if last:
                self._hold(search, last, self.places[shape])
        return self.heats_left[shape] == 0

    def _hold(
        self, search: Search, routes: tuple[Route, ...], place: int, *, again: bool = False
    ) -> None:
        shape = search.task.shape
        heat = _Heat(shape, self.heats_begun[shape], routes, place, again)
        self.bench.submit(heat, FinalJob(shape, routes, search.effort.final_rounds), place)
        self.heats_begun[shape] += 1
        self.heats_left[shape] += 1

    def _take(self, search: Search, finished: Finished) -> list[Trial]:
        """Turn an outcome into trials; a candidate that compiled goes on to a GPU instead."""
        key, outcome = finished.key, finished.outcome
        if isinstance(key, _Heat):
            return self._final(search, key, outcome)
        if isinstance(key, _Alone):
            return self._played_alone(search, key, outcome)
        shape, route = key
        if key in self.compiled:
            return [self._screened(search, route, self.compiled.pop(key), outcome)]
        self.ledger.spent("compile", route.family, outcome)
        if outcome.state != "done":
            state = state_of(outcome, otherwise="failed_compile")
            return [Trial(shape, route, "screen", state, outcome.reason)]
        self.compiled[key] = {
            "objects": summary(outcome.value).model_dump(),
            "compile_s": round(outcome.seconds, 3),
        }
        best = next(iter(fastest(search.task.trials)), None)
        self.bench.submit(key, ScreenJob(shape, route, best.median_us if best else None))
        return []

    def _screened(
        self, search: Search, route: Route, facts: dict[str, Any], outcome: Outcome
    ) -> Trial:
        task = search.task
        self.ledger.screened(route.family, outcome)
        if outcome.state != "done":
            state = state_of(outcome, otherwise="crashed")
            return Trial(task.shape, route, "screen", state, outcome.reason, facts=facts)
        result: Screened = outcome.value
        facts |= facts_of(result.verdict, task.shape)
        facts |= {"check_s": round(result.check_s, 4), "time_s": round(result.time_s, 4)}
        trial = Trial(
            shape=task.shape,
            route=route,
            stage="screen",
            state="ok" if result.verdict.ok else "wrong",
            reason=result.verdict.reason,
            samples_us=result.samples_us,
            facts=facts,
        )
        return possible(trial, bound_us(task.shape, task.device, self.regime))

    def _final(self, search: Search, heat: _Heat, outcome: Outcome) -> list[Trial]:
        """Return the samples of a final; if it failed, let each play alone to find who it was."""
        self.ledger.spent("time", "finals", outcome)
        if outcome.state != "done" and len(heat.routes) > 1 and not heat.again:
            for route in heat.routes:
                job = FinalJob(heat.shape, (route,), search.effort.final_rounds)
                self.bench.submit(_Alone(heat.shape, heat, route), job, heat.place)
            return []
        self.heats_left[heat.shape] -= 1
        if outcome.state != "done":
            return [_failed_final(heat.shape, route, outcome) for route in heat.routes]
        finals: Finals = outcome.value
        named = [*zip(heat.routes, finals.routes, strict=True)]
        named += [(FLOOR, finals.floor), (BASELINE, finals.baseline)]
        facts = {"heat": heat.number}
        trials = [
            Trial(heat.shape, route, "final", "ok", samples_us=samples, facts=facts)
            for route, samples in named
        ]
        bound = bound_us(heat.shape, search.task.device, self.regime)
        played = len(heat.routes)  # the floor is below any bound
        return [possible(trial, bound) for trial in trials[:played]] + trials[played:]

    def _played_alone(self, search: Search, key: _Alone, outcome: Outcome) -> list[Trial]:
        """Once all of a heat have played alone, hold it again without those that failed."""
        self.ledger.spent("time", "finals", outcome)
        heat, heard = key.heat, self.alone.setdefault(key.heat, {})
        heard[key.route] = outcome
        if len(heard) < len(heat.routes):
            return []
        sound = tuple(route for route in heat.routes if heard[route].state == "done")
        if sound:
            self._hold(search, sound, heat.place, again=True)
        self.heats_left[heat.shape] -= 1
        failed = {route: end for route, end in heard.items() if route not in sound}
        return [_failed_final(heat.shape, route, end) for route, end in failed.items()]


def _failed_final(shape: Shape, route: Route, outcome: Outcome) -> Trial:
    state = state_of(outcome, otherwise="crashed")
    return Trial(shape, route, "final", state, f"finals: {outcome.reason}")


def held(search: Search) -> bool:
    """Whether the finals of a shape were held in an earlier sweep, with all that would play now."""
    played = {trial.route for trial in search.task.trials if trial.stage == "final"}
    return bool(played) and {route for heat in heats(search) for route in heat} <= played


def possible(trial: Trial, bound: float) -> Trial:
    """Mark a reading that no GPU of this kind can have made: it is never chosen."""
    usual = 2 * len(trial.times_us) > len(trial.samples_us)  # else its clock mostly stood still
    read_us = trial.median_us if usual else 0.0
    if trial.state != "ok" or read_us >= bound:
        return trial
    reason = f"impossible: it reads {read_us:.3f} us, moving its bytes takes {bound:.3f}"
    return replace(trial, state="wrong", reason=reason)
