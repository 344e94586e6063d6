"""What a sweep is asked to do, and on what it will do it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mxtune.configs.devices import bare_arch, load_device
from mxtune.configs.errors import ConfigError, MissingError
from mxtune.configs.regimes import Regime
from mxtune.configs.shapes import Shape
from mxtune.tuner.lanes import Lane
from mxtune.tuner.machine import Machine
from mxtune.tuner.search import Effort

OFFLINE_TARGET = "gfx950"  # what is swept for where there is no GPU


@dataclass(frozen=True, slots=True)
class Request:
    """What to sweep, for what, how hard, and where to write."""

    shapes: tuple[Shape, ...]
    families: tuple[str, ...]  # none: all
    most: int | None  # candidates of each shape; None: as the effort says
    target: str  # auto, or an architecture
    out: Path
    effort: Effort
    regime: Regime
    gpus: str  # all, or numbers with commas
    budget_s: float | None = None
    retry_quarantined: bool = False
    calls: Mapping[Shape, int] = field(default_factory=dict[Shape, int])  # by a server, if known
    recording: Path | None = None  # replay this store instead of measuring
    seed: int = 0  # of a replay


def lanes_of(request: Request, machine: Machine) -> tuple[Lane, ...]:
    """Return the GPUs to measure on; none means offline.

    ``auto`` is the architecture of the first GPU that is here; a named target is measured if there
    are GPUs of that architecture. Raises ConfigError for a GPU that is not there.
    """
    usable = machine.gpus if not machine.note else ()
    wanted = usable[0].arch if request.target == "auto" and usable else bare_arch(request.target)
    fitting = [at for at, device in enumerate(usable) if device.arch == wanted]
    numbers = _numbers(request.gpus)
    if not fitting:
        if request.target == "auto" and machine.torch is None:
            raise MissingError(
                "torch is not installed; a sweep needs it: pip install 'mxtune[cpu]'"
            )
        load_device(OFFLINE_TARGET if request.target == "auto" else request.target)  # or refuse it
        return ()
    absent = [at for at in numbers or fitting if at not in fitting]
    if absent:
        raise ConfigError(
            f"--gpus {request.gpus}: GPU {absent[0]} cannot be swept on; these can: {fitting}"
        )
    return tuple(Lane(usable[at], f"cuda:{at}") for at in numbers or fitting)


def _numbers(gpus: str) -> list[int]:
    """Read ``0,2``; none stands for ``all``."""
    if gpus.strip().lower() == "all":
        return []
    words = [word.strip() for word in gpus.split(",")]
    if not all(word.isdecimal() and word.isascii() for word in words):
        raise ConfigError(f"--gpus {gpus}: expected all, or numbers with commas such as 0,2")
    return list(dict.fromkeys(int(word) for word in words))


_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(text: str) -> float:
    """Read a duration such as ``90s``, ``10m`` or ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if not match or not float(match.group(1)):
        raise ConfigError(f"{text!r}: not a duration; write it as 90s, 10m or 2h")
    return float(match.group(1)) * _UNITS[match.group(2)]


def replayed(backend: str, recording: Path | None) -> Path | None:
    """Return the recording to replay, if that is asked for."""
    if (backend == "replay") != (recording is not None):
        raise ConfigError("a replay takes both --backend replay and --from STORE")
    return recording
