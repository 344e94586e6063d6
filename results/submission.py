"""Export a submission for the contest: the routes of a table, in one file."""

import re
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.errors import ConfigError
from mxtune.configs.shape_lists import gather, load_shapes
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable, write_whole
from mxtune.results.contest.routes import file_routes
from mxtune.results.contest.text import submission_text
from mxtune.results.export import routes_of, store_file
from mxtune.results.submission_lint import lint_text

_WORD = re.compile(r"[\w.+-]+")


@dataclass(frozen=True, slots=True)
class SubmissionWish:
    """What to export: a store, its folder or a table, and for whom."""

    source: Path
    session: str | None = None  # of a store
    shapes: str | None = None  # a list, or MxNxK with commas; all of the table
    leaderboard: str = "amd-mxfp4-mm"
    gpu: str = "MI355X"

    def __post_init__(self) -> None:
        for option, word in (("--leaderboard", self.leaderboard), ("--gpu", self.gpu)):
            if not _WORD.fullmatch(word):
                raise ConfigError(f"{option} {word!r}: one word is expected")


def export_submission(wish: SubmissionWish, out: Path) -> str:
    """Write the submission to ``out``, the same bytes every time; return what it holds, in a line.

    Raises ConfigError for a source that is none and for a file that its own lint refuses,
    NoRouteError for a route that cannot be submitted.
    """
    table = table_of_source(wish.source, wish.session)
    routes = file_routes(table, shapes_of(wish.shapes))
    text = submission_text(table, routes, leaderboard=wish.leaderboard, gpu=wish.gpu)
    if findings := lint_text(text):
        raise ConfigError(f"{out}: not written, its lint says: {findings[0]}")
    write_whole(out, text)
    return f"{out}: {len(routes)} routes for {table.device.arch}, {len(text.encode())} bytes"


def table_of_source(source: Path, session: str | None) -> RouteTable:
    """Return the route table in a JSON file, or the one that a store implies."""
    if source.suffix != ".json":
        return routes_of(store_file(source), session)
    if session is not None:
        raise ConfigError(f"{source}: a table has no sessions; leave --session out")
    return RouteTable.load(source)


def shapes_of(text: str | None) -> tuple[Shape, ...]:
    """Read ``16x2112x7168,4x2880x512``, or the name of a list or file; none is no shapes."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    spoken = all(re.fullmatch(r"\d+[xX]\d+[xX]\d+", word) for word in words)
    return gather(words, None) if spoken else load_shapes(text)
