"""A smaller shape for the same code: the same tails and the same splits, fewer tiles."""

from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.tiles import ceil_div

_TILES = 2  # of each dimension that are kept, beside the ragged one


def reduced(shape: Shape, config: Config) -> Shape:
    """Return ``shape`` with tiles left out, its remainders and the number of splits kept."""
    return Shape(
        _fewer(shape.m, config.number("BLOCK_M")),
        _fewer(shape.n, config.number("BLOCK_N")),
        _shorter(shape.k, config.number("BLOCK_K"), int(config.get("split_k", 1))),
    )


def _fewer(size: int, block: int) -> int:
    whole, rest = divmod(size, block)
    return min(whole, _TILES) * block + rest


def _shorter(k: int, block: int, splits: int) -> int:
    """Keep at most two blocks a split; the last split and the last block stay as full as now."""
    blocks = ceil_div(k, block)
    share = ceil_div(blocks, splits)
    kept = min(share, _TILES)
    last = min(kept, blocks - (splits - 1) * share)
    tail = k - (blocks - 1) * block
    return ((splits - 1) * kept + last - 1) * block + tail
