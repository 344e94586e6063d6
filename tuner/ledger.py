"""Where the time of a sweep went: compiling, checking, timing, lost to failures, idle."""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from mxtune.tuner.measure import Screened
from mxtune.tuner.worker import Outcome

Account = Literal["compile", "check", "time", "lost"]


@dataclass(slots=True)
class Ledger:
    """Seconds of workers by account and family; all workers of a kind together."""

    begin_s: float = field(default_factory=time.monotonic)
    seconds: dict[tuple[Account, str], float] = field(
        default_factory=lambda: defaultdict[tuple[Account, str], float](float)
    )

    def spent(self, account: Account, family: str, outcome: Outcome) -> None:
        """Enter a job; what a GPU spent on it is lost if it crashed or hung."""
        lost = account != "compile" and outcome.state in ("crashed", "hung")
        self.seconds["lost" if lost else account, family] += outcome.seconds

    def screened(self, family: str, outcome: Outcome) -> None:
        """Enter a first look on a GPU, its check and its timing apart."""
        if outcome.state != "done":
            self.spent("check", family, outcome)
            return
        result: Screened = outcome.value
        self.seconds["check", family] += outcome.seconds - result.time_s
        self.seconds["time", family] += result.time_s

    def totals(self, lanes: int) -> dict[str, float]:
        """Return seconds by account; ``idle`` is what ``lanes`` GPUs had nothing to do for."""
        wall = time.monotonic() - self.begin_s
        by_account: dict[str, float] = {"compile": 0.0, "check": 0.0, "time": 0.0, "lost": 0.0}
        for (account, _), seconds in self.seconds.items():
            by_account[account] += seconds
        busy = by_account["check"] + by_account["time"] + by_account["lost"]
        idle = max(0.0, lanes * wall - busy) if lanes else 0.0
        return {**by_account, "idle": idle, "wall": wall}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the entries as a store keeps them."""
        for (account, family), seconds in sorted(self.seconds.items()):
            yield {"account": account, "family": family, "seconds": round(seconds, 3)}
