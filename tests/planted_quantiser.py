"""A quantiser by hand, with gfx950's conversion to FP4: one block of 32 values a lane.

The routes have no hardware conversion yet; this is what one would look like.
"""

from functools import cache
from struct import pack
from typing import Any

import numpy as np
import torch
from tests.planted_code import Outcome

from mxtune.kernels import formats
from mxtune.tuner.check import Verdict
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.launch import Launch, run
from mxtune.tuner.emulate.memory import Memory

LANES = 64
_VALUES = 4  # the register of the first two values
_SCALE, _CODES = 20, 22
_BYTE = ("op_sel:[0,0,0,0]", "op_sel:[0,0,1,0]", "op_sel:[0,0,0,1]", "op_sel:[0,0,1,1]")


def conversion(word: int, byte: int) -> str:
    """Return the line that makes a byte of a word of codes from two values."""
    pair = _VALUES + 4 * word + byte
    return f"v_cvt_scalef32_pk_fp4_bf16 v{_CODES + word}, v{pair}, v{_SCALE} {_BYTE[byte]}"


def lines() -> list[str]:
    """Return the kernel's instructions."""
    pairs = range(_VALUES, _VALUES + 16)
    loads = [f"global_load_dwordx4 v[{v}:{v + 3}], v1, s[4:5] offset:{4 * v - 16}" for v in pairs]
    largest = [f"v_and_b32_e32 v20, 0x7fff7fff, v{_VALUES}"]
    for pair in pairs[1:]:
        largest += [f"v_and_b32_e32 v21, 0x7fff7fff, v{pair}", "v_pk_max_u16 v20, v20, v21"]
    # two words by turns: what a conversion writes must not be touched by the next instruction
    chains = [
        conversion(word, byte)
        for first in (0, 2)
        for byte in range(4)
        for word in (first, first + 1)
    ]
    return [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_load_dwordx2 s[8:9], s[0:1], 0x10",
        "v_lshlrev_b32_e32 v1, 6, v0",
        "s_waitcnt lgkmcnt(0)",
        *loads[::4],
        "s_waitcnt vmcnt(0)",
        *largest,
        "v_lshlrev_b32_e32 v21, 16, v20",
        "v_max_u32_e32 v20, v20, v21",
        "v_add_u32_e32 v20, 0xff200000, v20",  # the even rule: round to 1.75, down two exponents
        "v_max_i32_e32 v20, 0, v20",
        "v_lshrrev_b32_e32 v21, 23, v20",
        *chains,
        "v_lshlrev_b32_e32 v1, 4, v0",
        "global_store_dwordx4 v1, v[22:25], s[6:7]",
        "global_store_byte v0, v21, s[8:9]",
        "s_endpgm",
    ]


_FRAME = """
    .text
    .globl quantise_blocks
    .p2align 8
    .type quantise_blocks,@function
quantise_blocks:
    {code}
    .size quantise_blocks, .-quantise_blocks
    .section .rodata,"a",@progbits
    .p2align 6
    .amdhsa_kernel quantise_blocks
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_kernarg_size 24
        .amdhsa_accum_offset 28
        .amdhsa_next_free_vgpr 28
        .amdhsa_next_free_sgpr 16
    .end_amdhsa_kernel
"""


@cache
def assembled(*code: str) -> bytes:
    """Assemble and link instructions with Triton's own LLVM."""
    from triton._C.libtriton import llvm
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    llvm.init_targets()
    backend: Any = make_backend(GPUTarget("hip", "gfx950", LANES))
    text = _FRAME.format(code="\n    ".join(code))
    elf: bytes = backend.make_hsaco(text, {}, backend.parse_options({"enable_fp_fusion": False}))
    return elf


def quantised(elf: bytes) -> Outcome:
    """Run the kernel on 64 blocks and compare with the project's quantiser."""
    values = _values()
    memory = Memory()
    pointers = (
        memory.allocate("values", values.view(torch.uint8).numpy()),
        memory.allocate("codes", np.zeros((LANES, 16), np.uint8)),
        memory.allocate("scales", np.zeros(LANES, np.uint8)),
    )
    launch = Launch(CodeObject.read(elf), pack("<3Q", *pointers), (1, 1, 1), LANES)
    report = run(launch, memory)
    codes, scales = (part.numpy() for part in formats.quantise(values, "even"))
    wrong = _difference("scales", memory.view("scales"), scales)
    wrong = wrong or _difference("codes", memory.view("codes"), codes)
    return Outcome.of(Verdict(ok=not wrong, reason=wrong), report.findings)


def _values() -> torch.Tensor:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(LANES, 32, generator=random) * 2.0 ** torch.arange(-32, 32)[:, None]
    x[7] = 0
    return x.bfloat16()


def _difference(what: str, found: Any, wanted: Any) -> str:
    wanted = wanted.reshape(-1)
    at = np.flatnonzero(found != wanted)
    if not at.size:
        return ""
    first = f"first at {at[0]}: {found[at[0]]:#04x} for {wanted[at[0]]:#04x}"
    return f"{what}: {at.size} of {wanted.size} bytes differ, {first}"
