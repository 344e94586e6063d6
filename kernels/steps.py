"""The kernel launches that multiply, as data."""

from collections.abc import Mapping
from math import prod

from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels.family import BYTES, SMALL_SCALES, Buffer, Plan, Problem, Step, Work
from mxtune.kernels.operands import (
    operand_a,
    operand_c,
    plain_codes,
    rounded_a,
    scales_a,
    scales_b,
    total,
)
from mxtune.kernels.quantise_steps import converts_words, in_bf16, quantised
from mxtune.kernels.tiles import ceil_div, split_blocks

_ZEROED = 4096  # values a program zeroes
_CODE_BYTES = 0.5 + 1 / SCALE_BLOCK  # of one MXFP4 value, its share of the scale included


def gemm_step(config: Config, problem: Problem, out: Buffer, *, atomic: bool = False) -> Step:
    """Multiply quantised A by B into ``out``: C, partial sums, or with ``atomic`` their total."""
    shape = problem.shape
    codes, beside = _operand_of_gemm(config, shape)
    tiles, splits, blocks = _shares(config, shape)
    return Step(
        name="gemm",
        kernel="gemm:gemm",
        grid=(tiles, splits),
        buffers={
            "a_ptr": codes,
            "a_scales_ptr": beside,
            **_weight_buffers(config, shape),
            "c_ptr": out,
        },
        integers={
            "stride_am": codes.shape[1],
            "stride_as": beside.shape[1],
            **_tile_integers(config, problem, out, blocks),
        },
        constants=_tile_constants(config, problem, out, atomic=atomic) | {"WIDE_A": codes.wide},
        options=_launch(config),
        work=_gemm_work(config, shape, tiles * splits, blocks, out),
    )


def _operand_of_gemm(config: Config, shape: Shape) -> tuple[Buffer, Buffer]:
    """Return the quantised A: codes and scales, or its values and scales that nobody reads."""
    if in_bf16(config):
        return rounded_a(shape), _scales_of(config, shape)
    return plain_codes("a_codes", shape.m, shape), scales_a(shape)


def _shares(config: Config, shape: Shape) -> tuple[int, int, int]:
    """Return the tiles of C, the splits of K, and the blocks of K that a split has."""
    m, n, k = _tile(config)
    tiles = ceil_div(shape.m, m) * ceil_div(shape.n, n)
    if "split_k" not in config:
        return tiles, 1, ceil_div(shape.k, k)
    return tiles, config.number("split_k"), split_blocks(config, shape)


def _weight_buffers(config: Config, shape: Shape) -> dict[str, Buffer]:
    name = "b" if config.text("weights") == "plain" else "b_shuffled"
    return {"b_ptr": plain_codes(name, shape.n, shape), "b_scales_ptr": _scales_of(config, shape)}


def _scales_of(config: Config, shape: Shape) -> Buffer:
    """Scales of B: shuffled for FP4 matrix units, plain where they become factors of bf16."""
    if in_bf16(config):
        return Buffer("b_scales", "u8", (shape.n, shape.k // SCALE_BLOCK))
    return scales_b(shape)


def _tile_integers(config: Config, problem: Problem, out: Buffer, blocks: int) -> dict[str, int]:
    shape = problem.shape
    whole = out.name == "c"
    return {
        "M": shape.m,
        "N": shape.n,
        "K": shape.k,
        "stride_bn": shape.k // 2,
        "scale_width": _scales_of(config, shape).shape[1],
        "stride_cm": problem.c.row if whole else shape.n,
        "stride_cs": shape.m * shape.n if len(out.shape) == 3 and out.shape[0] > 1 else 0,
        "split_blocks": blocks,
    }


def _gemm_work(config: Config, shape: Shape, programs: int, iterations: int, out: Buffer) -> Work:
    m, n, k = _tile(config)
    return Work(
        programs=programs,
        iterations=iterations,
        flops=2.0 * m * n * k,
        load_bytes=_CODE_BYTES * (m + n) * k,
        quantised=0,
        multiplied=(m + n) * k,
        unique_bytes=_CODE_BYTES * (shape.m + shape.n) * shape.k
        + float(prod(out.shape) * BYTES[out.dtype]),
    )


def fused_step(config: Config, problem: Problem, out: Buffer, *, atomic: bool = False) -> Step:
    """Multiply bf16 A, quantised on the way, by B into ``out``, as `gemm_step` does."""
    shape = problem.shape
    a = operand_a(problem)
    tiles, splits, blocks = _shares(config, shape)
    return Step(
        name="fused",
        kernel="fused:fused",
        grid=(tiles, splits),
        buffers={"a_ptr": a, **_weight_buffers(config, shape), "c_ptr": out},
        integers={
            "stride_am": problem.a.row,
            "stride_ak": problem.a.column,
            **_tile_integers(config, problem, out, blocks),
        },
        constants=_tile_constants(config, problem, out, atomic=atomic)
        | {"WIDE_A": a.wide, "HARDWARE": converts_words(config, problem)},
        options=_launch(config),
        work=_fused_work(config, shape, tiles * splits, blocks, out),
    )


def fused_atomic_plan(config: Config, problem: Problem) -> Plan:
    """Zero a total, let every split of the fused kernel add to it, and round it to C."""
    sums = total(problem.shape)
    steps = (
        zero_step(sums),
        fused_step(config, problem, sums, atomic=True),
        reduce_step(config, problem, sums),
    )
    return Plan(steps, deterministic=False)


def _fused_work(config: Config, shape: Shape, programs: int, iterations: int, out: Buffer) -> Work:
    m, n, k = _tile(config)
    return Work(
        programs=programs,
        iterations=iterations,
        flops=2.0 * m * n * k,
        load_bytes=(2 * m + _CODE_BYTES * n) * k,
        quantised=quantised(config, m * k),
        multiplied=(m + n) * k,
        unique_bytes=2.0 * shape.m * shape.k
        + _CODE_BYTES * shape.n * shape.k
        + float(prod(out.shape) * BYTES[out.dtype]),
    )


def zero_step(sums: Buffer) -> Step:
    """Fill ``sums`` with zeros."""
    count = sums.elements
    grid = (ceil_div(count, _ZEROED), 1)
    return Step(
        name="zero",
        kernel="zero:zero",
        grid=grid,
        buffers={"sums_ptr": sums},
        integers={"count": count},
        constants={"BLOCK": _ZEROED, "WIDE": sums.wide},
        options={"num_warps": 4, "num_stages": 1},
        work=Work(grid[0], 1, 0, 0, 0, 0, 4.0 * count),
    )


def reduce_step(config: Config, problem: Problem, partials: Buffer) -> Step:
    """Add ``partials`` [splits, M, N] into C."""
    shape, splits = problem.shape, partials.shape[0]
    rows, columns = config.number("reduce_m"), config.number("reduce_n")
    grid = (ceil_div(shape.m, rows), ceil_div(shape.n, columns))
    c = operand_c(problem)
    values = shape.m * shape.n
    return Step(
        name="reduce",
        kernel="reduce:reduce",
        grid=grid,
        buffers={"partials_ptr": partials, "c_ptr": c},
        integers={
            "M": shape.m,
            "N": shape.n,
            "stride_pm": shape.n,
            "stride_ps": values,
            "stride_cm": problem.c.row,
        },
        constants={
            "SPLIT_K": splits,
            "BLOCK_M": rows,
            "BLOCK_N": columns,
            "WIDE": partials.wide or c.wide,
        },
        options={"num_warps": config.number("reduce_warps"), "num_stages": 1},
        work=Work(
            programs=grid[0] * grid[1],
            iterations=splits,
            flops=float(rows * columns),
            load_bytes=float(rows * columns * BYTES[partials.dtype]),
            quantised=0,
            multiplied=0,
            unique_bytes=float(values * (splits * BYTES[partials.dtype] + 2)),
        ),
    )


def _tile(config: Config) -> tuple[int, int, int]:
    return config.number("BLOCK_M"), config.number("BLOCK_N"), config.number("BLOCK_K")


def _tile_constants(
    config: Config, problem: Problem, out: Buffer, *, atomic: bool
) -> dict[str, Value | bool]:
    shape, remap = problem.shape, config.number("xcd_remap")
    return {
        "BLOCK_M": config.number("BLOCK_M"),
        "BLOCK_N": config.number("BLOCK_N"),
        "BLOCK_K": config.number("BLOCK_K"),
        "GROUP_M": config.number("group_m"),
        "XCDS": problem.device.xcds if remap else 1,
        "EVEN_K": shape.k % config.number("BLOCK_K") == 0,
        "CACHE": config.text("cache_modifier"),
        "SHUFFLED": config.text("weights") == "shuffled",
        "WIDE_B": plain_codes("b", shape.n, shape).wide,
        "WIDE_C": out.wide,
        "ATOMIC": atomic,
        "BF16": in_bf16(config),
        SMALL_SCALES: True,
    }


def _launch(config: Config) -> Mapping[str, int]:
    names = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim")
    return {name: config.number(name) for name in names}
