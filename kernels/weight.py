"""One MXFP4 weight and its layouts, each made once, when first needed."""

from functools import cached_property
from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels import formats, layouts
from mxtune.kernels.handles import handle_of

if TYPE_CHECKING:
    from torch import Tensor

PLAIN = "plain"
SHUFFLED = "shuffled"

_SCALE_OF_2 = 128  # its byte

_CODES_TO = {SHUFFLED: layouts.shuffle_weight, PLAIN: layouts.unshuffle_weight}


class Mxfp4Weight:
    """B of C = A @ B.T: N rows of K values, as E2M1 codes and E8M0 scales.

    ``codes(layout)`` is uint8 [N, K/2]; ``scales(layout)`` is uint8 [N, K/32] plain and
    [ceil256(N), ceil8(K/32)] shuffled. The tensors must not be changed afterwards: other layouts
    are made from them on first use and kept.
    """

    def __init__(
        self, codes: dict[str, "Tensor"], scales: dict[str, "Tensor"], n: int, k: int, rule: str
    ) -> None:
        """Take tensors that are already checked; callers use ``quantise`` or ``from_packed``."""
        self.n, self.k, self.rule = n, k, rule
        self._codes, self._scales = codes, scales
        self.handle = handle_of(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle what it holds; a handle is its own."""
        return Mxfp4Weight, (self._codes, self._scales, self.n, self.k, self.rule)

    @classmethod
    def quantise(cls, b: "Tensor", rule: str = "even") -> "Mxfp4Weight":
        """Quantise ``b``, [N, K] in bf16, fp16 or fp32, K a multiple of 32, on its own device."""
        codes, scales = formats.quantise(b, rule)
        return cls({PLAIN: codes}, {PLAIN: scales}, b.shape[0], b.shape[1], rule)

    @classmethod
    def from_packed(
        cls,
        codes: "Tensor",
        scales: "Tensor",
        *,
        layout: str = PLAIN,
        scale_layout: str | None = None,
        rule: str = "even",
    ) -> "Mxfp4Weight":
        """Take codes and scales that exist already, one byte an element whatever their dtype says.

        ``codes`` is [N, K/2]; ``scales`` is [N, K/32] plain or [ceil256(N), ceil8(K/32)] shuffled.
        ``scale_layout`` is ``layout`` unless given. The padding of shuffled scales is zeroed in a
        copy if it is not. Raises ConfigError for shapes or dtypes that do not fit each other.
        """
        scale_layout = scale_layout or layout
        _check_layout(layout)
        _check_layout(scale_layout)
        codes, scales = _as_bytes("codes", codes), _as_bytes("scales", scales)
        n, k = _extent(codes, layout)
        scales = _checked_scales(scales, n, k // SCALE_BLOCK, scale_layout)
        return cls({layout: codes}, {scale_layout: scales}, n, k, rule)

    @property
    def device(self) -> str:
        """Where the weight lies, as torch writes it, such as ``cuda:0``."""
        return str(next(iter(self._codes.values())).device)

    def codes(self, layout: str = PLAIN) -> "Tensor":
        """Return the packed codes uint8 [N, K/2], contiguous, in ``layout``."""
        if layout not in self._codes:
            _check_layout(layout)
            self._codes[layout] = _CODES_TO[layout](next(iter(self._codes.values())))
        return self._codes[layout]

    def scales(self, layout: str = PLAIN) -> "Tensor":
        """Return the scale bytes uint8 in ``layout``, contiguous."""
        if layout not in self._scales:
            _check_layout(layout)
            held = next(iter(self._scales.values()))
            self._scales[layout] = (
                layouts.shuffle_scales(held)
                if layout == SHUFFLED
                else layouts.unshuffle_scales(held, self.n, self.k // SCALE_BLOCK)
            )
        return self._scales[layout]

    @cached_property
    def small_scales(self) -> bool:
        """Whether no scale is above 2, those of blocks with a NaN left aside. Waits for a GPU."""
        held = next(iter(self._scales.values()))  # padding is zero
        return bool((held.masked_fill(held == formats.NAN_SCALE, 0) <= _SCALE_OF_2).all())

    def copy(self) -> "Mxfp4Weight":
        """Return the same weight in memory of its own, in the layouts that exist so far."""
        codes = {layout: tensor.clone() for layout, tensor in self._codes.items()}
        scales = {layout: tensor.clone() for layout, tensor in self._scales.items()}
        return Mxfp4Weight(codes, scales, self.n, self.k, self.rule)

    def dequantised(self) -> "Tensor":
        """Return the values as fp32 [N, K]."""
        return formats.dequantise(self.codes(PLAIN), self.scales(PLAIN))


def _check_layout(layout: str) -> None:
    if layout not in _CODES_TO:
        raise ConfigError(f"unknown layout {layout!r}: {PLAIN} or {SHUFFLED}")


def _as_bytes(name: str, tensor: "Tensor") -> "Tensor":
    """View a one-byte dtype (float4_e2m1fn_x2, float8_e8m0fnu, int8) as contiguous uint8."""
    import torch

    if tensor.ndim != 2 or tensor.element_size() != 1:
        raise ConfigError(
            f"{name}: expected a matrix of one-byte elements, "
            f"not {tensor.dtype} {list(tensor.shape)}"
        )
    return tensor.contiguous().view(torch.uint8)


def _extent(codes: "Tensor", layout: str) -> tuple[int, int]:
    n, row_bytes = codes.shape
    if 2 * row_bytes % SCALE_BLOCK:
        raise ConfigError(
            f"codes: {row_bytes} bytes a row are K = {2 * row_bytes}, no multiple of {SCALE_BLOCK}"
        )
    obstacle = layouts.weight_obstacle(n, row_bytes) if layout == SHUFFLED else None
    if obstacle:
        raise ConfigError(f"codes: {obstacle}")
    return n, 2 * row_bytes


def _checked_scales(scales: "Tensor", n: int, columns: int, layout: str) -> "Tensor":
    """Return ``scales`` if they fit; shuffled ones with their padding zeroed."""
    wanted = (n, columns) if layout == PLAIN else layouts.padded_scales(n, columns)
    if tuple(scales.shape) != wanted:
        raise ConfigError(
            f"scales: {layout} scales of N={n}, K={columns * SCALE_BLOCK} are "
            f"{list(wanted)}, not {list(scales.shape)}"
        )
    if layout == PLAIN or wanted == (n, columns):
        return scales
    return layouts.shuffle_scales(layouts.unshuffle_scales(scales, n, columns))
