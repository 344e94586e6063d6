"""Weights out of checkpoints that hold MXFP4, in the two layouts people have.

    gpt-oss  X_blocks uint8 [E, N, K/32, 16], X_scales uint8 [E, N, K/32], X_bias [E, N]
    quark    X.weight uint8 [N, K/2], X.weight_scale uint8 [N, K/32], X.bias [N]

E is the number of experts; a matrix has no such dimension. In both, element 2i of a row lies in the
low nibble of byte i, and a scale byte means 2^(byte - 127): they are the plain layouts as they lie.
Sources and variants of the names: docs/checkpoints.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels.shards import Header, Shards, read_json
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Loaded = tuple[str, Mxfp4Weight, Tensor | None]

_BLOCK_BYTES = SCALE_BLOCK // 2
_CODES = "U8"
_SCALES = ("U8", "F8_E8M0")
_BIAS = ("BF16", "F16", "F32")
_ALL = ("*",)
_ROTATION = ".input_rotation"  # Quark's: the layer multiplies its input by it first


@dataclass(frozen=True, slots=True)
class Naming:
    """How the tensors of a weight X are called: X and these endings, the first scales there are."""

    layout: str
    codes: str
    scales: tuple[str, ...]
    bias: str


_NAMINGS = (
    Naming("gpt-oss", "_blocks", ("_scales",), "_bias"),
    Naming("gpt-oss", "_weight.blocks", ("_weight.scales",), "_bias"),
    Naming("quark", ".weight", (".weight_scale", ".weight_quantizer.scale"), ".bias"),
)
_METHODS = {"mxfp4": "gpt-oss", "quark": "quark"}  # quantization_config's quant_method


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """An MXFP4 weight [N, K] in a checkpoint, or one for each of ``experts``."""

    name: str
    layout: str
    experts: int | None
    n: int
    k: int
    codes: Header
    scales: Header
    bias: Header | None

    def __str__(self) -> str:
        what = "a matrix" if self.experts is None else f"{self.experts} experts"
        bias = "a bias" if self.bias else "no bias"
        return f"{self.name}: {what} of N={self.n}, K={self.k}, {bias} ({self.layout})"


def describe(path: str | Path) -> tuple[StoredWeight, ...]:
    """Return the MXFP4 weights that a checkpoint holds, by name, from the headers of its files.

    ``path`` is a .safetensors file, a *.safetensors.index.json, or a folder that has one of them.
    A config.json beside it says which layout is meant, if it has a quantization_config; names,
    dtypes and shapes say it otherwise. Raises ConfigError for files that are missing or broken, for
    tensors without their partner, of another dtype or of a shape that does not fit, and where there
    is no MXFP4 at all; MissingError without safetensors.
    """
    shards = Shards.at(Path(path))
    return tuple(stored for stored, _ in _chosen(shards, _ALL))


def load_mxfp4(
    path: str | Path,
    names: str | Iterable[str] | None = None,
    device: "torch.device | str" = "cpu",
) -> "Iterator[Loaded]":
    """Yield each MXFP4 weight of a checkpoint: its name, itself on ``device``, its bias or None.

    ``path`` is what `describe` takes. Expert 3 of X is called ``X.3``. ``names`` chooses, by name
    or pattern: ``*.down_proj``, X for all its experts, ``X.3`` for one. A bias is [N] in its stored
    dtype. All is checked before the first weight is read, and each is read only when its turn
    comes, one expert at a time. Raises what `describe` raises, for what is chosen, and ConfigError
    for a name that nothing has.
    """
    shards = Shards.at(Path(path))
    patterns = _ALL if names is None else (names,) if isinstance(names, str) else tuple(names)
    return _loaded(shards, _chosen(shards, patterns), device)


def _found(shards: Shards, patterns: tuple[str, ...]) -> dict[str, Naming]:
    """Return the names that are meant and are MXFP4, and how their tensors are called.

    No other tensor is looked at, so its file may be missing.
    """
    layout = _configured(shards.root)
    found: dict[str, Naming] = {}
    for naming in _NAMINGS:
        if layout not in (None, naming.layout):
            continue
        endings = (naming.codes, *naming.scales)
        stems = {name[: -len(end)] for name in shards for end in endings if name.endswith(end)}
        for stem in sorted(stems):
            meant = any(_meaning(stem, pattern) for pattern in patterns)
            if meant and _is_mxfp4(shards, stem, naming):
                found[stem] = naming
    return found


def _configured(root: Path) -> str | None:
    """Return the layout that config.json names, or None if it is not there or names none."""
    config = (root if root.is_dir() else root.parent) / "config.json"
    told = read_json(config).get("quantization_config") if config.is_file() else None
    if told is None:
        return None
    method = told.get("quant_method") if isinstance(told, dict) else told
    if method not in _METHODS:
        raise ConfigError(
            f"{config}: quantization_config says {method!r}, not {' or '.join(_METHODS)}"
        )
    return _METHODS[str(method)]


def _is_mxfp4(shards: Shards, stem: str, naming: Naming) -> bool:
    """Whether tensors of these names are MXFP4, well-formed or not.

    A Quark checkpoint may keep other layers in FP8 or bf16 under the same names, so there the dtype
    of the codes tells; two tensors called blocks and scales can be nothing else.
    """
    codes = stem + naming.codes
    scales = [stem + ending for ending in naming.scales if stem + ending in shards]
    if codes in shards:
        paired = bool(scales) and naming.layout == "gpt-oss"
        return paired or shards.header(codes).dtype == _CODES
    return shards.header(scales[0]).dtype in _SCALES


def _stored(shards: Shards, stem: str, naming: Naming) -> StoredWeight:
    """Check the tensors of one weight against each other."""
    if stem + _ROTATION in shards:
        raise ConfigError(
            f"{shards.header(stem + _ROTATION)}: the layer rotates its input first, which is not "
            "supported"
        )
    codes = _header(shards, stem, (naming.codes,), naming.scales)
    scales = _header(shards, stem, naming.scales, (naming.codes,))
    _check(codes, (_CODES,), codes.shape)
    blocks = _blocks(codes, naming)
    _check(scales, _SCALES, blocks)
    bias = shards.header(stem + naming.bias) if stem + naming.bias in shards else None
    if bias:
        _check(bias, _BIAS, blocks[:-1])
    *experts, n, columns = blocks
    k = columns * SCALE_BLOCK
    return StoredWeight(
        stem, naming.layout, experts[0] if experts else None, n, k, codes, scales, bias
    )


def _header(shards: Shards, stem: str, endings: tuple[str, ...], others: tuple[str, ...]) -> Header:
    for ending in endings:
        if stem + ending in shards:
            return shards.header(stem + ending)
    there = next(stem + other for other in others if stem + other in shards)
    raise ConfigError(f"{shards.header(there)}: has no partner {stem}{endings[0]}")


def _blocks(codes: Header, naming: Naming) -> tuple[int, ...]:
    """Return [N, K/32] or [E, N, K/32] of some codes."""
    rows, last = codes.shape[:-1], codes.shape[-1] if codes.shape else 0
    if naming.layout == "gpt-oss":
        wanted = "[E, N, K/32, 16] or [N, K/32, 16]"
        blocks, whole = rows, last == _BLOCK_BYTES
    else:
        wanted = "[N, K/2] or [E, N, K/2], K a multiple of 32"
        blocks, whole = (*rows, last // _BLOCK_BYTES), last % _BLOCK_BYTES == 0
    if not whole or len(blocks) not in (2, 3) or 0 in blocks:
        raise ConfigError(f"{codes}: expected {_CODES} {wanted}")
    return blocks


def _check(header: Header, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if header.dtype not in dtypes or header.shape != shape:
        raise ConfigError(f"{header}: expected {' or '.join(dtypes)} {list(shape)}")


def _chosen(
    shards: Shards, patterns: tuple[str, ...]
) -> list[tuple[StoredWeight, list[int | None]]]:
    """Return what the patterns mean, each weight and each expert once."""
    found = _found(shards, patterns)
    stored = [_stored(shards, stem, found[stem]) for stem in sorted(found)]
    for pattern in patterns:
        fits = [one for one in stored if _meaning(one.name, pattern)]
        if not fits:
            raise ConfigError(_nothing(shards, pattern))
        if not any(_experts(one, (pattern,)) for one in fits):
            raise ConfigError(f"{fits[0].codes}: has no expert that {pattern!r} asks for")
    return [(one, _experts(one, patterns)) for one in stored]


def _experts(stored: StoredWeight, patterns: tuple[str, ...]) -> list[int | None]:
    """Return which experts of a weight are meant; [None] is a matrix as a whole."""
    there: list[int | None] = [None] if stored.experts is None else list(range(stored.experts))
    meant = {expert for pattern in patterns for expert in _meaning(stored.name, pattern)}
    return there if None in meant else [expert for expert in there if expert in meant]


def _meaning(stem: str, pattern: str) -> list[int | None]:
    """Return [None] if a pattern means a weight as a whole, its expert if one, else nothing."""
    if fnmatchcase(stem, pattern):
        return [None]
    head, _, last = pattern.rpartition(".")
    return [int(last)] if last.isdecimal() and fnmatchcase(stem, head) else []


def _nothing(shards: Shards, pattern: str) -> str:
    """Say that nothing that a pattern means is MXFP4, and why as far as that is known."""
    for naming in _NAMINGS:
        if pattern + naming.codes in shards:
            return f"{shards.header(pattern + naming.codes)}: is no MXFP4 weight"
    wanted = " or ".join(f"X{naming.codes} with X{naming.scales[0]}" for naming in _NAMINGS)
    which = "" if pattern in _ALL else f" called {pattern!r}"
    layout = _configured(shards.root)
    told = f" (config.json says {layout})" if layout else ""
    return f"{shards.root}: holds no MXFP4 weight{which}{told}: no uint8 {wanted}"


def _loaded(
    shards: Shards,
    chosen: list[tuple[StoredWeight, list[int | None]]],
    device: "torch.device | str",
) -> "Iterator[Loaded]":
    for stored, experts in chosen:
        for expert in experts:
            codes = shards.read(stored.codes.name, expert, device).reshape(stored.n, stored.k // 2)
            scales = shards.read(stored.scales.name, expert, device)
            bias = shards.read(stored.bias.name, expert, device) if stored.bias else None
            name = stored.name if expert is None else f"{stored.name}.{expert}"
            yield name, Mxfp4Weight.from_packed(codes, scales), bias
