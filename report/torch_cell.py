"""One cell of `hw4 bench` by PyTorch: what hw4 runs for --impl pytorch, flash2, cudnn and efficient.

    python3 report/torch_cell.py --impl flash2 --dtype fp16 --batch_size 16 --seq_len 1024 --num_heads 32 --emb_dim 2048

Takes the options that ask `hw4 bench` for a single cell, and prints a row as hw4 writes it: statuses, samples and
memory under "hw4". With --serve alone: of many cells, each a list of options on a line of standard input. What PyTorch
cannot do here is a status too, and no failure of this program. Clock, warm-up and number of launches follow
src/bench/sampling.h, with --timing wall lab5.py. pytorch is lab5.py's naive form, the others are
scaled_dot_product_attention by one backend.
"""
from __future__ import annotations

import argparse
import gc
import json
import math
import os
import re
import statistics
import sys
import time

from sampling_rules import LEAST_RUNS, EventSampler, launches_for, warm_up

PASSES = ("forward", "backward", "forward_backward")
SAMPLED_ROWS = 32
MASKED = -10000.0  # lab5.py adds it to the scores that the mask hides
SEED = 1


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--impl", required=True, choices=("pytorch", "flash2", "cudnn", "efficient"))
    parser.add_argument("--dtype", default="fp16", choices=("float32", "fp16", "bf16"))
    for name in ("batch_size", "seq_len", "num_heads", "emb_dim"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--causal", nargs="?", const="yes", default="no", choices=("yes", "no"))
    parser.add_argument("--passes", default=",".join(PASSES))
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--spread", type=float, default=0, help="percent")
    parser.add_argument("--limit", type=float, default=10, help="seconds")
    parser.add_argument("--timing", default="event", choices=("event", "wall"))
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--memory_limit", type=int, default=0, help="bytes")
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    args = parser.parse_known_args(words)[0]  # --kind and --threads mean nothing to it
    if args.cold and args.timing == "wall":
        parser.error("--cold flushes before each sample, and --timing wall has one")
    return args


def spread(samples):
    """From the 20th to the 80th of a hundred, as a share of the median, as src/bench/sample_statistics.h has it."""
    ordered = sorted(samples)

    def quantile(share):
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return (quantile(0.8) - quantile(0.2)) / statistics.median(ordered)


def launches_within_limit(each, args):
    """Of launches of so many seconds, as src/bench/measure.cpp has it."""
    fitting = int(args.limit / each) if each > 0 else args.repeats
    return max(min(LEAST_RUNS, args.repeats), min(fitting, args.repeats))


def wall_samples(run, wait, args, clock):
    """As take_samples(), by lab5.py's clock, which is around all launches."""
    def timed(launches):
        start = clock()
        run(launches)
        wait()
        return clock() - start

    warmup = max(args.repeats // 100, 2) if args.warmup is None else args.warmup
    if warmup > 0:
        timed(warmup - 1)
        launches = launches_within_limit(timed(1), args)
        return launches, [timed(launches) / launches]
    first = min(LEAST_RUNS, args.repeats)
    seconds = timed(first)
    launches = launches_within_limit(seconds / first, args)
    if launches > first:
        seconds += timed(launches - first)
    return launches, [seconds / launches]


def take_samples(sample, wait, flush, args, clock=time.monotonic):
    """(launches, seconds of a launch in each sample). sample(k) runs k launches and returns the seconds of one."""
    if args.timing == "wall":
        return wall_samples(sample.run, wait, args, clock)
    launches = 1
    if args.warmup is None:
        least = warm_up(sample)
        launches = 1 if args.cold else launches_for(least)
    else:
        for _ in range(args.warmup):
            sample(1)
    samples, start = [], clock()
    while True:
        if args.cold:
            flush()
        samples.append(sample(launches))
        if len(samples) >= args.repeats:
            break
        settled = args.spread > 0 and spread(samples) * 100 < args.spread if len(samples) >= LEAST_RUNS else False
        if len(samples) >= LEAST_RUNS and (settled or clock() - start >= args.limit):
            break
    return launches, samples


def wanted_bytes(message):
    """What PyTorch says that it could not get; 0 where it does not say."""
    told = re.search(r"Tried to allocate ([0-9.]+) (bytes|KiB|MiB|GiB|TiB)", message)
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    return round(float(told[1]) * 1024 ** units.index(told[2])) if told else 0


def memory_share(limit, total):
    """Of the card's memory; no limit is 0. A float: PyTorch takes nothing else."""
    return min(1.0, (limit or total) / total)


class TorchCell:
    def __init__(self, torch, args):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        self._torch, self._args = torch, args
        self._causal = args.causal == "yes"
        self._dtype = {"float32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[args.dtype]
        backend = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                   "efficient": SDPBackend.EFFICIENT_ATTENTION}.get(args.impl)
        self._chosen = (lambda: sdpa_kernel(backend)) if backend is not None else None
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")

    def _naive(self, q, k, v):
        """As lab5.py has it, on (batch, heads, tokens, columns)."""
        torch = self._torch
        B, H, N, d = q.shape
        scores = torch.empty(B * H, N, N, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(scores, q.reshape(B * H, N, d), k.reshape(B * H, N, d).transpose(1, 2), beta=0,
                               alpha=1 / math.sqrt(d)).view(B, H, N, N)
        if self._causal:
            scores = scores + torch.triu(torch.full((N, N), MASKED, device=q.device), 1).to(q.dtype)
        weights = torch.softmax(scores, dim=-1, dtype=v.dtype)
        return torch.einsum("bhts,bhsd->bhtd", torch.nn.functional.dropout(weights, 0.0), v)

    def _attention(self, q, k, v):
        if self._chosen is None:
            return self._naive(q, k, v)
        with self._chosen():
            return self._torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self._causal)

    def measured(self, name):
        """The row's entry of a pass; a refusal is one too."""
        torch = self._torch
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()  # of a cell before this one: they would count as this one's memory
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            return self._measure(name)
        except torch.cuda.OutOfMemoryError as error:
            return {"status": "oom", "reason": str(error).splitlines()[0], "wanted_bytes": wanted_bytes(str(error)),
                    "free_bytes": self._free_bytes()}
        except RuntimeError as error:
            broken = "CUDA error" in str(error)  # and not a refusal
            return {"status": "failed" if broken else "unsupported", "reason": str(error).strip().splitlines()[0]}

    def _free_bytes(self):
        free, limit = self._torch.cuda.mem_get_info()[0], self._args.memory_limit
        return min(free, max(0, limit - self._torch.cuda.memory_allocated())) if limit else free

    def _measure(self, name):
        torch, args = self._torch, self._args
        d = args.emb_dim // args.num_heads
        torch.manual_seed(SEED)
        qkv = torch.randn(args.batch_size, args.seq_len, 3, args.num_heads, d, device="cuda", dtype=self._dtype,
                          requires_grad=True)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        before_backward = 0
        if name == "forward":
            def step():
                return self._attention(q, k, v)
        else:
            out = self._attention(q, k, v)
            before_backward = torch.cuda.memory_allocated()
            gradient = torch.randn_like(out)

            def back(result):
                qkv.grad = None
                result.backward(gradient, retain_graph=True)

            def step():
                back(out if name == "backward" else self._attention(q, k, v))
        flushed = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.int8, device="cuda") \
            if args.cold else None
        launches, samples = take_samples(EventSampler(torch, step), torch.cuda.synchronize, lambda: flushed.zero_(),
                                         args)
        measured = {"status": "ok", "reason": None, "kernel": f"PyTorch {torch.__version__} {args.impl}",
                    "launches": launches, "samples": samples, "peak_bytes": torch.cuda.max_memory_allocated(),
                    "before_backward_bytes": before_backward}
        if name == "forward":
            measured["error"] = self._error(q.detach(), k.detach(), v.detach(), step().detach())
        return measured

    def _error(self, q, k, v, out):
        """Of sampled rows, against float64."""
        B, H, N, d = q.shape
        count = min(SAMPLED_ROWS, B * H * N)
        error = largest = 0.0
        for place in range(count):
            row = place * (B * H * N) // count + place * 7919 % max(1, B * H * N // count)
            b, h, n = row // (H * N), row // N % H, row % N
            seen = n + 1 if self._causal else N
            scores = (k[b, h, :seen].double() @ q[b, h, n].double()) / math.sqrt(d)
            exact = scores.softmax(0) @ v[b, h, :seen].double()
            error = max(error, (out[b, h, n].double() - exact).abs().max().item())
            largest = max(largest, exact.abs().max().item())
        return {"rows": count, "largest": error, "largest_value": largest}


def row_of(args):
    wanted = args.passes.split(",")
    try:
        import torch
        if args.device != "gpu":
            reason = "PyTorch is measured on a GPU"
        elif not torch.cuda.is_available():
            reason = f"PyTorch {torch.__version__} sees no GPU"
        else:
            reason = None
    except ImportError as error:
        reason = f"PyTorch is not installed: {error}"
    if reason is not None:
        return {name: {"status": "unsupported", "reason": reason} for name in wanted}
    torch.cuda.set_per_process_memory_fraction(memory_share(args.memory_limit, torch.cuda.mem_get_info()[1]))
    cell = TorchCell(torch, args)
    measured = {name: cell.measured(name) for name in wanted}
    torch.cuda.empty_cache()  # hw4's own cells are measured by another process
    return measured


def row_text(args):
    return json.dumps({"hw4": {"parameters": {}, **row_of(args)}})


def serve():
    """A row for each line of standard input, which is a list of options."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no row
    for line in sys.stdin:
        print(row_text(parse_arguments(json.loads(line))), file=answers, flush=True)


def main():
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        print(row_text(parse_arguments()))


if __name__ == "__main__":
    main()
