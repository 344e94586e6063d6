"""However many programs share K, whatever is left to the last of them, the numbers are the same."""

import pytest
from tests.family_gate import accept, config_of
from tests.family_shapes import SPLITTING, layouts_of

from mxtune.configs.devices import known_devices
from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape
from mxtune.configs.spaces import load_also, load_space


# 5 whole blocks as 2 2 1: a last split as long as the others would read past K, and no mask is on
@pytest.mark.parametrize(("k", "splits"), [(1024, 1), (1024, 2), (1024, 4), (1280, 3)])
@pytest.mark.parametrize("name", SPLITTING)
def test_every_number_of_splits_gives_the_reference(name: str, k: int, splits: int) -> None:
    shape = Shape(16, 64, k)
    config = config_of(name, shape, split_k=splits)
    assert config["split_k"] == splits
    accept(name, config, shape)


def split_counts(name: str) -> list[int]:
    """Return every number of splits that some device tries."""
    archs = (*known_devices(), "any other")
    spaces = [space for a in archs for space in (load_space(name, a), *load_also(name, a))]
    return sorted({int(count) for space in spaces for count in space.get("split_k", ())})


TAILS = [
    (name, weights, splits)
    for name in SPLITTING
    for weights in layouts_of(name)
    for splits in split_counts(name)
]


# Every split has one block of 128, the last one a half of it for shuffled weights, else a quarter
@pytest.mark.parametrize(("name", "weights", "splits"), TAILS)
def test_every_number_of_splits_that_is_tried_takes_a_tail_of_k(
    name: str, weights: str, splits: int
) -> None:
    shape = Shape(1, 32, (splits - 1) * 128 + (64 if weights == "shuffled" else 32))
    settings: dict[str, Value] = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 128, "num_warps": 2}
    config = config_of(name, shape, weights=weights, split_k=splits, **settings)
    assert config["split_k"] == splits
    accept(name, config, shape)
