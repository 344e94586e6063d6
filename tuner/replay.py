"""Run a search over recorded samples, with no GPU: strategies are tested, and regret is a number.

A recording is the store of an exhaustive sweep. A candidate that is asked for gets readings drawn
from its recorded ones, so that another seed is another run of luck; the finals are drawn likewise.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from mxtune.configs.errors import StoreError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.results.export import store_file
from mxtune.results.store import Store
from mxtune.results.trial import BASELINE, FLOOR, Session, Trial
from mxtune.tuner.search import Search, heats
from mxtune.tuner.task import Done

_SCREENED = 10  # readings that a first look draws

Finals = Mapping[tuple[Shape, Route], Trial]


@dataclass(frozen=True, slots=True)
class Recording:
    """The trials of one session, by what was tried."""

    session: Session
    screened: Mapping[tuple[Shape, Route], Trial]
    finals: Finals

    @classmethod
    def load(cls, path: Path) -> "Recording":
        """Read the newest session of a store; raises StoreError if it holds nothing measured."""
        store = Store.open(store_file(path))
        try:
            sessions = store.sessions()
            if not sessions:
                raise StoreError(f"{path}: nothing recorded in it")
            number = max(sessions)
            trials = list(store.trials(number))
        finally:
            store.close()
        finals = {(t.shape, t.route): t for t in trials if t.stage == "final" and t.times_us}
        if not finals:
            raise StoreError(f"{path}: no finals in it; record with --effort exhaustive")
        screened = {(t.shape, t.route): t for t in trials if t.stage == "screen"}
        return cls(sessions[number], screened, finals)

    def regret(self, shape: Shape, route: Route) -> float:
        """Return how much slower ``route`` is recorded than the best of its shape; 1 is as fast."""
        rivals = [
            median(trial.times_us)
            for (at, rival), trial in self.finals.items()
            if at == shape and rival not in (BASELINE, FLOOR)
        ]
        return median(self.finals[shape, route].times_us) / min(rivals)


def sweep_replayed(
    searches: Sequence[Search], recording: Recording, seed: int
) -> Iterator[Trial | Done]:
    """Yield what each search asks for as the recording has it."""
    for search in searches:
        draw = random.Random(f"{seed} {search.task.shape}")
        while batch := search.ask():
            for route in batch:
                trial = _screen(search.task.shape, route, recording, draw)
                search.task.trials.append(trial)
                yield trial
        for number, heat in enumerate(heats(search)):
            for route in (*heat, FLOOR, BASELINE):
                key = (search.task.shape, route)
                if key in recording.finals:
                    trial = _final(recording.finals[key], number, search.effort.final_rounds, draw)
                    search.task.trials.append(trial)
                    yield trial
        yield Done(search.task.shape)


def _screen(shape: Shape, route: Route, recording: Recording, draw: random.Random) -> Trial:
    known = recording.screened.get((shape, route))
    if known is None:
        return Trial(shape, route, "screen", "skipped", "not in the recording")
    final = recording.finals.get((shape, route))
    samples = final.times_us if final else known.samples_us
    return replace(known, samples_us=tuple(draw.choices(samples, k=_SCREENED)) if samples else ())


def _final(known: Trial, heat: int, rounds: int, draw: random.Random) -> Trial:
    samples = tuple(draw.choices(known.times_us, k=rounds))
    return replace(known, samples_us=samples, facts={"heat": heat})
