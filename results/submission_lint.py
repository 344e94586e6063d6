"""Lint a submission: nothing of one call may be there in the next, and nothing may hide that.

The contest disqualifies caches of inputs, of outputs and of quantised A, however they are keyed,
recorded calls and second queues; its server refuses a file with one word anywhere in it. What the
lint cannot follow it refuses too.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mxtune.configs.errors import ConfigError
from mxtune.results.contest.flow import Flow
from mxtune.results.contest.known import ENTRY
from mxtune.results.contest.names import named
from mxtune.results.contest.scopes import scope_of
from mxtune.results.contest.sinks import Finding, kept

LARGEST_BYTES = 10**6  # that the server takes
_REFUSED_WORD = "stream"  # by the server, in any case, in comments too
_FIRST_LINES = ("leaderboard", "gpu")


def lint_submission(path: Path) -> tuple[Finding, ...]:
    """Return what is wrong with a submission, by line; raises ConfigError if it cannot be read."""
    try:
        return lint_text(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: cannot be read ({reason})") from error


def lint_text(text: str) -> tuple[Finding, ...]:
    """Return what is wrong with the text of a submission, by line."""
    return tuple(sorted({*_text_faults(text), *_code_faults(text)}))


def _text_faults(text: str) -> Iterator[Finding]:
    lines = text.splitlines()
    for at, name in enumerate(_FIRST_LINES):
        line = lines[at] if at < len(lines) else ""
        if not re.fullmatch(rf"#!POPCORN {name}s? \S.*", line):
            yield Finding(
                at + 1,
                "the first lines must be #!POPCORN leaderboard NAME and #!POPCORN gpu NAME",
            )
    for at, line in enumerate(lines, 1):
        if _REFUSED_WORD in line.lower():
            yield Finding(at, f"the server refuses every file with {_REFUSED_WORD!r} in it")
    if (size := len(text.encode())) > LARGEST_BYTES:
        yield Finding(1, f"{size} bytes; the server takes {LARGEST_BYTES}")


def _code_faults(text: str) -> Iterator[Finding]:
    try:
        module = scope_of(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError) as error:
        yield Finding(getattr(error, "lineno", None) or 1, f"not Python: {error}")
        return
    if ENTRY not in module.names:
        yield Finding(1, f"no {ENTRY} in it")
    yield from named(module)
    yield from kept(Flow(module))
