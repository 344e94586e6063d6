"""A smaller shape for the same code: the same tails and the same splits, fewer tiles."""

from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.tiles import ceil_div

_SPECIAL = 16  # Triton compiles other code for multiples of it
_TILES = 2  # of each dimension that are kept, beside the ragged one


def reduced(shape: Shape, config: Config) -> Shape:
    """Return ``shape`` with tiles left out, its remainders and the number of splits kept."""
    return Shape(
        _fewer(shape.m, config.number("BLOCK_M")),
        _fewer(shape.n, config.number("BLOCK_N")),
        _shorter(shape.k, config.number("BLOCK_K"), int(config.get("split_k", 1))),
    )


def ragged(shape: Shape, config: Config) -> Shape:
    """Return the reduced shape with a tail in M and N where it has none, for the same code.

    Code depends on K's tail and on N being a multiple of 16; K and that are left alone.
    """
    small = reduced(shape, config)
    m, n = small.m, small.n
    if m % config.number("BLOCK_M") == 0:
        m = max(1, m - 1)
    if n % config.number("BLOCK_N") == 0 and n % _SPECIAL == 0 and n > _SPECIAL:
        n -= _SPECIAL
    return Shape(m, n, small.k)


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
