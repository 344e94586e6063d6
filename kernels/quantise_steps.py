"""The kernel launches that quantise A, as data."""

from mxtune.configs.routes import Config
from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels.family import Problem, Step, Work
from mxtune.kernels.operands import operand_a, plain_codes, rounded_a, scales_a
from mxtune.kernels.tiles import ceil_div

RULE = "even"  # the scale rule by which every quantiser of ours rounds

# Vector instructions that a loop trip spends on a block of A: 631 portable, 91 with gfx950's own
# conversion (16x128x512 on 4 warps, triton 3.9).
_HARDWARE_GAIN = 7


def quantise_step(config: Config, problem: Problem) -> Step:
    """Quantise A into the workspaces that `gemm_step` reads."""
    return (_round_step if in_bf16(config) else codes_step)(config, problem)


def in_bf16(config: Config) -> bool:
    """Whether the operands are multiplied as bf16 values."""
    return config.text("multiply") == "bf16"


def codes_step(config: Config, problem: Problem, *, shuffled: bool = False) -> Step:
    """Quantise A into the workspaces a_codes [M, K/2] and `scales_a`."""
    shape = problem.shape
    rows, columns = config.number("quant_m"), config.number("quant_k")
    scales = scales_a(shape, shuffled=shuffled)
    height, width = scales.shape
    grid = (ceil_div(height, rows), ceil_div(width * SCALE_BLOCK, columns))
    a = operand_a(problem)
    values = shape.m * shape.k
    return Step(
        name="quantise",
        kernel="quantise:quantise",
        grid=grid,
        buffers={
            "a_ptr": a,
            "codes_ptr": plain_codes("a_codes", shape.m, shape),
            "scales_ptr": scales,
        },
        integers={
            "M": shape.m,
            "K": shape.k,
            "stride_am": problem.a.row,
            "stride_ak": problem.a.column,
            "stride_qm": shape.k // 2,
            "scale_width": width,
        },
        constants={"BLOCK_M": rows, "BLOCK_K": columns, "SHUFFLED": shuffled, "WIDE": a.wide}
        | {"HARDWARE": converts_words(config, problem)},
        options={"num_warps": config.number("quant_warps"), "num_stages": 1},
        work=Work(
            grid[0] * grid[1],
            1,
            0,
            2.0 * rows * columns,
            quantised(config, rows * columns),
            0,
            2.6 * values,
        ),
    )


def _round_step(config: Config, problem: Problem) -> Step:
    """Round A to MXFP4 values, kept as bf16 in the workspace a_rounded [M, K]."""
    shape, a = problem.shape, operand_a(problem)
    rows, columns = config.number("quant_m"), config.number("quant_k")
    grid = (ceil_div(shape.m, rows), ceil_div(shape.k, columns))
    values = rows * columns
    return Step(
        name="quantise",
        kernel="quantise:round_values",
        grid=grid,
        buffers={"a_ptr": a, "rounded_ptr": rounded_a(shape)},
        integers={
            "M": shape.m,
            "K": shape.k,
            "stride_am": problem.a.row,
            "stride_ak": problem.a.column,
            "stride_rm": shape.k,
        },
        constants={"BLOCK_M": rows, "BLOCK_K": columns, "WIDE": a.wide},
        options={"num_warps": config.number("quant_warps"), "num_stages": 1},
        work=Work(grid[0] * grid[1], 1, 0, 2.0 * values, values, 0, 4.0 * shape.m * shape.k),
    )


def converts_words(config: Config, problem: Problem) -> bool:
    """Whether A is read as pairs for the hardware's conversion: other strides need the portable."""
    in_pairs = problem.a.column == 1 and problem.a.row % 2 == 0 and problem.a.aligned
    return config.text("convert") == "hardware" and in_pairs


def quantised(config: Config, values: int) -> int:
    """Return how many values' worth of portable quantising it is to quantise so many."""
    return values // _HARDWARE_GAIN if config.text("convert") == "hardware" else values
