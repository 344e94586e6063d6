"""AITER's calls as data, and what its families share."""

from dataclasses import replace

from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels.aiter_calls import OUT_ROWS
from mxtune.kernels.family import Buffer, Call, Problem, Step, Work
from mxtune.kernels.layouts import round_up
from mxtune.kernels.operands import operand_a, operand_c, plain_codes, scales_a, scales_b
from mxtune.kernels.steps import fused_step, reduce_step
from mxtune.kernels.tiles import ceil_div

_CODE_BYTES = 17 / 32  # of one MXFP4 value, its share of the scale included
_CROP = Config.of({"reduce_m": 4, "reduce_n": 256, "reduce_warps": 4})  # 4 values a lane
_K_STEP = 256  # values along K in one trip of an ASM kernel's loop
# Four waves that load a few trips ahead: 55 GB/s a CU at every K of AITER's table, with no latency.
_ASM_OPTIONS = {"num_warps": 4, "num_stages": 4}


def padded_c(shape: Shape) -> Buffer:
    """Workspace for C with rows in whole multiples of what AITER's kernels write."""
    return Buffer("c_padded", "bf16", (round_up(shape.m, OUT_ROWS), shape.n))


def crop_step(problem: Problem, padded: Buffer) -> Step:
    """Copy the first M rows of ``padded``, bf16 [rows, N], to C: a sum of one partial."""
    copy = reduce_step(_CROP, problem, replace(padded, shape=(1, *padded.shape)))
    return replace(copy, name="crop", buffers={**copy.buffers, "partials_ptr": padded})


def asm_call(
    problem: Problem, kernel: str, tile: tuple[int, int], *, shuffled: bool, split: int, out: Buffer
) -> Call:
    """`gemm_a4w4_asm` by the name of a kernel, K split in 2**split parts that add to a zeroed C."""
    return Call(
        name="gemm",
        function="gemm_a4w4_asm",
        buffers=_a4w4_buffers(problem.shape, out, shuffled=shuffled),
        values={
            "kernelName": kernel,
            "alpha": 1.0,  # most objects ignore it
            "beta": 0.0,  # and this: there is no C to add
            "bpreshuffle": shuffled,
            "log2_k_split": split,
        },
        options=_ASM_OPTIONS,
        work=_tile_work(problem.shape, tile, 1 << split),
        kernels=2 if split else 1,
    )


def a4w4_call(problem: Problem) -> Call:
    """`gemm_a4w4`: AITER's own table chooses the kernel. Newer releases return a tensor to copy."""
    shape = problem.shape
    usual = (32, 128) if shape.m <= 256 else (256, 256)  # what wins most in its table
    return Call(
        name="gemm",
        function="gemm_a4w4",
        buffers=_a4w4_buffers(shape, operand_c(problem), shuffled=True),
        values={"alpha": 1.0, "beta": 0.0, "bpreshuffle": True},
        options=_ASM_OPTIONS,
        work=_tile_work(shape, usual, 1),
        kernels=2,
    )


def _a4w4_buffers(shape: Shape, out: Buffer, *, shuffled: bool) -> dict[str, Buffer]:
    return {
        "A": plain_codes("a_codes", shape.m, shape),
        "B": plain_codes("b_shuffled" if shuffled else "b", shape.n, shape),
        "A_scale": scales_a(shape, shuffled=True),
        "B_scale": scales_b(shape),
        "out": out,
    }


def _tile_work(shape: Shape, tile: tuple[int, int], splits: int) -> Work:
    m, n = tile
    return Work(
        programs=ceil_div(shape.m, m) * ceil_div(shape.n, n) * splits,
        iterations=ceil_div(shape.k, _K_STEP * splits),
        flops=2.0 * m * n * _K_STEP,
        load_bytes=_CODE_BYTES * (m + n) * _K_STEP,
        quantised=0,
        multiplied=(m + n) * _K_STEP,
        unique_bytes=_CODE_BYTES * (shape.m + shape.n) * shape.k + 2.0 * shape.m * shape.n,
    )


def triton_call(function: str, config: Config, problem: Problem, *, shuffled: bool) -> Call:
    """One of AITER's Triton kernels that quantise A themselves, by its ten keys."""
    shape, split = problem.shape, config.number("NUM_KSPLIT")
    codes, scales = ("b_shuffled", scales_b(shape)) if shuffled else ("b", plain_scales_b(shape))
    out = Buffer("partials", "fp32", (split, shape.m, shape.n)) if split > 1 else operand_c(problem)
    ours = fused_step(as_tile(config, shuffled=shuffled), problem, out)
    return Call(
        name="gemm",
        function=function,
        buffers={
            "x": operand_a(problem),
            "w": plain_codes(codes, shape.n, shape),
            "w_scales": scales,
            "y": operand_c(problem),
        },
        values=dict(config),
        options=ours.options,
        work=ours.work,
        kernels=1 if split == 1 else 2,
    )


def plain_scales_b(shape: Shape) -> Buffer:
    """Scales of B as they are, uint8 [N, K/32]."""
    return Buffer("b_scales", "u8", (shape.n, shape.k // SCALE_BLOCK))


# AITER's name of a setting, and ours.
_OURS = {
    "BLOCK_SIZE_M": "BLOCK_M",
    "BLOCK_SIZE_N": "BLOCK_N",
    "BLOCK_SIZE_K": "BLOCK_K",
    "GROUP_SIZE_M": "group_m",
    "NUM_KSPLIT": "split_k",
}


def as_tile(config: Config, *, shuffled: bool) -> Config:
    """Return AITER's ten keys as the settings of our tiles, whose rules then hold for both."""
    ours: dict[str, Value] = {_OURS.get(name, name): value for name, value in config.items_}
    weights = "shuffled" if shuffled else "plain"
    return Config.of(
        ours | {"weights": weights, "convert": "portable", "multiply": "scaled", "xcd_remap": 0}
    )
