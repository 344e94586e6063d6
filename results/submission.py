"""Export a submission for the contest: the routes of a table, in one file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.errors import ConfigError
from mxtune.configs.json_files import write_whole
from mxtune.configs.shape_lists import gather, load_shapes
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.results.contest.routes import file_routes
from mxtune.results.contest.text import submission_text
from mxtune.results.submission_lint import lint_text

_WORD = re.compile(r"[\w.+-]+")


@dataclass(frozen=True, slots=True)
class Heading:
    """What the first lines of a submission name."""

    leaderboard: str
    gpu: str

    def __post_init__(self) -> None:
        for option, word in (("--leaderboard", self.leaderboard), ("--gpu", self.gpu)):
            if not _WORD.fullmatch(word):
                raise ConfigError(f"{option} {word!r}: one word is expected")


def write_submission(
    table: RouteTable, shapes: Iterable[Shape], heading: Heading, out: Path
) -> int:
    """Write the submission with the routes of ``shapes``, all if there are none; count them.

    Raises NoRouteError for a route that cannot be submitted, ConfigError for a file that its own
    lint refuses.
    """
    routes = file_routes(table, shapes)
    text = submission_text(table, routes, leaderboard=heading.leaderboard, gpu=heading.gpu)
    if findings := lint_text(text):
        raise ConfigError(f"{out}: not written, since its lint refuses it: {findings[0]}")
    write_whole(out, text)
    return len(routes)


def shapes_of(text: str | None) -> tuple[Shape, ...]:
    """Read ``16x2112x7168,4x2880x512``, or the name of a list or file; none is no shapes."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    spoken = all(re.fullmatch(r"\d+[xX]\d+[xX]\d+", word) for word in words)
    return gather(words, None) if spoken else load_shapes(text)
