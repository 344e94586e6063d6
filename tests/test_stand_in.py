"""What stands in for AITER computes what AITER does; in the padding of scales is what hurts."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mxtune.kernels import formats, layouts
from mxtune.tuner.stand_in import dtypes
from mxtune.tuner.stand_in.functions import (
    dynamic_mxfp4_quant,
    e8m0_shuffle,
    gemm_a4w4,
    gemm_a4w4_asm,
    gemm_a16wfp4_preshuffle,
    shuffle_weight,
)

FOLDER = Path(__file__).parent.parent / "tuner" / "stand_in"

# What the contest's reference and exported submissions import.
IMPORTS = """
import aiter
from aiter import QuantType, dtypes
from aiter.ops.gemm_op_a4w4 import gemm_a4w4, gemm_a4w4_asm
from aiter.ops.shuffle import shuffle_weight
from aiter.ops.triton.gemm.basic.gemm_a16wfp4 import gemm_a16wfp4_preshuffle
from aiter.ops.triton.quant import dynamic_mxfp4_quant
from aiter.utility.fp4_utils import e8m0_shuffle
from task import input_t, output_t

print(QuantType.per_1x32.name, dtypes.fp4x2, dtypes.bf16, aiter.gemm_a4w4.__name__)
"""

# 64 halves along K, in two blocks, the second eight times as large.
ROW = torch.tensor([[0.5] * 32 + [4.0] * 32]).bfloat16()


def test_a_row_is_quantised_by_the_even_rule() -> None:
    codes, scales = dynamic_mxfp4_quant(ROW)
    assert scales.tolist() == [[124, 127]]  # 2^-3, so that 0.5 is 4; 2^0
    assert codes.tolist() == [[0x66] * 32]


def test_scales_are_shuffled_as_ours_but_for_the_padding() -> None:
    scales = torch.arange(70 * 11, dtype=torch.int32).remainder(200).byte().reshape(70, 11)
    shuffled = e8m0_shuffle(scales)
    assert tuple(shuffled.shape) == (256, 16)
    assert torch.equal(layouts.unshuffle_scales(shuffled, 70, 11), scales)
    assert int((shuffled == 0xFF).sum()) == 256 * 16 - 70 * 11


def test_weights_keep_their_dtype_when_they_are_shuffled() -> None:
    codes = torch.arange(16 * 32, dtype=torch.int32).remainder(256).byte().reshape(16, 32)
    shuffled = shuffle_weight(codes.view(dtypes.fp4x2), layout=(16, 16))
    assert shuffled.dtype == dtypes.fp4x2
    assert torch.equal(shuffled.view(torch.uint8), layouts.shuffle_weight(codes))
    with pytest.raises(ValueError, match="only \\(16, 16\\) is known here"):
        shuffle_weight(codes, layout=(32, 16))


def operands(m: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    """A as it is, what AITER is given of A and B, and the product."""
    random = torch.Generator().manual_seed(5)
    a, b = (torch.randn((rows, k), generator=random).bfloat16() for rows in (m, n))
    (a_codes, a_scales), (b_codes, b_scales) = formats.quantise(a), formats.quantise(b)
    product = formats.product(
        formats.dequantise(a_codes, a_scales), formats.dequantise(b_codes, b_scales)
    )
    weight = shuffle_weight(b_codes)
    return a, a_codes, e8m0_shuffle(a_scales), weight, e8m0_shuffle(b_scales), product.bfloat16()


def test_every_gemm_is_the_product_of_the_bytes() -> None:
    a, codes, scales, weight, weight_scales, expected = operands(5, 64, 512)
    fp4, e8m0 = dtypes.fp4x2, dtypes.fp8_e8m0
    views = codes.view(fp4), weight.view(fp4), scales.view(e8m0), weight_scales.view(e8m0)
    assert torch.equal(gemm_a4w4(*views, dtype=torch.bfloat16, bpreshuffle=True), expected)
    out = torch.full((32, 64), 7.0).bfloat16()
    assert gemm_a4w4_asm(*views, out, "any") is out
    assert torch.equal(out[:5], expected)
    assert bool((out[5:] == 7.0).all())
    y = torch.empty(5, 64).bfloat16()
    rows = weight.view(4, -1), weight_scales.view(8, -1)
    assert gemm_a16wfp4_preshuffle(a, *rows, y=y, config={}) is y
    assert torch.equal(y, expected)


def test_what_is_not_known_is_refused() -> None:
    _, codes, scales, weight, weight_scales, _ = operands(1, 16, 64)
    with pytest.raises(ValueError, match="are not known here"):
        gemm_a4w4(codes, weight, scales, weight_scales, alpha=2.0)


def test_a_child_finds_them_by_the_names_of_aiter(tmp_path: Path) -> None:
    file = tmp_path / "imports.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\n{IMPORTS}", "utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "per_1x32 torch.float4_e2m1fn_x2 torch.bfloat16 gemm_a4w4\n"
