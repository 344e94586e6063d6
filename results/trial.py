"""What is known of one candidate at one shape, and of the sweep it belongs to."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any, Literal

from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape

Stage = Literal["screen", "final", "check", "emulate"]
State = Literal[
    "ok",
    "wrong",
    "failed_compile",
    "out_of_resources",
    "crashed",
    "hung",
    "oom",
    "skipped",
    "quarantined",
]

LEAST_US = 0.001  # a nanosecond, the last digit of a table: below it a clock read nothing

# What two trials must agree on to be of one sweep; the rest of the provenance is for people.
_IDENTITY = ("arch", "device", "kind", "torch", "triton", "driver", "rule", "regime", "code")


@dataclass(frozen=True, slots=True)
class Session:
    """Trials that can be compared: one GPU, one set of versions, one way of timing."""

    key: str
    provenance: Mapping[str, Any]

    @classmethod
    def of(cls, provenance: Mapping[str, Any]) -> "Session":
        """Name a session by what makes its trials comparable."""
        identity = {name: provenance.get(name) for name in _IDENTITY}
        text = json.dumps(identity, sort_keys=True)
        return cls(hashlib.sha256(text.encode()).hexdigest()[:16], provenance)


@dataclass(frozen=True, slots=True)
class Trial:
    """One stage of one candidate.

    ``screen`` is the first look (a measured screening, or offline a compile and a score), ``final``
    the interleaved measurement of the best few, ``check`` a correctness check of its own, and
    ``emulate`` one of the machine code.
    ``facts`` holds what the stage found: objects, score_us, worst, largest_error.
    """

    shape: Shape
    route: Route
    stage: Stage
    state: State
    reason: str = ""
    samples_us: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def times_us(self) -> tuple[float, ...]:
        """The samples that are times: zero, a negative or an infinite reading is not measured."""
        return tuple(us for us in self.samples_us if LEAST_US <= us < inf)

    @property
    def median_us(self) -> float:
        """The statistic that measured routes are ranked by."""
        return median(self.times_us)


# Readings taken beside the candidates of a shape, kept as trials of no registered family.
BASELINE = Route("torch.mm bf16", Config())  # the library's bf16 GEMM, A and B not quantised
FLOOR = Route("empty event pair", Config())  # what the clock reads around nothing
