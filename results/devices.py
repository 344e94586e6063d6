"""The GPU that a session ran on, from its provenance."""

from mxtune.configs.devices import Device
from mxtune.results.trial import Session


def device_of(session: Session) -> Device:
    """Rebuild the description that the sweep worked with."""
    return Device(**session.provenance["device_description"])
