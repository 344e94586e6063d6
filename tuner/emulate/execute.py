"""From an instruction to what it does to a wave."""

from collections.abc import Callable, Mapping

from mxtune.tuner.emulate.buffers import build_buffer
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.global_access import build_global, build_scalar_memory
from mxtune.tuner.emulate.instruction import Instruction
from mxtune.tuner.emulate.lds_access import build_lds
from mxtune.tuner.emulate.salu import build_scalar
from mxtune.tuner.emulate.scratch_access import build_scratch
from mxtune.tuner.emulate.valu import build_vector
from mxtune.tuner.emulate.wave import Wave

Run = Callable[[Wave], None]

_BUILDERS: Mapping[str, Callable[[Instruction], Run]] = {
    "DS": build_lds,
    "GLOBAL": build_global,
    "MUBUF": build_buffer,
    "SCRATCH": build_scratch,
    "SMEM": build_scalar_memory,
}


def build(instruction: Instruction) -> Run:
    """Return what ``instruction`` does; raise EmulationError, naming it, if it is not known."""
    kind = instruction.encoding
    if kind in _BUILDERS:
        return _BUILDERS[kind](instruction)
    if kind.startswith("VOP"):
        return build_vector(instruction)
    if kind.startswith("SOP"):
        return build_scalar(instruction)
    raise EmulationError(f"{instruction.name} ({kind}) is not known")
