"""Workers of one kind and the jobs waiting for them."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for
from typing import Any

from mxtune.tuner.worker import Factory, Job, Outcome, Worker

_TICK_S = 0.2  # how often limits are looked at


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that has an outcome."""

    key: Any
    outcome: Outcome


class Crew:
    """Up to ``size`` workers. Submit jobs, then wait for what is finished; one thread does all."""

    def __init__(
        self,
        factory: Factory,
        *,
        size: int,
        limit_s: float,
        variables: Mapping[str, str],
        sound_after: frozenset[str] | None = None,
    ) -> None:
        """Start nothing yet: workers start as jobs need them.

        ``sound_after`` names the exceptions after which a worker may go on; None is all of them.
        A fault on a GPU spoils its process for good, whatever exception it came as.
        """
        self._factory, self._size, self._limit_s = factory, size, limit_s
        self._variables, self._sound_after = variables, sound_after
        self._waiting: deque[tuple[Any, Job]] = deque()
        self._workers: list[Worker] = []

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def pending(self) -> int:
        """Jobs that have no outcome yet."""
        return len(self._waiting) + sum(worker.key is not None for worker in self._workers)

    def submit(self, key: Any, job: Job) -> None:
        """Add a job; ``key`` comes back with its outcome."""
        self._waiting.append((key, job))

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The children that are alive."""
        return tuple(self._workers)

    def assign(self) -> None:
        """Give waiting jobs to idle workers, starting workers while there are too few."""
        for worker in self._workers:
            if worker.idle and self._waiting:
                worker.give(*self._waiting.popleft(), self._limit_s)
        starting = sum(not worker.ready for worker in self._workers)
        missing = min(self._size - len(self._workers), len(self._waiting) - starting)
        for _ in range(missing):
            self._workers.append(Worker(self._factory, self._variables))

    def read(self, worker: Worker) -> list[Finished]:
        """Take in a worker's message; a dead worker leaves the crew."""
        outcome = worker.receive()
        if outcome is None:
            return []
        return self._settle(worker, outcome, alive=self._sound(outcome))

    def expire(self) -> list[Finished]:
        """Kill the workers whose time is up."""
        late = [(worker, worker.overdue()) for worker in self._workers]
        return [
            finished
            for worker, outcome in late
            if outcome
            for finished in self._settle(worker, outcome, alive=False)
        ]

    def _sound(self, outcome: Outcome) -> bool:
        if outcome.state == "raised":
            return self._sound_after is None or outcome.error in self._sound_after
        return outcome.state == "done"

    def _settle(self, worker: Worker, outcome: Outcome, *, alive: bool) -> list[Finished]:
        key, worker.key = worker.key, None
        if not alive:
            worker.stop()
            self._workers.remove(worker)
            if key is None:  # it died before its first job: the next in line tells the user
                if not self._waiting:
                    return []
                key, _ = self._waiting.popleft()
        return [Finished(key, outcome)]

    def drop_waiting(self) -> None:
        """Forget the jobs that no worker has begun."""
        self._waiting.clear()

    def close(self) -> None:
        """Kill every worker."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()
        self._waiting.clear()


def wait(crews: Sequence[Crew]) -> list[Finished]:
    """Return what finished, waiting a moment if nothing has; every crew gets its next jobs."""
    for crew in crews:
        crew.assign()
    by_connection: dict[object, tuple[Crew, Worker]] = {
        worker.connection: (crew, worker) for crew in crews for worker in crew.workers
    }
    finished: list[Finished] = []
    for connection in wait_for([w.connection for _, w in by_connection.values()], timeout=_TICK_S):
        crew, worker = by_connection[connection]
        finished += crew.read(worker)
    for crew in crews:
        finished += crew.expire()
    return finished
