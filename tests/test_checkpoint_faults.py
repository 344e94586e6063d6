"""Checkpoints that are broken or are no MXFP4: one line that names the file and the tensor."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.made_checkpoints import (
    EXPERTS,
    PROJECTION,
    configured,
    gpt_oss,
    one_file,
    quark,
    random_bytes,
    sharded,
    without,
)
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.kernels.checkpoints import describe, load_mxfp4

ROOT = Path(__file__).parent.parent
FOUND = "no uint8 X_blocks with X_scales or X_weight.blocks with X_weight.scales or X.weight with "
FOUND += "X.weight_scale"


def refusal(path: Path, names: str | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        describe(path) if names is None else load_mxfp4(path, names)
    message = str(error.value)
    assert "\n" not in message
    return message


# --- tensors

BLOCKS = (f"{EXPERTS}_blocks", "U8 [3, 4, 2, 16]")
CODES = (f"{PROJECTION}.weight", "U8 [4, 32]")


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (f"{EXPERTS}_scales", f"{EXPERTS}_blocks (U8 [3, 4, 2, 16])"),
        (f"{EXPERTS}_blocks", f"{EXPERTS}_scales (U8 [3, 4, 2])"),
        (f"{PROJECTION}.weight_scale", f"{PROJECTION}.weight (U8 [4, 32])"),
        (f"{PROJECTION}.weight", f"{PROJECTION}.weight_scale (U8 [4, 2])"),
    ],
)
def test_a_tensor_without_its_partner_is_named(missing: str, told: str, tmp_path: Path) -> None:
    path = one_file(tmp_path, without(gpt_oss() | quark(), missing))
    assert refusal(path) == f"{path}: {told}: has no partner {missing}"


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        (
            f"{EXPERTS}_blocks",
            torch.zeros(3, 4, 2, 16),
            "(F32 [3, 4, 2, 16]): expected U8 [3, 4, 2, 16]",
        ),
        (
            f"{EXPERTS}_blocks",
            random_bytes(3, 4, 4, 8),
            "(U8 [3, 4, 4, 8]): expected U8 [E, N, K/32, 16] or [N, K/32, 16]",
        ),
        (
            f"{EXPERTS}_blocks",
            random_bytes(2, 16),
            "(U8 [2, 16]): expected U8 [E, N, K/32, 16] or [N, K/32, 16]",
        ),
        (
            f"{EXPERTS}_blocks",
            random_bytes(1, 3, 4, 2, 16),
            "(U8 [1, 3, 4, 2, 16]): expected U8 [E, N, K/32, 16] or [N, K/32, 16]",
        ),
        (
            f"{EXPERTS}_blocks",
            random_bytes(3, 0, 2, 16),
            "(U8 [3, 0, 2, 16]): expected U8 [E, N, K/32, 16] or [N, K/32, 16]",
        ),
        (
            f"{EXPERTS}_scales",
            random_bytes(3, 4, 3),
            "(U8 [3, 4, 3]): expected U8 or F8_E8M0 [3, 4, 2]",
        ),
        (
            f"{EXPERTS}_scales",
            torch.ones(3, 4, 2),
            "(F32 [3, 4, 2]): expected U8 or F8_E8M0 [3, 4, 2]",
        ),
        (
            f"{EXPERTS}_bias",
            torch.ones(3, 5),
            "(F32 [3, 5]): expected BF16 or F16 or F32 [3, 4]",
        ),
        (
            f"{PROJECTION}.weight",
            random_bytes(4, 40),
            "(U8 [4, 40]): expected U8 [N, K/2] or [E, N, K/2], K a multiple of 32",
        ),
        (
            f"{PROJECTION}.weight",
            random_bytes(32),
            "(U8 [32]): expected U8 [N, K/2] or [E, N, K/2], K a multiple of 32",
        ),
        (
            f"{PROJECTION}.weight",
            random_bytes(),
            "(U8 []): expected U8 [N, K/2] or [E, N, K/2], K a multiple of 32",
        ),
        (  # NVFP4: a scale of another dtype for every 16 values
            f"{PROJECTION}.weight_scale",
            torch.ones(4, 4).to(torch.float8_e4m3fn),
            "(F8_E4M3 [4, 4]): expected U8 or F8_E8M0 [4, 2]",
        ),
        (
            f"{PROJECTION}.bias",
            torch.ones(4, dtype=torch.int32),
            "(I32 [4]): expected BF16 or F16 or F32 [4]",
        ),
    ],
)
def test_a_tensor_of_another_dtype_or_shape_is_named(
    name: str, changed: Tensor, told: str, tmp_path: Path
) -> None:
    path = one_file(tmp_path, gpt_oss() | quark() | {name: changed})
    assert refusal(path) == f"{path}: {name} {told}"


def test_fp6_in_bytes_is_no_mxfp4(tmp_path: Path) -> None:
    path = one_file(
        tmp_path, {"a.weight": random_bytes(4, 48), "a.weight_scale": random_bytes(4, 2)}
    )
    assert refusal(path) == f"{path}: a.weight_scale (U8 [4, 2]): expected U8 or F8_E8M0 [4, 3]"


def test_a_layer_that_rotates_its_input_is_refused(tmp_path: Path) -> None:
    rotation = {f"{PROJECTION}.input_rotation": torch.eye(64).to(torch.int8)}
    path = one_file(tmp_path, quark() | rotation)
    assert refusal(path) == (
        f"{path}: {PROJECTION}.input_rotation (I8 [64, 64]): the layer rotates its input first, "
        "which is not supported"
    )


# --- names


def test_a_checkpoint_without_mxfp4_says_what_was_looked_for(tmp_path: Path) -> None:
    path = one_file(tmp_path, {"a.weight": torch.ones(4, 4)})
    assert refusal(path) == f"{path}: holds no MXFP4 weight: {FOUND}"
    configured(tmp_path, {"quant_method": "mxfp4"})
    assert refusal(tmp_path / "model.safetensors") == (
        f"{path}: holds no MXFP4 weight (config.json says gpt-oss): {FOUND}"
    )


def test_a_name_that_nothing_has_is_repeated(tmp_path: Path) -> None:
    path = one_file(tmp_path, gpt_oss())
    assert refusal(path, "*.down_proj") == (
        f"{path}: holds no MXFP4 weight called '*.down_proj': {FOUND}"
    )


def test_a_name_of_something_else_says_what_it_is(tmp_path: Path) -> None:
    path = one_file(tmp_path, quark())
    assert refusal(path, "model.layers.0.self_attn.o_proj") == (
        f"{path}: model.layers.0.self_attn.o_proj.weight (F8_E4M3 [4, 64]): is no MXFP4 weight"
    )


@pytest.mark.parametrize(("name", "codes"), [(EXPERTS, BLOCKS), (PROJECTION, CODES)])
def test_an_expert_that_is_not_there_is_named(
    name: str, codes: tuple[str, str], tmp_path: Path
) -> None:
    path = one_file(tmp_path, gpt_oss() | quark())
    assert refusal(path, f"{name}.3") == (
        f"{path}: {codes[0]} ({codes[1]}): has no expert that '{name}.3' asks for"
    )


# --- files


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda whole: whole[:-1], "incomplete metadata, file not fully covered"),
        (lambda whole: whole[:40], "invalid header length"),
        (lambda _: b"", "header too small"),
        (lambda _: b"PK\x03\x04 this is some other kind of file", "header too large"),
    ],
)
def test_a_truncated_file_and_one_of_another_kind_are_refused(
    broken: Callable[[bytes], bytes], told: str, tmp_path: Path
) -> None:
    path = one_file(tmp_path, gpt_oss())
    path.write_bytes(broken(path.read_bytes()))
    assert refusal(path) == (
        f"{path}: no whole safetensors file: Error while deserializing header: {told}"
    )


def test_a_missing_path_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "model") == f"{tmp_path}/model: no such file or folder"
    assert refusal(tmp_path) == f"{tmp_path}: holds no .safetensors file"


def test_a_missing_shard_is_named_with_what_should_be_in_it(tmp_path: Path) -> None:
    tensors = gpt_oss()
    scales = {f"{EXPERTS}_scales": tensors.pop(f"{EXPERTS}_scales")}
    path = sharded(tmp_path, tensors, scales)
    shard = tmp_path / "model-00002-of-00002.safetensors"
    shard.unlink()
    for given in (path, tmp_path):
        assert refusal(given) == (f"{shard}: no such file; the index places {EXPERTS}_scales in it")


def test_a_shard_that_lacks_what_the_index_says_is_named(tmp_path: Path) -> None:
    path = sharded(tmp_path, gpt_oss())
    shard = tmp_path / "model-00001-of-00001.safetensors"
    one_file(tmp_path, without(gpt_oss(), f"{EXPERTS}_scales")).replace(shard)
    assert refusal(path) == f"{shard}: holds no {EXPERTS}_scales, although the index says so"


def test_two_files_with_the_same_tensor_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        tensors = {"norm.weight": torch.ones(2)}
        one_file(tmp_path, tensors).rename(tmp_path / f"{name}.safetensors")
    assert refusal(tmp_path) == (
        f"{tmp_path}/b.safetensors: holds norm.weight, and so does {tmp_path}/a.safetensors"
    )


def test_of_several_unusual_indexes_one_has_to_be_named(tmp_path: Path) -> None:
    sharded(tmp_path, quark(), index="a")
    wanted = sharded(tmp_path, quark(), index="b")
    assert refusal(tmp_path) == (
        f"{tmp_path}: has several indexes (a.safetensors.index.json, b.safetensors.index.json); "
        "name the one that is meant"
    )
    assert [weight.name for weight in describe(wanted)] == [PROJECTION]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not readable as JSON: Expecting property name"),
        ("[]", "expected a JSON object"),
        ("{}", "has no weight_map from tensors to files"),
        ('{"weight_map": {"a": 1}}', "has no weight_map from tensors to files"),
    ],
)
def test_an_index_that_is_none_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text, "utf-8")
    assert refusal(path).startswith(f"{path}: {told}")


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    path = one_file(tmp_path, quark())
    (tmp_path / "safetensors.py").write_text("raise ImportError('blocked')\n", "utf-8")
    told = f"""
from mxtune import load_mxfp4
from mxtune.configs.errors import MissingError
try:
    load_mxfp4({str(path)!r})
except MissingError as error:
    print(error)
"""
    places = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", told],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (
        "reading checkpoints needs the library safetensors: pip install mxtune[checkpoints]\n",
        "",
    )
