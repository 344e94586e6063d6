"""Route tables: what a sweep writes, people edit, and the dispatcher reads."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import STRENGTH, Evidence, SettingsByName
from mxtune.configs.json_files import faults_of, object_of, read_text, sentence, told, write_whole
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape

SCHEMA: Literal["mxtune.routes/1"] = "mxtune.routes/1"


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
    """The route of one shape and what it rests on.

    ``reach`` is the largest M of this (N, K), below the next M in the table, that the route serves;
    without it the next entry's route serves all between. Sweeps set it where they measured how much
    either route loses at the other's M.
    """

    shape: tuple[int, int, int]
    family: str
    config: SettingsByName
    evidence: Evidence
    reach: PositiveInt | None = None

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
        for entry in body["routes"]:
            if entry["reach"] is None:
                del entry["reach"]  # most tables know none
        return json.dumps(body, indent=1, allow_nan=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the table whole or not at all."""
        write_whole(path, self.text())

    @classmethod
    def load(cls, path: Path) -> "RouteTable":
        """Read a table; raises ConfigError naming the file and every fault in it by its place."""
        text = read_text(path)
        object_of(path, text, SCHEMA)
        found = _whole(text)
        if isinstance(found, RouteTable):
            return found
        raise ConfigError(f"{path}: {told(found)}")


def _whole(text: str) -> RouteTable | tuple[str, ...]:
    """Return the table that a text is, or its faults."""
    try:
        table = RouteTable.model_validate_json(text)
    except ValidationError as error:
        return faults_of(error)
    faults = _shape_faults(dict(enumerate(table.routes)))
    return tuple(faults.values()) or table


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What could be read of a file: a table without its faulty entries, and each fault."""

    table: RouteTable | None
    faults: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The faults in one line; empty if there are none."""
        return told(self.faults)


def salvage(path: Path) -> Salvaged:
    """Read as much of a table as is sound: a faulty entry costs that entry and no other.

    Raises ConfigError for a file that cannot be read at all.
    """
    text = read_text(path, empty=True)
    try:
        body = object_of(path, text, SCHEMA)
        found = _whole(text)
        if isinstance(found, RouteTable):
            return Salvaged(found)
        head = RouteTable.model_validate_json(json.dumps({**body, "routes": [], "default": None}))
    except ValidationError as error:
        return Salvaged(None, faults_of(error))
    except ConfigError as error:
        return Salvaged(None, (str(error).removeprefix(f"{path}: "),))
    entries, faults = _sound_entries(body.get("routes"))
    default, lost = _sound_default(body.get("default"))
    table = head.model_copy(update={"routes": entries, "default": default})
    return Salvaged(table, (*faults, *lost))


def _sound_entries(routes: object) -> tuple[tuple[Entry, ...], list[str]]:
    if not isinstance(routes, list):
        return (), ["routes: expected a list"]
    sound: dict[int, Entry] = {}
    faults: list[str] = []
    for place, body in enumerate(cast("list[object]", routes)):
        entry = _sound_entry(place, body)
        if isinstance(entry, Entry):
            sound[place] = entry
        else:
            faults += entry
    twice = _shape_faults(sound)
    faults += twice.values()
    return tuple(entry for place, entry in sound.items() if place not in twice), faults


def _sound_entry(place: int, body: object) -> Entry | tuple[str, ...]:
    try:
        return Entry.model_validate_json(json.dumps(body))
    except ValidationError as error:
        return faults_of(error, f"routes.{place}")


def _sound_default(default: object) -> tuple[Default | None, list[str]]:
    if default is None:
        return None, []
    try:
        return Default.model_validate_json(json.dumps(default)), []
    except ValidationError as error:
        return None, list(faults_of(error, "default"))


def _shape(entry: Entry) -> tuple[int, int, int]:
    return entry.shape


def _shape_faults(entries: Mapping[int, Entry]) -> dict[int, str]:
    """Return the fault of every entry whose shape cannot be, or stands more than once."""
    faults: dict[int, str] = {}
    for place, entry in entries.items():
        try:
            shape = entry.key
        except ConfigError as error:
            faults[place] = f"routes.{place}.shape: {sentence(str(error))}"
            continue
        if entry.reach is not None and entry.reach < shape.m:
            faults[place] = f"routes.{place}.reach: {entry.reach} is below the entry's own M"
    seen = Counter(entry.shape for entry in entries.values())
    return faults | {
        place: f"routes.{place}.shape: {Shape(*entry.shape)} stands more than once"
        for place, entry in entries.items()
        if seen[entry.shape] > 1 and place not in faults
    }
