"""Tensors of the kind that was seen before are told from others, with and without torch's help."""

import pytest
import torch
from torch import Tensor

from mxtune.kernels import guards


@pytest.fixture(params=["torch's", "plain"])
def torchs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setattr(guards, "_torchs_guards", lambda: None)


def matrix(m: int = 4, k: int = 64) -> Tensor:
    return torch.zeros(m, k, dtype=torch.bfloat16)


@pytest.mark.usefixtures("torchs")
@pytest.mark.parametrize(
    "other",
    [
        matrix(5),
        matrix(4, 32),
        matrix(64, 4).t(),
        matrix(4, 128)[:, :64],
        matrix(4, 128)[:, ::2],
        matrix().float(),
        matrix().half(),
        matrix().to("meta"),
        matrix().requires_grad_(),
        matrix().view(-1),
        matrix().view(1, 4, 64),
    ],
)
def test_what_lies_otherwise_is_told(other: Tensor) -> None:
    check = guards.same_kind(matrix(), matrix(2))
    assert check(matrix(), matrix(2))
    assert not check(other, matrix(2))
    assert not check(matrix(), other)
    assert not check(matrix(2), matrix())
