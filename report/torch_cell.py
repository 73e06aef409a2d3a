"""PyTorch's attention, timed: the one place where the project measures PyTorch.

The program measures cells of `hw4 bench`, which starts it: each is a JSON object on a line of standard input, and the
answer a row as hw4 writes it, with statuses, samples and memory under "hw4". What PyTorch cannot do here is a status
too, and not a failure of this program. Clock, warm-up and number of launches follow src/bench/sampling.h, with --timing
wall lab5.py. pytorch is lab5.py's naive form, the others are scaled_dot_product_attention by one backend.

As a module, it has the attention that report/measure compares with, and the timer of it (Timer).
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import json
import math
import os
import re
import statistics
import sys
import time
import types

BACKENDS = {"flash2": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
DTYPES = {"float32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
PASSES = ("forward", "backward", "forward_backward")
SAMPLED_ROWS = 32
MASKED = -10000.0  # lab5.py adds it to the scores that the mask hides
SEED = 1

# ---- How often to launch: the rules of src/bench/sampling.h

WARM_UP_SECONDS = 0.1
SAMPLE_SECONDS = 0.01
MOST_LAUNCHES = 1000
SLOW_SAMPLE = 0.05
LEAST_RUNS = 3


def launches_for(launch_seconds):
    if launch_seconds <= 0:
        return MOST_LAUNCHES
    return min(MOST_LAUNCHES, max(1, math.ceil(SAMPLE_SECONDS / launch_seconds)))


def runs_for(sample_seconds, runs):
    if sample_seconds <= SLOW_SAMPLE:
        return runs
    return min(runs, max(LEAST_RUNS, int(runs * SLOW_SAMPLE / sample_seconds)))


def warm_up(sample):
    """Seconds of the fastest launch but for the first. sample(k) takes a sample of k launches and returns the seconds
    of one."""
    sample(1)
    busy = least = sample(1)
    while busy < WARM_UP_SECONDS:
        seconds = sample(1)
        busy, least = busy + seconds, min(least, seconds)
    return least


class EventSampler:
    """Seconds of a step, of so many in a row, between two CUDA events."""

    def __init__(self, torch, step):
        self._torch, self._step = torch, step

    def run(self, launches):
        for _ in range(launches):
            self._step()

    def __call__(self, launches):
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.run(launches)
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3 / launches


# ---- Attention, on (batch, heads, tokens, columns) or without heads


def why_no_gpu():
    """Why PyTorch cannot be measured on a GPU here; empty where it can."""
    try:
        import torch
    except ImportError as error:
        return f"PyTorch is not installed: {error}"
    return "" if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no GPU"


def torch_in_float32():
    """PyTorch, with products in full float32: products of rounded inputs would be another arithmetic."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    return torch


def backend_of(impl):
    """A context in which scaled_dot_product_attention is that of the backend; PyTorch's own choice for other names."""
    if impl not in BACKENDS:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(getattr(SDPBackend, BACKENDS[impl]))


def naive_attention(q, k, v):
    """With all scores in memory, in the precision of the tensors."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ v


def exact_weights(q, k, first_sees=None):
    """Softmax in float64: what the project's Python compares with. Under a causal mask the first row sees so many keys,
    each row one more than the one before; the weights of a row that sees none are 0."""
    import torch
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if first_sees is None:
        return scores.softmax(-1)
    sees = first_sees + torch.arange(q.shape[-2], device=q.device).unsqueeze(1)
    hidden = torch.arange(k.shape[-2], device=q.device).unsqueeze(0) >= sees
    return scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(sees <= 0, 0.0)


def lab5_attention(q, k, v, causal):
    """lab5.py's naive form."""
    import torch
    B, H, N, d = q.shape
    scores = torch.empty(B * H, N, N, dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(scores, q.reshape(B * H, N, d), k.reshape(B * H, N, d).transpose(1, 2), beta=0,
                           alpha=1 / math.sqrt(d)).view(B, H, N, N)
    if causal:
        scores = scores + torch.triu(torch.full((N, N), MASKED, device=q.device), 1).to(q.dtype)
    weights = torch.softmax(scores, dim=-1, dtype=v.dtype)
    return torch.einsum("bhts,bhsd->bhtd", torch.nn.functional.dropout(weights, 0.0), v)


def attention(impl, q, k, v, causal=False):
    """That of a backend inside its context, that of PyTorch's own choice (default), or a form with all scores in memory:
    naive, and pytorch, which is lab5.py's."""
    if impl == "naive":
        return naive_attention(q, k, v)
    if impl == "pytorch":
        return lab5_attention(q, k, v, causal)
    import torch
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


# ---- A cell of hw4 bench


def launches_within_limit(each, args):
    """How many launches of so many seconds, as in src/bench/measure.cpp."""
    fitting = int(args.limit_s / each) if each > 0 else args.repeats
    return max(min(LEAST_RUNS, args.repeats), min(fitting, args.repeats))


def wall_samples(run, wait, args, clock):
    """As take_samples(), by lab5.py's clock around all launches."""
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
        if len(samples) >= LEAST_RUNS and clock() - start >= args.limit_s:
            break
    return launches, samples


def wanted_bytes(message):
    """What PyTorch says that it could not get; 0 where it does not say."""
    told = re.search(r"Tried to allocate ([0-9.]+) (bytes|KiB|MiB|GiB|TiB)", message)
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    return round(float(told[1]) * 1024 ** units.index(told[2])) if told else 0


def memory_share(limit, total):
    """The limit's share of the card's memory; 0 is no limit. A float: PyTorch takes nothing else."""
    return min(1.0, (limit or total) / total)


class TorchCell:
    def __init__(self, args):
        self._torch, self._args = torch_in_float32(), args
        self._causal = args.causal
        self._dtype = getattr(self._torch, DTYPES[args.dtype])

    def measured(self, name):
        """The row's entry of a pass; a refusal is one too."""
        torch = self._torch
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()  # of a cell before this one: they would count as this one's memory
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            with backend_of(self._args.impl):
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

        def attend():
            return attention(args.impl, q, k, v, self._causal)

        before_backward = 0
        if name == "forward":
            step = attend
        else:
            out = attend()
            before_backward = torch.cuda.memory_allocated()
            gradient = torch.randn_like(out)

            def back(result):
                qkv.grad = None
                result.backward(gradient, retain_graph=True)

            def step():
                back(out if name == "backward" else attend())
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
        """The largest error of sampled rows against float64."""
        B, H, N, _ = q.shape
        count = min(SAMPLED_ROWS, B * H * N)
        error = largest = 0.0
        for place in range(count):
            row = place * (B * H * N) // count + place * 7919 % max(1, B * H * N // count)
            b, h, n = row // (H * N), row // N % H, row % N
            weights = exact_weights(q[b, h, n:n + 1], k[b, h], n + 1 if self._causal else None)
            exact = weights @ v[b, h].double()
            error = max(error, (out[b, h, n].double() - exact).abs().max().item())
            largest = max(largest, exact.abs().max().item())
        return {"rows": count, "largest": error, "largest_value": largest}


def row_of(args):
    reason = "PyTorch is measured on a GPU" if args.device != "gpu" else why_no_gpu()
    if reason:
        return {name: {"status": "unsupported", "reason": reason} for name in args.passes}
    import torch
    torch.cuda.set_per_process_memory_fraction(memory_share(args.memory_limit, torch.cuda.mem_get_info()[1]))
    cell = TorchCell(args)
    measured = {name: cell.measured(name) for name in args.passes}
    torch.cuda.empty_cache()  # hw4's own cells are measured by another process
    return measured


def serve():
    """A row for each line of standard input, a cell as hw4 bench writes it under "parameters"."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no row
    for line in sys.stdin:
        row = row_of(types.SimpleNamespace(**json.loads(line)))
        print(json.dumps({"hw4": {"parameters": {}, **row}}), file=answers, flush=True)


# ---- The timer of report/measure


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


class Timer:
    """PyTorch on the GPU as hw4 bench times ours: by CUDA events, short launches many in a sample, from a CUDA
    graph, so that Python's own time is not counted. A timing has the seconds of a launch in each sample."""
    SGEMM_SIZE = 8192
    BUSY_SECONDS = 1.0  # of products, until power and clocks have settled

    def __init__(self, runs):
        self._torch, self._runs = torch_in_float32(), runs

    def versions(self):
        torch = self._torch
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name()}

    def sgemm(self):
        """cuBLAS's product of two square float32 matrices, with its TFLOP/s."""
        with self._torch.inference_mode():
            timing = self._measure(self._product())
        return {**timing, "tflops": 2 * self.SGEMM_SIZE ** 3 / timing["median_seconds"] * 1e-12}

    def under_load(self, look):
        """What look() returns while the GPU is busy with products."""
        torch = self._torch
        with torch.inference_mode(), concurrent.futures.ThreadPoolExecutor(1) as pool:
            product, start, seen = self._product(), time.monotonic(), None
            while seen is None or not seen.done():
                product()
                torch.cuda.synchronize()
                if seen is None and time.monotonic() - start >= self.BUSY_SECONDS:
                    seen = pool.submit(look)
            return seen.result()

    def attention(self, shape, impl, mask="none", dtype="float32", heads=1, backward=False, case=None):
        """Attention on (B, 1, N, d), or with so many heads on (B / heads, heads, N, d); backward: its gradients,
        forward not counted. On numbers uniform in +-3, or those of a case file. Where PyTorch refuses, "seconds" is
        null and "why" says so."""
        torch = self._torch
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        try:
            with backend_of(impl):
                operands = self._operands(shape, dtype, heads, case)
                timing = (self._gradients if backward else self._forward)(impl, operands, mask == "causal")
        except RuntimeError as error:  # a refusal, and memory that does not suffice
            timing = {"seconds": None, "why": first_line(error)}
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
        torch.cuda.empty_cache()  # hw4's kernels are measured by another process
        return timing

    def _forward(self, impl, operands, causal):
        with self._torch.inference_mode():
            return self._measure(lambda: attention(impl, *operands, causal))

    def _gradients(self, impl, operands, causal):
        leaves = [operand.requires_grad_() for operand in operands]
        out = attention(impl, *leaves, causal)
        given = self._torch.empty_like(out).uniform_(-3, 3)
        return self._measure(lambda: self._torch.autograd.grad(out, leaves, given, retain_graph=True),
                             "autograd takes the stream of forward")

    def _operands(self, shape, dtype, heads, case):
        torch = self._torch
        batches, tokens, dim = shape
        kind = getattr(torch, DTYPES[dtype])
        if case is None:
            sizes = batches // heads, heads, tokens, dim
            return [torch.empty(*sizes, device="cuda", dtype=kind).uniform_(-3, 3) for _ in range(3)]
        numbers = torch.from_file(str(case), size=3 + 3 * batches * tokens * dim, dtype=torch.float32)
        matrices = numbers[3:].view(batches, 3, 1, tokens, dim).to("cuda")  # after B, N and d
        return [matrix.to(kind).contiguous() for matrix in matrices.unbind(1)]

    def _product(self):
        torch, size = self._torch, self.SGEMM_SIZE
        a, b = (torch.empty(size, size, device="cuda").uniform_(-1, 1) for _ in range(2))
        c = torch.empty_like(a)
        return lambda: torch.matmul(a, b, out=c)

    def _measure(self, call, why_no_graph=None):
        launch_seconds = warm_up(EventSampler(self._torch, call))
        launches = launches_for(launch_seconds)
        graph, why = None, why_no_graph or "one launch in a sample"
        if launches > 1 and why_no_graph is None:
            graph, why = self._captured(call, launches)
        step, steps = (call, launches) if graph is None else (graph.replay, 1)
        sample = EventSampler(self._torch, step)
        sample(steps)  # the first replay uploads the graph
        seconds = [sample(steps) * steps / launches for _ in range(runs_for(launch_seconds * launches, self._runs))]
        return {"seconds": seconds, "median_seconds": statistics.median(seconds), "launches": launches,
                "graph": graph is not None, "why_no_graph": why}

    def _captured(self, call, launches):
        """The calls as one CUDA graph, and why there is none."""
        torch = self._torch
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                EventSampler(torch, call).run(launches)
            return graph, None
        except RuntimeError as error:
            torch.cuda.synchronize()
            return None, first_line(error)


if __name__ == "__main__":
    serve()
