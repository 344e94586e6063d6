"""nn.Linear in MXFP4.

A subclass of torch's Module needs torch as it is defined, so this file imports it at its top. That
is allowed because only mxtune's lazy names lead here: `tests/test_layers.py`.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.formats import NAN_SCALE
from mxtune.kernels.weight import PLAIN, Mxfp4Weight

Gemm = Callable[[Tensor | Mxfp4Activation, Mxfp4Weight], Tensor]

# Other names that torch has for the same bytes.
_SAME_BYTES = {"weight": torch.float4_e2m1fn_x2, "weight_scale": torch.float8_e8m0fnu}
_BIAS_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@cache
def bundled() -> Dispatcher:
    """Return the dispatcher of the layers that were given none, made once."""
    return Dispatcher.bundled()


@dataclass(frozen=True, slots=True)
class _Made:
    """A weight, and the buffers it was made of as they were then."""

    weight: Mxfp4Weight
    buffers: tuple[Tensor, Tensor]
    versions: tuple[int | None, int | None]

    def fits(self, codes: Tensor, scales: Tensor) -> bool:
        same = self.buffers[0] is codes and self.buffers[1] is scales
        return same and self.versions == (_version(codes), _version(scales))


class Mxfp4Linear(nn.Module):
    """y = mxfp4(x) @ W.T + bias, in place of an nn.Linear. For inference: there is no gradient.

    Buffers, which are the state dict: ``weight`` uint8 [N, K/2], plain codes with element 2i in the
    low nibble; ``weight_scale`` uint8 [N, K/32], plain E8M0 bytes; ``bias`` bf16 [N] or None. The
    shuffled layouts that a route wants are made of them when first needed and kept beside them,
    until they are changed, loaded or moved.

    ``gemm(a, w)`` computes the product, a `Dispatcher` usually. None stands for the bundled tables,
    looked up at the first call and shared by all such layers. Copies share it. Pickle leaves it
    out: set ``gemm`` again, or what comes back uses the bundled tables.
    """

    weight: Tensor
    weight_scale: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,  # noqa: FBT001, FBT002  in the place where nn.Linear has it
        gemm: Gemm | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """Make a layer to load a state dict into. Until then all it computes is NaN.

        Raises ConfigError unless K = ``in_features`` is a positive multiple of 32 and there are
        rows.
        """
        super().__init__()
        if in_features < 1 or in_features % SCALE_BLOCK or out_features < 1:
            raise ConfigError(
                f"Mxfp4Linear needs in_features in multiples of {SCALE_BLOCK} and an out_features "
                f"above 0, not {in_features} and {out_features}"
            )
        self.in_features, self.out_features, self.gemm = in_features, out_features, gemm
        self._made: _Made | None = None
        codes = torch.zeros((out_features, in_features // 2), dtype=torch.uint8, device=device)
        size = (out_features, in_features // SCALE_BLOCK)
        scales = torch.full(size, NAN_SCALE, dtype=torch.uint8, device=device)
        self.register_buffer("weight", codes)
        self.register_buffer("weight_scale", scales)
        empty = torch.full((out_features,), torch.nan, dtype=torch.bfloat16, device=device)
        self.register_buffer("bias", empty if bias else None)

    @classmethod
    def from_linear(cls, linear: nn.Linear, gemm: Gemm | None = None) -> "Mxfp4Linear":
        """Quantise an nn.Linear in bf16, fp16 or fp32 by the rule ``even``, where it lies.

        Its bias is rounded to bf16. Nothing of ``linear`` is kept. Raises ConfigError for another
        dtype, a K that is no multiple of 32, or a weight without values.
        """
        if linear.weight.is_meta:
            raise ConfigError("cannot quantise a weight on the meta device: load its values first")
        weight = Mxfp4Weight.quantise(linear.weight.detach())
        return cls.from_weight(weight, linear.bias, gemm)

    @classmethod
    def from_packed(
        cls,
        codes: Tensor,
        scales: Tensor,
        bias: Tensor | None = None,
        gemm: Gemm | None = None,
        layout: str = PLAIN,
    ) -> "Mxfp4Linear":
        """Take codes and scales as `Mxfp4Weight.from_packed` does, both in ``layout``."""
        return cls.from_weight(Mxfp4Weight.from_packed(codes, scales, layout=layout), bias, gemm)

    @classmethod
    def from_weight(
        cls, weight: Mxfp4Weight, bias: Tensor | None = None, gemm: Gemm | None = None
    ) -> "Mxfp4Linear":
        """Take a weight, whose tensors become the buffers without a copy.

        ``bias``, [N] in bf16, fp16 or fp32, is copied to the weight's device and rounded to bf16.
        Raises ConfigError for another.
        """
        layer = cls(weight.k, weight.n, bias is not None, gemm, device="meta")
        layer.weight, layer.weight_scale = weight.codes(PLAIN), weight.scales(PLAIN)
        if bias is not None:
            layer.bias = _checked_bias(bias, weight)
        layer._made = layer._marked(weight)
        return layer

    def forward(self, x: Tensor | Mxfp4Activation) -> Tensor:
        """Return bf16 [..., N] for ``x``: bf16 [..., K] of any strides, or an Mxfp4Activation.

        The product is rounded to bf16, then the bias is added and the sum rounded again: what
        torch computes in two steps, ``torch.mm`` and ``+``. Raises ConfigError for another dtype or
        size, for an input that wants a gradient, and for a layer that cannot compute as it is.
        """
        self._check_ready()
        rows = x if isinstance(x, Mxfp4Activation) else self._rows(x)
        gemm = bundled() if self.gemm is None else self.gemm
        y = gemm(rows, self.packed())
        if self.bias is not None:
            y += self.bias
        return y.reshape(*x.shape[:-1], self.out_features)

    def packed(self) -> Mxfp4Weight:
        """Return the weight as ``gemm`` takes it; another one once the buffers have changed.

        What is written to a buffer that was made under torch.inference_mode goes unnoticed, since
        torch does not count it, unless load_state_dict writes it.
        """
        made = self._made
        if made is not None and torch.compiler.is_compiling():
            return made.weight  # torch.compile guards the layer, and cannot follow versions
        if made is None or not made.fits(self.weight, self.weight_scale):
            made = self._marked(Mxfp4Weight.from_packed(self.weight, self.weight_scale))
            self._made = made
        return made.weight

    def extra_repr(self) -> str:
        """Return what nn.Linear shows."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"

    def _marked(self, weight: Mxfp4Weight) -> _Made:
        buffers = (self.weight, self.weight_scale)
        return _Made(weight, buffers, (_version(buffers[0]), _version(buffers[1])))

    def _check_ready(self) -> None:
        if self.weight.is_meta:
            raise ConfigError(
                "the layer is on the meta device and has no values: load_state_dict(..., "
                "assign=True) gives it some"
            )
        if self.bias is not None and self.bias.dtype != torch.bfloat16:
            raise ConfigError(
                f"the bias is {self.bias.dtype}, as the layer was cast: call .bfloat16() on it"
            )

    def _rows(self, x: Tensor) -> Tensor:
        """Return ``x`` as a matrix [M, K], or say why it is none that can be computed with."""
        if x.dtype != torch.bfloat16:
            raise ConfigError(f"the input must be bfloat16, not {x.dtype}: x.bfloat16() rounds it")
        if x.ndim < 1 or x.shape[-1] != self.in_features:
            raise ConfigError(f"the input must be [..., {self.in_features}], not {list(x.shape)}")
        if x.requires_grad and torch.is_grad_enabled():
            raise ConfigError(
                "Mxfp4Linear has no gradient: call it under torch.no_grad(), or detach the input"
            )
        return x.reshape(-1, self.in_features)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Mxfp4Linear":  # noqa: FBT001, FBT002  torch's signature
        """Make the weight again: ``to`` and its kin replace the buffers."""
        self._made = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._make()
        return self

    def _make(self) -> None:
        """Make the weight of the buffers now, unless they have no values or are no codes.

        A layer that torch.compile traces must have one.
        """
        buffers = (self.weight, self.weight_scale)
        if not any(buffer.is_meta or buffer.dtype != torch.uint8 for buffer in buffers):
            self.packed()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,  # noqa: FBT001  torch's signature
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Refuse what torch would cast in silence: values of another dtype are no codes."""
        for name in _SAME_BYTES:
            if prefix + name in state_dict:
                state_dict[prefix + name] = _bytes_of(name, prefix, state_dict[prefix + name])
        self._made = None
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self._make()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is derived, and the dispatcher, which belongs to a process."""
        return self.__dict__ | {"gemm": None, "_made": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mxfp4Linear":
        copied = type(self).__new__(type(self))
        vars(copied).update(deepcopy(self.__getstate__(), memo))
        copied.gemm = self.gemm
        return copied


def _version(buffer: Tensor) -> int | None:
    """Return how often a tensor was written, as far as torch counts it."""
    return None if buffer.is_inference() else buffer._version


def _checked_bias(bias: Tensor, weight: Mxfp4Weight) -> Tensor:
    if bias.dtype not in _BIAS_DTYPES or tuple(bias.shape) != (weight.n,):
        raise ConfigError(
            f"bias: expected [{weight.n}] in bfloat16, float16 or float32, "
            f"not {bias.dtype} {list(bias.shape)}"
        )
    return bias.detach().to(weight.device, torch.bfloat16, copy=True)


def _bytes_of(name: str, prefix: str, given: Tensor) -> Tensor:
    """View an entry of a state dict as uint8, if its dtype means these bytes."""
    if given.dtype not in (torch.uint8, _SAME_BYTES[name]):
        raise ConfigError(
            f"{prefix}{name}: expected uint8 or {_SAME_BYTES[name]}, not {given.dtype} "
            f"{list(given.shape)}; load other weights into nn.Linear and use from_linear"
        )
    return given.view(torch.uint8)
