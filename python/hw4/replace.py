"""hw4 instead of other attention: F.scaled_dot_product_attention, and an implementation for transformers."""

import contextlib
import warnings

import torch
import torch.nn.functional as F

from . import library, shapes, torch_op

MOST_COLUMNS = 256  # limit of the GPU kernels, and of fixed and fixed16
HALF = {"bf16": "bfloat16", "fp16": "float16"}
CHANGES = ("softcap", "s_aux", "head_mask", "position_bias")  # options of transformers that hw4 lacks


class Replaced:
    """The value of as_sdpa(): the number of hw4's calls, and the reasons for PyTorch's."""

    def __init__(self):
        self.ours = 0
        self.others = {}


def _why_not(q, k, v, attn_mask, dropout_p, is_causal, scale, contract):
    """The reason why a call goes to PyTorch; empty where hw4 computes it."""
    if attn_mask is not None:
        return "attn_mask"
    if dropout_p > 0:
        return "dropout_p"
    if q.dtype not in torch_op.ELEMENTS or k.dtype != q.dtype or v.dtype != q.dtype:
        return f"dtype {q.dtype}"
    if q.device.type not in ("cpu", "cuda"):
        return f"tensors on {q.device.type}"
    try:
        shapes.sizes_of(q.shape, k.shape, v.shape)
    except ValueError:
        return "shapes that hw4 does not take"
    contract = shapes.contract_for(contract, torch_op.ELEMENTS[q.dtype])
    least, most = shapes.SCALES[contract]
    if scale is not None and not least <= scale <= most:
        return "scale"
    if contract in ("bf16", "fp16") and q.dtype not in (torch.float32, getattr(torch, HALF[contract])):
        return f"{q.dtype} under the contract {contract}"
    if q.shape[-1] != v.shape[-1] and contract in HALF:
        return f"another d_v than d under the contract {contract}"
    if max(q.shape[-1], v.shape[-1]) > MOST_COLUMNS and (q.is_cuda or contract in ("fixed", "fixed16")):
        return f"more than {MOST_COLUMNS} columns"
    if is_causal and q.shape[-2] > k.shape[-2]:
        return "is_causal with more queries than keys"
    trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if trains and contract not in shapes.WITH_BACKWARD:
        return "gradients, which the contract lacks"
    return ""


@contextlib.contextmanager
def as_sdpa(contract=None):
    """Within the context, torch.nn.functional.scaled_dot_product_attention is hw4's. Calls that hw4 cannot compute (a
    mask, dropout, a scale that the contract lacks) go to PyTorch: its value counts them, with a warning per reason."""
    if contract is not None:
        shapes.contract_for(contract, library.FLOAT32)  # refuses an unknown name here, not inside the model
    original = F.scaled_dot_product_attention
    replaced = Replaced()

    def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        why_not = _why_not(query, key, value, attn_mask, dropout_p, is_causal, scale, contract)
        if not why_not and query.dim() == 4 and query.shape[1] != key.shape[1] and not enable_gqa:
            why_not = "fewer heads of keys without enable_gqa"
        if why_not:
            if why_not not in replaced.others:
                warnings.warn(f"hw4.as_sdpa: PyTorch computes calls with {why_not}", stacklevel=2)
            replaced.others[why_not] = replaced.others.get(why_not, 0) + 1
            return original(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal,
                            scale=scale, enable_gqa=enable_gqa)
        replaced.ours += 1
        if is_causal and query.shape[-2] < key.shape[-2]:
            # PyTorch aligns top-left: no query sees a key beyond the last query's position.
            key, value = key[..., : query.shape[-2], :], value[..., : query.shape[-2], :]
        return torch_op.attention(query, key, value, causal=is_causal, contract=contract, scale=scale)

    F.scaled_dot_product_attention = sdpa
    try:
        yield replaced
    finally:
        F.scaled_dot_product_attention = original


_said = set()


def _for_transformers(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, **more):
    for name in CHANGES:
        if more.get(name) is not None:
            raise ValueError(f"hw4 does not compute attention with {name}: take another attn_implementation")
    why_not = _why_not(query, key, value, attention_mask, dropout, False, scaling, None)
    if why_not:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
        if why_not not in _said:
            _said.add(why_not)
            warnings.warn(f"hw4: PyTorch computes attention with {why_not}", stacklevel=2)
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, scaling=scaling,
                                               dropout=dropout, is_causal=is_causal, **more)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    o = torch_op.attention(query, key, value, causal=bool(causal), scale=scaling)
    return o.transpose(1, 2).contiguous(), None


def register_transformers(name="hw4"):
    """Enables AutoModel.from_pretrained(..., attn_implementation="hw4")."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    AttentionInterface.register(name, _for_transformers)
    # Masks as for SDPA, which omits the plain causal mask.
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
