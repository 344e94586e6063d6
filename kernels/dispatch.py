"""The dispatcher: a route table in, GEMMs out. It never measures, and always answers."""

import warnings
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from math import log
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mxtune.configs.devices import Device, bare_arch, load_device
from mxtune.configs.errors import ConfigError, MissingError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.bind import Launch, bind, interpreting
from mxtune.kernels.family import Problem, View
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import checked_route, fallback_route, family
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

INTERPRETED_AS = "gfx950"  # the GPU that an interpreter without a table stands in for
_PLANS = 256  # bound routes kept for one weight; the one not used for longest goes first
_ALIGNED = 16  # bytes


@dataclass(frozen=True, slots=True)
class Choice:
    """The route for a shape, and the step of the lookup that gave it."""

    route: Route
    why: str


class Dispatcher:
    """Computes C = mxfp4(A) @ B.T by the route that a table has for the shape.

    Lookup: the exact shape; the nearest M of the same (N, K); the table's default; a family that is
    legal for everything. A route that is not legal for the shape, or whose family cannot run here,
    is passed over.
    """

    def __init__(self, table: RouteTable | None) -> None:
        """Take a table, or none: then the always-legal family computes everything."""
        self._table = table
        self._routes = _usable(table) if table else {}
        self._plans: WeakKeyDictionary[Mxfp4Weight, OrderedDict[Problem, Launch]] = (
            WeakKeyDictionary()
        )

    @classmethod
    def load(cls, path: str | Path) -> "Dispatcher":
        """Read a table; raises ConfigError for a file that is none."""
        return cls(RouteTable.load(Path(path)))

    @classmethod
    def bundled(cls) -> "Dispatcher":
        """Take the tables that come with mxtune for the GPU of this process.

        Where Triton interprets there is none: then it is the table for gfx950, if there is one.
        """
        arch = INTERPRETED_AS if interpreting() else running_device(0).arch
        tables = [
            RouteTable.load(Path(str(entry)))
            for entry in (files("mxtune") / "results" / "tables").iterdir()
            if entry.name.endswith(".json")
        ]
        fitting = [table for table in tables if bare_arch(table.device.arch) == arch]
        return cls(fitting[0] if fitting else None)

    def choose(self, shape: Shape, device: Device) -> Choice:
        """Return the route for ``shape`` on ``device`` and why."""
        if self._table and bare_arch(self._table.device.arch) != device.arch:
            why = f"the table is for {self._table.device.arch}, this is {device.arch}"
            return Choice(fallback_route(shape), f"always legal: {why}")
        for route, why in self._steps(shape):
            if _runs(route, shape, device):
                return Choice(route, why)
        why = "the table has nothing that fits" if self._table else "there is no table"
        return Choice(fallback_route(shape), f"always legal: {why}")

    def __call__(self, a: "Tensor", w: Mxfp4Weight, out: "Tensor | None" = None) -> "Tensor":
        """Return bf16 [M, N] = mxfp4(a) @ w.T for ``a`` bf16 [M, K], any strides.

        ``out``, if given, is overwritten: bf16 [M, N], unit stride along N. Raises ConfigError for
        operands that do not fit.
        """
        import torch

        _check_operands(a, w)
        if out is None:
            out = torch.empty((a.shape[0], w.n), dtype=torch.bfloat16, device=a.device)
        else:
            _check_out(out, a, w)
        if out.numel():
            self._plan(a, out, w)(a, out)
        return out

    def plan(self, m: int, w: Mxfp4Weight) -> Launch:
        """Bind the route for M rows of contiguous A now; ``plan(a, c)`` then only launches."""
        device = _device_of(w, self._table)
        return self._bound(Problem.contiguous(Shape(m, w.n, w.k), device), w)

    def _plan(self, a: "Tensor", out: "Tensor", w: Mxfp4Weight) -> Launch:
        shape = Shape(a.shape[0], w.n, w.k)
        problem = Problem(shape, _device_of(w, self._table), _view(a), _view(out))
        return self._bound(problem, w)

    def _bound(self, problem: Problem, w: Mxfp4Weight) -> Launch:
        plans = self._plans.setdefault(w, OrderedDict())
        if problem not in plans:
            plans[problem] = bind(self.choose(problem.shape, problem.device).route, problem, w)
            if len(plans) > _PLANS:
                plans.popitem(last=False)
        plans.move_to_end(problem)
        return plans[problem]

    def _steps(self, shape: Shape) -> list[tuple[Route, str]]:
        steps: list[tuple[Route, str]] = []
        if shape in self._routes:
            steps.append((self._routes[shape], "exact: the table has this shape"))
        neighbours = [s for s in self._routes if (s.n, s.k) == (shape.n, shape.k) and s != shape]
        neighbours.sort(key=lambda s: (abs(log(s.m / shape.m)), -s.m))
        steps += [(self._routes[s], f"nearest M: the table has {s}") for s in neighbours]
        if self._default:
            steps.append((self._default, "default: the table has no such (N, K)"))
        return steps

    @cached_property
    def _default(self) -> Route | None:
        if not self._table or not self._table.default:
            return None
        default = self._table.default
        return _accepted(Route(default.family, Config.of(default.config)), "default")


def _runs(route: Route, shape: Shape, device: Device) -> bool:
    owner = family(route.family)
    if owner.missing(device):
        return False
    return owner.legality(route.config, shape, device).grade != "illegal"


def _usable(table: RouteTable) -> dict[Shape, Route]:
    """Return the routes whose settings are known, with a warning for each that is not."""
    routes = ((entry.key, _accepted(entry.route, str(entry.key))) for entry in table.routes)
    return {shape: route for shape, route in routes if route}


def _accepted(route: Route, place: str) -> Route | None:
    try:
        return checked_route(route)
    except ConfigError as error:
        warnings.warn(f"route of {place} is not used: {error}", stacklevel=3)
        return None


def _device_of(w: Mxfp4Weight, table: RouteTable | None) -> Device:
    """Return the GPU that the weight lies on; for a CPU, the one that the table is for."""
    if not w.device.startswith("cpu"):
        return running_device(int(w.device.partition(":")[2] or 0))
    if not interpreting():
        raise MissingError(
            "the operands are on the CPU: move them to a GPU, or set TRITON_INTERPRET=1 before "
            "Python starts to interpret"
        )
    return load_device(table.device.arch if table else INTERPRETED_AS)


def _view(matrix: "Tensor") -> View:
    row, column = matrix.stride()
    if matrix.shape[0] == 1:
        row = matrix.shape[1]  # torch leaves the stride of a single row undefined
    return View(row, column, matrix.data_ptr() % _ALIGNED == 0)


def _check_operands(a: "Tensor", w: Mxfp4Weight) -> None:
    import torch

    if a.dtype != torch.bfloat16:
        raise ConfigError(f"A must be bfloat16, not {a.dtype}: quantise others with a.bfloat16()")
    if a.ndim != 2 or a.shape[1] != w.k:
        raise ConfigError(f"A must be [M, {w.k}] for this weight, not {list(a.shape)}")
    if str(a.device) != w.device:
        raise ConfigError(f"A is on {a.device} and the weight on {w.device}; move one of them")


def _check_out(out: "Tensor", a: "Tensor", w: Mxfp4Weight) -> None:
    wanted = (a.shape[0], w.n)
    if out.dtype != a.dtype or tuple(out.shape) != wanted or out.device != a.device:
        raise ConfigError(
            f"out must be {a.dtype} {list(wanted)} on {a.device}, "
            f"not {out.dtype} {list(out.shape)} on {out.device}"
        )
    if out.shape[1] > 1 and out.stride(1) != 1:
        raise ConfigError(f"out must have unit stride along N, not strides {list(out.stride())}")
