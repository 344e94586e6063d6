"""Kernels are copied into a submission as they stand, with all that they need, and no more."""

import ast
from pathlib import Path

import pytest

from mxtune.kernels.build import DYNAMIC
from mxtune.results.contest.sources import (
    Import,
    Place,
    gathered,
    import_block,
    parameters,
    unspecialised,
)

DEVICE = "mxtune.kernels.device"
FOLDER = Path(__file__).parent.parent / "kernels" / "device"
LAUNCHED = {
    "fused": "fused",
    "gemm": "gemm",
    "quantise": "quantise",
    "reduce": "reduce",
    "zero": "zero",
}


def place(module: str, name: str) -> Place:
    return Place(f"{DEVICE}.{module}", name)


def test_a_kernel_comes_as_it_stands_with_what_it_calls() -> None:
    found = gathered([place("reduce", "reduce")])
    assert list(found.pieces) == [
        place("tile", "INTERPRETED"),
        place("tile", "to_bf16"),
        place("reduce", "reduce"),
    ]
    source = (FOLDER / "reduce.py").read_text("utf-8")
    assert source.endswith(found.pieces[place("reduce", "reduce")])
    assert found.imports == {
        Import("triton"),
        Import("triton.language", "", "tl"),
        Import("triton", "knobs"),
    }


@pytest.mark.parametrize("module", LAUNCHED)
def test_everything_that_a_kernel_names_is_there_before_it(module: str) -> None:
    found = gathered([place(module, LAUNCHED[module])])
    known = {item.bound for item in found.imports}
    builtins = {"range", "bool", "int", "tuple", "map"}
    for at, text in found.pieces.items():
        (node,) = ast.parse(text).body
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        made = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        made |= {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        assert used - made - known - builtins == set(), at
        known.add(at.name)


@pytest.mark.parametrize("module", LAUNCHED)
def test_kernels_take_their_tensors_before_their_values(module: str) -> None:
    names = parameters(place(module, LAUNCHED[module]))
    tensors = [name.endswith("_ptr") for name in names]
    assert tensors == sorted(tensors, reverse=True)
    assert tensors[0]


def test_names_are_not_used_twice_among_the_kernels() -> None:
    everything = gathered([place(module, name) for module, name in LAUNCHED.items()])
    names = [found.name for found in everything.pieces]
    assert len(names) == len(set(names)) > 20


def test_two_definitions_of_one_name_are_refused() -> None:
    contest = "mxtune.results.contest"
    with pytest.raises(ValueError, match=f"{contest}.known and {contest}.names both define _words"):
        gathered([Place(f"{contest}.known", "_words"), Place(f"{contest}.names", "_words")])


def test_what_is_present_is_left_out_and_what_is_moved_comes_from_elsewhere() -> None:
    found = gathered([place("reduce", "reduce")], present=[place("tile", "to_bf16")])
    assert list(found.pieces) == [place("reduce", "reduce")]
    moved = {place("tile", "to_bf16"): place("mxfp4", "even_byte")}
    found = gathered([place("reduce", "reduce")], moved=moved)
    assert list(found.pieces) == [place("mxfp4", "even_byte"), place("reduce", "reduce")]


def test_a_kernel_is_compiled_for_every_m() -> None:
    text = gathered([place("reduce", "reduce")]).pieces[place("reduce", "reduce")]
    first = unspecialised(text, [name for name in DYNAMIC if name == "M"]).splitlines()[0]
    assert first == '@triton.jit(do_not_specialize=["M"])'
    with pytest.raises(ValueError, match="not a kernel as they are written here"):
        unspecialised("@jit\ndef f(): pass\n", [])


def test_imports_are_sorted_as_ruff_sorts_them() -> None:
    imports = [
        Import("triton", "knobs"),
        Import("functools", "partial"),
        Import("triton.language", "", "tl"),
        Import("torch"),
        Import("functools", "cache"),
        Import("triton"),
        Import("dataclasses", "dataclass"),
    ]
    assert import_block(imports) == (
        "from dataclasses import dataclass\n"
        "from functools import cache, partial\n"
        "\n"
        "import torch\n"
        "import triton\n"
        "import triton.language as tl\n"
        "from triton import knobs"
    )
