"""Misses are counted, added to a file by any number of processes, and order a sweep."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.settings import read_record
from mxtune.configs.shape_lists import load_calls, load_shapes
from mxtune.configs.shapes import Shape
from mxtune.kernels.misses import Misses
from mxtune.tuner.sweep import ordered

SMALL, LARGE = Shape(17, 64, 256), Shape(4, 2880, 512)
TEXT = """about: what a route table did not have, and how often it was asked for
shapes:
- {m: 4, n: 2880, k: 512, calls: 1}
- {m: 17, n: 64, k: 256, calls: 2}
"""


def counted() -> Misses:
    misses = Misses()
    small, large = misses.counter(SMALL), misses.counter(LARGE)
    for call in (small, large, small):
        call("any", "operands")
    return misses


def test_misses_are_written_as_a_list_of_shapes_with_calls(tmp_path: Path) -> None:
    misses, path = counted(), tmp_path / "new" / "shapes.yaml"
    assert misses.calls == {LARGE: 1, SMALL: 2}
    assert misses.add_to(path) == {LARGE: 1, SMALL: 2}
    assert path.read_text("utf-8") == TEXT
    assert load_shapes(str(path)) == (LARGE, SMALL)
    assert load_calls(str(path)) == {LARGE: 1, SMALL: 2}


def test_what_was_saved_is_not_saved_again_and_later_calls_add_up(tmp_path: Path) -> None:
    misses, path = counted(), tmp_path / "shapes.yaml"
    misses.add_to(path)
    assert misses.calls == {}
    assert misses.add_to(path) == {LARGE: 1, SMALL: 2}
    assert path.read_text("utf-8") == TEXT
    misses.counter(SMALL)()
    assert misses.add_to(path) == {LARGE: 1, SMALL: 3}


def test_nothing_missed_writes_nothing(tmp_path: Path) -> None:
    assert Misses().add_to(tmp_path / "shapes.yaml") == {}
    assert not (tmp_path / "shapes.yaml").exists()


def test_a_file_of_something_else_is_left_alone_and_nothing_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text("weights: 3\n", "utf-8")
    misses = counted()
    with pytest.raises(ConfigError, match="unknown key 'weights'"):
        misses.add_to(path)
    assert path.read_text("utf-8") == "weights: 3\n"
    assert misses.calls == {LARGE: 1, SMALL: 2}


def test_at_the_end_of_a_process_a_fault_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shapes.yaml"
    path.mkdir()
    counted().add_quietly(path)
    assert capsys.readouterr().err.startswith("mxtune: MXTUNE_RECORD: ")
    assert capsys.readouterr().err.count("\n") <= 1


def test_several_processes_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "shapes.yaml"
    code = (
        "import sys; from pathlib import Path; from mxtune.kernels.misses import Misses;"
        "from mxtune.configs.shapes import Shape; m = Misses();"
        "[(m.counter(Shape(17, 64, 256))(), m.add_to(Path(sys.argv[1]))) for _ in range(20)]"
    )
    command = [sys.executable, "-P", "-c", code, str(path)]
    running = [subprocess.Popen(command, env=os.environ) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert load_calls(str(path)) == {SMALL: 80}


def test_calls_of_a_shape_that_stands_twice_add_up_and_other_lists_have_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "shapes.yaml"
    item = "{m: 17, n: 64, k: 256, calls: 2}"
    path.write_text(f"shapes: [{item}, {item}, 4x2880x512]\n", "utf-8")
    assert load_calls(str(path)) == {SMALL: 4}
    assert load_shapes(str(path)) == (SMALL, LARGE)
    assert load_calls("amd-mxfp4-mm") == {}


@pytest.mark.parametrize("calls", ["0x", "1.5", "'2'", "[1]", "-1"])
def test_calls_that_are_no_number_are_refused_with_their_line(tmp_path: Path, calls: str) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text(f"shapes:\n- {{m: 17, n: 64, k: 256, calls: {calls}}}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"shapes\.yaml:2: "):
        load_shapes(str(path))


def test_a_sweep_begins_with_what_takes_most_of_a_servers_time() -> None:
    device = load_device("gfx950")
    assert ordered((SMALL, LARGE), {}, device) == (SMALL, LARGE)
    assert ordered((SMALL, LARGE), {SMALL: 10, LARGE: 9}, device) == [LARGE, SMALL]
    assert ordered((SMALL, LARGE), {SMALL: 10_000, LARGE: 1}, device) == [SMALL, LARGE]


def test_the_variable_names_a_file_or_nothing() -> None:
    assert read_record({}) is None
    assert read_record({"MXTUNE_RECORD": " "}) is None
    assert read_record({"MXTUNE_RECORD": "a/shapes.yaml"}) == Path("a/shapes.yaml")
