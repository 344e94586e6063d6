"""A sweep: shapes in, trials into the store as they come, a route table at the end."""

import fcntl
import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import ConfigError, MxtuneError, NoRouteError
from mxtune.configs.routes import Route
from mxtune.configs.settings import Settings
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.build import require_triton
from mxtune.kernels.family import RouteFamily
from mxtune.kernels.lookup import Lookup
from mxtune.kernels.registry import available, chosen, fallback_route
from mxtune.kernels.standing import standing_of
from mxtune.results.choose import table_of
from mxtune.results.devices import device_of
from mxtune.results.export import store_file
from mxtune.results.store import STORE_FILE, Store
from mxtune.results.trial import Session, Trial
from mxtune.tuner.lanes import Lane
from mxtune.tuner.ledger import Ledger
from mxtune.tuner.machine import Machine
from mxtune.tuner.measured import sweep_measured
from mxtune.tuner.model import roofline_us
from mxtune.tuner.offline import DEFAULT_CANDIDATES, sweep_offline
from mxtune.tuner.provenance import session_of
from mxtune.tuner.quarantine import dangerous, quarantined, without_dangerous
from mxtune.tuner.replay import Recording, session_of_replay, sweep_replayed
from mxtune.tuner.request import OFFLINE_TARGET, Request, lanes_of
from mxtune.tuner.search import Search
from mxtune.tuner.task import Done, Task, make_task

TABLE_FILE = "routes.json"


@dataclass(frozen=True, slots=True)
class Begun:
    """The sweep is about to start."""

    device: Device
    how: str
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
    seconds: Mapping[str, float]  # where the time went, by account; empty offline
    regrets: Mapping[Shape, float]  # of a replay: how much slower each choice is than the best


Event = Begun | Tried | ShapeDone | Ended


def sweep(request: Request, machine: Machine, settings: Settings) -> Generator[Event, None, None]:
    """Run a sweep; what the store already holds of the same session is not tried again.

    Close the generator to end it early: its workers are killed and its ledger is written then.
    Raises MissingError for a machine that cannot do it, NoRouteError if no shape has a right route,
    MxtuneError once all else is done if some have none.
    """
    way = way_of(request, machine)
    recorded = way.recording is not None  # then nothing has to run here
    families = chosen(request.families) if recorded else available(request.families, way.device)
    with closing(Store.open(request.out / STORE_FILE, create=True)) as store:
        number = store.session(way.session)
        tasks = _tasks(request, way, families, store, number)
        yield Begun(way.device, way.how, store.path, tasks)
        with _accounts(store, number) as ledger:
            found = _trials(request, way, tasks, store.trials(number), ledger, settings)
            yield from _journal(found, tasks, store, number)
            seconds = ledger.totals(len(way.lanes)) if way.lanes else {}
        unsolved = _unsolved(tasks)
        if not any(task.solved for task in tasks):
            raise NoRouteError(f"{unsolved}; nothing is written")
        path = request.out / TABLE_FILE
        with _alone_in(request.out):
            table = table_of(store.sessions()[number], store.trials(number))
            table.save(path)
        yield Ended(table, path, tasks, seconds, _regrets(way, request, table))
        if unsolved:
            raise MxtuneError(f"{unsolved}; the others are in {path}")


@contextmanager
def _alone_in(folder: Path) -> Generator[None, None, None]:
    """Wait for other sweeps that make a table here: the last to do so has seen the trials of all.

    The lock ends with the process, however that ends.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _accounts(store: Store, session: int) -> Generator[Ledger, None, None]:
    """Keep the accounts of a sweep in its store, however the sweep ends."""
    ledger = Ledger()
    try:
        yield ledger
    finally:
        store.add_ledger(session, ledger.rows())


@dataclass(frozen=True, slots=True)
class Way:
    """On what a sweep finds its routes."""

    device: Device
    session: Session
    how: str  # for people
    lanes: tuple[Lane, ...] = ()  # GPUs to measure on
    recording: Recording | None = None  # or a store to replay; neither is offline


def way_of(request: Request, machine: Machine) -> Way:
    """Decide between measuring, replaying and modelling."""
    if request.recording:
        if store_file(request.recording).resolve() == (request.out / STORE_FILE).resolve():
            raise ConfigError(f"--out {request.out}: the recording itself; name another folder")
        recording = Recording.load(request.recording)
        device = device_of(recording.session)
        session = session_of_replay(recording, request)
        return Way(device, session, "replayed from a recording on", (), recording)
    require_triton()
    lanes = lanes_of(request, machine)
    for lane in lanes[:1]:
        session = session_of(lane.device, machine, request.regime)
        count = f" {len(lanes)} x" if len(lanes) > 1 else ""
        return Way(lane.device, session, f"measured {request.regime} on{count}", lanes)
    device = load_device(OFFLINE_TARGET if request.target == "auto" else request.target)
    how = "offline, by compiling and modelling, for"
    return Way(device, session_of(device, machine, None), how)


def _tasks(
    request: Request, way: Way, families: Sequence[RouteFamily], store: Store, session: int
) -> tuple[Task, ...]:
    offline_most = None if way.lanes or way.recording else DEFAULT_CANDIDATES
    most = request.most or offline_most

    def known(shape: Shape) -> list[Trial]:
        if way.recording:  # it is gone through again from its beginning
            return []
        trials = [t for t in store.trials(session, shape) if t.state != "skipped"]
        return without_dangerous(trials) if request.retry_quarantined else trials

    def recorded(shape: Shape) -> Collection[Route] | None:
        return way.recording.routes(shape) if way.recording else None

    return tuple(
        make_task(shape, families, way.device, most, known(shape), recorded(shape))
        for shape in ordered(request.shapes, request.calls, way.device)
    )


def ordered(shapes: Sequence[Shape], calls: Mapping[Shape, int], device: Device) -> Sequence[Shape]:
    """Return the shapes in the order of their share in a server's time, where calls are known."""
    if not calls:
        return shapes
    return sorted(shapes, key=lambda s: -calls.get(s, 0) * roofline_us(s, device))


def _trials(
    request: Request,
    way: Way,
    tasks: Sequence[Task],
    earlier: Iterable[Trial],
    ledger: Ledger,
    settings: Settings,
) -> Iterator[Trial | Done]:
    deadline = time.monotonic() + request.budget_s if request.budget_s else None
    if not way.lanes and not way.recording:
        return sweep_offline(tasks, settings, deadline)
    present = _present(request, way.device)
    if way.recording:
        searches = [_search(request, present, task, ()) for task in tasks]
        return sweep_replayed(searches, way.recording, request.seed, earlier)
    risky = [] if request.retry_quarantined else dangerous(earlier)
    searches = [_search(request, present, task, risky) for task in tasks]
    factories = [lane.factory(request.regime) for lane in way.lanes]
    return sweep_measured(searches, factories, request.regime, settings, ledger, deadline)


def _present(request: Request, device: Device) -> Lookup:
    """Return what the table in the folder dispatches now.

    A replay begins without a table, so that it comes out the same in any folder.
    """
    path = request.out / TABLE_FILE
    table = RouteTable.load(path) if path.is_file() and not request.recording else None
    return standing_of(table, device).lookup()


def _search(request: Request, present: Lookup, task: Task, risky: Sequence[Trial]) -> Search:
    """Begin the search of a shape at what is known of it: the present route, and the default."""
    shape = task.shape
    choice = present.find(shape.m, shape.n, shape.k)
    known = dict.fromkeys((choice.route, fallback_route(task.shape)))
    risks = quarantined(task.shape, risky)
    return Search(task, request.effort, tuple(known), risks, most=request.most)


def _regrets(way: Way, request: Request, table: RouteTable) -> dict[Shape, float]:
    if not way.recording:
        return {}
    chosen_routes = {entry.key: entry.route for entry in table.routes}
    return {
        shape: way.recording.regret(shape, chosen_routes[shape])
        for shape in request.shapes
        if (shape, chosen_routes.get(shape)) in way.recording.finals
    }


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
