"""A route table is written whole, and read with every fault named by file and place."""

import errno
import json
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.json_files import write_whole
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable

TEXT = """{
 "schema": "mxtune.routes/1",
 "device": {
  "arch": "gfx950",
  "name": "AMD Instinct MI355X",
  "compute_units": 256,
  "partition": null
 },
 "made": {
  "at": "2026-01-02T03:04:05+00:00",
  "mxtune": "0.1.0",
  "torch": null,
  "triton": "3.6.0",
  "aiter": null,
  "driver": null,
  "rule": "even",
  "regime": null
 },
 "routes": [
  {
   "shape": [
    16,
    64,
    64
   ],
   "family": "direct",
   "config": {
    "BLOCK_M": 16,
    "cache_modifier": ".cg"
   },
   "evidence": {
    "kind": "reported",
    "source": "a table of AITER",
    "us": 5.5
   }
  },
  {
   "shape": [
    64,
    128,
    128
   ],
   "family": "fused",
   "config": {},
   "evidence": {
    "kind": "reported",
    "source": "a forum",
    "us": null
   }
  }
 ],
 "default": {
  "family": "direct",
  "config": {
   "BLOCK_M": 64
  }
 }
}
"""


def entry(shape: tuple[int, int, int], family: str, config: dict[str, int | str]) -> Entry:
    us, source = (5.5, "a table of AITER") if family == "direct" else (None, "a forum")
    return Entry(shape=shape, family=family, config=config, evidence=Reported(source=source, us=us))


def table(*entries: Entry) -> RouteTable:
    return RouteTable(
        device=DeviceInfo(arch="gfx950", name="AMD Instinct MI355X", compute_units=256),
        made=Made(at="2026-01-02T03:04:05+00:00", mxtune="0.1.0", triton="3.6.0"),
        routes=entries,
        default=Default(family="direct", config={"BLOCK_M": 64}),
    )


SMALL = entry((16, 64, 64), "direct", {"BLOCK_M": 16, "cache_modifier": ".cg"})
LARGE = entry((64, 128, 128), "fused", {})


@contextmanager
def small_disk() -> Generator[None, None, None]:
    """Let no file of this process grow beyond 512 bytes: not for long, its output may be one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_table_is_written_as_recorded() -> None:
    assert table(SMALL, LARGE).text() == TEXT


def test_routes_and_settings_are_written_in_order_whatever_order_they_came_in() -> None:
    turned = entry((16, 64, 64), "direct", {"cache_modifier": ".cg", "BLOCK_M": 16})
    assert table(LARGE, turned).text() == TEXT


def test_a_saved_table_is_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "routes.json"
    table(SMALL, LARGE).save(path)
    assert path.read_text("utf-8") == TEXT
    assert RouteTable.load(path) == table(SMALL, LARGE)
    assert path.stat().st_mode & 0o777 == 0o644


def test_an_entry_has_a_shape_and_a_route() -> None:
    assert SMALL.key == Shape(16, 64, 64)
    assert SMALL.route == Route("direct", Config.of({"BLOCK_M": 16, "cache_modifier": ".cg"}))


def test_saving_again_replaces_the_table_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.write_text("old", "utf-8")
    table(SMALL, LARGE).save(path)
    assert path.read_text("utf-8") == TEXT
    assert names(tmp_path) == ["routes.json"]


def test_a_full_disk_leaves_the_old_table_and_no_part_of_the_new(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.write_text("old", "utf-8")
    with small_disk(), pytest.raises(ConfigError) as caught:
        table(SMALL, LARGE).save(path)
    assert str(caught.value) == f"{path}: cannot be written (File too large)"
    assert path.read_text("utf-8") == "old"
    assert names(tmp_path) == ["routes.json"]


def test_a_failed_replacement_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", source, None, str(target))

    path = tmp_path / "routes.json"
    path.write_text("old", "utf-8")
    monkeypatch.setattr("mxtune.configs.json_files.os.replace", refuse)
    with pytest.raises(ConfigError) as caught:
        table(SMALL).save(path)
    assert str(caught.value) == f"{path}: cannot be written (Read-only file system)"
    assert path.read_text("utf-8") == "old"
    assert names(tmp_path) == ["routes.json"]


# as root, a plain replacement would put a file where /dev/null was
def test_what_is_not_a_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ConfigError, match=f"{name}: not a file"):
            write_whole(tmp_path / name, TEXT)
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["folder", "pipe"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(ConfigError, match=r"routes\.json: cannot be written \(Not a directory\)"):
        write_whole(tmp_path / "file" / "folder" / "routes.json", TEXT)


def test_a_whole_number_is_a_time_too(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.write_text(TEXT.replace("5.5", "5"), "utf-8")
    assert RouteTable.load(path).routes[0].evidence == Reported(source="a table of AITER", us=5.0)


def test_a_table_needs_no_default_and_no_versions_but_its_own(tmp_path: Path) -> None:
    body: dict[str, Any] = json.loads(TEXT)
    del body["default"]
    body["made"] = {"at": "", "mxtune": "0.1.0"}
    (tmp_path / "routes.json").write_text(json.dumps(body), "utf-8")
    found = RouteTable.load(tmp_path / "routes.json")
    assert (found.default, found.made.triton, found.made.rule) == (None, None, "even")


def test_ten_thousand_routes_load(tmp_path: Path) -> None:
    many = [entry((m, 64, 64), "fused", {}) for m in range(1, 10_001)]
    table(*many).save(tmp_path / "routes.json")
    assert RouteTable.load(tmp_path / "routes.json").routes[-1].key == Shape(10_000, 64, 64)
