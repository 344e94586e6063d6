"""The GPU that a session ran on, from its provenance."""

from dataclasses import asdict

from mxtune.configs.devices import Device, closest_device, device_from
from mxtune.results.trial import Session

# What the model makes of a device, not what the device is: taken from the present description, so
# that a better model can be tried on an old recording.
_MODELLED = ("pace", "launch_us", "dependent_us")


def device_of(session: Session) -> Device:
    """Rebuild the description that the sweep worked with, with the model's present constants."""
    stored = dict(session.provenance["device_description"])
    present = asdict(closest_device(stored["arch"], stored["backend"]))
    return device_from(stored | {name: present[name] for name in _MODELLED})
