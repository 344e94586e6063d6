"""The kernel launches that Triton families are made of, as data."""

from collections.abc import Mapping
from math import prod

from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels.family import BYTES, Buffer, Dtype, Problem, Step, Work
from mxtune.kernels.layouts import padded_scales
from mxtune.kernels.tiles import ceil_div, split_blocks

_CODE_BYTES = 0.5 + 1 / SCALE_BLOCK  # of one MXFP4 value, its share of the scale included


def operand_a(problem: Problem) -> Buffer:
    """A as the caller holds it: bf16 [M, K], any strides."""
    shape, view = problem.shape, problem.a
    extent = (shape.m - 1) * abs(view.row) + (shape.k - 1) * abs(view.column) + 1
    return Buffer("a", "bf16", (shape.m, shape.k), view.aligned, extent)


def operand_c(problem: Problem) -> Buffer:
    """C: bf16 [M, N], rows at any distance."""
    shape, view = problem.shape, problem.c
    extent = (shape.m - 1) * abs(view.row) + shape.n
    return Buffer("c", "bf16", (shape.m, shape.n), view.aligned, extent)


def plain_codes(name: str, rows: int, shape: Shape) -> Buffer:
    """Packed codes uint8 [rows, K/2]."""
    return Buffer(name, "u8", (rows, shape.k // 2))


def scales_b(shape: Shape) -> Buffer:
    """Scales of B in the shuffled layout."""
    return Buffer("b_scales_shuffled", "u8", padded_scales(shape.n, shape.k // SCALE_BLOCK))


def quantise_step(config: Config, problem: Problem) -> Step:
    """Quantise A into the workspaces a_codes [M, K/2] and a_scales [M, K/32]."""
    shape = problem.shape
    rows, columns = config.number("quant_m"), config.number("quant_k")
    grid = (ceil_div(shape.m, rows), ceil_div(shape.k, columns))
    a = operand_a(problem)
    values = shape.m * shape.k
    return Step(
        name="quantise",
        kernel="quantise:quantise",
        grid=grid,
        buffers={
            "a_ptr": a,
            "codes_ptr": plain_codes("a_codes", shape.m, shape),
            "scales_ptr": Buffer("a_scales", "u8", (shape.m, shape.k // SCALE_BLOCK)),
        },
        integers={
            "M": shape.m,
            "K": shape.k,
            "stride_am": problem.a.row,
            "stride_ak": problem.a.column,
            "stride_qm": shape.k // 2,
            "scale_width": shape.k // SCALE_BLOCK,
        },
        constants={"BLOCK_M": rows, "BLOCK_K": columns, "SHUFFLED": False, "WIDE": a.wide},
        options={"num_warps": config.number("quant_warps"), "num_stages": 1},
        work=Work(grid[0] * grid[1], 1, 0, 2.0 * rows * columns, rows * columns, 0, 2.6 * values),
    )


def gemm_step(config: Config, problem: Problem, out: Buffer, splits: int) -> Step:
    """Multiply a_codes by B into ``out``, [M, N] or [splits, M, N]."""
    shape = problem.shape
    m, n, k = _tile(config)
    tiles = ceil_div(shape.m, m) * ceil_div(shape.n, n)
    blocks = ceil_div(shape.k, k) if splits == 1 else split_blocks(config, shape)
    codes, weight, scales = (
        plain_codes("a_codes", shape.m, shape),
        plain_codes("b", shape.n, shape),
        scales_b(shape),
    )
    return Step(
        name="gemm",
        kernel="gemm:gemm",
        grid=(tiles, splits),
        buffers={
            "a_ptr": codes,
            "a_scales_ptr": Buffer("a_scales", "u8", (shape.m, shape.k // SCALE_BLOCK)),
            "b_ptr": weight,
            "b_scales_ptr": scales,
            "c_ptr": out,
        },
        integers={
            "M": shape.m,
            "N": shape.n,
            "K": shape.k,
            "stride_am": shape.k // 2,
            "stride_as": shape.k // SCALE_BLOCK,
            "stride_bn": shape.k // 2,
            "scale_width": scales.shape[1],
            "stride_cm": problem.c.row if splits == 1 else shape.n,
            "stride_cs": 0 if splits == 1 else shape.m * shape.n,
            "split_blocks": blocks,
        },
        constants=_tile_constants(config, shape)
        | {"WIDE_A": codes.wide, "WIDE_B": weight.wide, "WIDE_C": out.wide},
        options=_launch(config),
        work=_gemm_work(config, shape, tiles * splits, blocks, out),
    )


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


def fused_step(config: Config, problem: Problem) -> Step:
    """Multiply bf16 A, quantised on the way, by B into C."""
    shape = problem.shape
    m, n, _ = _tile(config)
    tiles = ceil_div(shape.m, m) * ceil_div(shape.n, n)
    a, c, weight, scales = (
        operand_a(problem),
        operand_c(problem),
        plain_codes("b", shape.n, shape),
        scales_b(shape),
    )
    return Step(
        name="fused",
        kernel="fused:fused",
        grid=(tiles, 1),
        buffers={"a_ptr": a, "b_ptr": weight, "b_scales_ptr": scales, "c_ptr": c},
        integers={
            "M": shape.m,
            "N": shape.n,
            "K": shape.k,
            "stride_am": problem.a.row,
            "stride_ak": problem.a.column,
            "stride_bn": shape.k // 2,
            "scale_width": scales.shape[1],
            "stride_cm": problem.c.row,
        },
        constants=_tile_constants(config, shape)
        | {"WIDE_A": a.wide, "WIDE_B": weight.wide, "WIDE_C": c.wide},
        options=_launch(config),
        work=_fused_work(config, shape, tiles),
    )


def _fused_work(config: Config, shape: Shape, programs: int) -> Work:
    m, n, k = _tile(config)
    return Work(
        programs=programs,
        iterations=ceil_div(shape.k, k),
        flops=2.0 * m * n * k,
        load_bytes=(2 * m + _CODE_BYTES * n) * k,
        quantised=m * k,
        multiplied=(m + n) * k,
        unique_bytes=2.0 * shape.m * shape.k
        + _CODE_BYTES * shape.n * shape.k
        + 2.0 * shape.m * shape.n,
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


def partials(config: Config, shape: Shape) -> Buffer:
    """Workspace of the partial sums of a split K."""
    dtype: Dtype = "fp32" if config.text("partial_dtype") == "fp32" else "bf16"
    return Buffer("partials", dtype, (config.number("split_k"), shape.m, shape.n))


def _tile(config: Config) -> tuple[int, int, int]:
    return config.number("BLOCK_M"), config.number("BLOCK_N"), config.number("BLOCK_K")


def _tile_constants(config: Config, shape: Shape) -> dict[str, Value | bool]:
    return {
        "BLOCK_M": config.number("BLOCK_M"),
        "BLOCK_N": config.number("BLOCK_N"),
        "BLOCK_K": config.number("BLOCK_K"),
        "GROUP_M": config.number("group_m"),
        "EVEN_K": shape.k % config.number("BLOCK_K") == 0,
        "CACHE": config.text("cache_modifier"),
    }


def _launch(config: Config) -> Mapping[str, int]:
    names = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim")
    return {name: config.number(name) for name in names}
