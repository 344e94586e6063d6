"""Run a search over recorded samples, with no GPU: strategies are tested, and regret is a number.

A recording is the store of an exhaustive sweep. A candidate that is asked for gets readings drawn
from its recorded ones, so that another seed is another run of luck; the finals are drawn likewise.
"""

import hashlib
import lzma
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from mxtune.configs.errors import StoreError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import checked_route, families
from mxtune.results.export import store_file
from mxtune.results.finals import heat_of
from mxtune.results.store import Store
from mxtune.results.trial import BASELINE, FLOOR, Session, Trial
from mxtune.tuner.provenance import code_hash
from mxtune.tuner.request import Request
from mxtune.tuner.search import Search, decider, heats
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
        """Read the newest session of a store, which may be packed with xz.

        Raises StoreError if it holds nothing measured.
        """
        with tempfile.TemporaryDirectory() as folder:
            session, kept = _newest(_unpacked(store_file(path), Path(folder)))
        trials = [trial for trial in map(_of_today, kept) if trial]
        finals = _levelled([t for t in trials if t.stage == "final" and t.times_us])
        if not finals:
            raise StoreError(f"{path}: no finals in it; record with --effort exhaustive")
        screened = {(t.shape, t.route): t for t in trials if t.stage == "screen"}
        return cls(session, screened, finals)

    def routes(self, shape: Shape) -> frozenset[Route]:
        """Return the routes of a shape that were looked at."""
        return frozenset(route for at, route in self.screened if at == shape)

    def regret(self, shape: Shape, route: Route) -> float:
        """Return how much slower ``route`` is recorded than the best of its shape; 1 is as fast."""
        rivals = [
            median(trial.times_us)
            for (at, rival), trial in self.finals.items()
            if at == shape and rival not in (BASELINE, FLOOR)
        ]
        return median(self.finals[shape, route].times_us) / min(rivals)


def _of_today(trial: Trial) -> Trial | None:
    """Return a trial with its route as it is written now, later settings at their defaults.

    None for a family that is no more.
    """
    if trial.route in (BASELINE, FLOOR):
        return trial
    if trial.route.family not in families():
        return None
    return replace(trial, route=checked_route(trial.route))


def _unpacked(path: Path, folder: Path) -> Path:
    """Return ``path``, or what is packed in it, unpacked into ``folder``."""
    if path.suffix != ".xz":
        return path
    plain = folder / "recording.sqlite"
    try:
        with lzma.open(path) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise StoreError(f"{path}: cannot be unpacked ({error})") from error
    return plain


def _newest(path: Path) -> tuple[Session, list[Trial]]:
    store = Store.open(path)
    try:
        sessions = store.sessions()
        if not sessions:
            raise StoreError(f"{path}: nothing recorded in it")
        number = max(sessions)
        return sessions[number], list(store.trials(number))
    finally:
        store.close()


def _levelled(finals: Sequence[Trial]) -> dict[tuple[Shape, Route], Trial]:
    """Bring the heats of each shape to one level, that of the heat that all leaders played in last.

    The route that played in most heats stands for the state of the GPU in each. Of a route that
    played several times the last is kept: it was held between the best.
    """
    kept: dict[tuple[Shape, Route], Trial] = {}
    for shape in {trial.shape for trial in finals}:
        ours = [t for t in finals if t.shape == shape]
        races = [t for t in ours if t.route not in (BASELINE, FLOOR)]
        leader = Counter(t.route for t in races).most_common(1)[0][0]
        level = {heat_of(t): t.median_us for t in races if t.route == leader}
        last = level[max(level)]
        for trial in sorted(ours, key=heat_of):
            by = last / level.get(heat_of(trial), last)
            samples = tuple(us * by for us in trial.times_us)
            kept[shape, trial.route] = replace(trial, samples_us=samples)
    return kept


def session_of_replay(recording: Recording, request: Request) -> Session:
    """Name the session of a replay: another one for all that it may come out differently by."""
    asked = replace(request, shapes=(), out=Path())
    finals = sorted(map(str, recording.finals.values()))
    played = (recording.session.key, finals, code_hash(), asked)
    key = hashlib.sha256(str(played).encode()).hexdigest()[:16]
    return Session(key, {**recording.session.provenance, "replay_seed": request.seed})


def sweep_replayed(
    searches: Sequence[Search], recording: Recording, seed: int, known: Iterable[Trial] = ()
) -> Iterator[Trial | Done]:
    """Yield what each search asks for as the recording has it.

    A replay that was cut short is gone through again from its beginning, which takes no time, so
    that the search takes the same turns. What is ``known`` of it is not yielded a second time.
    """
    earlier = {_place(trial): trial for trial in known}
    for search in searches:
        for trial in _played(search, recording, seed):
            before = earlier.get(_place(trial))
            search.task.trials.append(before or trial)
            if before is None:
                yield trial
        yield Done(search.task.shape)


def _place(trial: Trial) -> tuple[Shape, Route, str, int]:
    """Return what a replay tries only once: a leader plays in several heats."""
    return trial.shape, trial.route, trial.stage, trial.facts.get("heat", 0)


def _played(search: Search, recording: Recording, seed: int) -> Iterator[Trial]:
    """Yield the trials of one search; each is in ``search.task`` before the next is asked for."""
    shape = search.task.shape
    draw = random.Random(f"{seed} {shape}")
    while batch := search.ask():
        yield from (_screen(shape, route, recording, draw) for route in batch)
    groups = heats(search)
    for number, heat in enumerate(groups):
        yield from _heat(search, recording, number, heat, draw)
    yield from _heat(search, recording, len(groups), decider(search), draw)


def _heat(
    search: Search,
    recording: Recording,
    number: int,
    routes: Sequence[Route],
    draw: random.Random,
) -> Iterator[Trial]:
    """Yield the readings of a final, its floor and baseline among them; nothing if nobody plays."""
    shape = search.task.shape
    for route in (*routes, FLOOR, BASELINE) if routes else ():
        if (shape, route) in recording.finals:
            final = recording.finals[shape, route]
            yield _final(final, number, search.effort.final_rounds, draw)


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
