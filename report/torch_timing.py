"""PyTorch on the GPU: its attention and cuBLAS's SGEMM, timed by CUDA events as profile/time_kernels times ours."""
from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import math
import statistics
import time

from bench_document import say
from sampling_rules import EventSampler, launches_for, runs_for, warm_up

SGEMM_SIZE = 8192
SGEMM_FLOP = 2 * SGEMM_SIZE ** 3
BUSY_SECONDS = 1.0  # of products before somebody looks at the clocks


class Missing(Exception):
    """Why PyTorch cannot be measured."""


def naive_attention(q, k, v):
    """With all scores in memory. In the precision of the tensors, as long as TF32 is off."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ v


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


class TorchTiming:
    """Raises Missing where there is no PyTorch or no GPU that it can use."""

    def __init__(self, runs: int):
        try:
            import torch
            from torch.nn.attention import SDPBackend, sdpa_kernel
        except ImportError as error:
            raise Missing(f"PyTorch is not installed: {error}") from error
        if not torch.cuda.is_available():
            raise Missing(f"PyTorch {torch.__version__} sees no GPU")
        self._torch = torch
        self._runs = runs
        backends = {"efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
                    "cudnn": SDPBackend.CUDNN_ATTENTION}
        self._by = {name: functools.partial(sdpa_kernel, backend) for name, backend in backends.items()}
        self._dtypes = {"float32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        # Full float32: products of rounded inputs would be neither attention's nor SGEMM's equal.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        self._matrices = None

    def versions(self) -> dict:
        return {"torch": self._torch.__version__, "cuda": self._torch.version.cuda,
                "device": self._torch.cuda.get_device_name()}

    def sgemm(self) -> dict:
        """cuBLAS's product of two square float32 matrices."""
        with self._torch.inference_mode():
            return self._measure(self._product())

    def under_load(self, look):
        """What look() returns while the GPU is busy with products."""
        torch = self._torch
        with torch.inference_mode():
            product = self._product()
            start = time.monotonic()
            while time.monotonic() - start < BUSY_SECONDS:  # until power and clocks have settled
                product()
                torch.cuda.synchronize()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                seen = pool.submit(look)
                while not seen.done():
                    product()
                    torch.cuda.synchronize()
        return seen.result()

    def attention(self, shape: tuple[int, int, int], backend: str, case=None, causal=False, dtype="float32",
                  heads=1) -> dict:
        """Attention on (B, 1, N, d), or with so many heads on (B / heads, heads, N, d): scaled_dot_product_attention by
        the backend 'efficient', 'flash' or 'cudnn' or by PyTorch's own choice, 'default', all also under the causal
        mask; or 'naive', product, softmax, product. On numbers uniform in +-3, or those of a case file. Where PyTorch
        refuses, "seconds" is null and "why" says so."""
        products = self._torch.backends.cuda.matmul
        products.allow_tf32 = dtype == "tf32"
        try:
            result = self._attention(shape, backend, case, causal, dtype, heads)
        except RuntimeError as error:  # a refusal, and memory that does not suffice
            result = {"seconds": None, "why": _one_line(error)}
        finally:
            products.allow_tf32 = False
        self._torch.cuda.empty_cache()  # hw4's kernels are measured by another process
        return result

    def backward(self, shape: tuple[int, int, int], causal=False, backend="efficient", dtype="float32",
                 heads=1) -> dict:
        """The gradients of attention, forward not counted, by the backend 'efficient', 'flash' or 'cudnn'. Shapes and
        refusals as in attention()."""
        torch = self._torch
        try:
            with self._by[backend]():
                leaves = [operand.requires_grad_() for operand in self._operands(shape, None, dtype, heads)]
                out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
                given = torch.empty_like(out).uniform_(-3, 3)
                result = self._measure(lambda: torch.autograd.grad(out, leaves, given, retain_graph=True),
                                       why_no_graph="autograd takes the stream of forward")
        except RuntimeError as error:
            result = {"seconds": None, "why": _one_line(error)}
        torch.cuda.empty_cache()
        return result

    def _attention(self, shape, backend, case, causal, dtype, heads):
        torch = self._torch
        with torch.inference_mode(), self._by.get(backend, contextlib.nullcontext)():
            q, k, v = self._operands(shape, case, dtype, heads)
            if backend == "naive":
                return self._measure(lambda: naive_attention(q, k, v))
            attend = torch.nn.functional.scaled_dot_product_attention
            return self._measure(lambda: attend(q, k, v, is_causal=causal))

    def _operands(self, shape, case, dtype, heads=1):
        torch = self._torch
        batches, tokens, dim = shape
        kind = self._dtypes[dtype]
        if case is None:
            sizes = batches // heads, heads, tokens, dim
            return [torch.empty(*sizes, device="cuda", dtype=kind).uniform_(-3, 3) for _ in range(3)]
        numbers = torch.from_file(str(case), size=3 + 3 * batches * tokens * dim, dtype=torch.float32)
        matrices = numbers[3:].view(batches, 3, 1, tokens, dim).to("cuda")  # after B, N and d
        return [matrix.to(kind).contiguous() for matrix in matrices.unbind(1)]

    def _product(self):
        torch = self._torch
        if self._matrices is None:
            a, b = (torch.empty(SGEMM_SIZE, SGEMM_SIZE, device="cuda").uniform_(-1, 1) for _ in range(2))
            self._matrices = (a, b, torch.empty_like(a))
        a, b, c = self._matrices
        return lambda: torch.matmul(a, b, out=c)

    def _measure(self, call, why_no_graph=None) -> dict:
        launch_seconds = warm_up(EventSampler(self._torch, call))
        launches = launches_for(launch_seconds)
        graph, why = None, why_no_graph or "one launch in a sample"
        if launches > 1 and why_no_graph is None:
            graph, why = self._captured(call, launches)
        step, steps = (call, launches) if graph is None else (graph.replay, 1)
        sample = EventSampler(self._torch, step)
        sample(steps)  # the first replay uploads the graph
        runs = runs_for(launch_seconds * launches, self._runs)
        seconds = [sample(steps) * steps / launches for _ in range(runs)]
        return {"seconds": seconds, "median_seconds": statistics.median(seconds), "launches": launches,
                "graph": graph is not None, "why_no_graph": why}

    def _captured(self, call, launches: int):
        """The calls as one CUDA graph, so that Python's own time is not counted, and why there is none."""
        torch = self._torch
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(launches):
                    call()
            return graph, None
        except RuntimeError as error:
            torch.cuda.synchronize()
            return None, _one_line(error)


def torch_or_none(args, document, who: str) -> TorchTiming | None:
    """PyTorch, or None with the reason said and written down."""
    try:
        if args.no_torch:
            raise Missing("--no-torch was given")
        torch = TorchTiming(args.runs)
    except Missing as missing:
        say(f"{who}: without PyTorch: {missing}")
        document.write(torch_missing=str(missing))
        return None
    document.write(torch=torch.versions())
    return torch
