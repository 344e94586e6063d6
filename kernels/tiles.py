"""The settings that Triton families share, and the rules those obey."""

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels.family import LEGAL, Legality, Tunable, illegal
from mxtune.kernels.layouts import padded_scales

TILE = (
    Tunable("BLOCK_M", "rows of C a program computes", 16, (8, 16, 32, 64, 128, 256)),
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
)
QUANTISE = (
    Tunable("quant_m", "rows a program of the quantiser takes", 4, (1, 2, 4, 8, 16, 32, 64)),
    Tunable("quant_k", "values along K it takes", 256, (32, 64, 128, 256, 512, 1024)),
    Tunable("quant_warps", "waves it has", 4, (1, 2, 4, 8)),
)
SPLIT = (
    Tunable("split_k", "programs that share the K loop of a tile", 2),
    Tunable("partial_dtype", "what partial sums are stored in", "fp32", ("fp32", "bf16")),
)
REDUCE = (
    Tunable("reduce_m", "rows a program of the reduction takes", 4, (1, 2, 4, 8, 16, 32)),
    Tunable("reduce_n", "columns it takes", 64, (16, 32, 64, 128, 256, 512)),
    Tunable("reduce_warps", "waves it has", 1, (1, 2, 4, 8)),
)

# Results below which a warp only repeats another's: one 16x16 MFMA on AMD, one 16x8 MMA on NVIDIA.
_RESULTS = {"hip": 256, "cuda": 128}
_REGISTERS = {"hip": 512, "cuda": 255}  # 32-bit registers a lane can have


def ceil_div(value: int, divisor: int) -> int:
    """Return value / divisor rounded up."""
    return -(-value // divisor)


def next_power_of_two(value: int) -> int:
    """Return the smallest power of two that is at least ``value``."""
    return 1 << max(0, value - 1).bit_length()


def tile_legality(config: Config, shape: Shape, device: Device) -> Legality:
    """Judge what every tiled kernel needs: matrix units that take the tile, and room for it."""
    tile = {name: config.number(name) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps")}
    m, n, k, warps = tile.values()
    if device.backend == "cuda" and m < 16:
        return illegal(f"BLOCK_M {m}: a dot takes at least 16 rows on {device.arch}")
    if device.scaled_mma and (reason := _without_scaled_mfma(config)):
        return illegal(reason)
    accumulators = m * n // (warps * device.warp_size)
    if accumulators > _REGISTERS[device.backend]:
        return illegal(f"{m}x{n} on {warps} warps takes {accumulators} accumulators a lane")
    staged = max(1, config.number("num_stages") - 1) * (m + n) * k // 2
    if staged > device.lds_bytes:
        return illegal(f"{m}x{n}x{k} in flight takes {staged} of {device.lds_bytes} B of LDS")
    scale_rows, scale_columns = padded_scales(shape.n, shape.k // SCALE_BLOCK)
    if scale_rows * scale_columns > 2**31 - 1:
        return illegal(f"the scales of N={shape.n}, K={shape.k} do not fit 32-bit offsets")
    return LEGAL


def _without_scaled_mfma(config: Config) -> str | None:
    """Say why a tile would not be computed by gfx950's scaled MFMA, or None.

    Seen in the assembly of triton 3.6 to 3.9: one warp decomposes dot_scaled into bf16 MFMAs; the
    instruction takes K = 128 at 16x16 and 64 at 32x32.
    """
    if config.number("num_warps") == 1:
        return "one warp does not get the scaled MFMA on gfx950"
    if config.number("matrix_instr_nonkdim") == 32:
        if min(config.number("BLOCK_M"), config.number("BLOCK_N")) < 32:
            return "matrix_instr_nonkdim 32 takes a tile of at least 32x32"
    elif config.number("BLOCK_K") < 128:
        return f"BLOCK_K {config['BLOCK_K']}: the scaled MFMA takes 128 values along K"
    return None


def tile_waste(config: Config, shape: Shape, device: Device) -> str | None:
    """Say why a legal tile is not worth trying for ``shape``, or None."""
    if config.number("BLOCK_M") > max(16, next_power_of_two(shape.m)):
        return "BLOCK_M far beyond M"
    if config.number("BLOCK_N") > max(32, next_power_of_two(shape.n)):
        return "BLOCK_N far beyond N"
    if config.number("BLOCK_K") > max(128, next_power_of_two(shape.k)):
        return "BLOCK_K far beyond K"
    least = _RESULTS[device.backend]
    if config.number("BLOCK_M") * config.number("BLOCK_N") < least * config.number("num_warps"):
        return f"fewer than {least} results a warp"
    return None


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
