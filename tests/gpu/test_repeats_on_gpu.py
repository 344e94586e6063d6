"""The same call again gives the same bits, unless the family says that it need not."""

import pytest

pytest.importorskip("torch", reason="kernels run on torch tensors")

import torch

from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import checked_route, own_families
from mxtune.tuner.check import judge, make_case

pytestmark = pytest.mark.gpu

SHAPE = Shape(33, 2112, 1088)
CHANGES: dict[str, int | str] = {"split_k": 4, "num_stages": 3, "multiply": "bf16"}
NAMES = [family.name for family in own_families()]


@pytest.mark.parametrize("multiply", ["scaled", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_twenty_calls_give_the_same_bits_or_are_said_not_to(name: str, multiply: str) -> None:
    (owner,) = (family for family in own_families() if family.name == name)
    plain = owner.fallback(SHAPE)
    settings = {**CHANGES, "multiply": multiply}
    config = plain.changed(**{key: value for key, value in settings.items() if key in plain})
    problem = Problem.contiguous(SHAPE, running_device(0))
    case = make_case(SHAPE, 1, "cuda")
    route = checked_route(Route(name, owner.normalise(config, SHAPE)))
    launch = bind(route, problem, case.weight)
    results = []
    for _ in range(20):
        c = torch.full((SHAPE.m, SHAPE.n), float("nan"), dtype=torch.bfloat16, device="cuda")
        launch(case.a, c)
        results.append(c)
    assert all(judge(case, c).ok for c in results)
    if launch.plan.deterministic:
        assert all(torch.equal(results[0], c) for c in results)
    else:
        assert name.endswith("_atomic")
