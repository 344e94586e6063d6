"""The compilers of a sweep: a worker on every core."""

import os

from mxtune.configs.settings import Settings, for_child
from mxtune.tuner.crew import Crew
from mxtune.tuner.objects import compile_service
from mxtune.tuner.worker import Factory

COMPILE_LIMIT_S = 30.0  # of one candidate, all its kernels


def compile_crew(
    settings: Settings,
    compiler: Factory = compile_service,
    limit_s: float = COMPILE_LIMIT_S,
    *,
    spared_cores: int = 0,
) -> Crew:
    """Return compilers for every core but the spared; what they build is in Triton's cache.

    A GPU worker that waits for a core reads launches that were late, so it has one to itself.
    """
    return Crew(
        [compiler] * max(1, (os.cpu_count() or 1) - spared_cores),
        limit_s=limit_s,
        variables=for_child(settings, interpret=False),
    )
