"""What a tile must meet to be legal, and to be worth trying."""

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels.family import LEGAL, Legality, illegal
from mxtune.kernels.layouts import padded_scales, weight_obstacle
from mxtune.kernels.tiles import next_power_of_two

CONVERTS = ("gfx950",)  # architectures whose FP4 conversion `convert: hardware` is written for

# Results below which a warp only repeats another's: one 16x16 MFMA on AMD, one 16x8 MMA on NVIDIA.
_RESULTS = {"hip": 256, "cuda": 128}
_ROWS = 16  # of either, however few of them a tile has: AITER's winners of 8 rows are on 8 waves
_REGISTERS = {"hip": 512, "cuda": 255}  # 32-bit registers a lane can have


def tile_legality(config: Config, shape: Shape, device: Device) -> Legality:
    """Judge what every tiled kernel needs: matrix units that take the tile, and room for it."""
    reason = (
        _unfit_for_units(config, device)
        or _without_room(config, device)
        or _conversion_obstacle(config, device)
        or _weight_obstacle(config, shape)
    )
    return illegal(reason) if reason else LEGAL


def _unfit_for_units(config: Config, device: Device) -> str | None:
    if device.backend == "cuda" and config.number("BLOCK_M") < 16:
        return f"BLOCK_M {config['BLOCK_M']}: a dot takes at least 16 rows on {device.arch}"
    if device.scaled_mma and config.get("multiply", "scaled") == "scaled":
        return _without_scaled_mfma(config)
    return None


def _without_scaled_mfma(config: Config) -> str | None:
    """Say why a tile would not be computed by gfx950's scaled MFMA, or None.

    Seen in the assembly of triton 3.6 to 3.9: one warp decomposes dot_scaled into bf16 MFMAs; the
    instruction takes K = 128 at 16x16 and 64 at 32x32.
    """
    if config.number("num_warps") == 1:
        return "one warp does not get the scaled MFMA on gfx950"
    if config.number("matrix_instr_nonkdim") != 32 and config.number("BLOCK_K") < 128:
        return f"BLOCK_K {config['BLOCK_K']}: the scaled MFMA takes 128 values along K"
    return None


def _without_room(config: Config, device: Device) -> str | None:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps")
    m, n, k, warps = (config.number(name) for name in names)
    accumulators = m * n // (warps * device.warp_size)
    if accumulators > _REGISTERS[device.backend]:
        return f"{m}x{n} on {warps} warps takes {accumulators} accumulators a lane"
    staged = max(1, config.number("num_stages") - 1) * (m + n) * k // 2
    if staged > device.lds_bytes:
        return f"{m}x{n}x{k} in flight takes {staged} of {device.lds_bytes} B of LDS"
    return None


def _conversion_obstacle(config: Config, device: Device) -> str | None:
    if config.get("convert", "portable") == "hardware" and device.arch not in CONVERTS:
        return f"{device.arch} has no FP4 conversion that Triton can be given"
    return None


def _weight_obstacle(config: Config, shape: Shape) -> str | None:
    """Say why the weights cannot be read, or None."""
    rows, columns = padded_scales(shape.n, shape.k // SCALE_BLOCK)
    if rows * columns > 2**31 - 1:
        return f"the scales of N={shape.n}, K={shape.k} do not fit 32-bit offsets"
    if config.get("weights", "plain") == "plain":
        return None
    if config.number("BLOCK_N") % 32 or config.number("BLOCK_K") % 128:
        return "shuffled weights are read 32 rows and 128 values along K at a time"
    return weight_obstacle(shape.n, shape.k // 2)


def tile_waste(config: Config, shape: Shape, device: Device, *, won: bool = False) -> str | None:
    """Say why a legal tile is not worth trying for ``shape``, or None.

    With ``won`` a tile may be one size too large for the shape, and have warps that repeat others:
    AITER has winners of both kinds, where more waves in flight hide what memory takes.
    """
    for name, size, least in (
        ("BLOCK_M", shape.m, 16),
        ("BLOCK_N", shape.n, 32),
        ("BLOCK_K", shape.k, 128),
    ):
        if config.number(name) > max(least, next_power_of_two(size)) * (2 if won else 1):
            return f"{name} far beyond {name[-1]}"
    if config.get("multiply") == "bf16" and device.scaled_mma:
        return "bf16 on a GPU with FP4 matrix units"
    return None if won else _idle_warps(config, device)


def _idle_warps(config: Config, device: Device) -> str | None:
    """Say why some warps or matrix units would only repeat what others do, or None."""
    m, n, warps = (config.number(name) for name in ("BLOCK_M", "BLOCK_N", "num_warps"))
    if config.number("matrix_instr_nonkdim") == 32 and min(m, n) < 32:
        return "a matrix instruction of 32x32 on a smaller tile"
    shuffled = config.get("weights", "plain") == "shuffled" and device.scaled_mma
    if shuffled and warps > max(1, m // 16) * n // 32:  # a wave takes 32 rows of such at once
        return "fewer than 32 rows of weights a wave"
    least, whole = _RESULTS[device.backend], max(m, _ROWS)
    return f"fewer than {least} results a warp" if whole * n < least * warps else None
