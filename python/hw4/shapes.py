"""The shapes, contracts, scales, windows and lengths of a valid call, with the same messages for torch and numpy."""

import numbers

from . import library

CONTRACTS = ("f32", "fixed", "fixed16", "bf16", "fp16")
WITH_BACKWARD = tuple(name for name in CONTRACTS if library.revision(name, library.BACKWARD) is not None)
# As in src/contracts/list.cpp.
SCALES = {name: (2.0**-4, 1.0) if name.startswith("fixed") else (2.0**-100, 2.0**100) for name in CONTRACTS}
PAGE_KEYS = (16, 32, 64, 128, 256)  # as in src/library/call.cpp
DEFAULT_CONTRACT = {library.FLOAT32: "f32", library.BF16: "bf16", library.FP16: "fp16"}


def sizes_of(q, k, v):
    """(batches, heads, kv_heads, queries, keys, dim, value_dim) of shapes (B, H, N, d) or (B, N, d)."""
    q, k, v = tuple(q), tuple(k), tuple(v)
    if len(q) not in (3, 4) or len(k) != len(q) or len(v) != len(q):
        raise ValueError(f"q, k, v have shapes {q}, {k}, {v}: need (B, H, N, d) or (B, N, d), the same for all three")
    if k[:-1] != v[:-1]:
        raise ValueError(f"k has shape {k} and v {v}: need the same shape, but for the last number")
    if q[0] != k[0] or q[-1] != k[-1]:
        raise ValueError(f"q has shape {q} and k {k}: need the same B and d")
    heads, kv_heads = (q[1], k[1]) if len(q) == 4 else (1, 1)
    if min(q + k + v) < 1:
        raise ValueError(f"q, k, v have shapes {q}, {k}, {v}: need at least 1 everywhere")
    if heads % kv_heads != 0:
        raise ValueError(f"q has {heads} heads and k {kv_heads}: need a number that divides the heads of q")
    return q[0], heads, kv_heads, q[-2], k[-2], q[-1], v[-1]


def output_shape(q, v):
    return (*tuple(q)[:-1], v[-1])


def paged_sizes(q, k, v, table):
    """sizes_of for a call with pages: k and v are (pages, H_kv, page_keys, d), the table is (B, columns)."""
    k, v, table = tuple(k), tuple(v), tuple(table)
    if len(k) != 4 or len(v) != 4 or len(table) != 2:
        raise ValueError(f"k, v, pages have shapes {k}, {v}, {table}: need (pages, H_kv, page_keys, d) and (B, columns)")
    keys = table[1] * k[2]
    return sizes_of(q, (table[0], k[1], keys, k[3]), (table[0], v[1], table[1] * v[2], v[3]))


def set_pages(call, pointer, columns, k):
    """Fills in the fields of a library.Call or AppendCall; k is the shape of the pages."""
    call.pages, call.page_columns, call.page_count, call.page_keys = pointer, columns, k[0], k[2]


def append_room(k, v, k_cache, v_cache, pages, rope, q):
    """The most tokens of a sequence, after checking the shapes of tensors or arrays. The last three may be None."""
    rows, values, cache, v_cache = (tuple(tensor.shape) for tensor in (k, v, k_cache, v_cache))
    if len(rows) != 4 or values[:-1] != rows[:-1] or min(rows + values) < 1:
        raise ValueError(f"k and v have shapes {rows} and {values}: need (B, H_kv, n, d), the same but for the last number")
    batches, heads, tokens, dim = rows
    if (len(cache) != 4 or v_cache[:-1] != cache[:-1] or (cache[1], cache[3], v_cache[3]) != (heads, dim, values[3]) or
            (pages is None and cache[0] != batches)):
        wanted = f"({batches}, {heads}, capacity" if pages is None else f"(pages, {heads}, page_keys"
        raise ValueError(f"k and v have shapes {rows} and {values}, the caches {cache} and {v_cache}: need "
                         f"{wanted}, {dim}) and {wanted}, {values[3]})")
    if pages is not None and (len(pages.shape) != 2 or pages.shape[0] != batches):
        raise ValueError(f"pages have shape {tuple(pages.shape)}: need ({batches}, columns)")
    room = cache[2] if pages is None else pages.shape[1] * cache[2]
    if rope is not None and (len(rope.shape) != 3 or rope.shape[1] * 2 != dim or rope.shape[2] != 2):
        raise ValueError(f"rope has shape {tuple(rope.shape)}: need (positions, {dim} / 2, 2), as hw4.rope_table makes it")
    if q is not None and (rope is None or len(q.shape) != 4 or q.shape[0] != batches or tuple(q.shape[2:]) != rows[2:]):
        raise ValueError(f"q has shape {tuple(q.shape)}: need ({batches}, H, {tokens}, {dim}), and rope")
    return room if rope is None else min(room, rope.shape[0])


def append_call(element, place, room, pointer, strides, tensors, lengths, pages, rope, interleaved):
    """`tensors` are k, v, k_cache, v_cache and, where q is rotated, q and its output; `pointer` and `strides`, in
    elements, are functions of a tensor."""
    call = library.AppendCall(size=library.ctypes.sizeof(library.AppendCall), element=element, place=place, keys=room,
                              rope_layout=int(interleaved), lengths=pointer(lengths))
    call.batches, call.kv_heads, call.tokens, call.dim = tensors[0].shape
    call.value_dim = tensors[1].shape[3]
    for name, tensor in zip(("k", "v", "k_cache", "v_cache", "q", "q_out"), tensors):
        set_tensor(getattr(call, name), pointer(tensor), strides(tensor))
    if len(tensors) > 4:
        call.heads = tensors[4].shape[1]
    if rope is not None:
        call.rope, call.rope_positions = pointer(rope), rope.shape[0]
    if pages is not None:
        set_pages(call, pointer(pages), pages.shape[1], tensors[2].shape)
    return call


def contract_for(contract, element):
    if contract is None:
        return DEFAULT_CONTRACT[element]
    if contract not in CONTRACTS:
        raise ValueError(f"contract {contract!r}: need one of {', '.join(CONTRACTS)}")
    return contract


def scale_for(scale):
    if scale is None:
        return 0.0
    if not scale > 0:
        raise ValueError(f"scale is {scale}: need a number above 0, or None for 1/sqrt(d)")
    return float(scale)


def window_for(window, causal):
    if window is None:
        return 0
    if isinstance(window, bool) or not isinstance(window, numbers.Integral) or not 1 <= window < 2**63:
        raise ValueError(f"window is {window!r}: need a whole number from 1, or None for no window")
    if not causal:
        raise ValueError("a window goes with causal=True: it has the last of the keys that the mask leaves")
    return int(window)


def require_lengths(shape, values, batches, capacity, least=1):
    """`values` are the lengths, or None where they are on a GPU."""
    if tuple(shape) != (batches,):
        raise ValueError(f"lengths have shape {tuple(shape)}: need ({batches},), one for each sequence")
    for batch, length in enumerate(values or ()):
        if not least <= length <= capacity:
            raise library.Error(65, f"lengths: batch {batch} has {length} keys, need {least} to {capacity}")


def require_backward(contract):
    if contract not in WITH_BACKWARD:
        raise ValueError(f"contract {contract} has no backward: call it under torch.no_grad(), or take f32, bf16 or fp16")


def set_tensor(place, pointer, strides):
    """Fills in a library.Tensor from strides in elements of (B, N, d) or (B, H, N, d)."""
    place.data = pointer
    place.batch, place.head, place.row = strides[0], (strides[1] if len(strides) == 4 else 0), strides[-2]
