"""The GEMM problem being routed, and how people write one."""

import re
from dataclasses import dataclass

from mxtune.configs.errors import ConfigError

SCALE_BLOCK = 32  # MXFP4 keeps one scale per 32 values along K (OCP MX specification 1.0)
LARGEST = 2**31 - 1  # a dimension is a 32-bit kernel argument

# no 1_000 or 1e3, which int() or YAML would take, and no 010, which YAML reads as eight
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_MOST_DIGITS = 30  # int() refuses more than 4300 with an error of its own; all these are too large
_MOST_SHOWN = 40  # characters of a wrong word that an error repeats


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """C[m, n] = A[m, k] @ B[n, k].T"""

    m: int
    n: int
    k: int

    def __post_init__(self) -> None:
        for name, value in zip("MNK", (self.m, self.n, self.k), strict=True):
            _check(name, value)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @classmethod
    def parse(cls, word: str) -> "Shape":
        """Read ``MxNxK``, as in ``16x2112x7168``."""
        cells = tuple(re.split("[xX]", word.strip()))
        if len(cells) != 3 or not all(cells):
            raise ConfigError(f"{_shown(word)!r}: not a shape; write MxNxK, as in 16x2112x7168")
        try:
            return cls.of(cells)
        except ConfigError as error:
            raise ConfigError(f"{_shown(word.strip())}: {error}") from error

    @classmethod
    def of(cls, cells: tuple[str, ...]) -> "Shape":
        """Read M, N and K from three cells of text."""
        return cls(*(read_dimension(name, cell) for name, cell in zip("MNK", cells, strict=True)))


def read_dimension(name: str, cell: str) -> int:
    """Read the dimension ``name`` (M, N or K) from text, as a whole number that it may have."""
    text = cell.strip()
    if not _WHOLE.fullmatch(text):
        raise ConfigError(f"{name} must be a whole number, not {_shown(text)!r}")
    if len(text) > _MOST_DIGITS:
        raise ConfigError(f"{name} must be between 1 and {LARGEST}, not {_shown(text)}")
    _check(name, int(text))
    return int(text)


def _check(name: str, value: int) -> None:
    """Refuse a value that the dimension ``name`` cannot have."""
    if not 1 <= value <= LARGEST:
        raise ConfigError(f"{name} must be between 1 and {LARGEST}, not {value}")
    if name == "K" and value % SCALE_BLOCK:
        raise ConfigError(f"K must be a multiple of {SCALE_BLOCK}, not {value}")


def _shown(text: str) -> str:
    """Return as much of ``text`` as an error of one line has room for."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
