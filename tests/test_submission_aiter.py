"""How a submission calls AITER: as the release in the contest's container takes it.

The container has commit f3be04a12a of March 2026.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.aiter_launched import Launched
from tests.aiter_releases import A4W4_RETURNS, ASM, PRESHUFFLE, Told, recording
from tests.submission_tables import table_of, text_of

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Call, Problem
from mxtune.kernels.registry import family

_A4W4 = "aiter.ops.gemm_op_a4w4"
_A16 = "aiter.ops.triton.gemm.basic.gemm_a16wfp4"
CONTAINER = {
    "gemm_a4w4_asm": (_A4W4, ASM["#740, 2025-08-05, returns None"]),
    "gemm_a4w4": (_A4W4, A4W4_RETURNS["#1679, 2025-12-19"]),
    "gemm_a16wfp4_preshuffle": (_A16, PRESHUFFLE["#1777, 2026-01-09"]),
}
ROUTES: dict[str, tuple[str, Shape, dict[str, Value]]] = {
    "asm": ("gemm_a4w4_asm", Shape(5, 96, 512), {"kernel": "64x128"}),
    "aiter": ("gemm_a4w4", Shape(5, 512, 512), {}),
    "aiter_preshuffle": (
        "gemm_a16wfp4_preshuffle",
        Shape(5, 96, 512),
        {"BLOCK_SIZE_N": 32, "NUM_KSPLIT": 2, "cache_modifier": ""},
    ),
}


def loaded(
    folder: Path, text: str, told: Told, gives: object, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Import a submission where AITER only notes how it is called."""
    for name, (module, takes) in CONTAINER.items():
        parts = module.split(".")
        for at in range(1, len(parts) + 1):
            path = ".".join(parts[:at])
            monkeypatch.setitem(sys.modules, path, sys.modules.get(path) or ModuleType(path))
        function = recording(takes, told, gives)
        monkeypatch.setattr(sys.modules[module], name, function, raising=False)
    file = folder / "submission.py"
    file.write_text(text, "utf-8")
    spec = spec_from_file_location("submission", file)
    assert spec is not None
    assert spec.loader is not None
    module_ = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module_)
    spec.loader.exec_module(module_)
    return module_


def given_to(module: Any, shape: Shape) -> tuple[dict[str, torch.Tensor], Any]:
    """The tensors of a call at ``shape``, and the route's call of AITER."""
    (route,) = module.ROUTES.values()
    (call,) = [step for step in route.steps if isinstance(step, module.Call)]
    rows, columns = -(-shape.n // 256) * 256, -(-shape.k // 256) * 8
    tensors = {
        "A": torch.zeros(shape.m, shape.k).bfloat16(),
        "B_q": torch.zeros(shape.n, shape.k // 2).byte(),
        "B_shuffle": torch.zeros(shape.n, shape.k // 2).byte(),
        "B_scale_sh": torch.zeros(rows, columns).byte(),
    }
    fresh = {name: torch.zeros(size, dtype=dtype) for name, (dtype, size) in route.fresh.items()}
    return tensors | fresh, call


@pytest.mark.parametrize("name", ROUTES)
def test_a_call_gives_what_a_bound_route_gives(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, shape, changes = ROUTES[name]
    told: Told = {}
    made = torch.ones(shape.m, shape.n).bfloat16()
    text = text_of(table_of({shape: (name, changes)}))
    module = loaded(tmp_path, text, told, made, monkeypatch)
    tensors, call = given_to(module, shape)
    assert module.called(call)(tensors) is made

    config = family(name).fallback(shape).changed(**changes)
    plan = family(name).plan(config, Problem.contiguous(shape, load_device("gfx950")))
    (planned,) = [step for step in plan.steps if isinstance(step, Call)]
    ours = Launched(planned, CONTAINER[function][1], made)
    values = {name: v for name, v in told.items() if not isinstance(v, torch.Tensor)}
    assert values == ours.told_values()
    held = {name: v for name, v in told.items() if isinstance(v, torch.Tensor)}
    assert {name: (t.dtype, tuple(t.shape)) for name, t in held.items()} == ours.told_tensors()


def test_the_tensors_are_those_of_this_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, shape, changes = ROUTES["asm"]
    del function
    told: Told = {}
    text = text_of(table_of({shape: ("asm", changes)}))
    module = loaded(tmp_path, text, told, None, monkeypatch)
    tensors, call = given_to(module, shape)
    assert module.called(call)(tensors) is None  # as the releases do that return nothing
    places = {tensor.data_ptr(): name for name, tensor in tensors.items()}
    assert {
        key: places[told[key].data_ptr()] for key in ("A", "B", "A_scale", "B_scale", "out")
    } == {
        "A": "a_codes",
        "B": "B_shuffle",
        "A_scale": "a_scales_shuffled",
        "B_scale": "B_scale_sh",
        "out": "C",
    }
    assert tuple(told["out"].shape) == (32, 96)  # whole rows; the first 5 are C
    assert told["kernelName"].endswith("BpreShuffle_64x128E")


def test_aiters_own_choice_allocates_c_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shape, changes = ROUTES["aiter"]
    text = text_of(table_of({shape: ("aiter", changes)}))
    module = loaded(tmp_path, text, {}, None, monkeypatch)
    (route,) = module.ROUTES.values()
    assert set(route.fresh) == {"a_codes", "a_scales_shuffled"}
