"""Attention and its gradients in float64, computed by PyTorch, and errors against them on values of several
distributions.

PyTorch is imported where it is used, so that a program can report that it is missing.
"""
from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "judge"))

SCORES_AT_ONCE = 1 << 27  # float64 scores in memory at a time: 1 GiB; backward has ten such matrices
BACKENDS = {"flash2": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
DTYPES = {"float32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}

# ---- Values

OUTLIERS, OUTLIER_FACTOR = 0.002, 20  # fraction of the entries, factor
MOST_BITS = 20  # range of the powers of two


def uniform(torch, shape, generator):
    return torch.rand(shape, generator=generator) * 6 - 3


def normal(torch, shape, generator):
    return torch.randn(shape, generator=generator)


def student(torch, shape, generator):
    """Two degrees of freedom: a normal number over the root of an exponential one with mean 1."""
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
    """Q, K and V of every batch, (B, 3, N, d), the same in every run."""
    import torch
    batches, tokens, dim = shape
    return DISTRIBUTIONS[kind][0](torch, (batches, 3, tokens, dim), torch.Generator().manual_seed(seed))


# ---- Files


def floats_of(path):
    import torch
    return torch.from_file(str(path), size=path.stat().st_size // 4, dtype=torch.float32)


def write_case(path, values):
    """int32 B, N, d, then the values in order."""
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


def torch_in_float32():
    """PyTorch with products in full float32: rounding the inputs of products would be another arithmetic."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    return torch


def backend_of(impl):
    """A context in which scaled_dot_product_attention is that of the backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(getattr(SDPBackend, BACKENDS[impl]))


def naive_attention(q, k, v):
    """Keeps all scores in memory, in the precision of the tensors."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ v


def exact_weights(q, k, first_sees=None):
    """Softmax in float64: the reference of the project's Python code. With a causal mask the first row sees this many
    keys, and each row one more than the row before; the weights of a row that sees none are 0."""
    import torch
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if first_sees is None:
        return scores.softmax(-1)
    sees = first_sees + torch.arange(q.shape[-2], device=q.device).unsqueeze(1)
    hidden = torch.arange(k.shape[-2], device=q.device).unsqueeze(0) >= sees
    return scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(sees <= 0, 0.0)


def larger(a, b):
    """Unlike max(), gives NaN whenever one of the two is."""
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
    """PyTorch's attention, on tensors rounded to the type."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    try:
        heads = [m.unsqueeze(1).to(getattr(torch, DTYPES[dtype])) for m in (q, k, v)]
        if impl == "naive":
            return naive_attention(*heads).squeeze(1)
        with backend_of(impl):
            return torch.nn.functional.scaled_dot_product_attention(*heads).squeeze(1)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def errors_of(values, ours, peers, device):
    """{name: record} of ours, outputs by name, and of PyTorch's peers, {name: (implementation, type)}. A record has the
    largest error, the largest error of a row relative to the row's largest result, and the root mean square."""
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
            exact = exact_weights(q[:, part], k) @ v.double()
            for name in errors:  # the naive form keeps all its scores in memory, so it is computed in parts too
                found = results[name][:, part] if name in results else naive_attention(q[:, part], k, v)
                errors[name].add(found, exact)
    return {name: found.record() for name, found in errors.items()}


# ---- Gradients


def operands(path, case, device):
    """Q, K, V, and in backward dO, of a case's file, [batch, head, row, column] each."""
    import torch
    stored = getattr(torch, DTYPES[case.element])
    raw = torch.from_file(str(path), size=case.input_bytes, dtype=torch.uint8)
    of_queries, of_keys = (case.heads, case.tokens, case.dim), (case.kv_heads, case.keys, case.dim)
    backward = case.operation == "backward"
    return split(raw[-case.data_bytes:].view(stored).view(case.batches, -1).to(device),
                 [of_queries, of_keys, of_keys, *([of_queries] if backward else [])])


def split(flat, shapes):
    """Operands of these shapes, stored one after another in each batch."""
    parts = flat.split([math.prod(shape) for shape in shapes], dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes)]


@dataclasses.dataclass
class Chunk:
    """Some batches and some of their query rows."""
    batches: slice
    rows: slice
    first_sees: int | None  # visible keys of the first row under the mask; each row sees one more


def chunks(batches, heads, rows, keys, causal):
    """Yields all rows of some batches before the next batches."""
    batches_at_once = max(1, SCORES_AT_ONCE // (heads * rows * keys))
    rows_at_once = max(1, SCORES_AT_ONCE // (heads * keys))
    for batch in range(0, batches, batches_at_once):
        for row in range(0, rows, rows_at_once):
            yield Chunk(slice(batch, batch + batches_at_once), slice(row, row + rows_at_once),
                        row + 1 + keys - rows if causal else None)


def chunks_by_batches(*sizes):
    """Groups of parts with the same batches."""
    for _, parts in itertools.groupby(chunks(*sizes), key=lambda part: part.batches.start):
        yield list(parts)


@dataclasses.dataclass
class Gradients:
    """dQ, dK and dV in float64, and the same sums over magnitudes, from which their error bounds follow."""
    exact: list
    reach: list


def exact_gradients(q, k, v, d_o, parts):
    """Gradients of the parts' batches, for each query head alone."""
    import torch
    scale = 1 / math.sqrt(q.shape[-1])
    q, k, v, d_o = (m[parts[0].batches].double() for m in (q, k, v, d_o))
    found = Gradients(*([torch.zeros_like(m) for m in (q, k, v)] for _ in range(2)))
    for part in parts:
        q_part, d_o_part = q[:, :, part.rows], d_o[:, :, part.rows]
        weights = exact_weights(q_part, k, part.first_sees)
        slopes = d_o_part @ v.mT
        score_gradients = weights * (slopes - (weights * slopes).sum(-1, keepdim=True)) * scale
        out_reach = (d_o_part.abs() * (weights @ v).abs()).sum(-1, keepdim=True)
        score_reach = weights * (d_o_part.abs() @ v.abs().mT + out_reach) * scale
        for sums, of_scores, of_weights, magnitude in ((found.exact, score_gradients, weights, lambda m: m),
                                                       (found.reach, score_reach, weights, torch.abs)):
            sums[0][:, :, part.rows] = of_scores @ magnitude(k)
            sums[1] += of_scores.mT @ magnitude(q_part)
            sums[2] += of_weights.mT @ magnitude(d_o_part)
    return found


def heads_together(gradient, kv_heads):
    """dK or dV of query heads, added up over heads that share keys; in float32 as the library does."""
    batches, heads, rows, columns = gradient.shape
    return gradient.reshape(batches, kv_heads, heads // kv_heads, rows, columns).sum(2)
