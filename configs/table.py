"""Route tables: what a sweep writes, people edit, and the dispatcher reads."""

import json
import os
import stat
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import STRENGTH, Evidence, SettingsByName
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape

SCHEMA: Literal["mxtune.routes/1"] = "mxtune.routes/1"
_LARGEST_FILE = 64 * 2**20  # a table of 100,000 routes is smaller


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class DeviceInfo(_Strict):
    """The GPU a table is for."""

    arch: str
    name: str
    compute_units: int
    partition: str | None = None


class Made(_Strict):
    """When, with what and how a table was made."""

    at: str
    mxtune: str
    torch: str | None = None
    triton: str | None = None
    aiter: str | None = None
    driver: str | None = None
    rule: str = "even"
    regime: str | None = None  # cold eager, for measured routes


class Entry(_Strict):
    """The route of one shape and what it rests on."""

    shape: tuple[int, int, int]
    family: str
    config: SettingsByName
    evidence: Evidence

    @property
    def key(self) -> Shape:
        """The shape."""
        return Shape(*self.shape)

    @property
    def route(self) -> Route:
        """The route, without its evidence."""
        return Route(self.family, Config.of(self.config))


class Default(_Strict):
    """The route of every shape that has none of its own."""

    family: str
    config: SettingsByName


class RouteTable(_Strict):
    """The chosen route of every shape on one kind of GPU."""

    schema_: Annotated[Literal["mxtune.routes/1"], Field(alias="schema")] = SCHEMA
    device: DeviceInfo
    made: Made
    routes: tuple[Entry, ...]
    default: Default | None = None

    @property
    def strength(self) -> int:
        """How much the best evidence in it counts; 0 without routes."""
        return max((STRENGTH[entry.evidence.kind] for entry in self.routes), default=0)

    def text(self) -> str:
        """Return the JSON text: the same table gives the same bytes."""
        ordered = self.model_copy(update={"routes": tuple(sorted(self.routes, key=_shape))})
        body = ordered.model_dump(mode="json", by_alias=True)
        return json.dumps(body, indent=1, allow_nan=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the table whole or not at all."""
        write_whole(path, self.text())

    @classmethod
    def load(cls, path: Path) -> "RouteTable":
        """Read a table; raises ConfigError naming the file, the place and the fault."""
        text = _read(path)
        try:
            body: Any = json.loads(text, object_pairs_hook=_no_repeats)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not JSON: {error}") from error
        if not isinstance(body, dict):
            raise ConfigError(f"{path}: not a route table: expected an object at the top")
        found = cast("dict[str, Any]", body).get("schema")
        if found != SCHEMA:
            raise ConfigError(f"{path}: schema {found!r}; this mxtune reads {SCHEMA!r}")
        try:
            table = cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(f"{path}: {_first(error)}") from error
        _check_shapes(path, table)
        return table


def _shape(entry: Entry) -> tuple[int, int, int]:
    return entry.shape


def _check_shapes(path: Path, table: RouteTable) -> None:
    """Refuse a shape that cannot be, or that stands more than once."""
    seen = Counter(_key(path, place, entry) for place, entry in enumerate(table.routes))
    repeated = sorted(str(shape) for shape, count in seen.items() if count > 1)
    if repeated:
        raise ConfigError(f"{path}: routes: {', '.join(repeated)} stands more than once")


def _key(path: Path, place: int, entry: Entry) -> Shape:
    try:
        return entry.key
    except ConfigError as error:
        raise ConfigError(f"{path}: routes.{place}.shape: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one step; raises ConfigError if that cannot be done."""
    if path.exists() and not path.is_file():  # as root, a device would be replaced too
        raise ConfigError(f"{path}: not a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(partial).chmod(0o644)
            os.replace(partial, path)
        finally:
            Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error


def _read(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: not a file")
        if status.st_size > _LARGEST_FILE:
            raise ConfigError(f"{path}: {status.st_size} bytes are no route table")
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: cannot be read ({reason})") from error
    if not text.strip():
        raise ConfigError(f"{path}: empty; no routes in it")
    return text


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build a JSON object, refusing a key that stands twice: one of the two would be lost."""
    body = dict(pairs)
    if len(body) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object")
    return body


def _first(error: ValidationError) -> str:
    """Name the first fault by its JSON path."""
    fault = error.errors()[0]
    place = repr(".".join(str(part) for part in fault["loc"]))[1:-1]  # a key may hold a newline
    more = error.error_count() - 1
    return f"{place}: {fault['msg']}" + (f" (and {more} more)" if more else "")
