"""A call into AITER made once, with a function that notes what it is told."""

from inspect import signature

import torch
from tests.aiter_releases import Told, recording
from torch import Tensor

from mxtune.kernels.aiter_calls import adapted
from mxtune.kernels.family import Call


def tensors_of(call: Call) -> dict[str, Tensor]:
    """Memory for all that a call names, A and C among it."""
    dtypes = {"bf16": torch.bfloat16, "fp32": torch.float32, "u8": torch.uint8}
    return {b.name: torch.zeros(b.shape, dtype=dtypes[b.dtype]) for b in call.buffers.values()}


class Launched:
    """A call made once, with what the function was told."""

    def __init__(self, call: Call, takes: str, gives: object = None) -> None:
        self.told: Told = {}
        self.tensors = tensors_of(call)
        fixed = {name: t for name, t in self.tensors.items() if name not in ("a", "c")}
        function = recording(takes, self.told, gives)
        m, n = next(b.shape for name, b in call.buffers.items() if name in ("out", "y"))
        self.a = self.tensors.get("a", torch.zeros(1, 1))
        self.c = self.tensors.get("c", torch.zeros(m, n).bfloat16())
        adapted(call, function, signature(function), fixed)(self.a, self.c)

    def which(self, keyword: str) -> str:
        """The buffer that the function was given, by its memory."""
        given: Tensor = self.told[keyword]
        known = {t.data_ptr(): name for name, t in self.tensors.items()} | {self.c.data_ptr(): "c"}
        return known.get(given.data_ptr(), "another")

    def told_values(self) -> dict[str, object]:
        return {name: v for name, v in self.told.items() if not isinstance(v, Tensor)}

    def told_tensors(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        held = {name: v for name, v in self.told.items() if isinstance(v, Tensor)}
        return {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in held.items()}
