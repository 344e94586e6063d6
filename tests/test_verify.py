"""`mxtune verify --emulate`: what it prints, what it refuses, and when it fails."""

import json
from pathlib import Path

import pytest
from tests.family_shapes import NAMES
from typer.testing import CliRunner, Result

from mxtune.cli import app
from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.tuner.check import Verdict
from mxtune.tuner.crew import Finished
from mxtune.tuner.emulate.findings import Finding
from mxtune.tuner.emulate.job import Emulated, EmulateJob, KernelRun, merged
from mxtune.tuner.emulate.profile import Profile
from mxtune.tuner.verify_request import VerifyRequest
from mxtune.tuner.verify_routes import RouteVerification, Verified
from mxtune.tuner.worker import Outcome

SHAPE = Shape(3, 70, 96)
ROUTE = Route("fused", Config.of({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256}))
WHY = "asked for by --family"
FINDING = Finding("missing_wait", 0x40, "v_add_u32", "reads v3, not waited for", "fused.py:30")


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["verify", *words], prog_name="mxtune")


def request(**changes: object) -> VerifyRequest:
    plain: dict[str, object] = {
        "shapes": (SHAPE,),
        "emulate": True,
        "routes": None,
        "family": None,
        "settings": (),
        "target": "gfx950",
        "asm": None,
        "aiter": None,
        "rules": None,
    }
    return VerifyRequest(**{**plain, **changes})  # type: ignore[arg-type]


def emulated(verdict: Verdict, *findings: Finding, executed: int = 100) -> Emulated:
    kernel = KernelRun("fused", Profile(4, {"valu": executed}, {"lds read 16 B": 64}), 1)
    told = tuple(("fused", finding) for finding in findings)
    return Emulated(SHAPE, verdict, told, (kernel,), 1.5)


def test_a_route_of_every_family_is_right_at_a_shape_with_tails() -> None:
    done = invoke("--emulate", "3x70x96", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    # those that need shuffled weights have no route where N is 70
    plain = ["direct", "fused", "fused_atomic", "splitk", "splitk_atomic"]
    assert [entry["family"] for entry in found] == plain
    assert all(entry["ok"] and entry["findings"] == [] for entry in found)
    fused = next(entry for entry in found if entry["family"] == "fused")
    assert fused["emulated_shape"] == "3x70x96"
    assert fused["kernels"][0]["profile"]["instructions"]["mfma_scaled"] > 0
    assert fused["kernels"][0]["profile"]["waves"] == 2 * 2 * 4  # seeds, tiles along N, warps


def test_every_family_that_takes_a_shape_is_verified_at_it() -> None:
    shapes = (SHAPE, Shape(17, 160, 320))
    checks = RouteVerification(request(shapes=shapes)).checks
    taken = [[choice.route.family for at, choice in checks if at == shape] for shape in shapes]
    assert (len(taken[0]), taken[1]) == (5, NAMES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["3x70x96"], "say how: --emulate is the only way to verify so far"),
        (["--emulate"], "no shape to verify at; name one such as 16x2112x7168"),
        (["--emulate", "3x70"], "'3x70': not a shape; write MxNxK"),
        (["--emulate", "3x70x96", "--target", "sm_90"], "only gfx950 code can be executed"),
        (["--emulate", "3x70x96", "--family", "nothing"], "no family is called 'nothing'"),
        (["--emulate", "3x70x96", "--set", "BLOCK_N=64"], "name one with --family"),
        (["--emulate", "3x70x96", "--aiter", "x"], "--aiter and --rules go with --asm"),
        (["--emulate", "--asm", "all", "--family", "fused"], "leave --routes, --family, --set out"),
        (["--emulate", "--asm", "32x128", "--rules", "x"], "--asm all, no shapes"),
        (["--emulate", "--asm", "all", "--aiter", "/nowhere"], "there is no such file or folder"),
    ],
)
def test_a_mistake_is_told_in_one_line(words: list[str], message: str) -> None:
    done = invoke(*words)
    assert done.exit_code in (2, 4)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_illegal_config_is_refused_before_any_work() -> None:
    done = invoke("--emulate", "3x70x96", "--family", "splitk", "--set", "split_k=9")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "leaves splits of 1 blocks idle" in done.stderr


def test_findings_are_told_once_and_fail() -> None:
    twice = [emulated(Verdict(ok=True, worst=0.5), FINDING) for _ in range(2)]
    verified = Verified(SHAPE, ROUTE, WHY, merged(twice))
    assert not verified.ok
    assert list(verified.lines()) == [
        "3x70x96  WRONG  fused 16x64x256 (asked for by --family); 200 instructions in 3.0 s",
        "    fused: missing_wait at 0x40 v_add_u32 (fused.py:30): reads v3, not waited for",
    ]
    assert verified.as_json()["findings"] == [
        {
            "step": "fused",
            "kind": "missing_wait",
            "pc": 64,
            "instruction": "v_add_u32",
            "detail": "reads v3, not waited for",
            "line": "fused.py:30",
        }
    ]


def test_wrong_numbers_with_either_seed_fail() -> None:
    right, wrong = Verdict(ok=True, worst=0.5), Verdict(ok=False, reason="2 of 6 wrong", worst=9.0)
    for verdicts in ((right, wrong), (wrong, right)):
        found = merged([emulated(verdict) for verdict in verdicts])
        assert (found.ok, found.reason) == (False, "2 of 6 wrong")
        assert "    wrong_result: 2 of 6 wrong" in list(Verified(SHAPE, ROUTE, WHY, found).lines())


def test_a_smaller_shape_is_said_to_be_one() -> None:
    right = emulated(Verdict(ok=True, worst=0.5))
    (line,) = Verified(Shape(3, 2112, 7168), ROUTE, WHY, right).lines()
    assert line == (
        "3x2112x7168  right  fused 16x64x256 (asked for by --family), emulated at 3x70x96, worst "
        "error 0.50 of what is allowed; 100 instructions in 1.5 s"
    )


def test_a_large_shape_is_emulated_at_a_smaller_one_with_its_tails() -> None:
    verification = RouteVerification(request(shapes=(Shape(33, 4112, 7200),), family="fused"))
    shapes = {job.shape for job in verification.jobs.values()}
    # the fallback has tiles of 64 x 64 x 256: two whole ones and the tails are kept
    assert shapes == {Shape(33, 144, 288)}


def test_a_job_that_fails_is_a_failure_with_its_reason() -> None:
    verification = RouteVerification(request(family="fused"))
    outcome = Outcome("raised", None, "EmulationError", "EmulationError: V_X is not known")
    finished = [Finished(key, outcome) for key in verification.jobs]
    (verified,) = verification.results(finished)
    assert not verified.ok
    assert next(verified.lines()).endswith("EmulationError: V_X is not known")


def test_every_seed_of_the_gate_is_a_job() -> None:
    jobs = RouteVerification(request(family="direct")).jobs
    assert [(job.seed, job.shape) for job in jobs.values()] == [(1, SHAPE), (2, SHAPE)]
    assert all(isinstance(job, EmulateJob) for job in jobs.values())
    assert next(iter(jobs.values())).device == load_device("gfx950")


def test_a_table_for_another_gpu_is_not_what_is_verified() -> None:
    table = Path(__file__).parent.parent / "results" / "tables" / "h200-amd-mxfp4-mm.json"
    verification = RouteVerification(request(shapes=(Shape(4, 2880, 512),), routes=table))
    ((_, choice),) = verification.checks
    assert choice.route.family == "direct"
    assert choice.why == (
        "always legal: the table is for sm_90 (NVIDIA H200), "
        "this is AMD Instinct MI355X (gfx950, 256 CUs)"
    )
