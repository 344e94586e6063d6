"""The one place that reads environment variables, and what each of them means."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.errors import ConfigError

# What hides GPUs from a process, in the order in which they filter; AMD's runtime obeys all three.
VISIBILITY = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")

OBSERVABLE = ("ranges", "timings")  # what MXTUNE_OBSERVE can ask a dispatcher for


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for."""

    triton_cache: Path  # TRITON_CACHE_DIR, where Triton looks by itself, or a temporary folder
    triton_cache_note: str  # why the cache is elsewhere, if it is
    visibility: Mapping[str, str]  # the variables of VISIBILITY that are set


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the environment of this process, or the one given.

    Raises ConfigError if no folder can be found for Triton's cache.
    """
    env = os.environ if environment is None else environment
    cache, note = _triton_cache(env)
    return Settings(cache, note, {name: env[name] for name in VISIBILITY if name in env})


def read_observed(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return what MXTUNE_OBSERVE asks for: words of OBSERVABLE between commas.

    Raises ConfigError for any other word.
    """
    env = os.environ if environment is None else environment
    cells = (cell.strip() for cell in env.get("MXTUNE_OBSERVE", "").split(","))
    words = frozenset(filter(None, cells))
    if unknown := sorted(words.difference(OBSERVABLE)):
        known = " and ".join(OBSERVABLE)
        raise ConfigError(f"MXTUNE_OBSERVE: {unknown[0]!r} is unknown; it takes {known}")
    return words


def read_record(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the file of MXTUNE_RECORD, to which misses are added as a process ends."""
    env = os.environ if environment is None else environment
    wanted = env.get("MXTUNE_RECORD", "").strip()
    return Path(wanted) if wanted else None


def _triton_cache(env: Mapping[str, str]) -> tuple[Path, str]:
    """Choose a folder that can be written: Triton itself takes what is asked for, and fails."""
    wanted, obstacle = _wanted(env)
    obstacle = obstacle or _obstacle(wanted)
    if not obstacle:
        return wanted, ""
    note = f"{wanted} cannot be written ({obstacle}); set TRITON_CACHE_DIR"
    return _spare(note), note


def _wanted(env: Mapping[str, str]) -> tuple[Path, str]:
    """Return where Triton's cache would be, and why not, if that is plain already."""
    if asked := env.get("TRITON_CACHE_DIR"):
        return Path(asked).absolute(), ""
    name = "TRITON_HOME" if env.get("TRITON_HOME") else "HOME"
    if not (home := env.get(name)):
        return Path("~/.triton/cache"), "HOME is not set"
    obstacle = "" if Path(home).is_dir() else f"{name}={home} is not a folder"
    return Path(home).absolute() / ".triton" / "cache", obstacle  # nobody asked for a new home


def _spare(note: str) -> Path:
    """Make this user's own cache in the temporary folder; ``note`` says why it is needed.

    Triton loads compiled code from there: a folder that another user made is refused.
    """
    try:
        spare = Path(tempfile.gettempdir()) / f"mxtune-triton-{os.getuid()}"
    except FileNotFoundError as error:
        raise ConfigError(f"{note}, or TMPDIR to a folder with room: {error.strerror}") from error
    obstacle = _obstacle(spare, mode=0o700)
    if not obstacle and spare.lstat().st_uid != os.getuid():
        obstacle = "another user owns it"
    if obstacle:
        raise ConfigError(f"{note}; nor can {spare} ({obstacle})")
    return spare


def _obstacle(folder: Path, *, mode: int = 0o777) -> str:
    """Say why files cannot be written in ``folder``, if so. Makes the folder if it can."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"room")  # a full disk still takes empty files
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def for_child(settings: Settings, *, interpret: bool) -> dict[str, str]:
    """Return the variables a worker sets before it imports Triton."""
    return {
        "TRITON_CACHE_DIR": str(settings.triton_cache),
        "TRITON_INTERPRET": "1" if interpret else "0",
    }


def for_program(settings: Settings, folders: Iterable[Path]) -> dict[str, str]:
    """Return the environment of a program that finds modules in ``folders`` before others."""
    path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, **for_child(settings, interpret=False)}
    return variables | {"PYTHONPATH": os.pathsep.join(path)} if path else variables


def apply(variables: Mapping[str, str]) -> None:
    """Set ``variables`` in this process: only a worker does, before it imports anything heavy."""
    os.environ.update(variables)
