"""The model: each of its terms, worked out by hand for one GPU with round figures."""

from dataclasses import replace

import pytest

from mxtune.configs.devices import Device, Pace, load_device
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Problem, Step, Work
from mxtune.kernels.registry import checked_route
from mxtune.tuner.model import estimate, moved_bytes, roofline_us, score_us

MI355X = load_device("gfx950")
# A cycle is a nanosecond; a CU computes 1000 FLOP a cycle; a microsecond moves a million bytes.
ROUND = replace(
    MI355X,
    compute_units=2,
    clock_ghz=1.0,
    fp4_tflops=2.0,
    bandwidth_gbs=1000,
    launch_us=4.0,
    dependent_us=3.0,
    pace=Pace(
        prologue=2500,
        latency=2000,
        stream_bytes=22,
        quantise=17 * 4 / 64,
        unpack=0.0,
        matrix=1.0,
        resident=4,
    ),
)
# One program a CU: 2500 cycles, then 10 times 2000 of latency and 1000 of arithmetic.
WORK = Work(2, 10, 1e6, load_bytes=0.0, quantised=0, multiplied=0, unique_bytes=0.0)
DECODE = Shape(16, 2112, 7168)


def step(work: Work, num_stages: int = 1, num_warps: int = 4) -> Step:
    options = {"num_stages": num_stages, "num_warps": num_warps}
    return Step("gemm", "gemm:gemm", (work.programs, 1), {}, {}, {}, options, work)


def work_us(step: Step, device: Device = ROUND) -> float:
    (part,) = estimate([step], device)
    return part.work_us


def steps(family: str, **settings: Value) -> tuple[Step, ...]:
    route = checked_route(Route(family, Config.of(settings)))
    return planned(route, Problem.contiguous(DECODE, MI355X)).own


def test_a_step_takes_its_launch_and_its_work() -> None:
    (part,) = estimate([step(WORK)], ROUND)
    assert (part.step, part.launch_us, part.work_us, part.memory_us) == ("gemm", 4.0, 32.5, 0.0)
    assert part.total_us == 36.5


def test_a_further_step_waits_for_the_one_before() -> None:
    assert score_us([step(WORK), step(WORK)], ROUND) == 36.5 + 35.5


@pytest.mark.parametrize(("unique_bytes", "total_us"), [(30e6, 36.5), (50e6, 54.0)])
def test_moving_every_byte_once_hides_behind_the_work_or_the_work_behind_it(
    unique_bytes: float, total_us: float
) -> None:
    assert score_us([step(replace(WORK, unique_bytes=unique_bytes))], ROUND) == total_us


@pytest.mark.parametrize(("num_stages", "us"), [(1, 32.5), (2, 32.5), (3, 22.5), (5, 17.5)])
def test_loads_in_flight_share_their_latency(num_stages: int, us: float) -> None:
    assert work_us(step(WORK, num_stages)) == us


def test_a_loop_of_one_iteration_has_nothing_in_flight() -> None:
    assert work_us(step(replace(WORK, iterations=1), num_stages=5)) == 5.5


def test_streaming_what_it_loads_bounds_an_iteration() -> None:
    assert work_us(step(replace(WORK, load_bytes=66_000.0))) == 32.5  # 3000 cycles, as many as now
    assert work_us(step(replace(WORK, load_bytes=88_000.0))) == 42.5


def test_quantising_takes_longer_on_fewer_warps() -> None:
    quantising = replace(WORK, quantised=6400)  # 6800 cycles of one SIMD
    assert work_us(step(quantising, num_warps=4)) == 49.5
    assert work_us(step(quantising, num_warps=8)) == 49.5  # a CU has four SIMDs
    assert work_us(step(quantising, num_warps=2)) == 66.5


def test_four_programs_share_a_cu_and_the_fifth_waits() -> None:
    assert work_us(step(replace(WORK, programs=6))) == 32.5  # three hide each other's latency
    assert work_us(step(replace(WORK, programs=8))) == 42.5
    assert work_us(step(replace(WORK, programs=10))) == 85.0


def test_unpacking_costs_where_there_are_no_units_for_fp4() -> None:
    feeding = step(replace(WORK, multiplied=4400))  # on four SIMDs: 1100 cycles each at 1 a value
    assert work_us(feeding) == 32.5
    assert work_us(feeding, replace(ROUND, pace=replace(ROUND.pace, unpack=1.0))) == 43.5


def test_splitting_k_fills_a_gpu_that_few_tiles_leave_idle() -> None:
    direct, split = steps("direct"), steps("splitk", split_k=7)
    assert direct[1].work.programs == 33
    assert split[1].work.programs == 231
    assert work_us(split[1], MI355X) < work_us(direct[1], MI355X) / 5
    assert score_us(split, MI355X) < score_us(direct, MI355X)


def test_every_launch_costs_at_least_what_it_waits() -> None:
    split = steps("splitk", split_k=7)
    assert [part.step for part in estimate(split, MI355X)] == ["quantise", "gemm", "reduce"]
    assert score_us(split, MI355X) > score_us(split[:2], MI355X) + 4.0
    assert score_us(split[:2], MI355X) > score_us(split[:1], MI355X) + 4.0


def test_the_roofline_of_a_decode_gemm_is_its_bytes() -> None:
    assert moved_bytes(DECODE) == 8_339_456  # the contest's own count: 8.339 MB
    assert roofline_us(DECODE, MI355X) == pytest.approx(1.042, abs=0.001)


def test_the_roofline_of_a_large_gemm_is_its_arithmetic() -> None:
    assert roofline_us(Shape(8192, 8192, 8192), MI355X) == pytest.approx(109.19, abs=0.01)
