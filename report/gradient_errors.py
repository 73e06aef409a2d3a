"""Gradients by PyTorch: in float64, by its memory-efficient kernel, and on the CPU by autograd. PyTorch is imported where
it is used: who has none can say so."""
import math
import time

GRADIENTS = ("dQ", "dK", "dV")
HEADER_INTS = 16
MOST_SCORE_BYTES = 2 << 30


class Case:
    """A case of backward under the header of version 2."""

    def __init__(self, path):
        import torch
        raw = torch.from_file(str(path), size=path.stat().st_size // 4, dtype=torch.float32)
        header = raw[:HEADER_INTS].view(torch.int32).tolist()
        self.causal = header[2] == 1
        self.batches, self.heads, self.kv_heads, self.queries, self.keys, self.dim = header[4:10]
        self.inputs = raw[HEADER_INTS:].view(self.batches, -1)

    def shapes(self, names):
        return [(self.heads, self.queries, self.dim) if name in ("Q", "dO", "dQ")
                else (self.kv_heads, self.keys, self.dim) for name in names]

    def split(self, flat, names):
        """Operands of batches, [batch, head, row, column] each."""
        shapes = self.shapes(names)
        parts = flat.split([math.prod(shape) for shape in shapes], dim=1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes)]

    def batches_at_once(self):
        """So many that all their scores in float64 take no more than that."""
        return max(1, MOST_SCORE_BYTES // (8 * self.heads * self.queries * self.keys))

    def hidden(self, device):
        """What the mask hides, [query, key]; None without one."""
        import torch
        if not self.causal:
            return None
        rows = torch.arange(self.queries, device=device).unsqueeze(1) + self.keys - self.queries
        return torch.arange(self.keys, device=device).unsqueeze(0) > rows


def exact_gradients(case, q, k, v, dout, hidden):
    """In the precision of the operands, head by head; heads that share keys add up."""
    import torch
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    group, root = case.heads // case.kv_heads, math.sqrt(case.dim)
    for head in range(case.heads):
        shared = head // group
        scores = q[:, head] @ k[:, shared].mT / root
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        p = scores.softmax(-1).nan_to_num(0.0)  # of rows that see no key
        dp = dout[:, head] @ v[:, shared].mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        dv[:, shared] += p.mT @ dout[:, head]
        dk[:, shared] += ds.mT @ q[:, head] / root
        dq[:, head] = ds @ k[:, shared] / root
    return dq, dk, dv


def efficient_gradients(case, q, k, v, dout):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if case.causal and case.queries != case.keys:
        raise RuntimeError("PyTorch's causal mask begins at the other corner")
    if case.dim % 4 != 0:
        raise RuntimeError("the memory-efficient kernel needs d to be a multiple of 4")
    group = case.heads // case.kv_heads
    leaves = [m.detach().clone().requires_grad_() for m in (q, k, v)]
    heads = [leaves[0], *(m.repeat_interleave(group, 1) for m in leaves[1:])]
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=case.causal)
        return torch.autograd.grad(out, leaves, dout)


def largest_errors(path, output):
    """{"hw4": {gradient: error}, "efficient": likewise or None with "why"}, on the GPU where there is one."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    case = Case(path)
    floats = output.stat().st_size // 4
    ours = torch.from_file(str(output), size=floats, dtype=torch.float32).view(case.batches, -1)
    hidden = case.hidden(device)
    worst = {"hw4": dict.fromkeys(GRADIENTS, 0.0), "efficient": dict.fromkeys(GRADIENTS, 0.0), "why": None}

    def note(who, found, exact):
        for name, a, b in zip(GRADIENTS, found, exact):
            error = (a.double() - b).abs().max().item()
            worst[who][name] = error if math.isnan(error) else max(worst[who][name], error)

    at_once = case.batches_at_once()
    for first in range(0, case.batches, at_once):
        some = slice(first, first + at_once)
        operands = [m.to(device) for m in case.split(case.inputs[some], ("Q", "K", "V", "dO"))]
        exact = exact_gradients(case, *(m.double() for m in operands), hidden)
        note("hw4", [m.to(device) for m in case.split(ours[some], GRADIENTS)], exact)
        if worst["efficient"] is None:
            continue
        try:
            note("efficient", efficient_gradients(case, *operands), exact)
        except RuntimeError as error:  # a refusal
            worst["efficient"], worst["why"] = None, str(error).splitlines()[0]
    return worst


def cpu_seconds(path, threads, runs):
    """{"sdpa": [seconds], "naive": likewise} of forward and backward, and of backward alone under "..._backward"."""
    import torch
    from torch_timing import naive_attention
    torch.set_num_threads(threads)
    case = Case(path)
    q, k, v, dout = (m.clone().unsqueeze(1) for m in (
        case.inputs.view(case.batches, 4, case.queries, case.dim)[:, which] for which in range(4)))
    forms = {"sdpa": torch.nn.functional.scaled_dot_product_attention, "naive": naive_attention}
    found = {}
    for name, attend in forms.items():
        leaves = [m.clone().requires_grad_() for m in (q, k, v)]
        found[name], found[f"{name}_backward"] = [], []
        for run in range(runs + 1):  # the first loads and allocates
            start = time.perf_counter()
            out = attend(*leaves)
            middle = time.perf_counter()
            torch.autograd.grad(out, leaves, dout)
            end = time.perf_counter()
            if run > 0:
                found[name].append(end - start)
                found[f"{name}_backward"].append(end - middle)
    return found
