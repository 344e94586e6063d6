"""A smaller shape for the same code."""

from itertools import product

import pytest

from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import family
from mxtune.kernels.tiles import ceil_div, split_blocks
from mxtune.tuner.reduced import reduced


def tile(m: int, n: int, k: int, splits: int = 0) -> Config:
    config = Config.of({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k})
    return config.changed(split_k=splits) if splits else config


@pytest.mark.parametrize(
    ("shape", "config", "expected"),
    [
        # two tiles of each dimension and two blocks of K
        (Shape(1024, 2112, 7168), tile(16, 64, 256), Shape(32, 128, 512)),
        # rows, columns and K left over beside them: 100 = 3 x 32 + 4, 1056 = 8 x 128 + 32
        (Shape(100, 70, 1056), tile(32, 32, 128), Shape(68, 70, 160)),
        (Shape(257, 7183, 544), tile(64, 128, 512), Shape(129, 271, 544)),
        # 28 blocks in 7 splits of 4 become 14 in 7 of 2
        (Shape(16, 2112, 7168), tile(16, 64, 256, 7), Shape(16, 128, 3584)),
        # 14 blocks as 3 3 3 3 2 become 10 as 2 2 2 2 2; 13 as 3 3 3 3 1 become 9 as 2 2 2 2 1
        (Shape(1, 64, 3584), tile(16, 64, 256, 5), Shape(1, 64, 2560)),
        (Shape(1, 64, 3328), tile(16, 64, 256, 5), Shape(1, 64, 2304)),
        # the last of 13 blocks is only 32 long
        (Shape(1, 64, 3104), tile(16, 64, 256, 5), Shape(1, 64, 2080)),
        # one block a split cannot be fewer
        (Shape(16, 64, 1024), tile(16, 64, 256, 4), Shape(16, 64, 1024)),
        # less than one tile stays as it is
        (Shape(3, 20, 96), tile(16, 64, 256), Shape(3, 20, 96)),
        (Shape(1, 1, 32), tile(16, 64, 256, 1), Shape(1, 1, 32)),
    ],
    ids=str,
)
def test_remainders_and_splits_are_kept(shape: Shape, config: Config, expected: Shape) -> None:
    assert reduced(shape, config) == expected


def test_a_reduced_shape_is_never_larger_and_runs_the_same_code() -> None:
    splitting = family("splitk")
    for k, block_k, splits in product(range(32, 4097, 32), (64, 128, 512), (1, 2, 3, 5, 7, 16)):
        shape = Shape(130, 200, k)
        full = splitting.fallback(shape).changed(BLOCK_K=block_k, split_k=splits)
        config = splitting.normalise(full, shape)
        small = reduced(shape, config)
        assert small.k <= k
        assert small.k % block_k == k % block_k
        assert reduced(small, config) == small
        share = split_blocks(config, small)
        assert share == min(2, split_blocks(config, shape))
        assert ceil_div(ceil_div(small.k, block_k), share) == config["split_k"]
