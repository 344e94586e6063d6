"""A GPU to measure on."""

from dataclasses import dataclass
from functools import partial

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.tuner.measure import gpu_service
from mxtune.tuner.worker import Factory


@dataclass(frozen=True, slots=True)
class Lane:
    """One GPU: its description, and torch's name of it."""

    device: Device
    gpu: str

    def factory(self, regime: Regime) -> Factory:
        """Return what opens it in a worker."""
        return partial(gpu_service, self.device, self.gpu, regime)
