"""See `mxtune.tuner.stand_in.functions`."""

from mxtune.tuner.stand_in.functions import dynamic_mxfp4_quant

__all__ = ["dynamic_mxfp4_quant"]
