"""The command line: help, results, and what a user who errs or has an odd terminal sees."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mxtune.cli import app
from mxtune.configs.table import RouteTable
from mxtune.kernels.registry import brief

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = [
    "",
    "sweep",
    "export",
    "explain",
    "lint",
    "merge",
    "trials",
    "run",
    "verify",
    "families",
    "doctor",
]
PROGRAM = (sys.executable, "-P", "-c", "from mxtune.cli import app; app(prog_name='mxtune')")
# No character beyond ASCII can be printed, no colour, no width.
PLAIN = {
    "LC_ALL": "C",
    "LANG": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "20",
}
NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}

Done = subprocess.CompletedProcess[str]


def mxtune(environment: Mapping[str, str], *words: str) -> Done:
    return subprocess.run(
        (*PROGRAM, *words), env=environment, capture_output=True, text=True, timeout=120
    )


def invoke(*words: str, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(app, words, prog_name="mxtune")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    cache = {"TRITON_CACHE_DIR": str(tmp_path_factory.getbasetemp() / "triton")}
    return {**os.environ, **PLAIN, **NO_GPU, **cache}


def sweep_words(out: Path) -> tuple[str, ...]:
    limits = ("--families", "fused", "--max-candidates", "1", "--target", "gfx950")
    return ("sweep", "3x70x96", *limits, "--out", str(out))


@pytest.fixture(scope="module")
def swept(plain: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """Sweep into a folder whose name the terminal cannot show."""
    out = tmp_path_factory.mktemp("sweep") / "größe [bold]:x:"
    return out, mxtune(plain, *sweep_words(out))


def route_of(table: Path) -> str:
    """Return the only route of a table as people read it."""
    (entry,) = RouteTable.load(table).routes
    return brief(entry.route)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_the_recorded_one(command: str) -> None:
    shown = invoke(*command.split(), "--help", COLUMNS="80", TERM="dumb")
    assert shown.exit_code == 0
    assert shown.output == (GOLDEN / f"help-{command or 'mxtune'}.txt").read_text("utf-8")


IMPORTED = """
import sys
from mxtune.cli import app
try:
    app(["--help"])
except SystemExit as ended:
    heavy = {"torch", "triton", "pandas", "pydantic", "aiter"} & set(sys.modules)
    print(ended.code, heavy, file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", IMPORTED], capture_output=True, text=True)
    assert done.stderr == "0 set()\n"


def test_a_run_without_a_table_takes_what_is_always_legal(tmp_path: Path) -> None:
    shown = invoke("run", "3x70x96", "--device", "cpu", TRITON_CACHE_DIR=str(tmp_path))
    assert (shown.exit_code, shown.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines())
    assert list(lines) == ["shape", "route", "why", "numbers", "time"]
    assert lines["shape"] == "3x70x96 on AMD Instinct MI355X (gfx950, 256 CUs)"
    assert lines["route"].startswith("direct ")
    assert lines["why"] == "always legal: there is no table"
    assert lines["numbers"].startswith("right: largest error 0.00195, ")
    assert lines["numbers"].endswith(
        "within the rounding of C and of fp32 sums; whole output, 2 seeds"
    )
    assert lines["time"].startswith("none: interpreted in ")


def test_a_run_of_a_named_family_as_json(tmp_path: Path) -> None:
    words = ("run", "3x70x96", "--device", "cpu", "--family", "fused", "--set", "block_n=32")
    shown = invoke(*words, "--json", TRITON_CACHE_DIR=str(tmp_path))
    assert (shown.exit_code, shown.stderr) == (0, "")
    report = json.loads(shown.stdout)
    assert report["shape"] == [3, 70, 96]
    assert (report["device"], report["family"], report["timing"]) == ("gfx950", "fused", None)
    assert (report["config"]["BLOCK_M"], report["config"]["BLOCK_N"]) == (16, 32)
    assert report["why"] == "asked for by --family"
    assert report["error"]["largest"] == 0.001953125
    assert 0 < report["error"]["worst"] <= 1


def test_a_store_is_exported_as_the_table_of_its_sweep(
    swept: tuple[Path, Done], plain: Mapping[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "table.json"
    done = mxtune(plain, "export", str(swept[0]), "--out", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{file}: 1 routes for gfx950\n"
    assert file.read_bytes() == (swept[0] / "routes.json").read_bytes()
    shown = mxtune(plain, "run", "3x70x96", "--routes", str(file))
    assert shown.stdout.splitlines()[1] == f"route    {route_of(file)}"
    assert shown.stdout.splitlines()[2] == "why      exact: the table has this shape"


def test_a_poor_terminal_gets_every_result_whole(swept: tuple[Path, Done]) -> None:  # BL-102
    out, done = swept
    assert done.returncode == 0
    assert f"3x70x96  {route_of(out / 'routes.json')}  " in done.stdout.splitlines()[1]
    assert done.stderr.splitlines()[-1].endswith(" [bold]:x:/routes.json: 1 routes")
    assert (done.stdout + done.stderr).isascii()
    assert "\x1b" not in done.stdout + done.stderr


def test_a_path_that_a_terminal_cannot_show_is_no_fault(  # BL-102
    plain: Mapping[str, str], tmp_path: Path
) -> None:
    done = mxtune({**plain, "TRITON_CACHE_DIR": str(tmp_path / "größe")}, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"triton cache: {tmp_path}/gr????e\n" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_poor_terminal_gets_help(command: str, plain: Mapping[str, str]) -> None:  # BL-102
    done = mxtune(plain, *command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: mxtune {command}".rstrip())
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("command", ["help", "sweep", "run", "export", "trials"])
def test_output_that_nobody_reads_ends_quietly(  # BL-102
    command: str, swept: tuple[Path, Done], plain: Mapping[str, str], tmp_path: Path
) -> None:
    words = {
        "help": ("--help",),
        "sweep": sweep_words(swept[0]),
        "run": ("run", "3x70x96"),
        "export": ("export", str(swept[0]), "--out", str(tmp_path / "table.json")),
        "trials": ("trials", str(swept[0])),
    }[command]
    reader, writer = os.pipe()
    os.close(reader)  # what `| head -1` comes to
    done = subprocess.run(
        (*PROGRAM, *words), env=plain, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writer)
    assert done.returncode in (0, 1)
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr == "" or command in ("sweep", "export")


def test_closed_output_is_no_fault(swept: tuple[Path, Done], plain: Mapping[str, str]) -> None:
    words = ("sh", "-c", 'exec "$@" 1>&- 2>&-', "sh", *PROGRAM, *sweep_words(swept[0]))
    assert subprocess.run(words, env=plain, timeout=60).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_one_line(plain: Mapping[str, str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            (*PROGRAM, "doctor"), env=plain, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "mxtune: [Errno 28] No space left on device\n"
