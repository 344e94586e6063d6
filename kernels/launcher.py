"""Launch a compiled kernel through Triton's own launcher, with all arguments worked out before.

``kernel[grid](*arguments)`` asks torch for the queue, looks at hooks and asks the driver about
every tensor, each time. Here the launcher is called once, with marks in place of what is not known
yet and with its C function replaced by one that notes what it is given. That is a template: a call
copies it and puts a queue and addresses in. So nothing depends on how a release orders them.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Enqueue = Callable[..., None]  # with the tensors that are given later
Queue = Callable[[], int]  # the handle of the current queue
Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Later:
    """A pointer that comes with the call: its place in the kernel's arguments, and which tensor."""

    place: int
    tensor: int


@dataclass(frozen=True, slots=True)
class Hooks:
    """What Triton's profilers want called around every launch: chains, empty mostly."""

    enter: Any
    leave: Any

    @property
    def known(self) -> bool:
        """Whether they are chains, which tell if they are empty."""
        return hasattr(self.enter, "calls") and hasattr(self.leave, "calls")


def enqueuer(
    kernel: Any,
    grid: Grid,
    arguments: Sequence[Any],
    later: Sequence[Later],
    hooks: Hooks,
    queue: Queue,
) -> Enqueue:
    """Return what enqueues ``kernel`` (triton.compiler.CompiledKernel), loading it now.

    ``arguments`` are all of the kernel's, tensors among them; those at the places of ``later`` do
    not count. The current device must be the one that it will run on.
    """
    whole = _whole(kernel, grid, arguments, later, queue)  # loads it
    template = _template(kernel, grid, arguments, later) if hooks.known else None
    return whole if template is None else _short(template, hooks, queue, whole)


def _whole(
    kernel: Any, grid: Grid, arguments: Sequence[Any], later: Sequence[Later], queue: Queue
) -> Enqueue:
    """Return the launch that Triton offers."""
    launch = kernel[grid]

    def enqueue(*tensors: "Tensor") -> None:
        values = list(arguments)
        for one in later:
            values[one.place] = tensors[one.tensor]
        launch(*values, stream=queue())

    return enqueue


class _Mark:
    """Stands for something that is not known yet."""


@dataclass(frozen=True, slots=True)
class _Template:
    """What the C function is given; the kernel's arguments are the last of it, or in a tuple."""

    send: Callable[..., None]
    values: list[Any]
    queue: int  # its place in ``values``
    first: int | None  # of the kernel's arguments in ``values``; None: they are a tuple
    packed: int  # the place of that tuple
    arguments: list[Any]
    later: tuple[tuple[int, int], ...]
    alive: tuple[Any, ...]  # the tensors whose addresses are in ``arguments``


def _template(
    kernel: Any, grid: Grid, arguments: Sequence[Any], later: Sequence[Later]
) -> _Template | None:
    """Note what the launcher gives its C function, or return None if it does more than that."""
    run = kernel.run
    send = getattr(run, "launch", None)
    scratch = (getattr(run, f"{name}_scratch_size", 0) for name in ("global", "profile"))
    if send is None or any(scratch):  # a launch that needs memory allocates it each time
        return None
    noted: list[tuple[Any, ...]] = []
    spy = copy.copy(run)
    spy.launch = lambda *values: noted.append(values)  # pyright: ignore[reportUnknownLambdaType]
    queue, marks = _Mark(), tuple(_Mark() for _ in arguments)
    spy(*grid, queue, kernel.function, kernel.packed_metadata, None, None, None, *marks)
    (values,) = noted
    places = _places(values, queue, marks)
    if places is None:
        return None
    fixed = [_address(argument) for argument in arguments]
    pairs = tuple((one.place, one.tensor) for one in later)
    return _Template(send, list(values), *places, fixed, pairs, tuple(arguments))


def _places(
    values: tuple[Any, ...], queue: _Mark, marks: tuple[_Mark, ...]
) -> tuple[int, int | None, int] | None:
    """Find the queue and the kernel's arguments, all of them and nothing between."""
    at = [place for place, value in enumerate(values) if value is queue]
    if len(at) != 1:
        return None
    packed = [place for place, v in enumerate(values) if isinstance(v, tuple) and v == marks]
    if len(packed) == 1:
        return at[0], None, packed[0]
    first = len(values) - len(marks)
    return (at[0], first, -1) if marks and values[first:] == marks else None


def _address(argument: Any) -> Any:
    """Return a tensor's address: the launcher asks the driver about a tensor, at each launch."""
    return argument.data_ptr() if hasattr(argument, "data_ptr") else argument


def _short(template: _Template, hooks: Hooks, queue: Queue, whole: Enqueue) -> Enqueue:
    """Return the launch that only fills in ``template``; where a profiler listens, ``whole``."""
    if template.first is None:
        return _packed(template, hooks, queue, whole)
    send, values, queue_at = template.send, template.values, template.queue
    enter, leave, first = hooks.enter, hooks.leave, template.first
    values[first:] = template.arguments
    later = tuple((first + place, tensor) for place, tensor in template.later)
    if [tensor for _, tensor in later] == [0, 1]:
        return _of_two(template, hooks, queue, whole)

    def enqueue(*tensors: "Tensor") -> None:
        if enter.calls or leave.calls:
            return whole(*tensors)
        now = values.copy()
        now[queue_at] = queue()
        for place, tensor in later:
            now[place] = tensors[tensor].data_ptr()
        return send(*now)

    return enqueue


def _of_two(template: _Template, hooks: Hooks, queue: Queue, whole: Enqueue) -> Enqueue:
    """Return the launch of a kernel that takes A and C and nothing else later: no loop."""
    send, values, queue_at = template.send, template.values, template.queue
    enter, leave, first = hooks.enter, hooks.leave, template.first or 0
    (a_at, _), (c_at, _) = template.later
    a_at, c_at = first + a_at, first + c_at

    def enqueue(a: "Tensor", c: "Tensor", *others: "Tensor") -> None:
        if enter.calls or leave.calls:
            return whole(a, c, *others)
        now = values.copy()
        now[queue_at] = queue()
        now[a_at] = a.data_ptr()
        now[c_at] = c.data_ptr()
        return send(*now)

    return enqueue


def _packed(template: _Template, hooks: Hooks, queue: Queue, whole: Enqueue) -> Enqueue:
    """Return the launch for a C function that takes the kernel's arguments as a tuple."""
    send, values, arguments = template.send, template.values, template.arguments
    queue_at, packed, later = template.queue, template.packed, template.later
    enter, leave = hooks.enter, hooks.leave

    def enqueue(*tensors: "Tensor") -> None:
        if enter.calls or leave.calls:
            return whole(*tensors)
        own = arguments.copy()
        for place, tensor in later:
            own[place] = tensors[tensor].data_ptr()
        now = values.copy()
        now[queue_at], now[packed] = queue(), tuple(own)
        return send(*now)

    return enqueue
