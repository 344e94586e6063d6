"""Ranges and stage timings: what they say, when they are written, and that off is off."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.profiler import ProfilerActivity, profile

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config, Route
from mxtune.configs.settings import read_observed
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.family import Call, Problem, Step
from mxtune.kernels.observe import Observer
from mxtune.kernels.registry import checked_route
from mxtune.kernels.stage_times import StageTimes, Subject

GFX950 = load_device("gfx950")
SUBJECT = Subject("splitk", (16, 64, 512), "cpu")
Steps = tuple[Step | Call, ...]


def steps_of(name: str, m: int = 16) -> Steps:
    route = checked_route(Route(name, Config()))
    return planned(route, Problem.contiguous(Shape(m, 64, 512), GFX950)).steps


def noting(notes: list[str], *words: str) -> tuple[Callable[..., None], ...]:
    """Calls that note their word and what they are given."""
    return tuple(lambda a, c, w=word: notes.append(f"{w} {a} {c}") for word in words)


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# --- ranges


def test_each_stage_is_a_range_with_the_shape_in_its_name() -> None:
    notes: list[str] = []
    calls = noting(notes, "quantise", "gemm", "reduce")
    seen = Observer(ranges=True).around(SUBJECT, steps_of("splitk"), calls)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for call in seen:
            call("A", "C")
    ranges = [event.name for event in (profiler.events() or ()) if event.name.startswith("mxtune ")]
    assert ranges == [
        "mxtune splitk/quantise 16x64x512",
        "mxtune splitk/gemm 16x64x512",
        "mxtune splitk/reduce 16x64x512",
    ]
    assert notes == ["quantise A C", "gemm A C", "reduce A C"]


def test_a_function_of_aiter_goes_by_its_name() -> None:
    stream = io.StringIO()
    steps = steps_of("asm", 4)
    calls = noting([], "quantise", "gemm", "crop")
    (call,) = Observer(timings=stream).around(Subject("asm", (4, 64, 512), "cpu"), steps, calls)
    call("A", "C")
    (line,) = lines_of(stream)
    stages = [stage["stage"] for stage in line["stages"]]  # type: ignore[attr-defined]
    assert stages == ["quantise", "aiter.gemm_a4w4_asm", "crop"]


# --- timings


class Queue:
    """A clock that stands where a test says; each mark lies 2 us after the one before."""

    name = "events"

    def __init__(self) -> None:
        self.marks, self.now = 0, 0
        self.waited: list[int] = []

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def passed(self, mark: int) -> bool:
        return mark <= self.now

    def between_us(self, start: int, end: int) -> float:
        if end > self.now:
            self.waited.append(end)
            self.now = end
        return 2.0 * (end - start)


def timed(times: StageTimes, clock: Queue) -> Callable[..., None]:
    return times.timed(SUBJECT, ("quantise", "gemm"), noting([], "quantise", "gemm"), clock)


def test_a_call_is_one_line() -> None:
    stream, clock = io.StringIO(), Queue()
    clock.now = 3
    timed(StageTimes(stream, 5), clock)("A", "C")
    assert lines_of(stream) == [
        {
            "call": 1,
            "route": "splitk",
            "shape": [16, 64, 512],
            "clock": "events",
            "stages": [{"stage": "quantise", "us": 2.0}, {"stage": "gemm", "us": 2.0}],
        }
    ]
    assert stream.getvalue().endswith("}\n")


def test_a_line_waits_until_its_events_have_passed_and_nothing_waits_for_it() -> None:
    stream, clock = io.StringIO(), Queue()
    call = timed(StageTimes(stream, 9), clock)
    call("A", "C")
    call("A", "C")
    assert lines_of(stream) == []
    clock.now = 3  # the first call has ended
    call("A", "C")
    assert [line["call"] for line in lines_of(stream)] == [1]
    assert clock.waited == []


def test_flushing_waits_for_what_is_left() -> None:
    stream, clock = io.StringIO(), Queue()
    times = StageTimes(stream, 9)
    call = timed(times, clock)
    call("A", "C")
    call("A", "C")
    times.flush()
    assert [line["call"] for line in lines_of(stream)] == [1, 2]


def test_what_is_left_is_written_when_the_observer_goes() -> None:
    stream, clock = io.StringIO(), Queue()
    call = timed(StageTimes(stream, 9), clock)
    call("A", "C")
    assert lines_of(stream) == []
    del call
    assert [line["call"] for line in lines_of(stream)] == [1]


def test_a_stream_that_was_closed_is_left_alone() -> None:
    stream, clock = io.StringIO(), Queue()
    call = timed(StageTimes(stream, 9), clock)
    call("A", "C")
    stream.close()
    del call


def test_a_host_far_ahead_waits_for_the_oldest_call() -> None:
    stream, clock = io.StringIO(), Queue()
    call = timed(StageTimes(stream, 999), clock)
    for _ in range(70):
        call("A", "C")
    assert len(lines_of(stream)) == 6  # 64 are kept
    assert clock.waited[-1] == 18  # the end of the sixth call, and of none after it


def test_the_last_line_says_that_no_more_will_come() -> None:
    stream, notes = io.StringIO(), list[str]()
    observer = Observer(timings=stream, lines=3)
    steps = steps_of("direct")
    (call,) = observer.around(SUBJECT, steps, noting(notes, "quantise", "gemm"))
    for _ in range(5):
        call("A", "C")
    found = lines_of(stream)
    assert [line.get("call") for line in found] == [1, 2, 3, None]
    assert found[3] == {"note": "3 calls were told; no more will be"}
    assert len(notes) == 10  # and all were made


def test_a_call_that_fails_is_no_line_and_the_next_one_is() -> None:
    stream, broken = io.StringIO(), [True]

    def may_fail(a: object, c: object) -> None:
        del a, c
        if broken.pop():
            raise ConfigError("no")

    (call,) = Observer(timings=stream).around(SUBJECT, steps_of("fused"), (may_fail,))
    with pytest.raises(ConfigError, match="no"):
        call("A", "C")
    broken.append(False)
    call("A", "C")
    assert [line["call"] for line in lines_of(stream)] == [1]


# --- the switch


def test_nothing_asked_for_is_nothing_done() -> None:
    calls = noting([], "fused")
    assert Observer().around(SUBJECT, steps_of("fused"), calls) is calls
    assert Observer.of(read_observed({}), io.StringIO()) is None
    assert Observer.of(read_observed({"MXTUNE_OBSERVE": " , "}), io.StringIO()) is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("ranges", {"ranges"}),
        ("timings", {"timings"}),
        (" timings, ranges ,", {"ranges", "timings"}),
    ],
)
def test_the_variable_takes_words_between_commas(asked: str, words: set[str]) -> None:
    assert read_observed({"MXTUNE_OBSERVE": asked}) == words


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ConfigError, match="MXTUNE_OBSERVE: 'range' is unknown; it takes ranges"):
        read_observed({"MXTUNE_OBSERVE": "range,timings"})


def test_a_dispatcher_obeys_the_variable_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXTUNE_OBSERVE", "nonsense")
    with pytest.raises(ConfigError, match="MXTUNE_OBSERVE"):
        Dispatcher(None)
    Dispatcher(None, observe=Observer())


def test_only_the_settings_read_the_variable() -> None:
    root = Path(__file__).parent.parent
    layers = ("configs", "kernels", "results", "tuner")
    found = [
        path.name
        for layer in layers
        for path in (root / layer).rglob("*.py")
        if 'get("MXTUNE_OBSERVE"' in path.read_text("utf-8")
    ]
    assert found == ["settings.py"]
