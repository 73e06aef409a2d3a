"""The largest errors of PyTorch's FlashAttention-2 on a case's numbers, rounded to a type, against float64."""
from __future__ import annotations

import dataclasses
import functools
import math

from case_table import Case
from exact import chunks, chunks_by_batches, exact_gradients, exact_weights, heads_together, larger, operands

FACTOR = 1.2  # allowed error relative to FlashAttention-2's
COLUMNS_TOGETHER = 8  # FlashAttention-2 takes multiples of d; PyTorch pads to them

ROUNDING = {"bf16": 2.0 ** -8, "fp16": 2.0 ** -11}  # largest relative error of rounding a number
SUNK = {"bf16": 2.0 ** -126, "fp16": 2.0 ** -24}  # largest absolute error below the normal numbers
MOST_ROUNDINGS = 8  # roundings of weights, inputs and intermediate results
# The error that float32 sums leave in gradients that cancel to 0, as where a query sees one key. FlashAttention-2's
# error then contains no rounding of the type, and 1.2 times it would be arbitrary.
CANCELLED = 2.0 ** -20
SPLIT_ROWS = 64  # query rows per block where FlashAttention-2 checks whether a batch fills the card


class NotMeasured(Exception):
    """PyTorch has computed a result, but not the one asked for."""


class NoGpu(Exception):
    pass


def require_gpu() -> None:
    try:
        import torch
    except ImportError as error:
        raise NoGpu(f"no PyTorch: {error}") from error
    if not torch.cuda.is_available():
        raise NoGpu("PyTorch sees no GPU")


def filling_batch(q, *others) -> list:
    """Repeats the batches until they fill the card. With fewer batches FlashAttention-2 divides the keys among blocks,
    each with its own largest score, and adds them up afterwards: other errors, which depend on the batch."""
    import torch
    blocks = math.prod(q.shape[:2]) * math.ceil(q.shape[2] / SPLIT_ROWS)
    times = math.ceil(2 * torch.cuda.get_device_properties(q.device).multi_processor_count / blocks)
    return [q, *others] if times == 1 else [m.repeat(times, 1, 1, 1) for m in (q, *others)]


def flash_attention(q, k, v, causal: bool):
    """With the mask query i of N_q sees the keys up to i + N_k - N_q, as in src/problem/mask.h."""
    import torch
    dim = q.shape[-1]
    padded = [torch.nn.functional.pad(m, (0, -dim % COLUMNS_TOGETHER)) for m in (q, k, v)]
    out = torch.ops.aten._scaled_dot_product_flash_attention(*padded, 0.0, causal, False, scale=1 / math.sqrt(dim))[0]
    return out[..., :dim]


def flash_output(q, k, v, causal: bool):
    return flash_attention(*filling_batch(q, k, v), causal)[:q.shape[0]]


def flash_gradients(q, k, v, d_o, causal: bool) -> list:
    """dQ, dK and dV, separately for each head."""
    import torch
    *leaves, slopes = filling_batch(q, k, v, d_o)
    leaves = [m.detach().requires_grad_() for m in leaves]
    with torch.enable_grad():
        gradients = torch.autograd.grad(flash_attention(*leaves, causal), leaves, slopes)
    return [m[:q.shape[0]] for m in gradients]


@dataclasses.dataclass
class Found:
    """The findings about one output."""
    error: float = 0.0  # the largest error
    reach: float = 0.0  # the largest sum of magnitudes


def score_noise(q, k) -> float:
    """The largest relative change of a weight by sums in float32."""
    largest = q.double().abs().sum(-1).max().item() * k.double().abs().max().item() / math.sqrt(q.shape[-1])
    return math.expm1(min((q.shape[-1] + 20) * 2.0 ** -22 * largest, 1.0))


def require_rounding(found: Found, element: str, noise: float, terms: int, largest_factor: float) -> None:
    """Rejects errors so large that any output would pass: then PyTorch did not compute the case's attention."""
    roundings = (MOST_ROUNDINGS * ROUNDING[element] + 2 * noise) * found.reach
    if found.error > roundings + SUNK[element] * (1 + terms * largest_factor):
        raise NotMeasured(f"an error of {found.error:g} beside sums of up to {found.reach:g} is no rounding to {element}")


def forward_errors(q, k, v, causal: bool) -> list[Found]:
    found = Found(reach=v.double().abs().max().item())
    out = flash_output(q, k, v, causal)
    for part in chunks(*q.shape[:3], k.shape[2], causal):
        exact = exact_weights(q[part.batches, :, part.rows], k[part.batches], part.first_sees) @ v[part.batches].double()
        found.error = larger(found.error, (out[part.batches, :, part.rows].double() - exact).abs().max().item())
    return [found]


def backward_errors(q, k, v, d_o, kv_heads: int, causal: bool) -> list[Found] | None:
    """None where a gradient is infinite in the type."""
    found = [Found() for _ in range(3)]
    got = flash_gradients(q, k, v, d_o, causal)
    for parts in chunks_by_batches(*q.shape[:3], k.shape[2], causal):
        of_batches = exact_gradients(q, k, v, d_o, parts)
        for place, output in enumerate(found):
            of_keys = place > 0
            exact, reach, mine = (heads_together(m, kv_heads) if of_keys else m for m in (
                of_batches.exact[place], of_batches.reach[place], got[place][parts[0].batches]))
            if exact.to(q.dtype).isinf().any().item():
                return None
            output.error = larger(output.error, (mine.double() - exact).abs().max().item())
            output.reach = max(output.reach, reach.max().item())
    return found


def errors_of_flash(path: str, case: Case, element: str) -> list[float] | None:
    """The largest error of O, or of dQ, dK and dV; None where a number is infinite in the type. NaN where an output
    contains a NaN."""
    import torch
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[element]
    q, k, v, *d_o = (m.to(dtype) for m in operands(path, case, "cuda"))
    if any(m.isinf().any().item() for m in (q, k, v, *d_o)):
        return None
    lengths = [(slice(batch, batch + 1), case.keys_of(batch)) for batch in range(case.batches)] if case.lengths else [
        (slice(None), case.keys)]
    each = [errors_of_batches(case, element, keys, *(m[batches] for m in (q, k, v, *d_o))) for batches, keys in lengths]
    return None if None in each else [functools.reduce(larger, of_output) for of_output in zip(*each)]


def errors_of_batches(case: Case, element: str, keys: int, q, k, v, *d_o) -> list[float] | None:
    """The same for batches with so many keys."""
    causal = case.mask == "causal"
    blind = max(case.tokens - keys, 0) if causal else 0  # rows that see no key: O and dQ are 0
    group = case.heads // case.kv_heads
    q, *d_o = (m[:, :, blind:].contiguous() for m in (q, *d_o))
    k, v = (m[:, :, :keys].repeat_interleave(group, 1).contiguous() for m in (k, v))
    found = backward_errors(q, k, v, *d_o, case.kv_heads, causal) if d_o else forward_errors(q, k, v, causal)
    if found is None:
        return None
    largest_factor = max(m.double().abs().max().item() for m in (q, k, v, *d_o))
    for output in found:
        require_rounding(output, element, score_noise(q, k), max(group * q.shape[2], k.shape[2]), largest_factor)
    return [max(output.error, CANCELLED / FACTOR * output.reach) if d_o and math.isfinite(output.error) else output.error
            for output in found]
