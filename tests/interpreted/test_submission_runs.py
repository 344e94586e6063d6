"""A submission gives right numbers: its own routes, its default, with AITER stood in for."""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.submission_tables import SMALL, table_of, text_of

from mxtune.configs.shapes import Shape
from mxtune.tuner.harness_child import fault_of, inputs

STAND_INS = Path(__file__).parent.parent.parent / "tuner" / "stand_in"
BUNDLED = Shape(4, 64, 64)  # that no table here has
RAGGED = (BUNDLED, Shape(17, 112, 320), Shape(1, 16, 64), Shape(70, 48, 576))


def loaded(folder: Path, text: str) -> Any:
    file = folder / "submission.py"
    file.write_text(text, "utf-8")
    spec = spec_from_file_location("submission", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def faults(module: Any, shapes: Iterator[Shape] | tuple[Shape, ...]) -> dict[str, str]:
    """What is wrong at each shape, on two draws of the inputs."""
    found: dict[str, str] = {}
    for shape in shapes:
        for seed in (1, 2):
            given, expected = inputs(shape, seed, "cpu")
            made = module.custom_kernel(given)
            found[f"{shape} {seed}"] = fault_of(made, expected)
            assert made.is_contiguous()
    return {at: fault for at, fault in found.items() if fault}


def test_the_routes_of_a_table_are_right(tmp_path: Path) -> None:
    module = loaded(tmp_path, text_of(table_of(SMALL)))
    assert set(module.ROUTES) == {(17, 96, 320), (5, 64, 512), (3, 48, 192)}
    assert faults(module, tuple(SMALL)) == {}


def test_atomic_routes_are_right(tmp_path: Path) -> None:
    shape = Shape(17, 96, 320)
    for name in ("splitk_atomic", "fused_atomic", "fused_preshuffle_atomic"):
        table = table_of({shape: (name, {"BLOCK_K": 128, "split_k": 2})})
        assert faults(loaded(tmp_path, text_of(table)), (shape,)) == {}, name


def test_the_default_is_right_at_shapes_that_the_table_has_not(tmp_path: Path) -> None:
    module = loaded(tmp_path, text_of(table_of(SMALL)))
    assert faults(module, RAGGED) == {}


def test_scales_are_padded_with_what_gives_nan_if_it_is_read(tmp_path: Path) -> None:
    module = loaded(tmp_path, text_of(table_of(SMALL)))
    module.zero_padded = as_it_came
    found = faults(module, (Shape(17, 112, 320),))
    assert all("elements are beyond" in fault for fault in found.values())
    assert len(found) == 2


# BL-038
def test_each_output_belongs_to_the_inputs_of_its_call(tmp_path: Path) -> None:
    module = loaded(tmp_path, text_of(table_of(SMALL)))
    for shape in (Shape(5, 64, 512), BUNDLED):
        given, expected = inputs(shape, 1, "cpu")
        other, changed = inputs(shape, 1 + 13, "cpu")
        first = module.custom_kernel(given)
        assert all(map(same_bytes, given, inputs(shape, 1, "cpu")[0]))
        given[0].copy_(other[0])
        given[2].copy_(other[2])
        given[3].copy_(other[3])
        given[4].copy_(other[4])
        assert fault_of(module.custom_kernel(given), changed) == ""
        assert fault_of(first, expected) == ""
        clones = tuple(tensor.clone() for tensor in given)
        assert fault_of(module.custom_kernel(clones), changed) == ""
        for seed in range(20):
            given, expected = inputs(shape, seed, "cpu")  # in the memory of those before
            assert fault_of(module.custom_kernel(given), expected) == ""


# BL-033
def test_any_a_is_taken_as_its_contiguous_copy(tmp_path: Path) -> None:
    module = loaded(tmp_path, text_of(table_of(SMALL)))
    for shape in (Shape(17, 96, 320), BUNDLED):
        (a, *weight), expected = inputs(shape, 3, "cpu")
        wide = torch.zeros(shape.m, 2 * shape.k + 1).bfloat16()
        wide[:, : 2 * shape.k : 2] = a
        flat = torch.zeros(a.numel() + 1).bfloat16()
        flat[1:] = a.flatten()
        views = (
            a.t().contiguous().t(),
            wide[:, : 2 * shape.k : 2],
            flat[1:].view(shape.m, shape.k),
        )
        for view in views:
            assert torch.equal(view, a)
            assert fault_of(module.custom_kernel((view, *weight)), expected) == ""


def as_it_came(scales: torch.Tensor, k: int) -> torch.Tensor:
    del k
    return scales


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("asm", "5x96x256"), ("asm", "32x96x512"), ("aiter", "5x512x256"), ("aiter", "64x512x512")],
)
def test_routes_of_aiter_are_right_where_it_is_stood_in_for(
    name: str, shape: str, tmp_path: Path
) -> None:
    with_stand_ins()
    table = table_of({Shape.parse(shape): (name, {})})
    assert faults(loaded(tmp_path, text_of(table)), (Shape.parse(shape),)) == {}


def test_aiters_triton_route_is_right_where_it_is_stood_in_for(tmp_path: Path) -> None:
    with_stand_ins()
    shape = Shape(5, 64, 512)
    table = table_of({shape: ("aiter_preshuffle", {"NUM_KSPLIT": 2, "BLOCK_SIZE_K": 256})})
    assert faults(loaded(tmp_path, text_of(table)), (shape,)) == {}


def with_stand_ins() -> None:
    if str(STAND_INS) not in sys.path:
        sys.path.append(str(STAND_INS))
