"""See `mxtune.tuner.stand_in.functions`."""

from mxtune.tuner.stand_in.functions import shuffle_weight

__all__ = ["shuffle_weight"]
