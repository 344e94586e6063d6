"""The formats of `mxtune export`: each takes what is wished for and says what it has written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.devices import bare_arch
from mxtune.configs.errors import ConfigError
from mxtune.configs.json_files import write_whole
from mxtune.configs.table import RouteTable
from mxtune.results.export import routes_of, store_file
from mxtune.results.submission import Heading, shapes_of, write_submission


@dataclass(frozen=True, slots=True)
class ExportWish:
    """What to export: a store, its folder or a table; in which format, and where to."""

    source: Path
    form: str = "routes"
    out: Path | None = None  # the usual name of the format
    session: str | None = None  # of a store
    shapes: str | None = None  # MxNxK with commas, or a list; all of the table
    leaderboard: str = "amd-mxfp4-mm"  # of a submission
    gpu: str = "MI355X"

    def table(self) -> RouteTable:
        """Return the table of a JSON file, or the one that a store implies."""
        if self.source.suffix != ".json":
            return routes_of(store_file(self.source), self.session)
        if self.session is not None:
            raise ConfigError(f"{self.source}: a table has no sessions; leave --session out")
        return RouteTable.load(self.source)


def export(wish: ExportWish) -> str:
    """Write what is wished for, the same bytes every time; return what it is, in a line."""
    return _FORMATS[wish.form](wish)


def _routes(wish: ExportWish) -> str:
    if wish.shapes is not None:
        raise ConfigError("--shapes chooses what a submission has; a route table is written whole")
    table, out = wish.table(), wish.out or Path("routes.json")
    write_whole(out, table.text())
    return f"{out}: {len(table.routes)} routes for {table.device.arch}"


def _submission(wish: ExportWish) -> str:
    table, out = wish.table(), wish.out or Path("submission.py")
    heading = Heading(wish.leaderboard, wish.gpu)
    count = write_submission(table, shapes_of(wish.shapes), heading, out)
    return f"{out}: {count} routes for {bare_arch(table.device.arch)}"


_FORMATS: Mapping[str, Callable[[ExportWish], str]] = {
    "routes": _routes,
    "submission": _submission,
}
