"""Timing regimes, as data: what the caches hold and how a call is launched. No two may be mixed."""

from dataclasses import dataclass
from typing import Literal, get_args

from mxtune.configs.errors import ConfigError

Caches = Literal["cold", "rotating", "hot"]
Launching = Literal["eager", "graph"]


@dataclass(frozen=True, slots=True)
class Regime:
    """How readings are taken.

    ``cold``: the last-level cache is flushed before each call, as a decode step or a contest sees
    it. ``rotating``: calls go round enough copies of B that each has left the caches when it comes
    again. ``hot``: the same operands every time. ``eager`` launches kernels; ``graph`` replays a
    captured launch.
    """

    caches: Caches = "cold"
    launching: Launching = "eager"

    def __str__(self) -> str:
        return f"{self.caches} {self.launching}"

    @classmethod
    def parse(cls, text: str) -> "Regime":
        """Read ``cold``, ``hot-graph`` or ``rotating eager``."""
        words = text.replace("-", " ").split()
        caches = [word for word in words if word in get_args(Caches)]
        launching = [word for word in words if word in get_args(Launching)]
        known = len(caches) + len(launching) == len(words)
        if not words or not known or len(caches) > 1 or len(launching) > 1:
            raise ConfigError(
                f"{text!r}: not a regime; one of {', '.join(get_args(Caches))}, "
                f"with -eager or -graph, such as cold-eager"
            )
        return cls(*(caches or ["cold"]), *(launching or ["eager"]))  # type: ignore[arg-type]
