"""The one place that reads environment variables, and what each of them means."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What hides GPUs from a process, in the order in which they filter; AMD's runtime obeys all three.
VISIBILITY = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for."""

    triton_cache: Path  # TRITON_CACHE_DIR, or ~/.triton/cache, or a temporary folder
    triton_cache_note: str  # why the cache is elsewhere, if it is
    visibility: Mapping[str, str]  # the variables of VISIBILITY that are set


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the environment of this process, or the one given."""
    env = os.environ if environment is None else environment
    cache, note = _triton_cache(env)
    return Settings(cache, note, {name: env[name] for name in VISIBILITY if name in env})


def _triton_cache(env: Mapping[str, str]) -> tuple[Path, str]:
    """Choose a folder that can be written: Triton itself only knows the first two and fails."""
    asked = env.get("TRITON_CACHE_DIR")
    home = env.get("HOME")
    wanted = Path(asked) if asked else Path(home or "/nonexistent") / ".triton" / "cache"
    obstacle = _obstacle(wanted)
    if not obstacle:
        return wanted, ""
    spare = Path(tempfile.gettempdir()) / f"mxtune-triton-{os.getuid()}"
    return spare, f"{wanted} cannot be written ({obstacle}); set TRITON_CACHE_DIR"


def _obstacle(folder: Path) -> str | None:
    """Say why files cannot be made in ``folder``, or None. Makes the folder if it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def for_child(settings: Settings, *, interpret: bool) -> dict[str, str]:
    """Return the variables a worker sets before it imports Triton."""
    return {
        "TRITON_CACHE_DIR": str(settings.triton_cache),
        "TRITON_INTERPRET": "1" if interpret else "0",
    }


def apply(variables: Mapping[str, str]) -> None:
    """Set ``variables`` in this process: only a worker does, before it imports anything heavy."""
    os.environ.update(variables)
