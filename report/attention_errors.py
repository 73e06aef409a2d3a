"""What the programs that compare with float64 share. PyTorch is imported where it is used: who has none can say so."""
import math

SCORES_AT_ONCE = 1 << 27  # float64 scores held at a time: 1 GiB


def device_and_peers():
    """Where PyTorch computes, and which of its own float32 forms stand beside hw4."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    return ("cuda", ["efficient", "naive"]) if torch.cuda.is_available() else ("cpu", ["naive"])


def read_result(path, shape):
    """hw4's output file as a tensor."""
    import torch
    batches, tokens, dim = shape
    return torch.from_file(str(path), size=batches * tokens * dim, dtype=torch.float32).view(batches, tokens, dim)


def _attention_by(backend, q, k, v):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(getattr(SDPBackend, backend)):
        heads = (m.unsqueeze(1) for m in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(*heads).squeeze(1)


def efficient_attention(q, k, v):
    return _attention_by("EFFICIENT_ATTENTION", q, k, v)


def half_attention(q, k, v, backend, dtype):
    """On the operands rounded to the type."""
    import torch
    return _attention_by(backend, *(m.to(getattr(torch, dtype)) for m in (q, k, v)))


def naive_tf32_attention(q, k, v):
    import torch
    from torch_timing import naive_attention
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return naive_attention(q, k, v)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def larger(a, b):
    """Unlike max(), NaN whenever one of the two is."""
    return a if math.isnan(a) or b <= a else b
