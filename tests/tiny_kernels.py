"""Kernels of a few instructions: encodes them, executes them on a wave, launches them."""

from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.cdna import enum, ins

from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.execute import build
from mxtune.tuner.emulate.instruction import decode
from mxtune.tuner.emulate.launch import Launch, Report, run
from mxtune.tuner.emulate.memory import Memory
from mxtune.tuner.emulate.wave import Wave, blank_wave

LANES = np.arange(64)
FILL = 0x0BADF00D
_KERNARG_POINTER = 1 << 3  # the property that puts it into s[0:1]
_FETCH_AHEAD = bytes(256)


def encoded(kind: str, name: str, **fields: Any) -> bytes:
    """Return the machine code of an instruction, its operands as tinygrad writes them."""
    operations = getattr(enum, f"{kind}Op")
    operation = getattr(operations, name, None) or getattr(operations, f"{name}_E32")
    code: bytes = getattr(ins, kind)(operation, **fields).to_bytes()
    return code


def wait(*, vector: int = 63, local: int = 15) -> bytes:
    """Return S_WAITCNT for at most so many of each counter under way."""
    return encoded(
        "SOPP", "S_WAITCNT", simm16=vector & 15 | vector >> 4 << 14 | 7 << 4 | local << 8
    )


END = encoded("SOPP", "S_ENDPGM")
BARRIER = encoded("SOPP", "S_BARRIER")


def perform(wave: Wave, *code: bytes) -> None:
    """Execute instructions under the watch of the wave, as a launch does."""
    image, pc = b"".join(code), 0
    while pc < len(image):
        instruction = decode(image, pc)
        if (instruction.reads | instruction.writes) & wave.watched:
            wave.inspect(instruction)
        with np.errstate(all="ignore"):
            build(instruction)(wave)
        pc += instruction.size


def told(wave: Wave) -> list[str]:
    """Return what the wave has seen so far, as ``kind: detail``."""
    return [f"{seen.kind}: {seen.detail}" for seen in wave.sightings.all()]


def wave_on_numbers() -> Wave:
    """Return a wave with a tensor of 64 dwords, 100 and up, at s[2:3], and 4 times the lane in v0.

    All other vector registers hold FILL; every register counts as written.
    """
    made = blank_wave()
    made.set_scalar64(2, made.memory.allocate("numbers", np.arange(100, 164, dtype=np.uint32)))
    made.v[:] = FILL
    made.v[0] = 4 * LANES
    made.defined((1 << 768) - 1)
    return made


def numbers(wave: Wave) -> list[int]:
    """Return what the tensor holds."""
    return [int(number) for number in wave.memory.view("numbers").view(np.uint32)]


def loaded(wave: Wave, rows: int = 1, lanes: int = 4) -> list[list[int]]:
    """Return what the first lanes hold in the registers from v1 on, lane by lane."""
    values = wave.v[1 : 1 + rows, :lanes].T
    return [[int(value) for value in lane] for lane in values]


def kernel(*code: bytes, **facts: Any) -> CodeObject:
    """Return a loaded kernel: the pointer to its arguments in s[0:1], workgroup x in s2."""
    usual: dict[str, Any] = {
        "name": "tiny",
        "image": b"".join(code) + _FETCH_AHEAD,
        "entry": 0,
        "lds_bytes": 0,
        "private_bytes": 0,
        "kernarg_bytes": 0,
        "user_sgprs": 2,
        "properties": _KERNARG_POINTER,
        "preload_dwords": 0,
        "preload_offset": 0,
        "workgroup_ids": (True, False, False),
        "keeps_denormals": True,
        "arguments": (),
        "lines": (),
    }
    return CodeObject(**usual | facts)


def launched(
    code: CodeObject,
    memory: Memory,
    *,
    arguments: bytes = b"",
    grid: tuple[int, int, int] = (1, 1, 1),
    threads: int = 64,
) -> Report:
    """Run every workgroup of a launch."""
    return run(Launch(code, arguments, grid, threads), memory)
