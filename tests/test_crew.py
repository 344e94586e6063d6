"""A crew: every job has one outcome, whatever befell the worker. Jobs are Python text."""

import time
from functools import partial

import psutil

from mxtune.tuner.crew import Crew, Finished, wait
from mxtune.tuner.worker import Factory

EVALUATE: Factory = partial(partial, eval)
PID = "__import__('os').getpid()"
ABORT = "__import__('os').abort()"
HANG = "__import__('time').sleep(600)"


def crew(
    factory: Factory = EVALUATE,
    size: int = 1,
    limit_s: float = 30,
    sound_after: frozenset[str] | None = None,
) -> Crew:
    return Crew([factory] * size, limit_s=limit_s, variables={}, sound_after=sound_after)


def finish(*crews: Crew) -> list[Finished]:
    """Wait until every job has an outcome, for at most a minute."""
    deadline = time.monotonic() + 60
    finished: list[Finished] = []
    while any(crew.pending for crew in crews):
        assert time.monotonic() < deadline
        finished += wait(crews)
    return finished


def outcomes(finished: list[Finished]) -> list[tuple[object, str, object]]:
    return [(f.key, f.outcome.state, f.outcome.value or f.outcome.reason) for f in finished]


def submit(crew: Crew, *jobs: str) -> None:
    for job in jobs:
        crew.submit(job, job)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_one_worker_answers_jobs_in_the_order_they_came() -> None:
    with crew() as one:
        submit(one, "1 + 1", "2 + 2", "3 + 3")
        assert outcomes(finish(one)) == [
            ("1 + 1", "done", 2),
            ("2 + 2", "done", 4),
            ("3 + 3", "done", 6),
        ]
        assert len(one.workers) == 1


def test_jobs_are_shared_out_over_several_workers() -> None:
    nap = f"(__import__('time').sleep(0.4), {PID})[1]"
    with crew(size=2) as two:
        for key in range(8):
            two.submit(key, nap)
        finished = finish(two)
        pids = {worker.process.pid for worker in two.workers}
    assert sorted(f.key for f in finished) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(pids) == 2
    assert {f.outcome.value for f in finished} == pids


def test_no_more_workers_start_than_there_are_jobs() -> None:
    with crew(size=8) as large:
        assert large.workers == ()
        submit(large, "1")
        assert len(finish(large)) == 1
        assert len(large.workers) == 1


def test_after_a_crash_the_next_job_runs_in_a_fresh_worker() -> None:
    with crew() as one:
        submit(one, ABORT, PID)
        one.assign()
        first = one.workers[0].process.pid
        crash, after = finish(one)
        assert (crash.key, crash.outcome.state, crash.outcome.reason) == (
            ABORT,
            "crashed",
            "SIGABRT",
        )
        assert after.outcome.value == one.workers[0].process.pid
        assert after.outcome.value != first


def test_a_hang_costs_its_own_job_only() -> None:
    with crew(limit_s=1) as one:
        submit(one, HANG, "1 + 1")
        assert outcomes(finish(one)) == [
            (HANG, "hung", "no answer within 1 s"),
            ("1 + 1", "done", 2),
        ]
        assert [worker.key for worker in one.workers] == [None]


def test_every_job_is_accounted_for_if_no_worker_can_start() -> None:
    with crew(partial(getattr, None, "service")) as one:
        submit(one, "first", "second")
        reason = "exit status 1: AttributeError: 'NoneType' object has no attribute 'service'"
        assert outcomes(finish(one)) == [
            ("first", "crashed", reason),
            ("second", "crashed", reason),
        ]
        assert one.workers == ()


def test_a_worker_goes_on_only_after_the_exceptions_that_leave_it_sound() -> None:
    with crew(sound_after=frozenset({"ZeroDivisionError"})) as one:
        submit(one, PID, "1 / 0", f"{PID} ", "int('x')", f"{PID}  ")
        first, sound, second, unsound, third = (f.outcome for f in finish(one))
        assert (sound.error, sound.reason) == (
            "ZeroDivisionError",
            "ZeroDivisionError: division by zero",
        )
        assert unsound.error == "ValueError"
    assert first.value == second.value
    assert third.value != second.value


def test_two_crews_are_served_by_one_wait() -> None:
    with crew() as left, crew() as right:
        left.submit("left", "1")
        right.submit("right", "2")
        assert sorted(outcomes(finish(left, right))) == [("left", "done", 1), ("right", "done", 2)]


def test_waiting_jobs_can_be_dropped_and_the_begun_one_ends() -> None:
    with crew() as one:
        submit(one, "__import__('time').sleep(0.5)", "2")
        while not any(worker.key for worker in one.workers):
            assert wait([one]) == []
        one.drop_waiting()
        assert one.pending == 1
        assert [f.key for f in finish(one)] == ["__import__('time').sleep(0.5)"]


def test_leaving_a_crew_ends_its_workers_whatever_they_do() -> None:
    with crew() as warm:  # starts the process that multiprocessing keeps
        submit(warm, "1")
        finish(warm)
    before = children()
    with crew(size=3) as three:
        submit(three, HANG, HANG, HANG)
        while sum(worker.key is not None for worker in three.workers) < 1:
            assert wait([three]) == []
        assert len(children() - before) == 3  # one is busy at least, others may be starting
        logs = [worker.log for worker in three.workers]
    assert children() == before
    assert [log.exists() for log in logs] == [False, False, False]
    assert three.pending == 0
