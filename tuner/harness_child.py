"""The child's side of the harness: import a submission, call it on drawn inputs, compare, time.

Inputs are what the contest gives: A and B normal in bf16, the codes of B plain and shuffled, and
its scales shuffled, their padding left as it comes. A result is held to the contest's tolerance.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from mxtune.configs.shapes import Shape
from mxtune.kernels import formats, layouts
from mxtune.kernels.gpu import running_device
from mxtune.results.contest.known import ENTRY
from mxtune.tuner.stand_in.functions import e8m0_shuffle

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-2  # absolute, and relative to what is expected
_MOST_TIMES = 100
_STEADY = 1e-3  # standard error of the mean as a share of it: then it is known well enough
_RESEED = 13  # from one call to the next
_QUEUED_S = 500e-6  # that the GPU waits before a call, longer than the host takes to enqueue it
_STAND_INS = Path(__file__).parent / "stand_in"


@dataclass(frozen=True, slots=True)
class Check:
    """Call the submission at ``shape``; ``timed``: again and again, on other inputs each time."""

    shape: Shape
    seed: int
    timed: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it: a fault, or none and the times of calls in microseconds, if timed."""

    fault: str = ""
    times_us: tuple[float, ...] = ()


def submission_service(file: str, *, own_aiter: bool) -> Callable[[Check | None], Checked]:
    """Return the service of a child: a first job of None imports the file.

    ``own_aiter``: this machine has AMD's, which is not stood in for.
    """
    sys.path.insert(len(sys.path) if own_aiter else 0, str(_STAND_INS))
    loaded: list[Any] = []

    def serve(job: Check | None) -> Checked:
        if job is None:
            loaded.append(_imported(file))
            return Checked("" if callable(getattr(loaded[0], ENTRY, None)) else f"no {ENTRY} in it")
        return _checked(getattr(loaded[0], ENTRY), job)

    return serve


def _imported(file: str) -> Any:
    spec = spec_from_file_location("submission", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _checked(kernel: Callable[..., Any], job: Check) -> Checked:
    import torch

    place = "cuda" if torch.cuda.is_available() else "cpu"
    fault = _fault_at(kernel, job.shape, job.seed, place, call=None)
    if fault or not job.timed:
        return Checked(fault)
    return _timed(kernel, job, place)


def _timed(kernel: Callable[..., Any], job: Check, place: str) -> Checked:
    times: list[float] = []
    timed = partial(_timed_call, times=times, junk=_junk(place))
    for at in range(1, _MOST_TIMES + 1):
        seed = job.seed + at * _RESEED
        if fault := _fault_at(kernel, job.shape, seed, place, call=timed):
            return Checked(f"{fault}, in call {at}")
        if len(times) > 2 and stdev(times) / len(times) ** 0.5 < _STEADY * fmean(times):
            break
    return Checked(times_us=tuple(times))


def _fault_at(
    kernel: Callable[..., Any],
    shape: Shape,
    seed: int,
    place: str,
    call: "Callable[[Callable[[], Any]], Any] | None",
) -> str:
    """Call the submission on fresh inputs, through ``call`` if given; say what is wrong with it."""
    given, expected = inputs(shape, seed, place)
    run = partial(kernel, given)
    return fault_of(call(run) if call else run(), expected)


def _junk(place: str) -> "Tensor":
    import torch

    return torch.empty(running_device(0).flush_bytes, dtype=torch.uint8, device=place)


def _timed_call(run: Callable[[], Any], times: list[float], junk: "Tensor") -> Any:
    """Run it once behind a flush of the caches and a wait that hides the host's time."""
    import torch

    cuda: Any = torch.cuda  # nothing public makes a GPU wait
    start, end = (cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    junk.zero_()
    cuda._sleep(round(_QUEUED_S * running_device(0).clock_ghz * 1e9))
    start.record()
    made = run()
    end.record()
    torch.cuda.synchronize()
    times.append(start.elapsed_time(end) * 1e3)
    return made


def inputs(shape: Shape, seed: int, place: str) -> "tuple[tuple[Tensor, ...], Tensor]":
    """Draw what the harness gives, (A, B, B_q, B_shuffle, B_scale_sh), and work out C in bf16."""
    import torch

    random = torch.Generator(place).manual_seed(seed)
    a, b = (
        torch.randn((rows, shape.k), dtype=torch.bfloat16, device=place, generator=random)
        for rows in (shape.m, shape.n)
    )
    codes, scales = formats.quantise(b)
    values = formats.dequantise(*formats.quantise(a))
    expected = formats.product(values, formats.dequantise(codes, scales)).bfloat16()
    fp4, e8m0 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
    shuffled = layouts.shuffle_weight(codes)
    return (a, b, codes.view(fp4), shuffled.view(fp4), e8m0_shuffle(scales).view(e8m0)), expected


def fault_of(made: Any, expected: "Tensor") -> str:
    """Say what is wrong with a result, empty if nothing: each element counts."""
    import torch

    if not isinstance(made, torch.Tensor):
        return f"returns {type(made).__name__}, not a tensor"
    if (found := _described(made)) != (wanted := _described(expected)):
        return f"returns {found}, not {wanted}"
    allowed = TOLERANCE + TOLERANCE * expected.float().abs()
    wrong = ~((made.float() - expected.float()).abs() <= allowed)  # NaN is wrong
    wrong &= ~(made.isnan() & expected.isnan())
    return "; ".join(_wrong(wrong, made, expected))


def _described(tensor: "Tensor") -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


def _wrong(wrong: "Tensor", made: "Tensor", expected: "Tensor") -> Iterator[str]:
    if count := int(wrong.sum()):
        row, column = divmod(int(wrong.int().argmax()), wrong.shape[1])
        found, wanted = float(made[row, column]), float(expected[row, column])
        yield (
            f"{count} of {wrong.numel()} elements are beyond the contest's tolerance of "
            f"{TOLERANCE} + {TOLERANCE} |C|, the first at ({row}, {column}): "
            f"{found:.6g} for {wanted:.6g}"
        )
