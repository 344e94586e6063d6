"""Workers of one kind and the jobs waiting for them."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for
from typing import Any

from mxtune.tuner.worker import Factory, Job, Outcome, Worker

_TICK_S = 0.2  # how often limits are looked at
_FAILED_STARTS = 2  # in a row, after which a place is given up


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that has an outcome."""

    key: Any
    outcome: Outcome


@dataclass(slots=True)
class _Place:
    """Where one worker works: a core, or one GPU. A spare stands ready behind it if wanted."""

    factory: Factory
    worker: Worker | None = None
    spare: Worker | None = None
    failed_starts: int = 0
    given_up: str = ""  # why no worker is started here any more
    jobs: deque[tuple[Any, Job]] = field(default_factory=deque[tuple[Any, Job]])  # only for it

    @property
    def workers(self) -> list[Worker]:
        return [worker for worker in (self.worker, self.spare) if worker]


class Crew:
    """A worker for each of ``factories``. Submit jobs, then wait for what is finished."""

    def __init__(
        self,
        factories: Sequence[Factory],
        *,
        limit_s: float,
        variables: Mapping[str, str],
        sound_after: frozenset[str] | None = None,
        spares: bool = False,
    ) -> None:
        """Start nothing yet: workers start as jobs need them.

        ``sound_after`` names the exceptions after which a worker may go on; None is all of them: a
        fault on a GPU spoils its process for good, whatever exception it came as. With ``spares`` a
        second worker is kept warm behind each, so that a death costs no start-up.
        """
        self._places = [_Place(factory) for factory in factories]
        self._limit_s, self._variables = limit_s, variables
        self._sound_after, self._spares = sound_after, spares
        self._waiting: deque[tuple[Any, Job]] = deque()

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> None:
        """Start every worker now, so that it is ready when its first job comes."""
        for place in self._places:
            place.worker = place.worker or Worker(place.factory, self._variables)

    @property
    def size(self) -> int:
        """Places that are not given up."""
        return sum(not place.given_up for place in self._places)

    @property
    def given_up(self) -> tuple[str, ...]:
        """Why places were given up."""
        return tuple(place.given_up for place in self._places if place.given_up)

    @property
    def pending(self) -> int:
        """Jobs that have no outcome yet."""
        busy = sum(w.key is not None for place in self._places for w in place.workers)
        return len(self._waiting) + busy + sum(len(place.jobs) for place in self._places)

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The children that are alive."""
        return tuple(worker for place in self._places for worker in place.workers)

    def submit(self, key: Any, job: Job, place: int | None = None) -> None:
        """Add a job for whoever is free, or for one place; ``key`` comes back with its outcome."""
        if place is None or self._places[place].given_up:
            self._waiting.append((key, job))
        else:
            self._places[place].jobs.append((key, job))

    def assign(self) -> list[Finished]:
        """Give jobs to idle workers and start workers that are needed; fail what nobody can do."""
        for place in self._places:
            self._serve(place)
        if self.size or not self._waiting:
            return []
        outcome = Outcome("crashed", reason=self.given_up[-1])
        lost = [Finished(key, outcome) for key, _ in self._waiting]
        self._waiting.clear()
        return lost

    def drop_waiting(self) -> list[Any]:
        """Forget the jobs that no worker has begun, and return their keys."""
        keys = [key for place in self._places for key, _ in place.jobs]
        keys += [key for key, _ in self._waiting]
        for place in self._places:
            place.jobs.clear()
        self._waiting.clear()
        return keys

    def read(self, worker: Worker) -> list[Finished]:
        """Take in a worker's message."""
        outcome = worker.receive()
        if outcome is None:
            self._place_of(worker).failed_starts = 0
            return []
        return self._settle(worker, outcome, alive=self._sound(outcome))

    def expire(self) -> list[Finished]:
        """Kill the workers whose time is up."""
        late = [(worker, worker.overdue()) for worker in self.workers]
        return [
            finished
            for worker, outcome in late
            if outcome
            for finished in self._settle(worker, outcome, alive=False)
        ]

    def close(self) -> None:
        """Kill every worker."""
        for worker in self.workers:
            worker.stop()
        for place in self._places:
            place.worker = place.spare = None
            place.jobs.clear()
        self._waiting.clear()

    def _serve(self, place: _Place) -> None:
        queue = place.jobs or self._waiting
        if place.given_up or not (queue or place.worker):
            return
        if place.worker is None:
            starting = sum(not w.ready for w in self.workers)
            if place.jobs or len(self._waiting) > starting:
                place.worker = Worker(place.factory, self._variables)
        elif place.worker.idle and queue:
            place.worker.give(*queue.popleft(), self._limit_s)
        elif self._spares and place.worker.ready and place.spare is None:
            place.spare = Worker(place.factory, self._variables)

    def _sound(self, outcome: Outcome) -> bool:
        if outcome.state == "raised":
            return self._sound_after is None or outcome.error in self._sound_after
        return outcome.state == "done"

    def _settle(self, worker: Worker, outcome: Outcome, *, alive: bool) -> list[Finished]:
        place = self._place_of(worker)
        key, worker.key = worker.key, None
        if not alive:
            self._bury(place, worker, outcome)
        return [] if key is None else [Finished(key, outcome)]

    def _bury(self, place: _Place, worker: Worker, outcome: Outcome) -> None:
        if not worker.ready:
            place.failed_starts += 1 if outcome.state == "crashed" else _FAILED_STARTS
        worker.stop()
        if worker is place.worker:
            place.worker, place.spare = place.spare, None
        else:
            place.spare = None
        if place.failed_starts >= _FAILED_STARTS and place.worker is None:
            place.given_up = outcome.reason
            self._waiting.extendleft(reversed(place.jobs))
            place.jobs.clear()

    def _place_of(self, worker: Worker) -> _Place:
        return next(place for place in self._places if worker in place.workers)


def wait(crews: Sequence[Crew]) -> list[Finished]:
    """Return what finished, waiting a moment if nothing has; every crew gets its next jobs."""
    finished = [lost for crew in crews for lost in crew.assign()]
    by_connection: dict[object, tuple[Crew, Worker]] = {
        worker.connection: (crew, worker) for crew in crews for worker in crew.workers
    }
    listened = [worker.connection for _, worker in by_connection.values()]
    for connection in wait_for(listened, timeout=0 if finished else _TICK_S):
        crew, worker = by_connection[connection]
        finished += crew.read(worker)
    for crew in crews:
        finished += crew.expire()
    return finished
