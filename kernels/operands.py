"""The tensors that launches read and write, as data."""

from mxtune.configs.routes import Config
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels.family import Buffer, Dtype, Problem
from mxtune.kernels.layouts import padded_scales


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


def scales_a(shape: Shape, *, shuffled: bool = False) -> Buffer:
    """Workspace of the scales of A: a_scales [M, K/32], or a_scales_shuffled with its padding."""
    columns = shape.k // SCALE_BLOCK
    if shuffled:
        return Buffer("a_scales_shuffled", "u8", padded_scales(shape.m, columns))
    return Buffer("a_scales", "u8", (shape.m, columns))


def rounded_a(shape: Shape) -> Buffer:
    """Workspace of A rounded to MXFP4 values, bf16 [M, K]."""
    return Buffer("a_rounded", "bf16", (shape.m, shape.k))


def scales_b(shape: Shape) -> Buffer:
    """Scales of B in the shuffled layout."""
    return Buffer("b_scales_shuffled", "u8", padded_scales(shape.n, shape.k // SCALE_BLOCK))


def total(shape: Shape) -> Buffer:
    """Workspace of the sum of all splits of K, fp32."""
    return Buffer("total", "fp32", (1, shape.m, shape.n))


def partials(config: Config, shape: Shape) -> Buffer:
    """Workspace of the partial sums of a split K."""
    dtype: Dtype = "fp32" if config.text("partial_dtype") == "fp32" else "bf16"
    return Buffer("partials", dtype, (config.number("split_k"), shape.m, shape.n))
