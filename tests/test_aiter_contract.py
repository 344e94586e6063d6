"""What we call and what AITER's wheel takes: its sources are read, its layouts executed.

Nothing of AITER is imported: that needs ROCm.
"""

import ast
import re
import zipfile
from collections.abc import Callable
from hashlib import sha256
from inspect import Parameter, Signature
from typing import Any, Optional

import pytest
import torch
from tests.aiter_wheel import aiter_wheel, text_in_wheel
from torch import Tensor

from mxtune.configs.asm_rules import load_asm_rules
from mxtune.configs.devices import load_device
from mxtune.configs.shapes import Shape
from mxtune.kernels import layouts
from mxtune.kernels.aiter_calls import adapted, keywords
from mxtune.kernels.aiter_source import signature_in
from mxtune.kernels.asm_catalogue import read_catalogue
from mxtune.kernels.family import Call, Problem
from mxtune.kernels.registry import family

GFX950 = load_device("gfx950")
A4W4 = "aiter/ops/gemm_op_a4w4.py"


def call_of(name: str, m: int = 32) -> Call:
    owner, shape = family(name), Shape(m, 4096, 512)
    plan = owner.plan(owner.fallback(shape), Problem.contiguous(shape, GFX950))
    (call,) = (step for step in plan.steps if isinstance(step, Call))
    return call


def executed(file: str, function: str, **names: object) -> Callable[..., Any]:
    """A function of the wheel, alone and without its decorators."""
    (found,) = (
        node
        for node in ast.parse(text_in_wheel(file)).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    )
    found.decorator_list = []
    scope: dict[str, Any] = {"torch": torch, "Tensor": Tensor, "Optional": Optional, **names}
    exec(compile(ast.Module([found], []), file, "exec"), scope)
    made: Callable[..., Any] = scope[function]
    return made


def bound(call: Call, takes: Signature) -> dict[str, object]:
    """Everything that a call gives by keyword, after Python has matched it with the parameters."""
    tensors = {name: buffer.name for name, buffer in call.buffers.items()}
    given = {name: buffer for name, buffer in tensors.items() if name in takes.parameters}
    return dict(takes.bind(**keywords(call, takes), **given).arguments)


def test_the_asm_gemm_of_the_wheel_takes_what_we_give() -> None:
    takes = signature_in(text_in_wheel(A4W4), "gemm_a4w4_asm")
    assert bound(call_of("asm"), takes) == {
        "A": "a_codes",
        "B": "b_shuffled",
        "A_scale": "a_scales_shuffled",
        "B_scale": "b_scales_shuffled",
        "out": "c",
        "kernelName": "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E",
        "alpha": 1.0,
        "beta": 0.0,
        "bpreshuffle": True,
        "log2_k_split": 0,
    }
    assert takes.parameters["bias"].default == "None"


def test_the_compiled_side_names_its_arguments_as_python_does() -> None:
    macros = text_in_wheel("aiter_meta/csrc/include/rocm_ops.hpp")
    macro = macros.split("#define GEMM_A4W4_ASM_PYBIND")[1].split("#define")[0]
    arguments = re.findall(r'py::arg\("(\w+)"\)\s*(=?)', macro)
    takes = signature_in(text_in_wheel(A4W4), "gemm_a4w4_asm").parameters
    assert [name for name, _ in arguments] == list(takes)
    assert [bool(default) for _, default in arguments] == [
        parameter.default is not Parameter.empty for parameter in takes.values()
    ]
    header = text_in_wheel("aiter_meta/csrc/include/asm_gemm_a4w4.h")
    for declared in (
        "std::string& kernelName,",
        "std::optional<float> alpha ",
        "std::optional<float> beta ",
        "std::optional<bool> bpreshuffle ",
        "std::optional<int> log2_k_split ",
    ):
        assert declared in header


def test_torch_takes_our_call_as_the_operator_that_aiter_registers() -> None:
    function = executed(A4W4, "gemm_a4w4_asm")
    schema = torch.library.infer_schema(function, mutates_args="unknown")
    told: list[Any] = []

    def record(*given: Any) -> Tensor:
        told[:] = given
        out: Tensor = given[4]
        return out

    make: Any = torch.library.Library
    library = make("mxtune_contract", "DEF")
    library.define(f"gemm_a4w4_asm{schema}")
    library.impl("gemm_a4w4_asm", record, "CPU")
    call = call_of("asm")
    tensors = {
        buffer.name: torch.zeros(buffer.shape, dtype=torch.uint8)
        for name, buffer in call.buffers.items()
        if name != "out"
    }
    c = torch.zeros(32, 4096).bfloat16()
    takes = signature_in(text_in_wheel(A4W4), "gemm_a4w4_asm")
    adapted(call, torch.ops.mxtune_contract.gemm_a4w4_asm, takes, tensors)(c, c)
    assert [tuple(given.shape) for given in told[:5]] == [
        (32, 256),
        (4096, 256),
        (256, 16),
        (4096, 16),
        (32, 4096),
    ]
    name = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E"
    assert told[5:] == [name, None, 1.0, 0.0, True, 0]


def test_the_gemm_of_the_wheel_takes_what_we_give() -> None:
    takes = signature_in(text_in_wheel(A4W4), "gemm_a4w4")
    assert bound(call_of("aiter"), takes) == {
        "A": "a_codes",
        "B": "b_shuffled",
        "A_scale": "a_scales_shuffled",
        "B_scale": "b_scales_shuffled",
        "out": "c",
        "alpha": 1.0,
        "beta": 0.0,
        "bpreshuffle": True,
    }


def test_the_wheel_asserts_rows_in_32s_and_hides_its_parameters() -> None:
    """Why `aiter` pads, and why sources are read: the guard leaves (*args, **kwargs)."""
    text = text_in_wheel(A4W4)
    assert "out.shape[0] % 32 == 0" in text
    assert text.count("@torch_compile_guard(gen_fake=gemm_a4w4_fake)\ndef gemm_a4w4(") == 1
    guard = text_in_wheel("aiter/jit/utils/torch_guard.py")
    assert "def wrapper_custom(*args, **kwargs):" in guard
    assert "wraps" not in guard


def test_the_quantiser_of_the_wheel_follows_our_rule_by_name() -> None:
    fp4 = text_in_wheel("aiter/utility/fp4_utils.py")
    takes = signature_in(fp4, "dynamic_mxfp4_quant")
    takes.bind("x", shuffle=True)
    assert takes.parameters["scaling_mode"].default == "'even'"
    per_block = signature_in(text_in_wheel("aiter/ops/quant.py"), "per_1x32_f4_quant_triton")
    per_block.bind("x", shuffle=True)


def test_our_shuffled_weights_are_those_of_the_wheel() -> None:
    shuffle = executed("aiter/ops/shuffle.py", "shuffle_weight")
    codes = torch.randint(256, (64, 160), generator=torch.Generator().manual_seed(1))
    codes = codes.to(torch.uint8)
    assert torch.equal(layouts.shuffle_weight(codes), shuffle(codes, layout=(16, 16)))


@pytest.mark.parametrize("size", [(256, 16), (37, 13), (300, 8)], ids=str)
def test_our_shuffled_scales_are_those_of_the_wheel_and_their_padding_zero(
    size: tuple[int, int],
) -> None:
    shuffle = executed("aiter/utility/fp4_utils.py", "e8m0_shuffle")
    scales = torch.randint(1, 255, size, generator=torch.Generator().manual_seed(2))
    scales = scales.to(torch.uint8)
    ours, theirs = layouts.shuffle_scales(scales), shuffle(scales)
    assert ours.shape == theirs.shape
    inside = layouts.shuffle_scales(torch.ones_like(scales)).bool()
    assert torch.equal(ours[inside], theirs[inside])  # AITER leaves the rest uninitialised
    assert set(ours[~inside].tolist()) <= {0}


def test_the_wheel_has_no_triton_kernel_that_quantises_a16() -> None:
    """It came after: aiter_a16 and aiter_preshuffle need a release of January 2026 or later."""
    with zipfile.ZipFile(aiter_wheel()) as wheel:
        assert not [name for name in wheel.namelist() if "gemm_a16wfp4" in name]


def test_its_atomic_predecessor_is_not_taken_for_it() -> None:
    text = text_in_wheel("aiter/ops/triton/gemm_afp4wfp4_pre_quant_atomic.py")
    with pytest.raises(ValueError, match="no function gemm_a16wfp4 in its source"):
        signature_in(text, "gemm_a16wfp4")
    call = call_of("aiter_a16")
    takes = signature_in(text, "gemm_afp4wfp4_pre_quant")
    assert keywords(call, takes)["config"]["NUM_KSPLIT"] == 1  # the same keys, by another name


def test_every_object_of_the_wheel_is_the_one_whose_rules_we_have() -> None:
    catalogue = read_catalogue(aiter_wheel())
    digests = {k.name: sha256(catalogue.code(k)).hexdigest()[:16] for k in catalogue.kernels}
    assert digests == {facts.name: facts.digest for facts in load_asm_rules().kernels}
    labels = {kernel.label for kernel in catalogue.kernels}
    assert labels == set({t.name: t for t in family("asm").tunables}["kernel"].choices)
