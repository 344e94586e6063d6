"""Packages called aiter, written where a test wants them: AMD's, computing in torch, and others."""

import os
from collections.abc import Mapping
from pathlib import Path

# What AITER's own decorator leaves of a function: nothing tells what it takes.
_GUARD = """
def guard(function):
    def wrapper_custom(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper_custom
"""
A4W4 = f"""
import torch
from mxtune.kernels import formats, layouts
{_GUARD}
def product(a, b, a_scale, b_scale, shuffled):
    a, b, a_scale, b_scale = (x.view(torch.uint8) for x in (a, b, a_scale, b_scale))
    b = layouts.unshuffle_weight(b) if shuffled else b
    (m, bytes_), n = a.shape, b.shape[0]
    a_scale = layouts.unshuffle_scales(a_scale, m, bytes_ // 16)
    b_scale = layouts.unshuffle_scales(b_scale, n, bytes_ // 16)
    a, b = formats.dequantise(a, a_scale), formats.dequantise(b, b_scale)
    return formats.product(a, b).bfloat16()


@guard
def gemm_a4w4_asm(A, B, A_scale, B_scale, out, kernelName, bias=None, alpha=1.0, beta=0.0,
                  bpreshuffle=True, log2_k_split=None):
    assert out.shape[0] % 32 == 0 and out.is_contiguous() and (alpha, beta, bias) == (1, 0, None)
    assert bpreshuffle == ("noBpreShuffle" not in kernelName)
    out.fill_(float("nan"))
    out[: A.shape[0]] = product(A, B, A_scale, B_scale, bpreshuffle)
"""
A4W4_TAKES_OUT = """

@guard
def gemm_a4w4(A, B, A_scale, B_scale, out, bias=None, alpha=1.0, beta=0.0, bpreshuffle=True):
    return gemm_a4w4_asm(A, B, A_scale, B_scale, out, "BpreShuffle", bias, alpha, beta, bpreshuffle)
"""
A4W4_RETURNS = """

@guard
def gemm_a4w4(A, B, A_scale, B_scale, bias=None, dtype=None, alpha=1.0, beta=0.0,
              bpreshuffle=True, apreshuffle=False):
    return product(A, B, A_scale, B_scale, bpreshuffle)
"""
A16 = """
from mxtune.kernels import formats, layouts


def product(x, codes, scales):
    a = formats.dequantise(*formats.quantise(x))
    return formats.product(a, formats.dequantise(codes, scales)).bfloat16()


def gemm_a16wfp4(x, w, w_scales, atomic_add=False, dtype=None, y=None, config: dict = None):
    assert config["NUM_KSPLIT"] >= 1
    y.copy_(product(x, w, w_scales))


def gemm_a16wfp4_preshuffle(x, w, w_scales, prequant=True, dtype=None, y=None, config: dict = None,
                            skip_reduce=False):
    n, k = 16 * w.shape[0], x.shape[1]
    codes = layouts.unshuffle_weight(w.reshape(n, k // 2))
    scales = w_scales.reshape(32 * w_scales.shape[0], k // 32)
    y.copy_(product(x, codes, layouts.unshuffle_scales(scales, n, k // 32)))
"""
OLD_PLACE, NEW_PLACE = "ops/triton/gemm_a16wfp4.py", "ops/triton/gemm/basic/gemm_a16wfp4.py"
A4W4_PLACE = "ops/gemm_op_a4w4.py"


def write_aiter(folder: Path, files: Mapping[str, str]) -> None:
    """Write a package called aiter with these files into ``folder``; its packages are found."""
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "aiter" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        for package in (path.parent, *path.parent.parents):
            if package == folder:
                break
            (package / "__init__.py").touch()


def with_path(folder: Path, **variables: str) -> dict[str, str]:
    """Return an environment in which Python finds what lies in ``folder`` first, and no GPU."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1", **variables}
