"""A sweep: shapes in, trials into the store as they come, a route table at the end."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import MissingError, MxtuneError, NoRouteError
from mxtune.configs.regimes import Regime
from mxtune.configs.settings import Settings
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.build import require_triton
from mxtune.kernels.registry import chosen
from mxtune.results.choose import table_of
from mxtune.results.store import STORE_FILE, Store
from mxtune.results.trial import Trial
from mxtune.tuner import measured, offline
from mxtune.tuner.machine import Machine
from mxtune.tuner.offline import Done
from mxtune.tuner.provenance import session_of
from mxtune.tuner.task import Task, make_task

TABLE_FILE = "routes.json"
OFFLINE_TARGET = "gfx950"  # what is swept for where there is no GPU


@dataclass(frozen=True, slots=True)
class Request:
    """What to sweep, for what, and where to write."""

    shapes: tuple[Shape, ...]
    families: tuple[str, ...]  # none: all
    most: int | None  # candidates of each shape; None: the default of the way of sweeping
    target: str  # auto, or an architecture
    out: Path


@dataclass(frozen=True, slots=True)
class Begun:
    """The sweep is about to start."""

    device: Device
    measured: bool
    store: Path
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """One more trial; ``task`` counts them."""

    task: Task
    trial: Trial


@dataclass(frozen=True, slots=True)
class ShapeDone:
    """A shape is finished; ``task`` holds all its trials."""

    task: Task


@dataclass(frozen=True, slots=True)
class Ended:
    """All shapes are finished and the table is written."""

    table: RouteTable
    path: Path
    tasks: tuple[Task, ...]
    seconds: float


Event = Begun | Tried | ShapeDone | Ended


def sweep(request: Request, machine: Machine, settings: Settings) -> Iterator[Event]:
    """Run a sweep; what the store already holds of the same session is not tried again.

    Raises MissingError for a machine that cannot do it, NoRouteError if no shape has a right route,
    MxtuneError once all else is done if some have none.
    """
    begin = time.monotonic()
    require_triton()
    device, gpu = target_of(request.target, machine)
    families = chosen(request.families)
    way = measured if gpu else offline
    session = session_of(device, machine, Regime() if gpu else None)
    store = Store.open(request.out / STORE_FILE, create=True)
    try:
        number = store.session(session)
        most = request.most or way.DEFAULT_CANDIDATES
        tasks = tuple(
            make_task(shape, families, device, most, store.trials(number, shape))
            for shape in request.shapes
        )
        yield Begun(device, bool(gpu), store.path, tasks)
        found = (
            measured.sweep_measured(tasks, device, gpu, settings)
            if gpu
            else offline.sweep_offline(tasks, settings)
        )
        yield from _journal(found, tasks, store, number)
        unsolved = _unsolved(tasks)
        if not any(task.solved for task in tasks):
            raise NoRouteError(f"{unsolved}; nothing is written")
        table = table_of(session, store.trials(number))
        path = request.out / TABLE_FILE
        table.save(path)
        yield Ended(table, path, tasks, time.monotonic() - begin)
        if unsolved:
            raise MxtuneError(f"{unsolved}; the others are in {path}")
    finally:
        store.close()


def _journal(
    found: Iterator[Trial | Done], tasks: Sequence[Task], store: Store, session: int
) -> Iterator[Event]:
    """Write every trial down before anybody hears of it."""
    by_shape = {task.shape: task for task in tasks}
    for item in found:
        task = by_shape[item.shape]
        if isinstance(item, Done):
            yield ShapeDone(task)
        else:
            store.add(session, item)
            yield Tried(task, item)


def _unsolved(tasks: Sequence[Task]) -> str:
    """Name the shapes that have no right route; empty if all have one."""
    shapes = [str(task.shape) for task in tasks if not task.solved]
    return f"{len(shapes)} of {len(tasks)} unsolved: {', '.join(shapes)}" if shapes else ""


def target_of(target: str, machine: Machine) -> tuple[Device, str]:
    """Return the device to sweep for, and torch's name of the GPU to measure on or ''.

    ``auto`` is the first GPU that is here, or gfx950 offline; a named target is measured if a GPU
    of that architecture is here.
    """
    for index, device in enumerate(machine.gpus):
        if target in ("auto", device.arch):
            return device, f"cuda:{index}"
    if target == "auto" and machine.torch is None:
        raise MissingError("torch is not installed; a sweep needs it: pip install 'mxtune[cpu]'")
    return load_device(OFFLINE_TARGET if target == "auto" else target), ""
