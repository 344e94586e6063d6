"""A child process that does one job at a time and may be killed at any moment.

A candidate kernel may crash its process, hang it or spoil its GPU context. So candidates run in
children only, and whatever a child does becomes an Outcome in the parent.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from mxtune.configs.settings import apply

Job = Any  # picklable, understood by the service
Service = Callable[[Job], Any]
Factory = Callable[[], Service]  # picklable: a function at the top of a module

SILENT_S = 20.0  # an idle worker without a heartbeat for so long is replaced
_BEAT_S = 1.0
START_LIMIT_S = 180.0  # importing torch and opening a GPU on a busy machine
_DYING_S = 5.0  # writing a core file takes a while; one that only hung up is killed then
_LAST_BYTES = 4096  # of a child's output: its last line is in there
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job."""

    state: Literal["done", "raised", "crashed", "hung"]
    value: Any = None  # what the service returned, if done
    error: str = ""  # the exception's type, if raised
    reason: str = ""
    seconds: float = 0.0


class Worker:
    """One child and the job it has, if any."""

    def __init__(self, factory: Factory, variables: Mapping[str, str]) -> None:
        """Start the child; it is ready once its first message arrives."""
        descriptor, log = tempfile.mkstemp(prefix="mxtune-worker-", suffix=".log")
        self._said = os.fdopen(descriptor, "rb")
        self.log = Path(log)  # until the child has opened it: nothing is left if we are killed
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._beat = context.Value("d", time.monotonic(), lock=False)
        self.process = context.Process(
            target=_serve,
            args=(theirs, self._beat, factory, dict(variables), log, os.getpid()),
            daemon=True,
        )
        with _interrupts_held_back():
            self.process.start()
        theirs.close()
        self.ready = False
        self.key: Any = None
        self.deadline = time.monotonic() + START_LIMIT_S
        self._started = self._heard = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether it waits for a job."""
        return self.ready and self.key is None

    def give(self, key: Any, job: Job, limit_s: float) -> None:
        """Hand over a job; it must be answered within ``limit_s`` seconds."""
        self.key = key
        self._started = time.monotonic()
        self.deadline = self._started + limit_s
        with suppress(BrokenPipeError, ConnectionResetError):  # it died idle: receive tells
            self.connection.send(job)

    def receive(self) -> Outcome | None:
        """Read the child's message: None if it only said that it is ready."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):  # the latter if it died in the middle of a message
            self._see_it_die()
            return self._ended("crashed", self._how_it_died())
        if message == "ready":
            self.ready = True
            self._heard = time.monotonic()
            return None
        self._heard = time.monotonic()
        state, value, error, reason = message
        return Outcome(state, value, error, reason, self._seconds())

    def overdue(self) -> Outcome | None:
        """Return what to record if its time is up, or its heart stopped while it was idle."""
        now = time.monotonic()
        if self.idle and now - max(self._heard, self._beat.value) > SILENT_S:
            return self._ended("hung", f"no heartbeat for {SILENT_S:.0f} s")
        if self.idle or now < self.deadline:
            return None
        return self._ended("hung", f"no answer within {self.deadline - self._started:.0f} s")

    def stop(self) -> None:
        """Kill the child, whatever it is doing, and what it has started."""
        if self.process.pid:
            # there is no such group if it is dead or has not made it yet
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.connection.close()
        self._said.close()
        self.log.unlink(missing_ok=True)

    def _ended(self, state: Literal["crashed", "hung"], reason: str) -> Outcome:
        return Outcome(state, reason=reason, seconds=self._seconds())

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _see_it_die(self) -> None:
        """Wait for its end; join with a timeout would wait for ever if it closed all its files."""
        deadline = time.monotonic() + _DYING_S
        while self.process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.process.kill()
        self.process.join()

    def _how_it_died(self) -> str:
        code = self.process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_BYTES))
        text = self._said.read().decode("utf-8", "replace")
        last = [line for line in text.splitlines() if line.strip()]
        return f"{how}: {last[-1].strip()[:200]}" if last else how


@contextmanager
def _interrupts_held_back() -> Generator[None, None, None]:
    """Start a child that Ctrl-C does not reach, not even before it ignores that itself."""
    resource_tracker.ensure_running()  # start() would do it, and let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    connection: Connection,
    beat: Any,
    factory: Factory,
    variables: dict[str, str],
    log: str,
    parent: int,
) -> None:
    """Run in the child: answer jobs until the parent hangs up."""
    _die_with(parent)
    os.setpgrp()  # a compiler that it starts is killed with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    Path(log).unlink()
    os.dup2(descriptor, 1)  # compilers and drivers print; their last words explain a crash
    os.dup2(descriptor, 2)
    apply(variables)
    service = factory()
    connection.send("ready")
    while True:
        try:
            while not connection.poll(_BEAT_S):
                beat.value = time.monotonic()  # one clock for all processes of a machine
            job = connection.recv()
        except EOFError:
            return
        os.ftruncate(descriptor, 0)  # the last words are to be those of this job
        connection.send(_answer(service, job))


def _answer(service: Service, job: Job) -> tuple[str, Any, str, str]:
    try:
        return "done", service(job), "", ""
    except Exception as error:  # noqa: BLE001  a candidate may fail in any way
        reason = " ".join(str(error).split())[:300]
        return "raised", None, type(error).__name__, f"{type(error).__name__}: {reason}"


def _die_with(parent: int) -> None:
    """End this process when its parent ends, however that happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
