"""The dispatcher: a route table in, GEMMs out. It never measures, and always answers."""

import sys
import warnings
import weakref
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from mxtune.configs.devices import Device, bare_arch
from mxtune.configs.settings import read_observed, read_record
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable, salvage
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.build import interpreting
from mxtune.kernels.gpu import driver_here, running_device
from mxtune.kernels.launch import Launch
from mxtune.kernels.lookup import Choice, Lookup, Tried
from mxtune.kernels.misses import Misses
from mxtune.kernels.observe import Observer
from mxtune.kernels.placed import INTERPRETED_AS, device_at
from mxtune.kernels.standing import Standing, standing_of
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

    from mxtune.kernels.engine import Engine


class Dispatcher:
    """Computes C = mxfp4(A) @ B.T by the route that a table has for the shape.

    Lookup: the exact shape; the bucket of M at the same (N, K); the nearest M there; the table's
    default; a family that is legal for everything. A route that is not legal for the shape, whose
    family cannot run here, or that cannot take A as it is given, is passed over.
    """

    def __init__(
        self,
        table: RouteTable | None,
        *,
        reuse_activations: bool = False,
        observe: Observer | None = None,
        source: str = "the route table",
    ) -> None:
        """Take a table, or none: then the always-legal family computes everything.

        ``reuse_activations`` keeps the last A that a route quantised by a kernel of its own, for
        when the same tensor comes again: see `kernels/reuse.py` for what that promises and costs.
        ``observe`` is what MXTUNE_OBSERVE asks for unless given. ``source`` is what warnings call
        the table.
        """
        self._table, self._source, self._reuse = table, source, reuse_activations
        self._observe = observe or Observer.of(read_observed(), sys.stderr)
        self._standings: dict[Device, Standing] = {}
        self._lookups: dict[tuple[Device, bool], Lookup] = {}
        self._misses = Misses()
        kept = read_record()
        if kept is not None:
            weakref.finalize(self, self._misses.add_quietly, kept)
        # torch.compile looks into a dispatcher, and cannot look into an import
        self._engine: Engine | None = self._made_engine() if "torch" in sys.modules else None

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        reuse_activations: bool = False,
        observe: Observer | None = None,
    ) -> "Dispatcher":
        """Read a table. What is damaged in it is not used, and one warning says what and where.

        Raises ConfigError for a file that cannot be read.
        """
        found = salvage(Path(path))
        if found.told:
            warnings.warn(f"{path}: not used: {found.told}", stacklevel=2)
        return cls(
            found.table, reuse_activations=reuse_activations, observe=observe, source=str(path)
        )

    @classmethod
    def bundled(
        cls, *, reuse_activations: bool = False, observe: Observer | None = None
    ) -> "Dispatcher":
        """Take the tables that come with mxtune for the GPU of this process.

        Where Triton interprets there is none: then it is the table for gfx950, if there is one.
        """
        arch = INTERPRETED_AS if interpreting() else running_device(0).arch
        table = bundled_table(arch)
        return cls(table, reuse_activations=reuse_activations, observe=observe)

    def __call__(
        self, a: "Tensor | Mxfp4Activation", w: Mxfp4Weight, out: "Tensor | None" = None
    ) -> "Tensor":
        """Return bf16 [M, N] = mxfp4(a) @ w.T for ``a`` [M, K]: bf16, any strides, or quantised.

        ``out``, if given, is overwritten: bf16 [M, N], unit stride along N. Raises ConfigError for
        operands that do not fit, that want a gradient, or that are met for the first time while a
        graph is captured.
        """
        engine = self._engine
        if engine is None:
            engine = self._engine = self._made_engine()
        return engine(a, w, out)

    def plan(self, m: int, w: Mxfp4Weight) -> Launch:
        """Bind the route for M rows of contiguous A now; ``plan(a, out=c)`` then only launches.

        It stays right whatever becomes of the dispatcher.
        """
        engine = self._engine = self._engine or self._made_engine()
        return engine.plan(m, w)

    def choose(self, shape: Shape, device: Device, *, quantised: bool = False) -> Choice:
        """Return the route for ``shape`` on ``device`` and why.

        ``quantised``: for an A that is an Mxfp4Activation.
        """
        return self.lookup(device, quantised=quantised).find(shape.m, shape.n, shape.k)

    def explain(self, m: int, w: Mxfp4Weight) -> tuple[Tried, ...]:
        """Return the steps of the lookup for M rows, the one that is taken last."""
        return tuple(self.lookup(self._device(w.device)).steps(Shape(m, w.n, w.k)))

    def lookup(self, device: Device, *, quantised: bool = False) -> Lookup:
        """Return the lookup on ``device``, made once."""
        key = (device, quantised)
        if key not in self._lookups:
            self._lookups[key] = self.standing(device).lookup(quantised=quantised)
        return self._lookups[key]

    def standing(self, device: Device, driver: str | None = None) -> Standing:
        """Return what the table is worth on ``device``; what is amiss is warned of once."""
        if device not in self._standings:
            standing = self._standings[device] = standing_of(self._table, device, driver)
            if standing.warning:
                warnings.warn(f"{self._source}: {standing.warning}", stacklevel=3)
        return self._standings[device]

    @property
    def misses(self) -> dict[Shape, int]:
        """Calls by shape of what the table had no entry for, as far as they are not saved."""
        return self._misses.calls

    def record(self, path: str | Path) -> dict[Shape, int]:
        """Add the misses to a file of shapes, which `mxtune sweep --shapes` takes.

        Returns what the file then has; raises ConfigError if it cannot be written.
        """
        return self._misses.add_to(Path(path))

    def _made_engine(self) -> "Engine":
        from mxtune.kernels.engine import Engine

        return Engine(self._chosen, self._misses, self._observe, reuse=self._reuse)

    def _chosen(
        self, shape: Shape, place: str, *, quantised: bool = False
    ) -> tuple[Choice, Device]:
        device = self._device(place)
        if device not in self._standings and not place.startswith("cpu"):
            self.standing(device, driver_here())
        return self.choose(shape, device, quantised=quantised), device

    def _device(self, place: str) -> Device:
        """Return the GPU that a weight lies on; for a CPU, the one that the table is for."""
        made_for = self._table.device.arch if self._table else INTERPRETED_AS
        return device_at(place, made_for)


def bundled_table(arch: str) -> RouteTable | None:
    """Return the table that comes with mxtune for ``arch``: a measured one before a reported one.

    Among equals the newest wins, then the first by file name.
    """
    folder = files("mxtune") / "results" / "tables"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    tables = (RouteTable.load(Path(str(folder / name))) for name in names)
    fitting = [table for table in tables if bare_arch(table.device.arch) == arch]
    return max(fitting, key=lambda table: (table.strength, table.made.at), default=None)
