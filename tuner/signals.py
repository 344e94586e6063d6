"""What Ctrl-C and SIGTERM do: the first ends a command in order, the second ends it at once."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

_STOPPING = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """Somebody wants the command to end. No Exception: nothing but the command line catches it."""

    def __init__(self, number: int) -> None:
        """Take the number of the signal."""
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number  # as a shell reports it


@contextmanager
def stoppable() -> Generator[None, None, None]:
    """Raise Stopped at the first signal to end; a second one does not wait for what that unwinds.

    Children need no word: they die with this process. What the caller ignores, as nohup does, stays
    ignored. After a first signal nothing is put back: the process is ending.
    """
    before = {number: signal.getsignal(number) for number in _STOPPING}
    heard = [number for number in _STOPPING if before[number] != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in heard:
            if signal.getsignal(number) is _stop:
                signal.signal(number, before[number])


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in _STOPPING:
        if signal.getsignal(each) is _stop:
            signal.signal(each, _end_at_once)
    raise Stopped(number)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")  # a progress bar hides the cursor
    os._exit(128 + number)
