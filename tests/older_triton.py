"""Compiling with another release of Triton than the installed one, in a child."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from filelock import FileLock

from mxtune.configs.routes import Route
from mxtune.kernels.family import Problem
from mxtune.tuner.crew import Crew, wait
from mxtune.tuner.emulate.route import KernelObject

COMPILE_LIMIT_S = 120.0

Compiler = Callable[[Route, Problem], tuple[KernelObject, ...]]


@contextmanager
def older_compiler() -> Iterator[Compiler]:
    """Yield the compiler; it is downloaded once, and without a network the test skips."""
    folder = Path(__file__).parent
    sys.path.append(str(folder))  # the child finds its service by the module's name
    release = import_module("triton_release")
    with FileLock(f"{release.FOLDER}.lock"):  # tests run in two processes
        _install(release.RELEASE, release.FOLDER)
    cache = {"TRITON_CACHE_DIR": f"{release.FOLDER}-objects", "TRITON_INTERPRET": "0"}
    with Crew([release.service], limit_s=COMPILE_LIMIT_S, variables=cache) as crew:

        def compiled(route: Route, problem: Problem) -> tuple[KernelObject, ...]:
            crew.submit("route", (route, problem))
            finished = wait([crew])
            while not finished:
                finished = wait([crew])
            outcome = finished[0].outcome
            assert outcome.state == "done", outcome.reason
            objects: tuple[KernelObject, ...] = outcome.value
            return objects

        yield compiled


def _install(release: str, folder: Path) -> None:
    """Put a release of Triton into ``folder``, whole or not at all."""
    if folder.is_dir():
        return
    partial = folder.with_name(f"{folder.name}.partial")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade"]
    try:
        subprocess.run(
            [*command, "--target", str(partial), f"triton=={release}"],
            check=True,
            capture_output=True,
            timeout=600,
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"triton {release} cannot be downloaded: {error}")
    partial.rename(folder)
