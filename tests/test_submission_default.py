"""The route of shapes that a submission has none for is the one that is always legal here."""

from importlib import import_module
from typing import Any

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import ALWAYS_LEGAL, family
from mxtune.results.contest.routes import FileLaunch, file_step
from mxtune.results.contest.text import DTYPES

SHAPES = [
    "1x16x64",
    "4x64x64",
    "17x96x320",
    "64x7168x2048",
    "65x2112x7168",
    "524288x64x2048",
    "1048576x64x2048",  # A of 2^31 elements
    "2097152x64x2048",  # and its codes of 2^31 bytes
    "64x2097152x2048",
    "65536x32800x64",
]


@pytest.mark.parametrize("word", SHAPES)
def test_it_is_what_the_family_plans(word: str) -> None:
    runtime: Any = import_module("mxtune.results.contest.runtime")
    shape, device = Shape.parse(word), load_device("gfx950")
    owner = family(ALWAYS_LEGAL)
    plan = owner.plan(owner.fallback(shape), Problem.contiguous(shape, device))
    route = runtime.direct(shape.m, shape.n, shape.k)
    assert len(route.steps) == len(plan.steps)
    for step, planned in zip(route.steps, map(file_step, plan.steps), strict=True):
        assert isinstance(planned, FileLaunch)
        assert step.kernel == planned.kernel.name
        assert step.grid == planned.grid
        assert list(step.tensors.items()) == list(planned.tensors.items())
        assert list(step.values.items()) == list(planned.values.items())
        assert step.options == planned.options
    named = {
        {"c": "C"}.get(b.name, b.name): (DTYPES[b.dtype], b.shape)
        for step in plan.steps
        for b in step.buffers.values()
        if b.name not in ("a", "b", "b_scales_shuffled")
    }
    assert {name: (str(dtype), size) for name, (dtype, size) in route.fresh.items()} == named
