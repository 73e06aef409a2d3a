"""The largest errors of PyTorch's FlashAttention-2 on a case's numbers rounded to a type, beside float64."""
from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

from case_table import LONG_HEADER_BYTES, SHORT_HEADER_BYTES, Case

FACTOR = 1.2  # what an output may be worse than FlashAttention-2
SCORES_AT_ONCE = 1 << 27  # float64 scores held at a time: 1 GiB, and backward holds ten matrices of them
COLUMNS_TOGETHER = 8  # FlashAttention-2 takes d in such steps; PyTorch pads likewise

ROUNDING = {"bf16": 2.0 ** -8, "fp16": 2.0 ** -11}  # at most, of a number that is rounded
SUNK = {"bf16": 2.0 ** -126, "fp16": 2.0 ** -24}  # what may become of it below the normal numbers
MOST_ROUNDINGS = 8  # of weights, of what is given, and of what is between
# What sums in float32 leave of gradients that are 0 since everything cancels, as where a query sees one key. There is
# nothing of the type's roundings in FlashAttention-2's error then, and 1.2 times it would be chance.
CANCELLED = 2.0 ** -20
SPLIT_ROWS = 64  # of queries: what FlashAttention-2 counts where it asks whether a batch fills the card


class NotMeasured(Exception):
    """PyTorch has computed something, and it is not what was asked for."""


class NoGpu(Exception):
    pass


def require_gpu() -> None:
    try:
        import torch
    except ImportError as error:
        raise NoGpu(f"no PyTorch: {error}") from error
    if not torch.cuda.is_available():
        raise NoGpu("PyTorch sees no GPU")


def operands(path: str, case: Case) -> list:
    """Q, K, V and of backward dO of a file, [batch, head, row, column] each, on the GPU."""
    import torch
    stored = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[case.element]
    header = SHORT_HEADER_BYTES if case.is_plain else LONG_HEADER_BYTES
    raw = torch.from_file(path, size=case.input_bytes, dtype=torch.uint8)
    of_queries, of_keys = (case.heads, case.tokens, case.dim), (case.kv_heads, case.keys, case.dim)
    shapes = [of_queries, of_keys, of_keys, *([of_queries] if case.operation == "backward" else [])]
    batches = raw[header:].view(stored).view(case.batches, -1).cuda()
    parts = batches.split([math.prod(shape) for shape in shapes], dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes)]


def filling_batch(q, *others) -> list:
    """The same batches again and again, until they fill the card. Of fewer FlashAttention-2 divides the keys among
    blocks, each with a largest score of its own, and adds them up afterwards: other errors, which hang on the batch."""
    import torch
    blocks = math.prod(q.shape[:2]) * math.ceil(q.shape[2] / SPLIT_ROWS)
    times = math.ceil(2 * torch.cuda.get_device_properties(q.device).multi_processor_count / blocks)
    return [q, *others] if times == 1 else [m.repeat(times, 1, 1, 1) for m in (q, *others)]


def flash_attention(q, k, v, causal: bool):
    """Query i of N_q sees the keys up to i + N_k - N_q under the mask, as in src/problem/mask.h."""
    import torch
    dim = q.shape[-1]
    padded = [torch.nn.functional.pad(m, (0, -dim % COLUMNS_TOGETHER)) for m in (q, k, v)]
    out = torch.ops.aten._scaled_dot_product_flash_attention(*padded, 0.0, causal, False, scale=1 / math.sqrt(dim))[0]
    return out[..., :dim]


def flash_output(q, k, v, causal: bool):
    return flash_attention(*filling_batch(q, k, v), causal)[:q.shape[0]]


def flash_gradients(q, k, v, d_o, causal: bool) -> list:
    """dQ, dK and dV, each head's for itself."""
    import torch
    *leaves, slopes = filling_batch(q, k, v, d_o)
    leaves = [m.detach().requires_grad_() for m in leaves]
    with torch.enable_grad():
        gradients = torch.autograd.grad(flash_attention(*leaves, causal), leaves, slopes)
    return [m[:q.shape[0]] for m in gradients]


@dataclasses.dataclass
class Chunk:
    """Some batches and some rows of their queries."""
    batches: slice
    rows: slice
    first_sees: int | None  # keys, under the mask, each row one more than the one before


def chunks(batches: int, heads: int, rows: int, keys: int, causal: bool) -> Iterator[Chunk]:
    """All rows of some batches before the next ones."""
    batches_at_once = max(1, SCORES_AT_ONCE // (heads * rows * keys))
    rows_at_once = max(1, SCORES_AT_ONCE // (heads * keys))
    for batch in range(0, batches, batches_at_once):
        for row in range(0, rows, rows_at_once):
            yield Chunk(slice(batch, batch + batches_at_once), slice(row, row + rows_at_once),
                        row + 1 + keys - rows if causal else None)


def exact_weights(q, k, first_row_sees: int | None):
    """In float64."""
    import torch
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if first_row_sees is not None:
        sees = first_row_sees + torch.arange(q.shape[-2], device=q.device).unsqueeze(1)
        scores = scores.masked_fill(torch.arange(k.shape[-2], device=q.device).unsqueeze(0) >= sees, -math.inf)
    return scores.softmax(-1)


@dataclasses.dataclass
class Gradients:
    """dQ, dK and dV in float64, and what the same sums are of magnitudes: how large their errors can be follows it."""
    exact: list
    reach: list


def exact_gradients(q, k, v, d_o, parts: list[Chunk]) -> Gradients:
    """Of some batches, each head's for itself."""
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


def worse(error: float, other: float) -> float:
    """Once NaN, always NaN."""
    return other if math.isnan(other) or other > error else error


@dataclasses.dataclass
class Found:
    """Of one output."""
    error: float = 0.0  # the largest
    reach: float = 0.0  # of the magnitudes that it is the sum of


def score_noise(q, k) -> float:
    """By what factor sums in float32 may change a weight, less one."""
    largest = q.double().abs().sum(-1).max().item() * k.double().abs().max().item() / math.sqrt(q.shape[-1])
    return math.expm1(min((q.shape[-1] + 20) * 2.0 ** -22 * largest, 1.0))


def require_rounding(found: Found, element: str, noise: float, terms: int, largest_factor: float) -> None:
    """An error beyond that would let anything pass: then it was not the case's attention that was computed."""
    roundings = (MOST_ROUNDINGS * ROUNDING[element] + 2 * noise) * found.reach
    if found.error > roundings + SUNK[element] * (1 + terms * largest_factor):
        raise NotMeasured(f"an error of {found.error:g} beside sums of up to {found.reach:g} is no rounding to {element}")


def heads_together(gradient, kv_heads: int):
    """dK or dV of query heads, added up for those that share keys: in float32 and then rounded, as the library does."""
    batches, heads, rows, columns = gradient.shape
    return gradient.reshape(batches, kv_heads, heads // kv_heads, rows, columns).sum(2)


def forward_errors(q, k, v, causal: bool) -> list[Found]:
    found = Found(reach=v.double().abs().max().item())
    out = flash_output(q, k, v, causal)
    for part in chunks(*q.shape[:3], k.shape[2], causal):
        exact = exact_weights(q[part.batches, :, part.rows], k[part.batches], part.first_sees) @ v[part.batches].double()
        found.error = worse(found.error, (out[part.batches, :, part.rows].double() - exact).abs().max().item())
    return [found]


def backward_errors(q, k, v, d_o, kv_heads: int, causal: bool) -> list[Found] | None:
    """None where a gradient is infinite in the type."""
    found = [Found() for _ in range(3)]
    got = flash_gradients(q, k, v, d_o, causal)
    by_batches = itertools.groupby(chunks(*q.shape[:3], k.shape[2], causal), key=lambda part: part.batches.start)
    for _, parts in by_batches:
        parts = list(parts)
        of_batches = exact_gradients(q, k, v, d_o, parts)
        for place, output in enumerate(found):
            of_keys = place > 0
            exact, reach, mine = (heads_together(m, kv_heads) if of_keys else m for m in (
                of_batches.exact[place], of_batches.reach[place], got[place][parts[0].batches]))
            if exact.to(q.dtype).isinf().any().item():
                return None
            output.error = worse(output.error, (mine.double() - exact).abs().max().item())
            output.reach = max(output.reach, reach.max().item())
    return found


def errors_of_flash(path: str, case: Case, element: str) -> list[float] | None:
    """The largest of O, or of dQ, dK and dV; None where a number is infinite in the type. NaN where one of the outputs
    is no number."""
    import torch
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[element]
    q, k, v, *d_o = (m.to(dtype) for m in operands(path, case))
    if any(m.isinf().any().item() for m in (q, k, v, *d_o)):
        return None
    causal = case.mask == "causal"
    blind = max(case.tokens - case.keys, 0) if causal else 0  # rows that see no key: they are 0, and so is their dQ
    group = case.heads // case.kv_heads
    q, *d_o = (m[:, :, blind:].contiguous() for m in (q, *d_o))
    k, v = (m.repeat_interleave(group, 1).contiguous() for m in (k, v))
    found = backward_errors(q, k, v, *d_o, case.kv_heads, causal) if d_o else forward_errors(q, k, v, causal)
    if found is None:
        return None
    largest_factor = max(m.double().abs().max().item() for m in (q, k, v, *d_o))
    for output in found:
        require_rounding(output, element, score_noise(q, k), max(group * q.shape[2], k.shape[2]), largest_factor)
    return [max(output.error, CANCELLED / FACTOR * output.reach) if d_o and math.isfinite(output.error) else output.error
            for output in found]
