"""The settings that Triton families share, and the rules those obey."""

from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Tunable

TILE = (
    Tunable("BLOCK_M", "rows of C a program computes", 16, (4, 8, 16, 32, 64, 128, 256)),
    Tunable("BLOCK_N", "columns of C a program computes", 64, (16, 32, 64, 128, 256)),
    Tunable("BLOCK_K", "values along K in one step of its loop", 256, (64, 128, 256, 512, 1024)),
    Tunable("group_m", "tiles along M before the next along N", 1, (1, 2, 4, 8, 16)),
    Tunable("num_warps", "waves a program has", 4, (1, 2, 4, 8, 16)),
    Tunable("num_stages", "steps of the loop in flight", 2, (1, 2, 3, 4, 5)),
    Tunable("waves_per_eu", "waves a SIMD should hold; 0 lets the compiler choose", 0, least=0),
    Tunable(
        "matrix_instr_nonkdim", "M and N of the MFMA; 0 lets the compiler choose", 0, (0, 16, 32)
    ),
    Tunable("cache_modifier", "how loads of B use the caches", "", ("", ".ca", ".cg", ".cv")),
    Tunable("xcd_remap", "1 gives each XCD a run of neighbouring tiles", 0, (0, 1)),
)
WEIGHTS = (Tunable("weights", "how the codes of B lie", "plain", ("plain", "shuffled")),)
MULTIPLY = (Tunable("multiply", "as MXFP4, or as the bf16 values", "scaled", ("scaled", "bf16")),)
CONVERT = (Tunable("convert", "how A becomes FP4", "portable", ("portable", "hardware")),)
QUANTISE = (
    Tunable("quant_m", "rows a program of the quantiser takes", 4, (1, 2, 4, 8, 16, 32, 64)),
    Tunable("quant_k", "values along K it takes", 256, (32, 64, 128, 256, 512, 1024)),
    Tunable("quant_warps", "waves it has", 4, (1, 2, 4, 8)),
)
SPLIT = (Tunable("split_k", "programs that share the K loop of a tile", 2),)
PARTIALS = (Tunable("partial_dtype", "what partial sums are stored in", "fp32", ("fp32", "bf16")),)
REDUCE = (
    Tunable("reduce_m", "rows a program of the reduction takes", 4, (1, 2, 4, 8, 16, 32)),
    Tunable("reduce_n", "columns it takes", 64, (16, 32, 64, 128, 256, 512)),
    Tunable("reduce_warps", "waves it has", 1, (1, 2, 4, 8)),
)


def ceil_div(value: int, divisor: int) -> int:
    """Return value / divisor rounded up."""
    return -(-value // divisor)


def next_power_of_two(value: int) -> int:
    """Return the smallest power of two that is at least ``value``."""
    return 1 << max(0, value - 1).bit_length()


def normalised_tile(config: Config, shape: Shape) -> Config:
    """Write settings that cannot matter for ``shape`` one way: the grouping of one row of tiles."""
    one_row = shape.m <= config.number("BLOCK_M")
    return config.changed(group_m=1) if one_row else config


def normalised_split(config: Config, shape: Shape) -> Config:
    """Lower ``split_k`` until every split has work: 14 blocks in 6 splits are 5 splits of 3."""
    blocks = ceil_div(shape.k, config.number("BLOCK_K"))
    return config.changed(split_k=ceil_div(blocks, split_blocks(config, shape)))


def split_blocks(config: Config, shape: Shape) -> int:
    """Return how many blocks of BLOCK_K one split multiplies."""
    return ceil_div(ceil_div(shape.k, config.number("BLOCK_K")), config.number("split_k"))


def small_tile(shape: Shape) -> dict[str, Value]:
    """Return tile settings that are legal for every shape on every device."""
    block_m = min(64, max(16, next_power_of_two(shape.m)))
    return {"BLOCK_M": block_m, "BLOCK_N": 64, "BLOCK_K": 256, "num_warps": 4, "num_stages": 1}


def defaults(tunables: tuple[Tunable, ...]) -> dict[str, Value]:
    """Return the default of each tunable."""
    return {tunable.name: tunable.default for tunable in tunables}
