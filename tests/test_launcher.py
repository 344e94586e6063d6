"""A launch through a template is what Triton's own launcher would have sent, without its price.

The launchers are those of the installed Triton, made without a GPU, and stand-ins that pass
arguments on as Triton 3.6 does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import triton
from triton.backends.amd.driver import HIPLauncher
from triton.backends.nvidia.driver import CudaLauncher

from mxtune.kernels.launcher import Hooks, Later, enqueuer

GRID = (3, 2, 1)
WEIGHT = torch.zeros(4)
ARGUMENTS = ["the place of A", WEIGHT, 17, True, "the place of C"]
LATER = [Later(0, 0), Later(4, 1)]


def queue() -> int:
    """Names the current queue."""
    return 99


@dataclass
class Chain:
    """Hooks as Triton chains them."""

    calls: list[str] = field(default_factory=list[str])


@dataclass
class Kernel:
    """What of a compiled kernel a launch needs; ``whole`` are launches that Triton would make."""

    run: Any
    whole: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    function: int = 4711
    packed_metadata: tuple[int, ...] = (4, 1, 1024)

    def __getitem__(self, grid: tuple[int, int, int]) -> Callable[..., None]:
        def launch(*values: Any, stream: int) -> None:
            self.whole.append((grid, stream, *values))

        return launch


class Flat:
    """Passes arguments on one by one, as the launchers of Triton 3.6 do."""

    def __init__(self, *, first: bool) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.launch: Callable[..., None] = lambda *values: self.sent.append(values)
        self.first = first  # AMD's has one more before the grid

    def __call__(self, x: int, y: int, z: int, queue: int, function: int, *values: Any) -> None:
        start = (False,) if self.first else ()
        self.launch(*start, x, y, z, queue, function, None, *values)


def made(kind: Any, sent: list[tuple[Any, ...]], **changes: Any) -> Any:
    """A launcher of the installed Triton that sends to a list."""
    launcher = object.__new__(kind)
    facts = {
        "num_ctas": 1,
        "warp_size": 64,
        "gsan_enabled": False,
        "launch_cooperative_grid": False,
        "launch_pdl": False,
        "arg_annotations": ("annotations",),
        "kernel_signature": b"signature",
        "launch": lambda *values: sent.append(values),
    }
    for name in ("global", "profile"):
        facts |= {f"{name}_scratch_size": 0, f"{name}_scratch_align": 1}
    for name, value in (facts | changes).items():
        setattr(launcher, name, value)
    return launcher


def sent_by(launcher: Any, sent: list[tuple[Any, ...]], tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return what reaches the C function of ``launcher`` through its own call."""
    sent.clear()
    a, c = (tensor.data_ptr() for tensor in tensors)
    values = (a, WEIGHT.data_ptr(), 17, True, c)
    kernel = Kernel(launcher)
    launcher(*GRID, 99, kernel.function, kernel.packed_metadata, None, None, None, *values)
    return sent.pop()


@pytest.fixture(autouse=True)
def some_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Triton's launchers find a driver: without scratch memory they ask it nothing."""
    monkeypatch.setattr(triton.runtime.driver, "_active", object())


@pytest.fixture(params=["CUDA", "HIP", "CUDA 3.6", "HIP 3.6"])
def launcher(request: pytest.FixtureRequest) -> tuple[Any, list[tuple[Any, ...]]]:
    if request.param.endswith("3.6"):
        flat = Flat(first=request.param.startswith("HIP"))
        return flat, flat.sent
    sent: list[tuple[Any, ...]] = []
    return made(CudaLauncher if request.param == "CUDA" else HIPLauncher, sent), sent


def test_the_c_function_gets_what_the_launcher_would_give_it(
    launcher: tuple[Any, list[tuple[Any, ...]]],
) -> None:
    run, sent = launcher
    enqueue = enqueuer(Kernel(run), GRID, ARGUMENTS, LATER, Hooks(Chain(), Chain()), queue)
    assert sent == []  # nothing is launched while binding
    for _ in range(2):
        tensors = (torch.zeros(8), torch.zeros(8))
        expected = sent_by(run, sent, tensors)
        assert 99 in expected
        enqueue(*tensors)
        assert sent == [expected]
        sent.clear()


def test_where_a_profiler_listens_triton_launches(
    launcher: tuple[Any, list[tuple[Any, ...]]],
) -> None:
    run, sent = launcher
    kernel, hooks = Kernel(run), Hooks(Chain(), Chain())
    enqueue = enqueuer(kernel, GRID, ARGUMENTS, LATER, hooks, queue)
    a, c = torch.zeros(8), torch.zeros(8)
    hooks.leave.calls.append("a profiler")
    enqueue(a, c)
    assert sent == []
    assert kernel.whole == [(GRID, 99, a, WEIGHT, 17, True, c)]
    hooks.leave.calls.clear()
    enqueue(a, c)
    assert len(sent) == len(kernel.whole) == 1


def nothing(*values: Any) -> None:
    """Launches nothing."""
    del values


class Adds:
    """A launcher that gives its C function an argument of its own among the kernel's."""

    def __init__(self) -> None:
        self.launch: Callable[..., None] = nothing

    def __call__(self, x: int, y: int, z: int, queue: int, function: int, *values: Any) -> None:
        self.launch(x, y, z, queue, function, *values[:-1], "scratch", values[-1])


class Twice(Adds):
    """A launcher that names the queue twice."""

    def __call__(self, x: int, y: int, z: int, queue: int, function: int, *values: Any) -> None:
        self.launch(x, y, z, queue, queue, function, *values)


@pytest.mark.parametrize(
    "run",
    [
        Adds(),
        Twice(),
        made(CudaLauncher, [], global_scratch_size=64),
        made(HIPLauncher, [], profile_scratch_size=64),
        nothing,
    ],
)
def test_a_launcher_that_does_more_is_left_to_triton(run: Any) -> None:
    kernel = Kernel(run)
    enqueue = enqueuer(kernel, GRID, ARGUMENTS, LATER, Hooks(Chain(), Chain()), queue)
    a, c = torch.zeros(8), torch.zeros(8)
    enqueue(a, c)
    assert kernel.whole == [(GRID, 99, a, WEIGHT, 17, True, c)]


def test_hooks_that_do_not_tell_if_they_are_empty_leave_it_to_triton() -> None:
    flat = Flat(first=False)
    kernel = Kernel(flat)
    enqueue = enqueuer(kernel, GRID, ARGUMENTS, LATER, Hooks(None, None), queue)
    enqueue(torch.zeros(8), torch.zeros(8))
    assert flat.sent == []
    assert len(kernel.whole) == 1
