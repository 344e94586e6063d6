"""A worker: whatever its child does is an outcome. Jobs are Python text that the child runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

import psutil
import pytest

from mxtune.tuner.worker import Factory, Outcome, Worker

EVALUATE: Factory = partial(partial, eval)
EXECUTE: Factory = partial(partial, exec)
HANG = "import time; time.sleep(600)"


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(EXECUTE, {})
    yield made
    made.stop()


def answer(worker: Worker, job: str, limit_s: float = 30) -> Outcome:
    """Hand over a job as soon as the worker is ready, and wait for what becomes of it."""
    if not worker.ready:
        assert worker.receive() is None
    worker.give("key", job, limit_s)
    while not wait([worker.connection], timeout=0.05):
        overdue = worker.overdue()
        if overdue:
            return overdue
    outcome = worker.receive()
    assert outcome is not None
    worker.key = None
    return outcome


def evaluated(job: str, **variables: str) -> Outcome:
    worker = Worker(EVALUATE, variables)
    try:
        return answer(worker, job)
    finally:
        worker.stop()


def alive(pid: int) -> bool:
    return bool(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def test_a_job_is_answered_with_its_value() -> None:
    outcome = evaluated("[6 * 7, 'words']")
    assert (outcome.state, outcome.value) == ("done", [42, "words"])
    assert 0 < outcome.seconds < 30


def test_the_variables_are_set_in_the_child_only() -> None:
    assert evaluated("__import__('os').environ['MXTUNE_TEST']", MXTUNE_TEST="7").value == "7"
    assert "MXTUNE_TEST" not in os.environ


def test_an_exception_is_told_by_type_and_message_and_the_worker_goes_on(worker: Worker) -> None:
    outcome = answer(worker, "raise KeyError('no\\nsuch   key')")
    assert (outcome.state, outcome.error) == ("raised", "KeyError")
    assert outcome.reason == r"KeyError: 'no\nsuch key'"
    assert answer(worker, "pass").state == "done"


def test_a_message_is_put_on_one_line_of_300_characters(worker: Worker) -> None:
    outcome = answer(worker, "raise ValueError('first\\n  second\\n' + 500 * 'x')")
    assert outcome.reason == "ValueError: first second " + 287 * "x"


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("import os; os.abort()", "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import os; os._exit(0)", "exit status 0"),  # no error code, and yet no success
        ("import sys; sys.exit(3)", "exit status 3"),
    ],
)
def test_a_child_that_dies_has_crashed(worker: Worker, job: str, reason: str) -> None:
    outcome = answer(worker, job)
    assert (outcome.state, outcome.reason) == ("crashed", reason)
    assert not alive(worker.process.pid or 0)


def test_the_last_words_of_a_job_explain_its_crash(worker: Worker) -> None:
    assert answer(worker, "import os; os.write(1, b'of another job')").state == "done"
    outcome = answer(worker, "import os; os.write(2, b'LLVM ERROR: no\\n\\n'); os.abort()")
    assert outcome.reason == "SIGABRT: LLVM ERROR: no"


def test_a_crash_does_not_repeat_what_an_earlier_job_said(worker: Worker) -> None:
    answer(worker, "import os; os.write(2, b'a warning')")
    assert answer(worker, "import os; os.abort()").reason == "SIGABRT"


def test_a_value_that_cannot_be_sent_is_a_crash_that_says_so() -> None:
    outcome = evaluated("lambda: 0")
    assert outcome.state == "crashed"
    assert outcome.reason.startswith("exit status 1: ")
    assert "pickle" in outcome.reason


HALF_A_MESSAGE = """
import gc, os
from multiprocessing.connection import Connection
(ours,) = [thing for thing in gc.get_objects() if isinstance(thing, Connection)]
os.write(ours.fileno(), b"\\0\\0\\x10\\0half")
os._exit(7)
"""


def test_a_child_that_dies_while_it_answers_has_crashed(worker: Worker) -> None:
    outcome = answer(worker, HALF_A_MESSAGE)
    assert (outcome.state, outcome.reason) == ("crashed", "exit status 7")


def test_a_child_that_hangs_up_and_goes_on_is_ended(worker: Worker) -> None:
    outcome = answer(worker, "import os; os.closerange(3, 256); " + HANG)
    assert (outcome.state, outcome.reason) == ("crashed", "SIGKILL")
    assert 5 <= outcome.seconds < 7


def test_a_hang_ends_within_its_limit_and_leaves_nothing(worker: Worker, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    job = f"import os; os.system('sleep 600 & echo $! > {note}'); "
    outcome = answer(worker, job + HANG, limit_s=1)
    assert (outcome.state, outcome.reason) == ("hung", "no answer within 1 s")
    assert 1 <= outcome.seconds < 3
    begin = time.monotonic()
    worker.stop()
    assert time.monotonic() - begin < 2
    assert not alive(worker.process.pid or 0)
    wait_for_end(int(note.read_text("utf-8")))  # what the job had started as well
    assert not worker.log.exists()


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 2
    while alive(pid):
        assert time.monotonic() < deadline, f"{psutil.Process(pid)} lives on"
        time.sleep(0.02)


def test_a_worker_that_died_idle_is_told_at_the_next_job(worker: Worker) -> None:
    assert answer(worker, "pass").state == "done"
    worker.process.kill()
    worker.process.join()
    outcome = answer(worker, "pass")
    assert (outcome.state, outcome.reason) == ("crashed", "SIGKILL")


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (
            partial(getattr, None, "service"),
            "exit status 1: AttributeError: 'NoneType' object has no attribute 'service'",
        ),
        (partial(os._exit, 7), "exit status 7"),
    ],
)
def test_a_service_that_cannot_be_made_is_a_crash(factory: Factory, reason: str) -> None:
    worker = Worker(factory, {})
    outcome = worker.receive()
    worker.stop()
    assert outcome is not None
    assert (outcome.state, outcome.reason) == ("crashed", reason)


def test_what_a_child_prints_never_reaches_our_output(
    worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    loud = "import os, sys; print('loud', flush=True); print('loud', file=sys.stderr); "
    answer(worker, loud + "os.system('echo loud; echo loud >&2')")
    answer(worker, loud + "os.abort()")
    assert capfd.readouterr() == ("", "")


def test_a_log_has_no_name_once_its_worker_is_ready(worker: Worker) -> None:
    assert worker.receive() is None
    assert not worker.log.exists()  # so that nothing is left if this process is killed


def test_workers_leave_no_descriptor_behind() -> None:
    evaluated("1")  # the first one starts a process that multiprocessing keeps
    before = psutil.Process().num_fds()
    for _ in range(3):
        evaluated("__import__('os').abort()")
    assert psutil.Process().num_fds() == before


PARENT = f"""
import time
from functools import partial
from mxtune.tuner.worker import Worker
busy, idle, starting = (Worker(partial(partial, exec), {{}}) for _ in range(3))
assert busy.receive() is None and idle.receive() is None
busy.give("key", {HANG!r}, 600)
print(*(worker.process.pid for worker in (busy, idle, starting)), flush=True)
{HANG}
"""


def test_workers_die_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [alive(pid) for pid in pids] == [True, True, True]
        parent.kill()
    for pid in pids:
        wait_for_end(pid)


GROUP = """
import os, signal
from functools import partial
from mxtune.tuner.worker import Worker
signal.signal(signal.SIGINT, lambda *_: None)  # a parent that decides to go on
old = Worker(partial(partial, eval), {})
assert old.receive() is None
new = Worker(partial(partial, eval), {})  # it has not begun to run Python yet
os.killpg(0, signal.SIGINT)
assert new.receive() is None
for worker in (old, new):
    os.killpg(0, signal.SIGINT)
    worker.give("key", "6 * 7", 30)
    print(worker.receive().value)
    worker.stop()
"""


def test_ctrl_c_does_not_reach_the_children() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", GROUP],
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n42\n", "")


def test_an_idle_worker_whose_heart_stops_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxtune.tuner.worker.SILENT_S", 2.0)
    one = Worker(EVALUATE, {})
    try:
        assert one.receive() is None
        time.sleep(3.5)
        assert one.overdue() is None
        os.kill(one.process.pid or 0, signal.SIGSTOP)
        time.sleep(3.5)
        silent = one.overdue()
        assert silent is not None
        assert (silent.state, silent.reason) == ("hung", "no heartbeat for 2 s")
    finally:
        one.stop()
