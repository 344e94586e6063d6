"""The dispatcher: a route table in, GEMMs out. It never measures, and always answers."""

import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from mxtune.configs.devices import Device, bare_arch
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Measured
from mxtune.configs.routes import Config, Route
from mxtune.configs.settings import read_observed
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.bind import Launch, bind, interpreting
from mxtune.kernels.family import Problem, View
from mxtune.kernels.gpu import running_device
from mxtune.kernels.observe import Observer
from mxtune.kernels.placed import INTERPRETED_AS, device_at, view_of
from mxtune.kernels.plans import Plans
from mxtune.kernels.registry import checked_route, fallback_route, family
from mxtune.kernels.reuse import LastActivation
from mxtune.kernels.shared import SharedLaunch, bind_shared, shares
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor


_EXACT = "exact: the table has this shape"


@dataclass(frozen=True, slots=True)
class Choice:
    """The route for a shape, and the step of the lookup that gave it."""

    route: Route
    why: str


class Dispatcher:
    """Computes C = mxfp4(A) @ B.T by the route that a table has for the shape.

    Lookup: the exact shape; the nearest M of the same (N, K); the table's default; a family that is
    legal for everything. A route that is not legal for the shape, whose family cannot run here, or
    that cannot take A as it is given, is passed over.
    """

    def __init__(
        self,
        table: RouteTable | None,
        *,
        reuse_activations: bool = False,
        observe: Observer | None = None,
    ) -> None:
        """Take a table, or none: then the always-legal family computes everything.

        ``reuse_activations`` keeps the last A that a route quantised by a kernel of its own, for
        when the same tensor comes again: see `kernels/reuse.py` for what that promises and costs.
        ``observe`` is what MXTUNE_OBSERVE asks for unless given.
        """
        self._table = table
        self._routes = _usable(table) if table else {}
        entries = table.routes if table else ()
        self._measured = {entry.key for entry in entries if isinstance(entry.evidence, Measured)}
        self._plans, self._shared = Plans[Launch](), Plans[SharedLaunch]()
        self._sharing = Plans[bool]()
        self._last = LastActivation() if reuse_activations else None
        self._observe = observe or Observer.of(read_observed(), sys.stderr)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        reuse_activations: bool = False,
        observe: Observer | None = None,
    ) -> "Dispatcher":
        """Read a table; raises ConfigError for a file that is none."""
        table = RouteTable.load(Path(path))
        return cls(table, reuse_activations=reuse_activations, observe=observe)

    @classmethod
    def bundled(
        cls, *, reuse_activations: bool = False, observe: Observer | None = None
    ) -> "Dispatcher":
        """Take the tables that come with mxtune for the GPU of this process.

        Where Triton interprets there is none: then it is the table for gfx950, if there is one.
        """
        arch = INTERPRETED_AS if interpreting() else running_device(0).arch
        return cls(bundled_table(arch), reuse_activations=reuse_activations, observe=observe)

    def choose(self, shape: Shape, device: Device, *, quantised: bool = False) -> Choice:
        """Return the route for ``shape`` on ``device`` and why.

        ``quantised``: for an A that is an Mxfp4Activation.
        """
        if self._table and bare_arch(self._table.device.arch) != device.arch:
            why = f"the table is for {self._table.device.arch}, this is {device.arch}"
            return Choice(fallback_route(shape), f"always legal: {why}")
        for choice in self._steps(shape):
            proven = choice.why == _EXACT and shape in self._measured
            if not _runs(choice.route, shape, device, proven=proven):
                continue
            if not quantised or shares(choice.route, shape, device):
                return choice
        why = "the table has nothing that fits" if self._table else "there is no table"
        return Choice(fallback_route(shape), f"always legal: {why}")

    def __call__(
        self, a: "Tensor | Mxfp4Activation", w: Mxfp4Weight, out: "Tensor | None" = None
    ) -> "Tensor":
        """Return bf16 [M, N] = mxfp4(a) @ w.T for ``a`` [M, K]: bf16, any strides, or quantised.

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
            self._compute(a, out, w)
        return out

    def plan(self, m: int, w: Mxfp4Weight) -> Launch:
        """Bind the route for M rows of contiguous A now; ``plan(a, c)`` then only launches."""
        problem = Problem.contiguous(Shape(m, w.n, w.k), self._device(w))
        return self._plans.of(problem, w, self._bind)

    def _compute(self, a: "Tensor | Mxfp4Activation", out: "Tensor", w: Mxfp4Weight) -> None:
        as_given = View(w.k, 1) if isinstance(a, Mxfp4Activation) else view_of(a)
        shape = Shape(a.shape[0], w.n, w.k)
        problem = Problem(shape, self._device(w), as_given, view_of(out))
        if isinstance(a, Mxfp4Activation):
            self._shared.of(problem, w, self._bind_shared)(a, out)
        elif self._last and self._sharing.of(problem, w, self._shares):
            launch = self._shared.of(problem, w, self._bind_shared)
            launch(self._last.quantised(a, launch.scale_layout, self._observe), out)
        else:
            self._plans.of(problem, w, self._bind)(a, out)

    def _shares(self, problem: Problem, w: Mxfp4Weight) -> bool:
        """Whether the route for a tensor is one that an Mxfp4Activation would take too."""
        del w
        shape, device = problem.shape, problem.device
        return shares(self.choose(shape, device).route, shape, device)

    def _bind(self, problem: Problem, w: Mxfp4Weight) -> Launch:
        route = self.choose(problem.shape, problem.device).route
        return bind(route, problem, w, self._observe)

    def _bind_shared(self, problem: Problem, w: Mxfp4Weight) -> SharedLaunch:
        route = self.choose(problem.shape, problem.device, quantised=True).route
        return bind_shared(route, problem, w, self._observe)

    def _device(self, w: Mxfp4Weight) -> Device:
        """Return the GPU that the weight lies on; for a CPU, the one that the table is for."""
        return device_at(w.device, self._table.device.arch if self._table else INTERPRETED_AS)

    def _steps(self, shape: Shape) -> list[Choice]:
        steps: list[Choice] = []
        if shape in self._routes:
            steps.append(Choice(self._routes[shape], _EXACT))
        neighbours = [s for s in self._routes if (s.n, s.k) == (shape.n, shape.k) and s != shape]
        neighbours.sort(key=lambda s: (abs(log(s.m / shape.m)), -s.m))
        steps += [Choice(self._routes[s], f"nearest M: the table has {s}") for s in neighbours]
        if self._default:
            steps.append(Choice(self._default, "default: the table has no such (N, K)"))
        return steps

    @cached_property
    def _default(self) -> Route | None:
        if not self._table or not self._table.default:
            return None
        default = self._table.default
        return _accepted(Route(default.family, Config.of(default.config)), "default")


def bundled_table(arch: str) -> RouteTable | None:
    """Return the table that comes with mxtune for ``arch``: a measured one before a reported one.

    Among equals the newest wins, then the first by file name.
    """
    folder = files("mxtune") / "results" / "tables"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    tables = (RouteTable.load(Path(str(folder / name))) for name in names)
    fitting = [table for table in tables if bare_arch(table.device.arch) == arch]
    return max(fitting, key=lambda table: (table.strength, table.made.at), default=None)


def _runs(route: Route, shape: Shape, device: Device, *, proven: bool) -> bool:
    """Whether a route may be used: a suspect one only where a measurement proved it right."""
    owner = family(route.family)
    if owner.missing(device):
        return False
    grade = owner.legality(route.config, shape, device).grade
    return grade == "legal" or (grade == "suspect" and proven)


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


def _check_operands(a: "Tensor | Mxfp4Activation", w: Mxfp4Weight) -> None:
    import torch

    if not isinstance(a, Mxfp4Activation) and a.dtype != torch.bfloat16:
        raise ConfigError(f"A must be bfloat16, not {a.dtype}: quantise others with a.bfloat16()")
    if len(a.shape) != 2 or a.shape[1] != w.k:
        raise ConfigError(f"A must be [M, {w.k}] for this weight, not {list(a.shape)}")
    if str(a.device) != w.device:
        raise ConfigError(f"A is on {a.device} and the weight on {w.device}; move one of them")


def _check_out(out: "Tensor", a: "Tensor | Mxfp4Activation", w: Mxfp4Weight) -> None:
    import torch

    wanted = (a.shape[0], w.n)
    if out.dtype != torch.bfloat16 or tuple(out.shape) != wanted or str(out.device) != w.device:
        raise ConfigError(
            f"out must be {torch.bfloat16} {list(wanted)} on {a.device}, "
            f"not {out.dtype} {list(out.shape)} on {out.device}"
        )
    if out.shape[1] > 1 and out.stride(1) != 1:
        raise ConfigError(f"out must have unit stride along N, not strides {list(out.stride())}")
