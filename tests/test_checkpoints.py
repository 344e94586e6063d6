"""MXFP4 weights out of checkpoints: their values, where they are found, and what is chosen."""

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
from tests.plain_linear import normal, plain_gemm
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.kernels import formats
from mxtune.kernels.checkpoints import describe, load_mxfp4
from mxtune.kernels.linear import Mxfp4Linear

Found = dict[str, tuple[Tensor, Tensor, list[float] | None]]

# the 16 codes in order, the first of each byte in its low nibble
ALL_CODES = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]
ALL_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
ALL_VALUES += [-value for value in ALL_VALUES]


def found(path: Path, names: object = None) -> Found:
    """Codes, scales and bias by name, in the order in which they come."""
    return {
        name: (weight.codes(), weight.scales(), None if bias is None else bias.tolist())
        for name, weight, bias in load_mxfp4(path, names)  # type: ignore[arg-type]
    }


def same(one: Found, other: Found) -> bool:
    return list(one) == list(other) and all(
        torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) and a[2] == b[2]
        for a, b in zip(one.values(), other.values(), strict=True)
    )


def experts_of(tensors: dict[str, Tensor]) -> Found:
    blocks, scales, bias = (tensors[f"{EXPERTS}_{end}"] for end in ("blocks", "scales", "bias"))
    return {
        f"{EXPERTS}.{e}": (blocks[e].flatten(1), scales[e], bias[e].tolist())
        for e in range(blocks.shape[0])
    }


# --- values


def test_blocks_of_gpt_oss_are_decoded_as_worked_out_by_hand(tmp_path: Path) -> None:
    blocks = torch.zeros(2, 1, 2, 16, dtype=torch.uint8)
    blocks[0, 0, 0] = torch.tensor(ALL_CODES * 2)
    blocks[0, 0, 1, 0] = 0x71
    blocks[1, 0, 1, 15] = 0xF2
    scales = torch.tensor([[[127, 129]], [[0, 126]]], dtype=torch.uint8)
    path = one_file(tmp_path, {"x_blocks": blocks, "x_scales": scales})
    first, second = (weight.dequantised() for _, weight, _ in load_mxfp4(path))
    assert first.tolist() == [ALL_VALUES * 2 + [0.5 * 4, 6.0 * 4] + [0.0] * 30]
    assert second.tolist() == [[0.0] * 62 + [1.0 / 2, -6.0 / 2]]


def test_codes_of_quark_are_decoded_as_worked_out_by_hand(tmp_path: Path) -> None:
    codes = torch.tensor([ALL_CODES * 4, [0x71] + [0] * 31], dtype=torch.uint8)
    scales = torch.tensor([[127, 129], [126, 0]], dtype=torch.uint8)
    path = one_file(tmp_path, {"x.weight": codes, "x.weight_scale": scales})
    ((name, weight, bias),) = load_mxfp4(path)
    assert (name, bias, weight.n, weight.k) == ("x", None, 2, 64)
    assert weight.dequantised().tolist() == [
        ALL_VALUES * 2 + [4 * value for value in ALL_VALUES * 2],
        [0.25, 3.0] + [0.0] * 62,
    ]


def test_a_layer_made_of_what_is_loaded_computes_with_it(tmp_path: Path) -> None:
    path = one_file(tmp_path, quark())
    ((_, weight, bias),) = load_mxfp4(path)
    layer, x = Mxfp4Linear.from_weight(weight, bias, plain_gemm), normal(3, 64)
    assert bias is not None
    product = formats.product(formats.dequantise(*formats.quantise(x)), weight.dequantised())
    assert torch.equal(layer(x), product.bfloat16() + bias)


def test_the_layer_reads_a_quark_layer_as_its_state_dict() -> None:
    tensors, layer = quark(), Mxfp4Linear(64, 4, gemm=plain_gemm)
    cut = len(PROJECTION) + 1
    layer.load_state_dict({n[cut:]: t for n, t in tensors.items() if n.startswith(PROJECTION)})
    assert torch.equal(layer.weight, tensors[f"{PROJECTION}.weight"])


# --- the two layouts and the variants of their names


def test_experts_come_one_by_one_with_their_bias(tmp_path: Path) -> None:
    tensors = gpt_oss()
    assert same(found(one_file(tmp_path, tensors)), experts_of(tensors))


@pytest.mark.parametrize("experts", [None, 1])
def test_a_matrix_of_blocks_keeps_its_name_and_a_single_expert_has_a_number(
    experts: int | None, tmp_path: Path
) -> None:
    tensors = gpt_oss(experts=1)
    wanted = experts_of(tensors)
    if experts is None:
        tensors = {name: tensor.squeeze(0) for name, tensor in tensors.items()}
        wanted = {EXPERTS: wanted[f"{EXPERTS}.0"]}
    assert same(found(one_file(tmp_path, tensors)), wanted)


def test_openais_own_names_are_read_too(tmp_path: Path) -> None:
    given = gpt_oss()
    stem = "block.0.mlp.mlp1"
    tensors = {
        f"{stem}_weight.blocks": given[f"{EXPERTS}_blocks"],
        f"{stem}_weight.scales": given[f"{EXPERTS}_scales"],
        f"{stem}_bias": given[f"{EXPERTS}_bias"],
    }
    wanted = zip("012", experts_of(given).values(), strict=True)
    assert same(found(one_file(tmp_path, tensors)), {f"{stem}.{e}": one for e, one in wanted})


@pytest.mark.parametrize("ending", ["weight_scale", "weight_quantizer.scale"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e8m0fnu])
@pytest.mark.parametrize("bias", [torch.bfloat16, torch.float32, None])
def test_quark_under_both_names_of_its_scales_and_as_e8m0(
    ending: str, dtype: torch.dtype, bias: torch.dtype | None, tmp_path: Path
) -> None:
    codes, scales = random_bytes(4, 32), random_bytes(4, 2)
    tensors = {"a.weight": codes, f"a.{ending}": scales.view(dtype)}
    if bias is not None:
        tensors["a.bias"] = torch.arange(4).to(bias)
    path = one_file(tmp_path, tensors)
    wanted = None if bias is None else [0.0, 1.0, 2.0, 3.0]
    assert same(found(path), {"a": (codes, scales, wanted)})
    assert [loaded.dtype for _, _, loaded in load_mxfp4(path) if loaded is not None] == (
        [] if bias is None else [bias]
    )


def test_layers_that_quark_kept_in_other_formats_are_passed_over(tmp_path: Path) -> None:
    tensors = quark()
    codes, scales = tensors[f"{PROJECTION}.weight"], tensors[f"{PROJECTION}.weight_scale"]
    wanted: Found = {PROJECTION: (codes, scales, [0.0, 1.0, 2.0, 3.0])}
    assert same(found(one_file(tmp_path, tensors)), wanted)


def test_stacked_experts_of_quark_come_one_by_one(tmp_path: Path) -> None:
    codes, scales = random_bytes(2, 3, 48), random_bytes(2, 3, 3)
    others = gpt_oss()
    path = one_file(tmp_path, others | {"e.weight": codes, "e.weight_scale": scales})
    wanted: Found = {f"e.{e}": (codes[e], scales[e], None) for e in range(2)}
    assert same(found(path), wanted | experts_of(others))


# --- files


def test_a_folder_an_index_and_a_file_say_the_same(tmp_path: Path) -> None:
    tensors = gpt_oss()
    wanted = experts_of(tensors)
    path = one_file(tmp_path, tensors)
    assert same(found(path), wanted)
    assert same(found(tmp_path), wanted)
    assert [str(weight) for weight in describe(str(tmp_path))] == [
        f"{EXPERTS}: 3 experts of N=4, K=64, a bias (gpt-oss)"
    ]


@pytest.mark.parametrize("index", ["model", "checkpoint"])
def test_codes_scales_and_bias_may_lie_in_different_shards(index: str, tmp_path: Path) -> None:
    tensors = gpt_oss()
    shards = [{name: tensor} for name, tensor in tensors.items()]
    path = sharded(tmp_path, *shards, index=index)
    for given in (path, tmp_path):
        assert same(found(given), experts_of(tensors))


def test_of_several_indexes_the_usual_one_is_taken(tmp_path: Path) -> None:
    sharded(tmp_path, quark(), index="consolidated")
    sharded(tmp_path, gpt_oss())
    assert [weight.name for weight in describe(tmp_path)] == [EXPERTS]


def test_files_without_an_index_are_taken_together(tmp_path: Path) -> None:
    tensors = gpt_oss()
    sharded(tmp_path, without(tensors, f"{EXPERTS}_scales"), {
        f"{EXPERTS}_scales": tensors[f"{EXPERTS}_scales"]
    }).unlink()  # fmt: skip
    assert same(found(tmp_path), experts_of(tensors))


def test_what_is_loaded_outlives_the_files(tmp_path: Path) -> None:
    tensors = gpt_oss()
    path = one_file(tmp_path, tensors)
    loaded = found(path)
    path.write_bytes(b"\0" * path.stat().st_size)
    assert same(loaded, experts_of(tensors))


# --- config.json


@pytest.mark.parametrize(
    ("quantization", "names"),
    [
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, [EXPERTS]),
        ({"quant_method": "quark", "export": {"pack_method": "reorder"}}, [PROJECTION]),
        (None, [EXPERTS, PROJECTION]),
    ],
)
def test_the_config_tells_which_layout_is_meant(
    quantization: object, names: list[str], tmp_path: Path
) -> None:
    path = one_file(tmp_path, gpt_oss() | quark())
    configured(tmp_path, quantization)
    for given in (path, tmp_path):
        assert [weight.name for weight in describe(given)] == names


def test_another_quantisation_is_refused_by_the_name_it_has(tmp_path: Path) -> None:
    one_file(tmp_path, quark())
    configured(tmp_path, {"quant_method": "fp8"})
    with pytest.raises(ConfigError) as error:
        describe(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}/config.json: quantization_config says 'fp8', not mxfp4 or quark"
    )


# --- describing and choosing


def test_a_description_says_what_is_there_and_in_which_file(tmp_path: Path) -> None:
    sharded(tmp_path, gpt_oss(), quark())
    experts, projection = describe(tmp_path)
    assert str(projection) == f"{PROJECTION}: a matrix of N=4, K=64, a bias (quark)"
    assert (experts.experts, experts.n, experts.k, projection.experts) == (3, 4, 64, None)
    assert str(experts.codes) == (
        f"{tmp_path}/model-00001-of-00002.safetensors: {EXPERTS}_blocks (U8 [3, 4, 2, 16])"
    )
    assert str(projection.bias) == (
        f"{tmp_path}/model-00002-of-00002.safetensors: {PROJECTION}.bias (BF16 [4])"
    )


DOWN = EXPERTS.replace("gate_up", "down")


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (EXPERTS, [f"{EXPERTS}.{e}" for e in range(3)]),
        ("*.down_proj", [f"{DOWN}.{e}" for e in range(3)]),
        (f"{EXPERTS}.2", [f"{EXPERTS}.2"]),
        ("*.1", [f"{DOWN}.1", f"{EXPERTS}.1"]),
        ([f"{EXPERTS}.2", f"{EXPERTS}.0", "*gate*.2"], [f"{EXPERTS}.0", f"{EXPERTS}.2"]),
        ([f"{EXPERTS}.1", EXPERTS], [f"{EXPERTS}.{e}" for e in range(3)]),
        (PROJECTION, [PROJECTION]),
        ((), []),
    ],
)
def test_names_choose_weights_experts_and_patterns(
    names: object, chosen: list[str], tmp_path: Path
) -> None:
    given = gpt_oss()
    others = {name.replace("gate_up", "down"): tensor.clone() for name, tensor in given.items()}
    path = one_file(tmp_path, given | others | quark())
    everything = found(path)
    assert same(found(path, names), {name: everything[name] for name in chosen})


def test_files_of_what_is_not_chosen_may_be_missing(tmp_path: Path) -> None:
    tensors = gpt_oss()
    sharded(tmp_path, quark(), tensors)
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    assert same(found(tmp_path, EXPERTS), experts_of(tensors))


def test_all_is_checked_before_the_first_weight_is_read(tmp_path: Path) -> None:
    path = one_file(tmp_path, without(gpt_oss() | quark(), f"{PROJECTION}.weight_scale"))
    with pytest.raises(ConfigError, match="has no partner"):
        load_mxfp4(path)
