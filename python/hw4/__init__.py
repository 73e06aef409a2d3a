"""Attention whose bytes are defined: the same on every GPU and CPU under the contracts f32, fixed and fixed16.

    o = hw4.attention(q, k, v, causal=True)               # torch tensors on the CPU or a GPU, or numpy arrays
    o, lse = hw4.attention(q, k, v, return_lse=True)
    with hw4.as_sdpa("f32"): model(x)                     # F.scaled_dot_product_attention is hw4's inside
    hw4.register_transformers()                           # attn_implementation="hw4"
"""

import sys

from .library import Error, revision, version

__all__ = ["Error", "FlashAttention", "as_sdpa", "attention", "register_transformers", "revision", "version"]


def attention(q, k, v, causal=False, contract=None, return_lse=False, check=None):
    """softmax(q k^T / sqrt(d)) v.

    q is (B, H, N, d) or (B, N, d); k and v may have fewer heads and another N. causal is aligned bottom-right: the last
    query sees every key. contract: f32, fixed, fixed16, bf16, fp16; None is f32 for float32 and the tensors' own type
    for bf16 and fp16. return_lse: the natural logsumexp of each row of scores too, float32, (B, H, N) or (B, N); it has
    no gradient. There are no second derivatives.
    check: whether values must be finite and within the contract's range; None checks on the CPU alone, since the GPU's
    check waits for the GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        from . import torch_op
        return torch_op.attention(q, k, v, causal, contract, return_lse, check)
    from . import arrays
    return arrays.attention(q, k, v, causal, contract, return_lse, check)


def __getattr__(name):
    if name == "FlashAttention":
        from .torch_op import FlashAttention
        return FlashAttention
    if name in ("as_sdpa", "register_transformers"):
        from . import replace
        return getattr(replace, name)
    raise AttributeError(f"module 'hw4' has no attribute {name!r}")
