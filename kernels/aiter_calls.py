"""How AITER's functions are called: by keyword, with what the release at hand takes.

They have moved, and have gained and lost parameters. One that does not take what makes a route what
it is cannot be called for it. Nothing of AITER is imported here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Signature
from typing import TYPE_CHECKING, Any

from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Value
from mxtune.kernels.family import Buffer, Call

if TYPE_CHECKING:
    from torch import Tensor, device

OUT_ROWS = 32  # its a4w4 kernels write rows in whole multiples of this

# The modules that have had each function, the newest first.
_A4W4_PLACES = ("aiter.ops.gemm_op_a4w4",)
_A16_PLACES = ("aiter.ops.triton.gemm.basic.gemm_a16wfp4", "aiter.ops.triton.gemm_a16wfp4")
PLACES: Mapping[str, tuple[str, ...]] = {
    "gemm_a4w4_asm": _A4W4_PLACES,
    "gemm_a4w4": _A4W4_PLACES,
    "gemm_a16wfp4": _A16_PLACES,
    "gemm_a16wfp4_preshuffle": _A16_PLACES,
}

# What an argument says that older releases do not take, because they do nothing else.
_NEUTRAL = {"alpha": 1.0, "beta": 0.0, "bpreshuffle": True, "log2_k_split": 0}


def adapted(
    call: Call,
    function: Callable[..., Any],
    takes: Signature,
    tensors: "Mapping[str, Tensor]",
    given: Sequence[str] = ("a", "c"),
) -> Callable[..., None]:
    """Return ``call`` of a ``function`` that takes what ``takes`` says, all fixed but ``given``.

    ``tensors`` are by buffer name; those of the buffers that are ``given`` come with each call, in
    that order. Raises MissingError if it does not take what the call gives.
    """
    known, fixed = _FUNCTIONS[call.function], keywords(call, takes)
    later: list[_Later] = []
    for name, buffer in call.buffers.items():
        view = known.views.get(name, _as_it_is)
        if name in takes.parameters and buffer.name in tensors:
            fixed[name] = view(tensors[buffer.name])
        elif buffer.name in given and name != known.result:
            later.append(_Later(name, given.index(buffer.name), view))

    def launch(*now: "Tensor", **out: "Tensor") -> Any:
        return function(**fixed, **{at.keyword: at.view(now[at.place]) for at in later}, **out)

    if known.result:
        place = given.index(call.buffers[known.result].name)
        return _with_result(call, launch, takes, place)
    return launch


@dataclass(frozen=True, slots=True)
class _Later:
    """An argument that comes with each call."""

    keyword: str
    place: int  # among what is given
    view: "Callable[[Tensor], Tensor]"


def _with_result(
    call: Call, launch: Callable[..., Any], takes: Signature, place: int
) -> Callable[..., None]:
    """Return ``call`` for a function that may return C instead of taking it, or take it padded.

    ``place`` is that of C among what comes with the call.
    """
    name = _FUNCTIONS[call.function].result
    out = call.buffers[name]

    def copy_result(*now: "Tensor") -> None:
        now[place].copy_(launch(*now))

    def write(*now: "Tensor") -> None:
        launch(*now, **{name: now[place]})

    if name not in takes.parameters:
        return copy_result
    if whole_rows(out):
        return write

    def write_padded(*now: "Tensor") -> None:
        padded = _padded(out, now[place].device)  # of this call: two queues must not share one
        launch(*now, **{name: padded})
        now[place].copy_(padded[: out.shape[0]])

    return write_padded


def whole_rows(out: Buffer) -> bool:
    """Whether AITER's a4w4 kernels can write ``out`` as it lies: rows in 32s, one after another."""
    return out.shape[0] % OUT_ROWS == 0 and out.elements == out.shape[0] * out.shape[1]


def _padded(out: Buffer, device: "device") -> "Tensor":
    import torch

    rows = -(-out.shape[0] // OUT_ROWS) * OUT_ROWS
    return torch.empty((rows, out.shape[1]), dtype=torch.bfloat16, device=device)


def keywords(call: Call, takes: Signature) -> dict[str, Any]:
    """Return the arguments of ``call`` other than tensors, for a function that ``takes`` these.

    Raises MissingError if it does not take what makes the route what it is, or asks for more.
    """
    known, given = _FUNCTIONS[call.function], dict[str, Any](call.values)
    if known.config:
        given = {"config": _config(call.values, takes)}
    kept = {name: value for name, value in given.items() if name in takes.parameters}
    for name in given.keys() - kept.keys():
        if given[name] != _NEUTRAL.get(name):
            raise MissingError(f"{call.function} of this AITER takes no {name}")
    tensors = [n for n in call.buffers if n != known.result or n in takes.parameters]
    try:
        takes.bind(**kept, **dict.fromkeys(tensors))
    except TypeError as error:
        raise MissingError(
            f"{call.function} of this AITER cannot be called as here: {error}"
        ) from error
    return kept


def _config(values: Mapping[str, Value | bool | float], takes: Signature) -> dict[str, Any] | str:
    """Return AITER's ten keys as a dictionary, or as JSON for the releases that take text."""
    config = {**values, "cache_modifier": values["cache_modifier"] or None}
    parameter = takes.parameters.get("config")
    wanted = str(parameter.annotation) if parameter else ""
    return json.dumps(config) if "str" in wanted and "dict" not in wanted.lower() else config


def _as_it_is(tensor: "Tensor") -> "Tensor":
    return tensor


def _as_codes(tensor: "Tensor") -> "Tensor":
    import torch

    return tensor.view(getattr(torch, "float4_e2m1fn_x2", torch.uint8))


def _as_scales(tensor: "Tensor") -> "Tensor":
    import torch

    return tensor.view(getattr(torch, "float8_e8m0fnu", torch.uint8))


def _by_16_rows(codes: "Tensor") -> "Tensor":
    """[N, K/2] as [N/16, 8K]: how the preshuffled kernel counts."""
    return codes.view(codes.shape[0] // 16, -1)


def _by_32_rows(scales: "Tensor") -> "Tensor":
    """[ceil256(N), K/32] as [ceil256(N)/32, K]."""
    return scales.view(scales.shape[0] // 32, -1)


@dataclass(frozen=True, slots=True)
class _Function:
    """What is known of a function that routes call."""

    views: "Mapping[str, Callable[[Tensor], Tensor]]"  # how it wants its tensors, by keyword
    result: str = ""  # the tensor that newer releases return and do not take
    config: bool = False  # whether its values are one argument, a dictionary


_A4W4 = {"A": _as_codes, "B": _as_codes, "A_scale": _as_scales, "B_scale": _as_scales}
_FUNCTIONS: Mapping[str, _Function] = {
    "gemm_a4w4_asm": _Function(_A4W4),
    "gemm_a4w4": _Function(_A4W4, result="out"),
    "gemm_a16wfp4": _Function({}, config=True),
    "gemm_a16wfp4_preshuffle": _Function({"w": _by_16_rows, "w_scales": _by_32_rows}, config=True),
}
