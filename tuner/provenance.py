"""Where trials come from: versions, device, rule, regime, and the code that was tried."""

import hashlib
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import mxtune
from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.kernels.aiter import find_aiter
from mxtune.kernels.quantise_steps import RULE
from mxtune.results.trial import Session
from mxtune.tuner.machine import Machine


def session_of(device: Device, machine: Machine, regime: Regime | None) -> Session:
    """Describe a sweep on ``device`` by this machine: measured in ``regime``, or modelled."""
    return Session.of(
        {
            "arch": device.arch,
            "device": device.name,
            "device_info": {
                "arch": device.arch,
                "name": device.name,
                "compute_units": device.compute_units,
                "partition": None,
            },
            "device_description": asdict(device),
            "kind": "measured" if regime else "modelled",
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "mxtune": mxtune.__version__,
            "torch": machine.torch,
            "triton": machine.triton,
            "aiter": find_aiter().release,
            "driver": machine.driver if regime else None,
            "rule": RULE,
            "regime": str(regime) if regime else None,
            "code": code_hash(),
        }
    )


def code_hash() -> str:
    """Return a digest of the sources that decide what a route computes and how."""
    digest = hashlib.sha256()
    for source in sorted((Path(__file__).parent.parent / "kernels").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
