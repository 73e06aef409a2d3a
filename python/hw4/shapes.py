"""What shapes, contracts, scales, windows and lengths a call may have, in the same words for torch and numpy."""

import numbers

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


def window_for(window, causal):
    """As the library takes it."""
    if window is None:
        return 0
    if isinstance(window, bool) or not isinstance(window, numbers.Integral) or not 1 <= window < 2**63:
        raise ValueError(f"window is {window!r}: need a whole number from 1, or None for no window")
    if not causal:
        raise ValueError("a window goes with causal=True: it has the last of the keys that the mask leaves")
    return int(window)


def require_lengths(shape, values, batches, capacity):
    """`values` are the lengths, or None where they are on a GPU."""
    if tuple(shape) != (batches,):
        raise ValueError(f"lengths have shape {tuple(shape)}: need ({batches},), one for each sequence")
    for batch, length in enumerate(values or ()):
        if not 1 <= length <= capacity:
            raise library.Error(65, f"lengths: batch {batch} has {length} keys, need 1 to {capacity}")


def require_backward(contract):
    if contract not in WITH_BACKWARD:
        raise ValueError(f"contract {contract} has no backward: call it under torch.no_grad(), or take f32, bf16 or fp16")


def set_tensor(place, pointer, strides):
    """Fills in a library.Tensor from strides in elements of (B, N, d) or (B, H, N, d)."""
    place.data = pointer
    place.batch, place.head, place.row = strides[0], (strides[1] if len(strides) == 4 else 0), strides[-2]
