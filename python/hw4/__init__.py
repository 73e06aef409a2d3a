"""Attention with defined bytes: the same on every GPU and CPU under the contracts f32, fixed and fixed16.

    o = hw4.attention(q, k, v, causal=True)               # torch tensors on the CPU or a GPU, or numpy arrays
    o, lse = hw4.attention(q, k, v, return_lse=True)
    o = hw4.decode(q, k_cache, v_cache, lengths)          # each sequence has its own length; hw4.Cache keeps them
    hw4.append(k, v, k_cache, v_cache, lengths, rope=hw4.rope_table(1e4, positions, d))
    with hw4.as_sdpa("f32"): model(x)                     # F.scaled_dot_product_attention is hw4's inside
    hw4.register_transformers()                           # attn_implementation="hw4"
"""

import sys

from .library import Error, revision, version

__all__ = ["Cache", "Error", "FlashAttention", "append", "as_sdpa", "attention", "decode", "register_transformers",
           "revision", "rope_table", "version"]


def attention(q, k, v, causal=False, contract=None, return_lse=False, check=None, scale=None, window=None,
              lengths=None, key_lengths=None):
    """softmax(scale * q k^T) v of tensors or NumPy arrays. scale None is 1/sqrt(d); fixed and fixed16 take 1/16 to 1.

    q is (B, H, N, d) or (B, N, d); k and v may have fewer heads and another N. Under f32, fixed and fixed16 v may have
    another number of columns, which o then has too; such a call takes as long as one with the larger number everywhere.
    causal is aligned bottom-right: the last query sees every key. window, with causal and under f32 alone: a query sees
    the last `window` of its keys, its own included; without gradients. contract: f32, fixed, fixed16, bf16, fp16; None
    means f32 for float32 and the tensors' own type for bf16 and fp16. return_lse: also returns the natural logsumexp of
    each row of scores, float32, (B, H, N) or (B, N); it has no gradient. There are no second derivatives.
    check: whether to check that values are finite and within the contract's range; None checks on the CPU alone,
    because the GPU's check waits for the GPU.
    lengths: q, k, v are (rows, heads, d), packed sequences of these lengths; key_lengths, where their numbers of keys
    differ. Each sequence has the bytes that it has alone. Neighbours of the same lengths are computed together. Both
    are read on the host."""
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(q, torch.Tensor)
    if is_tensor:
        from .torch_op import attention as of_batches
    else:
        from .arrays import attention as of_batches

    def attend(*operands):
        return of_batches(*operands, causal, contract, return_lse, check, scale, window=window)

    if lengths is None:
        if key_lengths is not None:
            raise ValueError("key_lengths are given without lengths: need lengths too")
        return attend(q, k, v)
    from . import packed
    if is_tensor:
        return packed.attention(q, k, v, lengths, key_lengths, attend, torch.cat)
    import numpy
    return packed.attention(q, k, v, lengths, key_lengths, attend, numpy.concatenate)


def decode(q, k_cache, v_cache, lengths, pages=None, causal=True, scale=None, contract=None, return_lse=False,
           check=None, window=None):
    """Attention of n new tokens with caches of keys and values that already contain those tokens'. Without gradients.

    q is (B, H, n, d), the caches are (B, H_kv, capacity, d); lengths (B), a tensor on the CPU or q's device, an array
    or a list of integers, is the number of tokens of each sequence, including the n new ones. Rows beyond them in the
    caches do not matter. Under f32, the default for every dtype, the bytes are those of attention over the
    whole sequence, for every n, batch and capacity. bf16 and fp16, for caches of that dtype, are faster; their bytes do
    not depend on n, the batch or the capacity either, but on a GPU they are not those of attention with many queries.
    fixed and fixed16 are refused.
    pages (B, columns), integers as lengths: the caches are (pages, H_kv, page_keys, d), page_keys 16, 32, 64, 128 or
    256, and token j of sequence b is row j % page_keys of page pages[b][j // page_keys]. On a GPU, v has as many
    columns as k there.
    window is as in attention, and counts from the end of each sequence.
    Lengths on the CPU must be 1 to capacity. check is as in attention; on a GPU it also checks lengths and pages."""
    contract = contract or "f32"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        from . import torch_op
        return torch_op.decode(q, k_cache, v_cache, lengths, pages, causal, scale, contract, return_lse, check, window)
    from . import arrays
    return arrays.attention(q, k_cache, v_cache, causal, contract, return_lse, check, scale, lengths, window, pages)


def append(k, v, k_cache, v_cache, lengths, pages=None, rope=None, q=None, interleaved=False):
    """Writes n new rows of each sequence, k and v (B, H_kv, n, d), into the caches for decode, of the same dtype.
    v and its cache may have another number of columns.

    lengths are those for decode, including the new tokens, whose rows become rows lengths[b] - n to lengths[b] - 1 of
    sequence b. rope is from hw4.rope_table: k is rotated at these positions, and so is q (B, H, n, d), whose rotated
    rows are returned. interleaved rotates columns 2i and 2i + 1 together instead of i and i + d/2. Bytes are the same
    on the CPU and a GPU. On a GPU the call does not wait and a CUDA graph may capture it; rows without a place in the
    caches are left out on a GPU and refused on the CPU. Without gradients."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(k, torch.Tensor):
        from . import torch_op
        return torch_op.append(k, v, k_cache, v_cache, lengths, pages, rope, q, interleaved)
    from . import arrays
    return arrays.append(k, v, k_cache, v_cache, lengths, pages, rope, q, interleaved)


def rope_table(theta, positions, dim, device=None):
    """(positions, dim / 2, 2) float32: cosine and sine of position * theta^(-2i / dim), the same bytes on every
    machine. A torch tensor where `device` is given, otherwise a numpy array."""
    import ctypes
    from . import library
    table = (ctypes.c_float * max(0, positions * dim))()
    library.rope_table(theta, positions, dim, table)
    if device is None:
        import numpy
        return numpy.frombuffer(table, numpy.float32).reshape(positions, dim // 2, 2)
    import torch
    return torch.frombuffer(table, dtype=torch.float32).reshape(positions, dim // 2, 2).to(device)


def __getattr__(name):
    if name == "Cache":
        from .cache import Cache
        return Cache
    if name == "FlashAttention":
        from .torch_op import FlashAttention
        return FlashAttention
    if name in ("as_sdpa", "register_transformers"):
        from . import replace
        return getattr(replace, name)
    raise AttributeError(f"module 'hw4' has no attribute {name!r}")
