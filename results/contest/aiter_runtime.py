"""What a submission has besides `runtime.py` where its routes call AITER: copied into the file.

Nothing imports this: AITER is looked for only where the file is run. In the file AITER holds the
functions that its routes call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mxtune.results.contest.runtime import GIVEN, Route, Step, Tensors, launched


@dataclass(frozen=True)
class Call:
    """One call of AITER's, by keyword: tensors, viewed as a dtype or in a shape, and values."""

    function: str
    tensors: dict[str, tuple[str, torch.dtype | tuple[int, ...]]]
    values: dict[str, Any]


AITER: dict[str, Callable[..., Any]] = {}


def called(step: Call) -> Step:
    """Return a call as a function of the tensors of a call of ours; what it returns is C."""

    def run(tensors: Tensors) -> torch.Tensor | None:
        given = {keyword: tensors[name].view(how) for keyword, (name, how) in step.tensors.items()}
        made: torch.Tensor | None = AITER[step.function](**given, **step.values)
        return made

    return run


def bound(route: Route, *, ready: bool) -> tuple[Step, ...]:
    """Return the steps of a route as functions of the tensors of a call."""
    kinds = GIVEN | {name: dtype for name, (dtype, _) in route.fresh.items()}
    return tuple(
        called(step) if isinstance(step, Call) else launched(step, kinds, ready=ready)
        for step in route.steps
    )
