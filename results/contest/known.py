"""What the lint knows of Python, torch, Triton and AITER: what holds tensors, what keeps them."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENTRY = "custom_kernel"
MEMOISING = _words("functools.cache functools.lru_cache")

# What of a tensor is no part of its content.
METADATA = _words("""
    shape ndim dtype device is_cuda layout itemsize requires_grad is_contiguous size dim stride
    numel element_size storage_offset
""")

# Builtins that hold and return no more than they are given, and decorators that change no result.
PASS_ON = _words("""
    int float bool str bytes complex abs min max sum round pow divmod range list tuple dict set
    frozenset zip enumerate reversed next any all repr print slice hash id sorted object len
    isinstance issubclass callable hasattr type staticmethod classmethod property torch.no_grad
    torch.inference_mode
""").union(MEMOISING)

_ANSWERS = _words("len isinstance issubclass callable hasattr")
_CALLING = _words("map filter iter")  # call what they are given
_TORCH_VALUES = _words("""
    bfloat16 float16 float32 float64 half float double uint8 uint16 uint32 uint64 int8 int16 int32
    int64 short int long bool float8_e8m0fnu float8_e4m3fn float8_e5m2 float8_e4m3fnuz
    float8_e5m2fnuz float4_e2m1fn_x2 version __version__
""")
_NO_TENSORS = _words("torch.device torch.Size torch.finfo torch.iinfo")
_MAKING = _words("torch aiter task ?")  # packages whose functions may return tensors

# Methods that put what they are given into their object; those that end in "_" change a tensor.
KEEPING = _words("""
    append appendleft extend extendleft insert add update setdefault send throw put push
    register_buffer
""")

# Functions of torch that allocate what they return, and builtins that make what they return.
FRESH = frozenset(
    f"torch.{name}"
    for name in _words("""
        empty zeros ones full arange tensor rand randn randint cat stack where empty_like zeros_like
        ones_like full_like empty_strided matmul mm clone
    """)
)
FRESH_BUILTINS = _words("list dict set int float bool str sum len")

# What a submission may import: the rest could keep things or hide what it does.
IMPORTABLE = _words("""
    torch triton aiter task math functools dataclasses typing collections itertools enum __future__
""")
HIDING = _words("""
    exec eval compile __import__ setattr delattr globals locals vars open input breakpoint
    __builtins__ __loader__ __spec__
""")
HARMLESS_DUNDERS = _words("__version__ __name__ __doc__ __init__ __post_init__ __call__")

# Parts of torch by dotted path: what they do cannot be seen, or outlives a call.
HIDDEN_PARTS = {
    "torch.compile": "may record a call and replay it",
    "torch.jit": "may record a call and replay it",
    "torch.multiprocessing": "starts processes",
    "torch.hub": "loads code",
    "torch.classes": "loads code",
    "torch.ops.load_library": "loads code",
    "torch.utils.cpp_extension": "has code in text, which cannot be looked into",
    "torch.save": "keeps tensors in a file",
    "torch.load": "takes tensors from a file",
    "torch.from_file": "shares memory unseen",
    "torch.frombuffer": "shares memory unseen",
    "torch.utils.dlpack": "shares memory unseen",
}

# Modules that torch and Triton import and that a submission must not reach through them.
BEHIND = _words("""
    sys os builtins importlib inspect ctypes threading gc weakref pickle subprocess io pathlib
    _C _dynamo _inductor
""")
REPLAYING = _words("replay capture_begin capture_end")

_PLAIN, _MAKER, _TENSOR = range(3)


def imported_makes(path: str) -> bool:
    """Whether what is imported so may return a tensor when it is called."""
    root, _, rest = path.partition(".")
    if root == "torch":
        return bool(rest) and rest.partition(".")[0] not in _TORCH_VALUES
    return root in _MAKING


def import_gives(path: str, given: int) -> int:
    """Return the kind of what an imported function returns for the worst of its arguments."""
    if path in _NO_TENSORS:
        return given
    if path.partition(".")[0] in _MAKING:
        return _TENSOR
    return given if given != _MAKER or path == "functools.partial" else _TENSOR


def builtin_gives(name: str, given: int) -> int:
    """Return the kind of what a builtin returns for the worst of its arguments."""
    if name in _ANSWERS or (name in _CALLING and given == _PLAIN):
        return _PLAIN
    return given if name in PASS_ON else _TENSOR
