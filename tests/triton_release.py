"""The child's side: compile routes with another Triton than the installed one."""

import sys
from collections.abc import Callable
from pathlib import Path

from mxtune.configs.routes import Route
from mxtune.kernels.family import Problem
from mxtune.tuner.emulate.route import KernelObject, kernel_objects

RELEASE = "3.6.0"
FOLDER = Path(__file__).parent.parent / ".cache" / f"triton-{RELEASE}"

CompileJob = tuple[Route, Problem]


def service() -> Callable[[CompileJob], tuple[KernelObject, ...]]:
    """Put the other Triton before the installed one, for the whole life of this process."""
    sys.path.insert(0, str(FOLDER))
    import triton

    assert triton.__version__ == RELEASE
    return compiled


def compiled(job: CompileJob) -> tuple[KernelObject, ...]:
    return kernel_objects(*job)
