"""The routes of a table as a submission has them: launches on what the contest's harness gives.

The harness gives A in bf16, B's codes plain and shuffled, and B's scales shuffled. A route that
reads plain scales of B would have to make them in every call, so it cannot be submitted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mxtune.configs.devices import bare_arch, load_device
from mxtune.configs.errors import NoRouteError
from mxtune.configs.evidence import Measured
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Entry, RouteTable
from mxtune.kernels.bind import planned
from mxtune.kernels.build import options_of
from mxtune.kernels.family import BYTES, INT32, Buffer, Call, Dtype, Plan, Problem, Step
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.results.contest.sources import Place, parameters

DEVICE_CODE = "mxtune.kernels.device"

# Operands by their names in a plan, and in the file.
_GIVEN = {
    "a": "A",
    "b": "B_q",
    "b_shuffled": "B_shuffle",
    "b_scales_shuffled": "B_scale_sh",
    "c": "C",
    "c_padded": "C",
}
_RULE = "even"
_PLAIN_SCALES = "b_scales"  # which the harness does not give
_CROPPED = "crop"  # copies the first rows of a padded C: in the file C is a view of them

View = Dtype | tuple[int, ...] | str  # what a tensor is viewed as: a dtype of torch's, or a shape


@dataclass(frozen=True, slots=True)
class FileLaunch:
    """A launch of one of our kernels: tensors by their names in the file, then values."""

    kernel: Place
    grid: tuple[int, int]
    tensors: Mapping[str, str]
    values: Mapping[str, object]
    options: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FileCall:
    """A call of AITER's: tensors by their names in the file and what they are viewed as, values."""

    function: str
    tensors: Mapping[str, tuple[str, View]]
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FileRoute:
    """One route of the file."""

    entry: Entry
    route: Route
    fresh: Mapping[str, tuple[Dtype, tuple[int, ...]]]  # what each call allocates
    steps: tuple[FileLaunch | FileCall, ...]


def file_routes(table: RouteTable, shapes: Iterable[Shape] = ()) -> tuple[FileRoute, ...]:
    """Return the routes of ``table``, of ``shapes`` only if there are any, sorted by shape.

    Raises NoRouteError for a shape that it has not, and for a route that cannot be submitted.
    """
    if table.made.rule != _RULE:
        raise NoRouteError(f"the table is for the rule {table.made.rule}; the contest's is {_RULE}")
    entries = {entry.key: entry for entry in table.routes}
    asked = set(shapes)
    for shape in sorted(asked.difference(entries)):
        known = ", ".join(map(str, sorted(entries)))
        raise NoRouteError(f"the table has no route for {shape}; it has {known}")
    wanted = sorted(asked or entries)
    if not wanted:
        raise NoRouteError("the table has no routes to submit")
    return tuple(_file_route(entries[shape], table.device.arch) for shape in wanted)


def _file_route(entry: Entry, arch: str) -> FileRoute:
    route, shape = checked_route(entry.route), entry.key
    device = load_device(bare_arch(arch))
    plan = planned(route, Problem.contiguous(shape, device))
    owner = family(route.family)
    verdict = owner.legality(route.config, shape, device)
    if verdict.grade == "suspect" and not isinstance(entry.evidence, Measured):
        raise NoRouteError(f"{shape}: {brief(route)} is not proven there: {verdict.reason}")
    steps = tuple(step for step in plan.steps if step.name != _CROPPED)
    buffers = [buffer for step in steps for buffer in step.buffers.values()]
    if obstacle := _obstacle(buffers):
        raise NoRouteError(f"{shape}: {brief(route)} {obstacle}; name the shapes with --shapes")
    return FileRoute(entry, route, dict(_fresh(plan, buffers)), tuple(map(file_step, steps)))


def _obstacle(buffers: Iterable[Buffer]) -> str | None:
    for buffer in buffers:
        if buffer.name == _PLAIN_SCALES:
            return "reads plain scales of B, which the contest does not give"
        if buffer.elements * BYTES[buffer.dtype] > INT32:
            return f"has {_GIVEN.get(buffer.name, buffer.name)} of more than 2 GiB"
    return None


def _fresh(
    plan: Plan, buffers: Iterable[Buffer]
) -> Iterator[tuple[str, tuple[Dtype, tuple[int, ...]]]]:
    """Yield what is allocated. AITER's gemm_a4w4 allocates C itself."""
    returned = any(isinstance(step, Call) and step.function == "gemm_a4w4" for step in plan.steps)
    for buffer in buffers:
        name = _GIVEN.get(buffer.name, buffer.name)
        if buffer.name not in _GIVEN or (name == "C" and not returned):
            yield name, (buffer.dtype, buffer.shape)


def file_step(step: Step | Call) -> FileLaunch | FileCall:
    """Return a step of a plan as the file has it: arguments in the order of the kernel's."""
    if isinstance(step, Call):
        return _file_call(step)
    module, name = step.kernel.split(":")
    place = Place(f"{DEVICE_CODE}.{module}", name)
    values = {**step.integers, **step.constants}
    tensors = {p: b.name for p, b in step.buffers.items()}
    taken = parameters(place)
    return FileLaunch(
        place,
        step.grid,
        {name: _GIVEN.get(tensors[name], tensors[name]) for name in taken if name in tensors},
        {name: values[name] for name in taken if name in values},
        options_of(step),
    )


def _file_call(call: Call) -> FileCall:
    """Say how the AITER of the contest's container takes a call (commit f3be04a12a, March 2026)."""
    shape_of = {name: buffer.shape for name, buffer in call.buffers.items()}
    tensors = {
        keyword: (_GIVEN.get(buffer.name, buffer.name), _view(keyword, shape_of, buffer))
        for keyword, buffer in call.buffers.items()
        if not (call.function == "gemm_a4w4" and keyword == "out")
    }
    if "w" not in call.buffers:
        return FileCall(call.function, tensors, dict(call.values))
    config = {**call.values, "cache_modifier": call.values["cache_modifier"] or None}
    return FileCall(call.function, tensors, {"config": config})


def _view(keyword: str, shape_of: Mapping[str, tuple[int, ...]], buffer: Buffer) -> View:
    """Return what AITER wants a tensor as: FP4 and E8M0 by dtype, or counted in groups of rows."""
    rows, columns = shape_of[keyword]
    if keyword == "w":
        return rows // 16, columns * 16
    if keyword == "w_scales":
        return rows // 32, columns * 32
    by_dtype = {"A": "fp4x2", "B": "fp4x2", "A_scale": "e8m0", "B_scale": "e8m0"}
    return by_dtype.get(keyword, buffer.dtype)
