"""libhw4 through ctypes: the structs of include/hw4.h, and one function per call."""

import ctypes
import os
from pathlib import Path

FORWARD, BACKWARD = 0, 1
FLOAT32, BF16, FP16 = 0, 1, 2
HOST, DEVICE = 0, 1
ABI = 0


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch", ctypes.c_int64), ("head", ctypes.c_int64), ("row", ctypes.c_int64)]


PAGES = [("pages", ctypes.c_void_p)] + [(name, ctypes.c_int64) for name in ("page_keys", "page_columns", "page_count")]


class Call(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t), ("contract", ctypes.c_char_p), ("kernel", ctypes.c_char_p)] +
                [(name, ctypes.c_int32) for name in ("operation", "element", "mask", "place")] +
                [(name, ctypes.c_int64) for name in ("batches", "heads", "kv_heads", "queries", "keys", "dim",
                                                  "value_dim")] +
                [("scale", ctypes.c_double), ("window", ctypes.c_int64), ("lengths", ctypes.c_void_p)] + PAGES +
                [(name, Tensor) for name in ("q", "k", "v", "o", "d_o", "dq", "dk", "dv")] +
                [("lse", ctypes.c_void_p), ("statistics", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                 ("workspace_bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("threads", ctypes.c_int32)])


class AppendCall(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t)] + [(name, ctypes.c_int32) for name in ("element", "place", "rope_layout")] +
                [(name, ctypes.c_int64) for name in ("batches", "kv_heads", "tokens", "keys", "dim", "value_dim")] +
                [("lengths", ctypes.c_void_p)] + [(name, Tensor) for name in ("k", "v", "k_cache", "v_cache")] + PAGES +
                [("rope", ctypes.c_void_p), ("rope_positions", ctypes.c_int64), ("heads", ctypes.c_int64),
                 ("q", Tensor), ("q_out", Tensor), ("stream", ctypes.c_void_p)])


class Needs(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("workspace_bytes", ctypes.c_size_t), ("most_workspace", ctypes.c_size_t),
                ("check_bytes", ctypes.c_size_t), ("kernel", ctypes.c_char_p)]


class Error(ValueError):
    """An error of the library, with its code (64 wrong call, 65 the problem or its values, 69 no GPU, 70 internal, 71
    out of memory)."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def load(path):
    library = ctypes.CDLL(str(path))
    for name in ("hw4_plan", "hw4_run", "hw4_check", "hw4_append", "hw4_rope_table", "hw4_gpu", "hw4_abi"):
        getattr(library, name).restype = ctypes.c_int
    library.hw4_append.argtypes = [ctypes.POINTER(AppendCall)]
    library.hw4_rope_table.argtypes = [ctypes.c_double, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    library.hw4_plan.argtypes = [ctypes.POINTER(Call), ctypes.POINTER(Needs)]
    library.hw4_run.argtypes = library.hw4_check.argtypes = [ctypes.POINTER(Call)]
    for name in ("hw4_error", "hw4_version", "hw4_revision"):
        getattr(library, name).restype = ctypes.c_char_p
    library.hw4_revision.argtypes = [ctypes.c_char_p, ctypes.c_int32]
    if library.hw4_abi() != ABI:
        raise ImportError(f"{path} has ABI {library.hw4_abi()}, this package needs {ABI}")
    return library


def built():
    """The library in the package; in the source tree, where the package has none, the one that make has built."""
    inside = Path(__file__).with_name("libhw4.so")
    return inside if inside.exists() else inside.parents[2] / "build" / "libhw4.so"


LIBRARY = load(os.environ.get("HW4_LIBRARY") or built())


def require(code):
    if code != 0:
        raise Error(code, LIBRARY.hw4_error().decode(errors="replace"))


def new_call(contract, operation, element, causal, place, sizes, scale=0.0, window=0):
    """`sizes`: batches, heads, kv_heads, queries, keys, dim, maybe value_dim. Scale 0: 1/sqrt(dim); window 0: none."""
    call = Call(size=ctypes.sizeof(Call), contract=contract.encode(), operation=operation, element=element,
                mask=int(causal), place=place, scale=scale, window=window)
    for name, size in zip(("batches", "heads", "kv_heads", "queries", "keys", "dim", "value_dim"), sizes):
        setattr(call, name, size)
    return call


def plan(call):
    needs = Needs(size=ctypes.sizeof(Needs))
    require(LIBRARY.hw4_plan(call, needs))
    return needs


def run(call):
    require(LIBRARY.hw4_run(call))


def check(call):
    require(LIBRARY.hw4_check(call))


def append(call):
    require(LIBRARY.hw4_append(call))


def rope_table(theta, positions, dim, pointer):
    require(LIBRARY.hw4_rope_table(theta, positions, dim, pointer))


def revision(contract, operation=FORWARD):
    """"f32.forward/1": the same revision means the same bytes. None where the contract lacks the operation."""
    text = LIBRARY.hw4_revision(contract.encode(), operation)
    return None if text is None else text.decode()


def version():
    return LIBRARY.hw4_version().decode()
