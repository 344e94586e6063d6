"""What a route rests on: measured on this kind of GPU, modelled offline, or reported by someone."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat

from mxtune.configs.routes import Value

Finite = Annotated[float, Field(allow_inf_nan=False)]
Microseconds = Annotated[PositiveFloat, Field(allow_inf_nan=False)]


def _by_name(values: dict[str, Value]) -> dict[str, Value]:
    return dict(sorted(values.items()))  # equal settings must be the same text


SettingsByName = Annotated[dict[str, Value], AfterValidator(_by_name)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Checked(_Strict):
    """How the numbers were checked: where, at which shape, and how close they were."""

    where: Literal["gpu", "interpreter", "emulator"]
    shape: tuple[int, int, int]  # smaller than the route's where that would take too long
    seeds: int
    worst: Finite  # largest error as a share of what is allowed
    largest_error: Finite


class Objects(_Strict):
    """The compiled kernels of a route, the largest of each figure; None where it is not known."""

    lds_bytes: int
    vgpr: int | None = None
    spills: int | None = None
    scaled_mfma: int | None = None


class RunnerUp(_Strict):
    """The best route of those that lost."""

    family: str
    config: SettingsByName
    us: Microseconds  # of the same kind as the winner's


class Measured(_Strict):
    """Timed on a GPU of this kind, in the regime that the table names."""

    kind: Literal["measured"] = "measured"
    median_us: Microseconds
    low_us: Microseconds  # 10th and 90th percentile of the samples
    high_us: Microseconds
    rounds: int
    ties: int = 1  # routes that finals could not tell from the fastest, itself included
    floor_us: Microseconds | None = None  # an event pair around nothing, in the same run
    baseline: str = ""  # what ran interleaved with it
    baseline_us: Microseconds | None = None
    runner_up: RunnerUp | None = None
    deterministic: bool
    error: Checked
    objects: Objects


class Modelled(_Strict):
    """Compiled for a GPU that was not there and ranked by the model: never a time.

    ``error`` tells of the numbers in Triton's interpreter, ``emulated`` of the machine code.
    """

    kind: Literal["modelled"] = "modelled"
    score_us: Microseconds
    runner_up: RunnerUp | None = None
    deterministic: bool
    error: Checked
    emulated: Checked | None = None
    objects: Objects


class Reported(_Strict):
    """Taken from somebody's table."""

    kind: Literal["reported"] = "reported"
    source: str
    us: Microseconds | None = None


# What counts more, where two tables are for one GPU.
STRENGTH: Mapping[str, int] = {"reported": 1, "modelled": 2, "measured": 3}

Evidence = Annotated[Measured | Modelled | Reported, Field(discriminator="kind")]
