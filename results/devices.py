"""The GPU that a session ran on, from its provenance."""

from dataclasses import asdict

from mxtune.configs.devices import Device, bare_arch, device_from, known_devices, load_device
from mxtune.results.trial import Session

# What the model makes of a device, not what the device is: taken from the present description, so
# that a better model can be tried on an old recording.
_MODELLED = ("pace", "launch_us", "dependent_us")


def device_of(session: Session) -> Device:
    """Rebuild the description that the sweep worked with, with the model's present constants."""
    stored = dict(session.provenance["device_description"])
    arch = bare_arch(stored["arch"])
    described = load_device(arch if arch in known_devices() else _LIKE[stored["backend"]])
    present = asdict(described)
    return device_from(stored | {name: present[name] for name in _MODELLED})


_LIKE = {"hip": "gfx950", "cuda": "sm_90"}
