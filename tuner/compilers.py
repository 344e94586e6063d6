"""The compilers of a sweep: a worker on every core."""

import os

from mxtune.configs.settings import Settings, for_child
from mxtune.tuner.crew import Crew
from mxtune.tuner.objects import compile_service
from mxtune.tuner.worker import Factory

COMPILE_LIMIT_S = 30.0  # of one candidate, all its kernels


def compile_crew(
    settings: Settings, compiler: Factory = compile_service, limit_s: float = COMPILE_LIMIT_S
) -> Crew:
    """Return compilers for every core; what they build is in Triton's cache."""
    return Crew(
        [compiler] * (os.cpu_count() or 1),
        limit_s=limit_s,
        variables=for_child(settings, interpret=False),
    )
