"""What AITER's functions took over time, to the letter: ROCm/aiter, by pull request and date."""

from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch

Told = dict[str, Any]

_TENSORS = "A: Tensor, B: Tensor, A_scale: Tensor, B_scale: Tensor, "
_ASM = (
    _TENSORS + "out: Tensor, kernelName: str{name}, bias: Optional[Tensor] = None, "
    "alpha: Optional[float] = 1.0, beta: Optional[float] = 0.0, "
    "bpreshuffle: Optional[bool] = True, log2_k_split: Optional[int] = None"
)
_OPTIONAL = "alpha: Optional[float] = 1.0, beta: Optional[float] = 0.0"
_A16 = (
    "x: Tensor, w: Tensor, w_scales: Tensor, atomic_add: bool = False, "
    "dtype: Optional[dtype] = bf16, y: Optional[Tensor] = None, config: Optional[{config}] = None"
)

ASM_BEFORE_NAMES: Mapping[str, str] = {
    "#439, 2025-05-25": _TENSORS + f"out: Tensor, bias: Tensor, {_OPTIONAL}",
    "#547, 2025-06-19": _TENSORS
    + f"out: Tensor, bias: Tensor, {_OPTIONAL}, bpreshuffle: Optional[bool] = True",
}
ASM: Mapping[str, str] = {
    "#649, 2025-07-24": _ASM.format(name=""),
    "#740, 2025-08-05, returns None": _ASM.format(name=""),
    "#2382, 2026-03-23": _ASM.format(name=' = ""'),
}
A4W4_WANTS_BIAS: Mapping[str, str] = {
    "#439, 2025-05-25": _TENSORS + f"out: Tensor, bias: Tensor, {_OPTIONAL}",
}
A4W4_TAKES_OUT: Mapping[str, str] = {
    "#649, 2025-07-24": _TENSORS
    + f"out: Tensor, bias: Optional[Tensor] = None, {_OPTIONAL}, "
    + "bpreshuffle: Optional[bool] = True",
}
_A4W4_1679 = (
    _TENSORS + f"bias: Optional[Tensor] = None, dtype: dtype = bf16, {_OPTIONAL}, "
    "bpreshuffle: Optional[bool] = True"
)
A4W4_RETURNS: Mapping[str, str] = {
    "#1679, 2025-12-19": _A4W4_1679,
    "#3996, 2026-06-30": _A4W4_1679
    + ", apreshuffle: Optional[bool] = False, global_A_scale: Optional[Tensor] = None, "
    + "global_B_scale: Optional[Tensor] = None",
}
A16: Mapping[str, str] = {
    "#1371, 2025-11-11 and 12-03": _A16.format(config="dict"),
    "#1456, 2025-12-21": _A16.format(config="str"),
    "#1745, 2026-01-02": _A16.format(config="dict"),
}
PRESHUFFLE: Mapping[str, str] = {
    "#1777, 2026-01-09": "x: Tensor, w: Tensor, w_scales: Tensor, "
    "prequant: Optional[bool] = True, dtype: Optional[dtype] = bf16, "
    "y: Optional[Tensor] = None, config: Optional[dict] = None, "
    "skip_reduce: Optional[bool] = False",
}


def recording(takes: str, told: Told, gives: object = None) -> Callable[..., Any]:
    """Return a function that takes that, notes it in ``told`` and returns ``gives``."""

    def note(given: Told) -> object:
        told.clear()
        told.update(given)
        return gives

    names: Told = {
        "Optional": Optional,
        "Tensor": torch.Tensor,
        "dtype": torch.dtype,
        "bf16": torch.bfloat16,
        "note": note,
    }
    exec(f"def function({takes}):\n    return note(locals())", names)
    function: Callable[..., Any] = names["function"]
    return function
