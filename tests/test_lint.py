"""Lint names what is wrong with a route, with where and why, and reads on past a bad file."""

from pathlib import Path

import pytest
from tests.tables import entry, measured, modelled, raw_entry, saved, table
from tests.test_table_faults import GOOD

from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Evidence
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, Entry, RouteTable
from mxtune.results.findings import Finding
from mxtune.results.installed import Installed
from mxtune.results.lint import lint

SMALL = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E"
HERE = Installed(torch="2.10.0+cpu", triton="3.6.0", no_kernels="there is no AITER")
WITH_AITER = Installed("2.10.0", "3.6.0", "0.1.7", frozenset({SMALL}))
QUIET = ("hole", "versions")  # what hardly any small table is without


def found_in(
    tmp_path: Path,
    given: RouteTable,
    *,
    here: Installed = HERE,
    target: str | None = None,
    but: tuple[str, ...] = QUIET,
) -> list[Finding]:
    """Lint one table; leave out the rules in ``but``."""
    found = lint([saved(tmp_path / "routes.json", given)], target, here)
    assert {finding.file for finding in found} <= {str(tmp_path / "routes.json")}
    return [finding for finding in found if finding.rule not in but]


def shown(found: list[Finding]) -> list[tuple[str, str, str, str]]:
    return [(f.severity, f.rule, f.place, f.message) for f in found]


def test_a_sound_table_has_nothing_wrong(tmp_path: Path) -> None:
    ladder = (entry((m, 512, 1024), "fused", measured(m)) for m in (1, 2, 8, 32))
    assert found_in(tmp_path, table(*ladder), but=()) == []


def test_an_illegal_route_is_an_error_with_its_reason(tmp_path: Path) -> None:
    given = table(entry((16, 512, 1024)), entry((64, 512, 1024), num_warps=1))
    (found,) = found_in(tmp_path, given)
    assert found == Finding(
        "error",
        "illegal",
        str(tmp_path / "routes.json"),
        "routes.1",
        Shape(64, 512, 1024),
        "fused 16x64x256 num_warps=1: one warp does not get the scaled MFMA on gfx950",
    )


def test_another_target_judges_by_its_own_rules(tmp_path: Path) -> None:
    given = table(entry((16, 512, 1024), num_warps=1), entry((64, 512, 1024), BLOCK_M=8))
    assert shown(found_in(tmp_path, given, target="sm_90")) == [
        (
            "error",
            "illegal",
            "routes.1",
            "fused 8x64x256: BLOCK_M 8: a dot takes at least 16 rows on sm_90",
        ),
        (
            "warning",
            "device",
            "device.arch",
            "for 'gfx950': a dispatcher on sm_90 takes none of its routes",
        ),
    ]


def test_a_target_that_nobody_described_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no device is called 'gfx000': one of gfx950, sm_90$"):
        lint([tmp_path / "none.json"], "gfx000", HERE)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            raw_entry((16, 512, 1024), "slow"),
            "no family is called 'slow': one of aiter, aiter_a16, aiter_preshuffle, asm, direct, "
            "fused, fused_atomic, fused_preshuffle, fused_preshuffle_atomic, splitk, splitk_atomic",
        ),
        (
            raw_entry((16, 512, 1024), BLOCK_M=24),
            "fused: BLOCK_M must be one of 4, 8, 16, 32, 64, 128, 256, not 24",
        ),
        (
            raw_entry((16, 512, 1024), "aiter", None, **{"quant\nm": 1}),
            "aiter has no 'quant\\nm': it has quant_m, quant_k, quant_warps, convert",
        ),
    ],
)
def test_a_family_or_a_setting_that_is_unknown_is_an_error(  # BL-054
    tmp_path: Path, bad: Entry, message: str
) -> None:
    given = table(bad, entry((64, 512, 1024), num_warps=1))
    assert shown(found_in(tmp_path, given))[1:] == [("error", "unknown", "routes.0", message)]


def test_a_default_that_is_unknown_is_an_error(tmp_path: Path) -> None:
    given = table(entry((16, 512, 1024)), default=Default(family="fused", config={"BLOCK_M": 0}))
    assert shown(found_in(tmp_path, given)) == [
        (
            "error",
            "unknown",
            "default",
            "fused: BLOCK_M must be one of 4, 8, 16, 32, 64, 128, 256, not 0",
        )
    ]


@pytest.mark.parametrize(
    ("evidence", "messages"),
    [
        (
            None,
            [
                "suspect and only reported, so no dispatcher takes it: "
                "32x128: with K no multiple of 256 the padding of scales must be zero"
            ],
        ),
        (
            modelled(5.0),
            [
                "suspect and only modelled, so no dispatcher takes it: "
                "32x128: with K no multiple of 256 the padding of scales must be zero"
            ],
        ),
        (measured(5.0), []),
    ],
)
def test_a_suspect_route_needs_a_measurement(
    tmp_path: Path, evidence: Evidence | None, messages: list[str]
) -> None:
    found = found_in(tmp_path, table(entry((16, 512, 896), "asm", evidence)), here=WITH_AITER)
    assert [(f.severity, f.rule, f.message) for f in found] == [
        ("warning", "suspect", message) for message in messages
    ]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("32x129", "no ASM kernel of AITER's is called '32x129'"),
        (SMALL, f"'{SMALL}' names no ASM kernel: tables name them by tile, as in 32x128"),
        ("x" * 500, f"'{'x' * 100}' names no ASM kernel: tables name them by tile, as in 32x128"),
        (7, "'7' names no ASM kernel: tables name them by tile, as in 32x128"),
    ],
)
def test_an_asm_kernel_that_does_not_exist_is_an_error(  # BL-047
    tmp_path: Path, kernel: str | int, message: str
) -> None:
    found = found_in(tmp_path, table(raw_entry((16, 512, 1024), "asm", kernel=kernel)))
    assert shown(found)[0] == ("error", "kernel-name", "routes.0", message)


def test_an_asm_kernel_that_the_installed_aiter_lacks_is_an_error(tmp_path: Path) -> None:  # BL-047
    given = table(entry((16, 512, 1024), "asm"), entry((32, 512, 1024), "asm", kernel="64x128"))
    assert shown(found_in(tmp_path, given, here=WITH_AITER)) == [
        ("error", "kernel-missing", "routes.1", "the AITER installed here has no kernel 64x128")
    ]


def test_without_an_aiter_it_is_said_that_kernels_were_not_looked_up(tmp_path: Path) -> None:
    given = table(entry((16, 512, 1024), "asm"), entry((32, 512, 1024)))
    found = found_in(tmp_path, given, but=(*QUIET, "layouts"))
    assert shown(found) == [
        (
            "note",
            "kernel-missing",
            "",
            "routes that name a kernel: 1; not looked up: there is no AITER",
        )
    ]


@pytest.mark.parametrize(
    "evidence", [measured(5.0, lds_bytes=163_841), modelled(5.0, lds_bytes=163_841)]
)
def test_more_lds_than_a_workgroup_can_have_is_an_error(tmp_path: Path, evidence: Evidence) -> None:
    given = table(
        entry((16, 512, 1024), "fused", evidence),
        entry((32, 512, 1024), "fused", measured(6.0, lds_bytes=163_840)),
    )
    assert shown(found_in(tmp_path, given)) == [
        (
            "error",
            "lds",
            "routes.0",
            "its kernels take 163841 B of LDS; gfx950 has 163840 B",
        )
    ]


def test_a_file_that_does_not_load_is_one_error_and_the_others_are_read(  # BL-054, BL-058
    tmp_path: Path,
) -> None:
    contents = {
        "cut.json": GOOD[:-9],
        "newer.json": GOOD.replace("routes/1", "routes/99"),
        "empty.json": "",
        "twice.json": GOOD.replace("}]}", "}, " + GOOD[GOOD.index("[{") + 1 :]),
        "bad.csv": "M,N\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, "utf-8")
    good = saved(tmp_path / "good.json", table(entry((16, 512, 1024), num_warps=1)))
    names = [*contents, "none.json"]
    found = lint([*(tmp_path / name for name in names), good], None, HERE)
    loads = [(Path(f.file).name, f.place, f.message) for f in found if f.rule == "load"]
    assert [name for name, _, _ in loads] == names
    messages = {name: message for name, _, message in loads}
    assert messages["cut.json"].startswith("not JSON: Expecting ")
    assert messages["newer.json"] == (
        "schema 'mxtune.routes/99'; this mxtune reads 'mxtune.routes/1'; "
        "a newer mxtune wrote it, update this one"
    )
    assert messages["empty.json"] == "empty; no routes in it"
    assert messages["twice.json"] == (  # BL-051
        "routes.0.shape: 16x64x64 stands more than once; "
        "routes.1.shape: 16x64x64 stands more than once"
    )
    assert messages["bad.csv"].startswith("1: no column cu_num, k, splitk, us, kernelname; ")
    assert messages["none.json"] == "cannot be read (No such file or directory)"
    assert {f.severity for f in found if f.rule == "load"} == {"error"}
    assert [f.place for f in found if f.rule == "illegal"] == ["routes.0"]
    assert {name: (tmp_path / name).read_text("utf-8") for name in contents} == contents


def test_two_files_with_different_routes_for_a_shape_conflict(tmp_path: Path) -> None:  # BL-051
    first = table(entry((16, 512, 1024)), entry((32, 512, 1024)), entry((64, 512, 1024)))
    second = table(
        entry((64, 512, 1024), BLOCK_M=64),
        raw_entry((32, 512, 1024), "slow"),
        entry((16, 512, 1024), group_m=4),  # of one row of tiles: the same launch
    )
    paths = [saved(tmp_path / "a.json", first), saved(tmp_path / "b.json", second)]
    found = [f for f in lint(paths, None, HERE) if f.rule == "conflict"]
    assert [(f.severity, Path(f.file).name, f.place, str(f.shape)) for f in found] == [
        ("warning", "b.json", "routes.1", "32x512x1024"),
        ("warning", "b.json", "routes.2", "64x512x1024"),
    ]
    assert [f.message for f in found] == [
        f"'slow' (unknown) here; fused 16x64x256 in {paths[0]}, routes.1",
        f"fused 64x64x256 here; fused 16x64x256 in {paths[0]}, routes.2",
    ]


def test_files_for_different_gpus_do_not_conflict(tmp_path: Path) -> None:
    first = table(entry((16, 512, 1024)))
    second = table(entry((16, 512, 1024), BLOCK_M=64), arch="sm_90")
    paths = [saved(tmp_path / "a.json", first), saved(tmp_path / "b.json", second)]
    assert [f for f in lint(paths, None, HERE) if f.rule == "conflict"] == []


def test_rows_of_a_csv_that_are_no_route_are_findings() -> None:  # BL-047, BL-051
    path = Path(__file__).parent / "data" / "aiter-tuned.csv"
    found = [f for f in lint([path], None, HERE) if f.rule == "row"]
    assert [(f.severity, f.place) for f in found] == [
        ("warning", "line 2"),  # slower
        ("warning", "line 4"),  # wrong
        ("warning", "line 11"),  # no such kernel
        ("note", "line 6"),  # a copy
        ("note", "line 7"),  # another GPU
        ("note", "line 8"),  # CK
        ("note", "line 12"),  # no time
    ]
    assert found[2].message == "no ASM kernel of AITER's is called 'made_up_kernel'"


def test_routes_of_a_csv_are_judged_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "tuned.CSV"
    text = (Path(__file__).parent / "data" / "aiter-tuned-older.csv").read_text("utf-8")
    path.write_text(text.replace("64,512,", "64,528,"), "utf-8")
    found = [f for f in lint([path], None, HERE) if f.severity == "error"]
    assert [(f.rule, f.place, str(f.shape), f.message) for f in found] == [
        ("illegal", "line 3", "64x528x1024", "asm 64x128: N must be a multiple of 32")
    ]
