"""The safetensors files of a checkpoint, by tensor name."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxtune.configs.errors import ConfigError, MissingError

if TYPE_CHECKING:
    import torch

INDEX = "*.safetensors.index.json"  # which file holds which tensor, as Hugging Face writes it
_USUAL_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of a tensor. ``dtype`` is safetensors' name for it: U8, F8_E8M0, BF16."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.name} ({self.dtype} {list(self.shape)})"


class Shards:
    """The tensors of a checkpoint. Files are opened when something in them is first asked for."""

    def __init__(self, root: Path, files: dict[str, Path]) -> None:
        """Take the file of each tensor; callers use `at`."""
        self.root = root
        self._files = files
        self._open: dict[Path, Any] = {}

    @classmethod
    def at(cls, path: Path) -> "Shards":
        """Find the files of ``path``: a .safetensors file, an index, or a folder of either.

        Raises ConfigError for anything else, MissingError without the library.
        """
        if path.is_dir():
            return _of_folder(path)
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder")
        return _of_index(path) if path.suffix == ".json" else _of_files(path, [path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def header(self, name: str) -> Header:
        """Return what the file says of a tensor that is here, without reading it.

        Raises ConfigError if the file is missing, broken, or does not hold it.
        """
        file = self._files[name]
        opened = self._opened(file, name)
        if name not in opened.keys():  # noqa: SIM118  it is no mapping
            raise ConfigError(f"{file}: holds no {name}, although the index says so")
        part = opened.get_slice(name)
        return Header(file, name, str(part.get_dtype()), tuple(part.get_shape()))

    def read(self, name: str, expert: int | None, device: "torch.device | str") -> "torch.Tensor":
        """Read a tensor, or one entry along its first dimension, into memory of its own."""
        opened = self._opened(self._files[name], name)
        # a slice reads no more than the entry; what it returns lies in the mapped file
        part = opened.get_tensor(name) if expert is None else opened.get_slice(name)[expert]
        tensor: torch.Tensor = part.to(device, copy=True)
        return tensor

    def _opened(self, file: Path, name: str) -> Any:
        if file not in self._open:
            if not file.is_file():
                raise ConfigError(f"{file}: no such file; the index places {name} in it")
            self._open[file] = open_file(file)
        return self._open[file]


def open_file(file: Path) -> Any:
    """Open a safetensors file: its header is read and checked against its size."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingError(
            "reading checkpoints needs the library safetensors: pip install mxtune[checkpoints]"
        ) from error
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{file}: no whole safetensors file: {error}") from error


def read_json(file: Path) -> dict[str, Any]:
    """Read an object; raises ConfigError for a file that holds none."""
    try:
        document = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: not readable as JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a JSON object")
    return document


def _of_folder(folder: Path) -> Shards:
    indexes = sorted(folder.glob(INDEX))
    usual = folder / _USUAL_INDEX
    if len(indexes) > 1 and usual not in indexes:
        names = ", ".join(index.name for index in indexes)
        raise ConfigError(f"{folder}: has several indexes ({names}); name the one that is meant")
    if indexes:
        return _of_index(usual if usual in indexes else indexes[0])
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder}: holds no .safetensors file")
    return _of_files(folder, files)


def _of_index(index: Path) -> Shards:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ConfigError(f"{index}: has no weight_map from tensors to files")
    return Shards(index, {name: index.parent / file for name, file in places.items()})


def _of_files(root: Path, files: list[Path]) -> Shards:
    places: dict[str, Path] = {}
    for file in files:
        for name in open_file(file).keys():  # noqa: SIM118  it is no mapping
            if name in places:
                raise ConfigError(f"{file}: holds {name}, and so does {places[name]}")
            places[name] = file
    return Shards(root, places)
