"""A quantised with its scales shuffled, then AITER's gemm_a4w4: its own table picks the kernel."""

from dataclasses import dataclass

from mxtune.configs.devices import Device, load_device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import ARCH, obstacle
from mxtune.kernels.aiter_steps import a4w4_call
from mxtune.kernels.family import LEGAL, Legality, Plan, Problem, RouteFamily, Tunable, illegal
from mxtune.kernels.layouts import weight_obstacle
from mxtune.kernels.quantise_steps import codes_step
from mxtune.kernels.tiles import CONVERT, QUANTISE, defaults

_N_MULTIPLE = 32  # that every ASM kernel needs
_WHOLE_N = 512  # a multiple of every tile whose last columns would race with the next row
_WHOLE_K = 256  # else the padding of the scales is read


@dataclass(frozen=True, slots=True)
class _AiterFamily:
    """The RouteFamily of AITER's own choice."""

    name: str = "aiter"
    tunables: tuple[Tunable, ...] = (*QUANTISE, *CONVERT)

    def missing(self, device: Device) -> str | None:
        """See RouteFamily."""
        sample = Problem.contiguous(Shape(32, 512, 256), load_device(ARCH))
        return obstacle(a4w4_call(sample), device)

    def normalise(self, config: Config, shape: Shape) -> Config:
        """See RouteFamily."""
        del shape
        return config

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        """See RouteFamily."""
        del config
        if device.arch != ARCH:
            return illegal(f"the kernels are code for {ARCH}, not {device.arch}")
        if reason := weight_obstacle(shape.n, shape.k // 2):
            return illegal(reason)
        if shape.n % _N_MULTIPLE:
            return illegal(
                f"AITER may pick a kernel that needs N to be a multiple of {_N_MULTIPLE}"
            )
        if shape.n % _WHOLE_N:
            return Legality("suspect", "AITER may pick a tile whose last columns race at this N")
        if shape.k % _WHOLE_K:
            return Legality("suspect", f"K is no multiple of {_WHOLE_K}: scales' padding is read")
        return LEGAL

    def waste(
        self, config: Config, shape: Shape, device: Device, *, won: bool = False
    ) -> str | None:
        """See RouteFamily."""
        del config, shape, device, won
        return None

    def fallback(self, shape: Shape) -> Config:
        """Return the only kind there is."""
        del shape
        return Config.of(defaults(self.tunables))

    def plan(self, config: Config, problem: Problem) -> Plan:
        """See RouteFamily."""
        return Plan((codes_step(config, problem, shuffled=True), a4w4_call(problem)))


FAMILY: RouteFamily = _AiterFamily()
