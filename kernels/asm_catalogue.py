"""AITER's hand-written FP4 kernels for gfx950: which there are, and the bytes of their objects.

They are read from wherever AITER's files lie: a wheel, a source checkout, an installed package.
Nothing of AITER is imported.

A catalogue beside the objects says which tile each computes, whether it can split K and whether it
wants shuffled weights; its column names have changed case over time. Without one, file names are
read: they give the tile and the layout of the weights, and splitting then counts as unknown, so no.
Source: ROCm/aiter, hsa/gfx950/f4gemm and csrc/py_itfs_cu/asm_gemm_a4w4.cu.
"""

import csv
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mxtune.configs.errors import ConfigError

_FOLDER = ("hsa", "gfx950", "f4gemm")
_CATALOGUE = "f4gemm_bf16_per1x32Fp4.csv"
_COLUMNS = ("tile_m", "tile_n", "splitk", "bpreshuffle", "knl_name", "co_name")
_STEM = re.compile(r"f4gemm_bf16_per1x32Fp4_(no)?BpreShuffle_(\d+)x(\d+)")
# .../amd_aiter-0.1.7-py3-none-any.whl, .../amd_aiter-0.1.7.dist-info
_RELEASE = re.compile(r"(?:amd_)?aiter-([^-]+?)(?:-.*\.whl|\.dist-info)")


@dataclass(frozen=True, slots=True)
class AsmKernel:
    """One kernel: the block of C that a workgroup computes, and what it takes."""

    name: str  # as in the object: _ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E
    file: str
    tile_m: int
    tile_n: int
    split_k: bool  # whether AITER's host code ever splits K with it
    shuffled_weights: bool

    @property
    def label(self) -> str:
        """The short name that people use: ``32x128``, or ``256x256 plain`` for plain weights."""
        return f"{self.tile_m}x{self.tile_n}" + ("" if self.shuffled_weights else " plain")

    def is_called(self, word: str) -> bool:
        """Whether ``word`` names this kernel: its label, file or mangled name."""
        return word in (self.name, self.file, self.file.removesuffix(".co"), self.label)


class _Place(Protocol):
    """A folder on disk or in a wheel."""

    @property
    def name(self) -> str: ...
    def is_dir(self) -> bool: ...
    def is_file(self) -> bool: ...
    def iterdir(self) -> "Iterator[_Place]": ...
    def joinpath(self, *parts: str) -> "_Place": ...
    def read_bytes(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class AsmCatalogue:
    """The kernels of one AITER, by tile, and where their objects are."""

    source: str  # what the user named
    release: str | None  # of AITER, where its files tell
    kernels: tuple[AsmKernel, ...]
    folder: _Place

    def code(self, kernel: AsmKernel) -> bytes:
        """Return the bytes of the object of ``kernel``."""
        return self.folder.joinpath(kernel.file).read_bytes()

    def called(self, word: str) -> tuple[AsmKernel, ...]:
        """Return the kernels that ``word`` names: one by label, file or name, or ``all``."""
        found = tuple(k for k in self.kernels if word == "all" or k.is_called(word))
        if not found:
            labels = ", ".join(kernel.label for kernel in self.kernels)
            raise ConfigError(f"no ASM kernel is called {word!r}: all, or one of {labels}")
        return found


def read_catalogue(source: Path) -> AsmCatalogue:
    """Read the kernels of the AITER at ``source``: a wheel, a checkout or an installed package.

    Raises ConfigError in one line that says what is missing.
    """
    folder = _folder(source)
    catalogue = folder.joinpath(_CATALOGUE)
    if catalogue.is_file():
        kernels = _listed(catalogue.read_bytes().decode("utf-8-sig"), f"{source}: {_CATALOGUE}")
    else:
        kernels = _from_file_names(folder)
    lost = [kernel.file for kernel in kernels if not folder.joinpath(kernel.file).is_file()]
    if lost:
        raise ConfigError(f"{source}: {lost[0]} is in the catalogue, but not in {folder}")
    if not kernels:
        raise ConfigError(f"{source}: no f4gemm objects (.co) in {folder}")
    ordered = sorted(kernels, key=lambda k: (not k.shuffled_weights, k.tile_m, k.tile_n))
    return AsmCatalogue(str(source), _release(source), tuple(ordered), folder)


def _folder(source: Path) -> _Place:
    """Return the folder of the objects, wherever under ``source`` this kind of AITER has it."""
    if source.is_dir():
        if _has_objects(source):
            return source
        # a checkout or aiter_meta itself; site-packages; the package aiter beside aiter_meta
        roots: list[_Place] = [source, source / "aiter_meta", source.parent / "aiter_meta"]
    elif zipfile.is_zipfile(source):
        wheel = zipfile.Path(source)
        roots = [wheel, wheel.joinpath("aiter_meta")]
    elif source.exists():
        raise ConfigError(f"{source}: neither a folder nor a wheel of AITER")
    else:
        raise ConfigError(f"{source}: there is no such file or folder")
    for root in roots:
        folder = root.joinpath(*_FOLDER)
        if folder.is_dir():
            return folder
    raise ConfigError(f"{source}: no {'/'.join(_FOLDER)} in it; name an AITER wheel or checkout")


def _has_objects(folder: Path) -> bool:
    return any(_STEM.fullmatch(path.stem) for path in folder.glob("*.co"))


def _listed(text: str, where: str) -> list[AsmKernel]:
    """Read the catalogue, whatever the case of its columns."""
    rows = [_lower(row) for row in csv.DictReader(text.splitlines())]
    missing = [name for name in _COLUMNS if rows and name not in rows[0]]
    if missing:
        raise ConfigError(f"{where}: no column {missing[0]} in it")
    try:
        return [_kernel(row) for row in rows]
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _lower(row: Mapping[str, str | None]) -> dict[str, str]:
    return {str(name).strip().lower(): (cell or "").strip() for name, cell in row.items()}


def _kernel(row: Mapping[str, str]) -> AsmKernel:
    return AsmKernel(
        name=row["knl_name"],
        file=row["co_name"],
        tile_m=int(row["tile_m"]),
        tile_n=int(row["tile_n"]),
        split_k=bool(int(row["splitk"])),
        shuffled_weights=bool(int(row["bpreshuffle"])),
    )


def _from_file_names(folder: _Place) -> list[AsmKernel]:
    """Read tiles and layouts from file names; a kernel's name is its file's, mangled."""
    kernels = []
    for path in folder.iterdir():
        stem = path.name.removesuffix(".co")
        match = _STEM.fullmatch(stem)
        if match and path.name != stem:
            plain, tile_m, tile_n = match.groups()
            mangled = f"_ZN5aiter{len(stem)}{stem}E"
            kernels.append(
                AsmKernel(
                    name=mangled,
                    file=path.name,
                    tile_m=int(tile_m),
                    tile_n=int(tile_n),
                    split_k=False,
                    shuffled_weights=plain is None,
                )
            )
    return kernels


def _release(source: Path) -> str | None:
    """Return AITER's version from the name of a wheel or of an installer's record."""
    records = (folder.glob("*.dist-info") for folder in (source, source.parent))
    places = [source] if source.is_file() else [path for found in records for path in found]
    for place in places:
        match = _RELEASE.fullmatch(place.name)
        if match:
            return match[1]
    return None
