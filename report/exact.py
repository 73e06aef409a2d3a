"""Errors against float64, computed by PyTorch: of attention on values of several distributions, and of its gradients.

PyTorch is imported where it is used, so that a program without it can say so.
"""
from __future__ import annotations

import math
import time

from torch_cell import DTYPES, attention, backend_of, naive_attention

SCORES_AT_ONCE = 1 << 27  # float64 scores held at a time: 1 GiB
GRADIENTS = ("dQ", "dK", "dV")
HEADER_INTS = 16  # of version 2

# ---- Values

OUTLIERS, OUTLIER_FACTOR = 0.002, 20  # share of the entries
MOST_BITS = 20  # of the powers of two


def uniform(torch, shape, generator):
    return torch.rand(shape, generator=generator) * 6 - 3


def normal(torch, shape, generator):
    return torch.randn(shape, generator=generator)


def student(torch, shape, generator):
    """Two degrees of freedom: a normal number over the root of an exponential one of mean 1."""
    below = -torch.log1p(-torch.rand(shape, generator=generator))  # rand() is below 1
    return torch.randn(shape, generator=generator) / below.clamp(min=2.0 ** -24).sqrt()


def outliers(torch, shape, generator):
    few = torch.rand(shape, generator=generator) < OUTLIERS
    return torch.randn(shape, generator=generator) * torch.where(few, float(OUTLIER_FACTOR), 1.0)


def powers(torch, shape, generator):
    exponents = torch.randint(-MOST_BITS, MOST_BITS + 1, shape, generator=generator)
    signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    return torch.ldexp(signs.float(), exponents)


def sink(torch, shape, generator):
    """The first key has a score of about the root of d with every query, the others of about 0."""
    values = torch.randn(shape, generator=generator)
    values[:, 0] += 1
    values[:, 1, 0] = 1
    return values


def offset(torch, shape, generator):
    values = torch.randn(shape, generator=generator)
    values[:, 1, :, 0] += 8
    values[:, 1, :, shape[-1] // 2] -= 10
    return values


DISTRIBUTIONS = {
    "uniform": (uniform, "uniform in ±3"),
    "normal": (normal, "standard normal"),
    "student": (student, "Student's t with two degrees of freedom"),
    "outliers": (outliers, f"normal, {100 * OUTLIERS:g} % of the entries times {OUTLIER_FACTOR}"),
    "powers": (powers, f"±2^k, k uniform from -{MOST_BITS} to {MOST_BITS}"),
    "sink": (sink, "normal; every query prefers the first key"),
    "offset": (offset, "normal; two columns of K about 8 and -10"),
}


def drawn(kind, shape, seed):
    """Q, K and V of every batch, (B, 3, N, d), the same every time."""
    import torch
    batches, tokens, dim = shape
    return DISTRIBUTIONS[kind][0](torch, (batches, 3, tokens, dim), torch.Generator().manual_seed(seed))


# ---- Files


def floats_of(path):
    import torch
    return torch.from_file(str(path), size=path.stat().st_size // 4, dtype=torch.float32)


def write_case(path, values):
    """int32 B, N, d, then the values as they lie."""
    import torch
    batches, _, tokens, dim = values.shape
    file = torch.from_file(str(path), shared=True, size=3 + values.numel(), dtype=torch.float32)
    file[:3].view(torch.int32).copy_(torch.tensor([batches, tokens, dim]))
    file[3:].copy_(values.flatten())


def read_case(path):
    """(B, 3, N, d)"""
    import torch
    raw = floats_of(path)
    batches, tokens, dim = raw[:3].view(torch.int32).tolist()
    return raw[3:].view(batches, 3, tokens, dim)


# ---- Errors of attention


def larger(a, b):
    """Unlike max(), NaN whenever one of the two is."""
    return a if math.isnan(a) or b <= a else b


class Errors:
    def __init__(self):
        self.largest, self.largest_of_row, self.squares, self.count = 0.0, 0.0, 0.0, 0

    def add(self, result, exact):
        error = (result.double() - exact).abs()
        self.largest = larger(self.largest, error.max().item())
        self.largest_of_row = larger(self.largest_of_row, (error.amax(-1) / exact.abs().amax(-1)).max().item())
        self.squares += (error * error).sum().item()
        self.count += error.numel()

    def record(self):
        return {"largest": self.largest, "largest_of_row": self.largest_of_row,
                "rms": math.sqrt(self.squares / self.count)}


def result_of(impl, dtype, q, k, v):
    """PyTorch's, on tensors rounded to the type."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    try:
        with backend_of(impl):
            heads = (m.unsqueeze(1).to(getattr(torch, DTYPES[dtype])) for m in (q, k, v))
            return attention(impl, *heads).squeeze(1)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def errors_of(values, ours, peers, device):
    """{name: record} of ours, outputs by name, and of PyTorch's peers, {name: (implementation, type)}. A record has the
    largest error, the largest error of a row over the row's largest result, and the root mean square."""
    batches, _, tokens, _ = values.shape
    errors = {name: Errors() for name in [*ours, *peers]}
    step = max(1, SCORES_AT_ONCE // tokens ** 2)
    for first in range(0, batches, step):
        some = slice(first, first + step)
        q, k, v = (m.contiguous() for m in values[some].to(device).unbind(1))
        results = {name: whole[some].to(device) for name, whole in ours.items()}
        results |= {name: result_of(*peer, q, k, v) for name, peer in peers.items() if peer != ("naive", "float32")}
        rows = max(1, SCORES_AT_ONCE // (tokens * q.shape[0]))
        for row in range(0, tokens, rows):
            part = slice(row, row + rows)
            exact = naive_attention(q[:, part].double(), k.double(), v.double())
            for name in errors:  # the naive form has all its scores in memory, so it is computed by parts too
                found = results[name][:, part] if name in results else naive_attention(q[:, part], k, v)
                errors[name].add(found, exact)
    return {name: found.record() for name, found in errors.items()}


# ---- Gradients


class BackwardCase:
    """A case of backward under the header of version 2; tensors are [batch, head, row, column]."""

    def __init__(self, path):
        import torch
        raw = floats_of(path)
        header = raw[:HEADER_INTS].view(torch.int32).tolist()
        self.causal = header[2] == 1
        self.batches, self.heads, self.kv_heads, self.queries, self.keys, self.dim = header[4:10]
        self.inputs = raw[HEADER_INTS:].view(self.batches, -1)
        self.at_once = max(1, 2 * SCORES_AT_ONCE // (self.heads * self.queries * self.keys))  # batches

    def split(self, flat, names):
        shapes = [(self.heads, self.queries, self.dim) if name in ("Q", "dO", "dQ")
                  else (self.kv_heads, self.keys, self.dim) for name in names]
        parts = flat.split([math.prod(shape) for shape in shapes], dim=1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes)]

    def hidden(self, device):
        """What the mask hides, [query, key]; None without one."""
        import torch
        if not self.causal:
            return None
        rows = torch.arange(self.queries, device=device).unsqueeze(1) + self.keys - self.queries
        return torch.arange(self.keys, device=device).unsqueeze(0) > rows


def exact_gradients(case, q, k, v, dout, hidden):
    """In the precision of the tensors, head by head; heads that share keys add up."""
    import torch
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    group, root = case.heads // case.kv_heads, math.sqrt(case.dim)
    for head in range(case.heads):
        shared = head // group
        scores = q[:, head] @ k[:, shared].mT / root
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        p = scores.softmax(-1).nan_to_num(0.0)  # rows that see no key
        dp = dout[:, head] @ v[:, shared].mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        dv[:, shared] += p.mT @ dout[:, head]
        dk[:, shared] += ds.mT @ q[:, head] / root
        dq[:, head] = ds @ k[:, shared] / root
    return dq, dk, dv


def efficient_gradients(case, q, k, v, dout):
    import torch
    if case.causal and case.queries != case.keys:
        raise RuntimeError("PyTorch's causal mask begins at the other corner")
    if case.dim % 4 != 0:
        raise RuntimeError("the memory-efficient kernel needs d to be a multiple of 4")
    leaves = [m.detach().clone().requires_grad_() for m in (q, k, v)]
    group = case.heads // case.kv_heads
    with backend_of("efficient"):
        out = attention("efficient", leaves[0], *(m.repeat_interleave(group, 1) for m in leaves[1:]), case.causal)
        return torch.autograd.grad(out, leaves, dout)


def gradient_errors(path, output, device):
    """{"hw4": {gradient: largest error}, "efficient": the same or None with "why"}"""
    case, ours = BackwardCase(path), floats_of(output)
    ours, hidden = ours.view(case.batches, -1), case.hidden(device)
    worst = {"hw4": dict.fromkeys(GRADIENTS, 0.0), "efficient": dict.fromkeys(GRADIENTS, 0.0), "why": None}

    def note(who, found, exact):
        for name, a, b in zip(GRADIENTS, found, exact):
            worst[who][name] = larger(worst[who][name], (a.double() - b).abs().max().item())

    for first in range(0, case.batches, case.at_once):
        some = slice(first, first + case.at_once)
        tensors = [m.to(device) for m in case.split(case.inputs[some], ("Q", "K", "V", "dO"))]
        exact = exact_gradients(case, *(m.double() for m in tensors), hidden)
        note("hw4", [m.to(device) for m in case.split(ours[some], GRADIENTS)], exact)
        if worst["efficient"] is not None:
            try:
                note("efficient", efficient_gradients(case, *tensors), exact)
            except RuntimeError as error:  # a refusal
                worst["efficient"], worst["why"] = None, str(error).splitlines()[0]
    return worst


def cpu_seconds(path, threads, runs):
    """{"sdpa": [seconds of forward and backward], "naive": the same} by autograd; the first run is not counted."""
    import torch
    torch.set_num_threads(threads)
    case = BackwardCase(path)
    q, k, v, dout = (m.clone() for m in case.split(case.inputs, ("Q", "K", "V", "dO")))
    found = {}
    for name, impl in (("sdpa", "default"), ("naive", "naive")):
        leaves = [m.clone().requires_grad_() for m in (q, k, v)]
        found[name] = []
        for _ in range(runs + 1):
            start = time.perf_counter()
            torch.autograd.grad(attention(impl, *leaves), leaves, dout)
            found[name].append(time.perf_counter() - start)
        found[name].pop(0)
    return found
