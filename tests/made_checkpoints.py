"""Tiny checkpoints in the layouts that `load_mxfp4` reads, written with safetensors."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

EXPERTS = "model.layers.0.mlp.experts.gate_up_proj"
PROJECTION = "model.layers.0.self_attn.q_proj"


def random_bytes(*size: int, seed: int = 0) -> Tensor:
    """Every byte but 255, which as a scale is NaN and would compare unequal to itself."""
    source = torch.Generator().manual_seed(seed)
    return torch.randint(255, size, generator=source, dtype=torch.uint8)


def gpt_oss(experts: int = 3, n: int = 4, blocks: int = 2) -> dict[str, Tensor]:
    """Experts with a bias, and tensors that are no MXFP4, two of them with names like it."""
    return {
        f"{EXPERTS}_blocks": random_bytes(experts, n, blocks, 16, seed=1),
        f"{EXPERTS}_scales": random_bytes(experts, n, blocks, seed=2),
        f"{EXPERTS}_bias": torch.arange(experts * n).reshape(experts, n).bfloat16(),
        "model.layers.0.mlp.router.weight": torch.ones(experts, 8).bfloat16(),
        "model.norm_scales": torch.ones(8),
        "model.position_blocks": torch.ones(8, 16),
        "model.norm.weight": torch.ones(8).bfloat16(),
    }


def quark(n: int = 4, k: int = 64) -> dict[str, Tensor]:
    """A projection with a bias, and one that stays in FP8 under the same names."""
    return {
        f"{PROJECTION}.weight": random_bytes(n, k // 2, seed=3),
        f"{PROJECTION}.weight_scale": random_bytes(n, k // 32, seed=4),
        f"{PROJECTION}.bias": torch.arange(n).bfloat16(),
        "model.layers.0.self_attn.o_proj.weight": torch.ones(n, k).to(torch.float8_e4m3fn),
        "model.layers.0.self_attn.o_proj.weight_scale": torch.ones(1),
        "model.norm.weight": torch.ones(8).bfloat16(),
    }


def one_file(folder: Path, tensors: Mapping[str, Tensor]) -> Path:
    path = folder / "model.safetensors"
    save_file(dict(tensors), path)
    return path


def sharded(folder: Path, *shards: Mapping[str, Tensor], index: str = "model") -> Path:
    """Write shards, and an index of them; return the index."""
    places: dict[str, str] = {}
    for number, tensors in enumerate(shards, 1):
        name = f"{index}-{number:05}-of-{len(shards):05}.safetensors"
        save_file(dict(tensors), folder / name)
        places |= dict.fromkeys(tensors, name)
    path = folder / f"{index}.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": places}), "utf-8")
    return path


def configured(folder: Path, quantization: object) -> None:
    text = json.dumps({"model_type": "made_up", "quantization_config": quantization})
    (folder / "config.json").write_text(text, "utf-8")


def without(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {each: tensor for each, tensor in tensors.items() if each != name}
