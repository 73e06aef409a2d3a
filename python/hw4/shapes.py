"""What shapes, contracts, scales and lengths a call may have, in the same words for torch and numpy."""

from . import library

CONTRACTS = ("f32", "fixed", "fixed16", "bf16", "fp16")
WITH_BACKWARD = tuple(name for name in CONTRACTS if library.revision(name, library.BACKWARD) is not None)
# As src/contracts/list.cpp has them.
SCALES = {name: (2.0**-4, 1.0) if name.startswith("fixed") else (2.0**-100, 2.0**100) for name in CONTRACTS}
DEFAULT_CONTRACT = {library.FLOAT32: "f32", library.BF16: "bf16", library.FP16: "fp16"}


def sizes_of(q, k, v):
    """(batches, heads, kv_heads, queries, keys, dim) of shapes (B, H, N, d) or (B, N, d)."""
    q, k, v = tuple(q), tuple(k), tuple(v)
    if len(q) not in (3, 4) or len(k) != len(q) or len(v) != len(q):
        raise ValueError(f"q, k, v have shapes {q}, {k}, {v}: need (B, H, N, d) or (B, N, d), the same for all three")
    if k != v:
        raise ValueError(f"k has shape {k} and v {v}: need the same shape")
    if q[0] != k[0] or q[-1] != k[-1]:
        raise ValueError(f"q has shape {q} and k {k}: need the same B and d")
    heads, kv_heads = (q[1], k[1]) if len(q) == 4 else (1, 1)
    if min(q + k) < 1:
        raise ValueError(f"q has shape {q} and k {k}: need at least 1 everywhere")
    if heads % kv_heads != 0:
        raise ValueError(f"q has {heads} heads and k {kv_heads}: need a number that divides the heads of q")
    return q[0], heads, kv_heads, q[-2], k[-2], q[-1]


def paged_sizes(q, k, v, table):
    """sizes_of a call with pages: k and v are (pages, H_kv, page_keys, d), the table is (B, columns)."""
    k, v, table = tuple(k), tuple(v), tuple(table)
    if len(k) != 4 or len(v) != 4 or len(table) != 2:
        raise ValueError(f"k, v, pages have shapes {k}, {v}, {table}: need (pages, H_kv, page_keys, d) and (B, columns)")
    keys = table[1] * k[2]
    return sizes_of(q, (table[0], k[1], keys, k[3]), (table[0], v[1], table[1] * v[2], v[3]))


def set_pages(call, pointer, columns, k):
    """The fields of a library.Call or AppendCall; k is the shape of the pages."""
    call.pages, call.page_columns, call.page_count, call.page_keys = pointer, columns, k[0], k[2]


def append_sizes(k, v, k_cache, v_cache, table, rope, q):
    """(batches, heads of k, tokens, room, dim) of the shapes of an append; table, rope and q may be None."""
    k, v, k_cache, v_cache = tuple(k), tuple(v), tuple(k_cache), tuple(v_cache)
    if len(k) != 4 or k != v or min(k) < 1:
        raise ValueError(f"k and v have shapes {k} and {v}: need (B, H_kv, n, d), the same for both")
    if len(k_cache) != 4 or k_cache != v_cache or k_cache[1::2] != k[1::2] or (table is None and k_cache[0] != k[0]):
        raise ValueError(f"k has shape {k}, the caches {k_cache} and {v_cache}: need " +
                         (f"({k[0]}, {k[1]}, capacity" if table is None else f"(pages, {k[1]}, page_keys") + f", {k[3]})")
    if table is not None and (len(table) != 2 or table[0] != k[0]):
        raise ValueError(f"pages have shape {tuple(table)}: need ({k[0]}, columns)")
    room = k_cache[2] if table is None else table[1] * k_cache[2]
    if rope is not None:
        if len(rope) != 3 or rope[1] * 2 != k[3] or rope[2] != 2:
            raise ValueError(f"rope has shape {tuple(rope)}: need (positions, {k[3]} / 2, 2), as hw4.rope_table makes it")
        room = min(room, rope[0])
    if q is not None and (rope is None or len(q) != 4 or q[0] != k[0] or tuple(q[2:]) != k[2:]):
        raise ValueError(f"q has shape {tuple(q)}: need ({k[0]}, H, {k[2]}, {k[3]}), and rope")
    return k[0], k[1], k[2], room, k[3]


def new_append(element, place, sizes, rope, heads, interleaved):
    call = library.AppendCall(size=library.ctypes.sizeof(library.AppendCall), element=element, place=place,
                              rope_layout=int(interleaved), heads=heads)
    call.batches, call.kv_heads, call.tokens, call.keys, call.dim = sizes
    call.rope_positions = 0 if rope is None else rope[0]
    return call


def contract_for(contract, element):
    if contract is None:
        return DEFAULT_CONTRACT[element]
    if contract not in CONTRACTS:
        raise ValueError(f"contract {contract!r}: need one of {', '.join(CONTRACTS)}")
    return contract


def scale_for(scale):
    """As the library takes it."""
    if scale is None:
        return 0.0
    if not scale > 0:
        raise ValueError(f"scale is {scale}: need a number above 0, or None for 1/sqrt(d)")
    return float(scale)


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
