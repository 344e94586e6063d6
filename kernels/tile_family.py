"""Families of tiled Triton kernels: the rules they share, whatever they launch."""

from collections.abc import Callable
from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Legality, Plan, Problem, Tunable, illegal
from mxtune.kernels.tile_rules import tile_legality, tile_waste
from mxtune.kernels.tiles import (
    ceil_div,
    defaults,
    normalised_split,
    normalised_tile,
    small_tile,
)


@dataclass(frozen=True, slots=True)
class TileFamily:
    """A RouteFamily that obeys the rules of tiles, and of splits if it has ``split_k``.

    ``least_split``: fewer splits are another family's work.
    """

    name: str
    tunables: tuple[Tunable, ...]
    launches: Callable[[Config, Problem], Plan]
    weights: str = ""  # the layout of B, where the family and not its config decides
    least_split: int = 1

    def missing(self, device: Device) -> str | None:
        """Triton is all that is needed."""
        del device
        return None

    def normalise(self, config: Config, shape: Shape) -> Config:
        """See RouteFamily."""
        config = normalised_tile(config, shape)
        return normalised_split(config, shape) if "split_k" in config else config

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        """See RouteFamily."""
        blocks = ceil_div(shape.k, config.number("BLOCK_K"))
        if int(config.get("split_k", 1)) > blocks:
            return illegal(f"split_k {config['split_k']} leaves splits of {blocks} blocks idle")
        return tile_legality(self._whole(config), shape, device)

    def waste(
        self, config: Config, shape: Shape, device: Device, *, won: bool = False
    ) -> str | None:
        """See RouteFamily."""
        if int(config.get("split_k", 1)) < self.least_split:
            return "a split of one is another family, and a kernel more"
        return tile_waste(self._whole(config), shape, device, won=won)

    def fallback(self, shape: Shape) -> Config:
        """See RouteFamily."""
        split = {"split_k": 1} if any(t.name == "split_k" for t in self.tunables) else {}
        return Config.of(defaults(self.tunables) | small_tile(shape) | split)

    def plan(self, config: Config, problem: Problem) -> Plan:
        """See RouteFamily."""
        return self.launches(self._whole(config), problem)

    def _whole(self, config: Config) -> Config:
        return config.changed(weights=self.weights) if self.weights else config
