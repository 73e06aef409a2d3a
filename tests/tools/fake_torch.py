"""A PyTorch for tests: just what report/torch_timing.py uses, on a clock of its own, on which every operation takes as
long as it is told to."""

SGEMM_50 = 2 * 8192 ** 3 / 50e12  # seconds at 50 TFLOP/s

TEXT = """
import contextlib, math, os, sys, time, types

__version__ = "9.9"
version = types.SimpleNamespace(cuda="13.9")
SGEMM_SECONDS, EFFICIENT, DEFAULT, NAIVE = {sgemm}, {efficient}, {default}, {naive}  # None: refused
BY_BACKEND = dict(efficient=EFFICIENT, flash={flash}, cudnn={cudnn})
clock, backend, graph_calls = 0.0, DEFAULT, None
host_clock = time.monotonic
time.monotonic = lambda: host_clock() + clock  # who keeps the GPU busy for a second need not wait for it


def work(seconds):
    global clock
    if graph_calls is not None:
        graph_calls.append(seconds)
    else:
        clock += seconds


class Tensor:
    def __init__(self, *shape, device, dtype="float32"):
        assert device == "cuda"
        self.shape, self.dtype = shape, dtype

    def uniform_(self, low, high):
        return self

    def requires_grad_(self):
        return self

    # The naive form: q @ k.transpose() / root, softmax, @ v.
    def transpose(self, first, second):
        assert (first, second) == (-1, -2)
        return Tensor(*self.shape[:-2], self.shape[-1], self.shape[-2], device="cuda")

    def __matmul__(self, other):
        assert self.shape[-1] == other.shape[-2] and self.shape[:-2] == other.shape[:-2]
        assert precision == "highest"
        if NAIVE is None:
            raise RuntimeError("CUDA out of memory.")
        work(NAIVE / (4 if backends.cuda.matmul.allow_tf32 else 2))  # there are two of them
        return Tensor(*self.shape[:-1], other.shape[-1], device="cuda")

    def __truediv__(self, number):
        assert self.shape[-1] == self.shape[-2] and round(number ** 2) in (8, 64)  # the root of d
        return self

    def softmax(self, place):
        assert place == -1
        return self


class Numbers:  # of a case file
    def __init__(self, *shape):
        self.shape = shape

    def __getitem__(self, some):
        assert some == slice(3, None)
        return Numbers(self.shape[0] - 3)

    def view(self, *shape):
        assert math.prod(shape) == math.prod(self.shape)
        return Numbers(*shape)

    def to(self, what):
        assert what in ("cuda", float32)
        return self

    def unbind(self, place):
        assert place == 1
        return [Numbers(self.shape[0], *self.shape[2:]) for _ in range(self.shape[1])]

    def contiguous(self):
        return Tensor(*self.shape, device="cuda")


def from_file(path, size, dtype):
    assert dtype is float32 and os.path.getsize(path) == 4 * size
    return Numbers(size)


def empty(*shape, device, dtype="float32"):
    return Tensor(*shape, device=device, dtype=dtype)


def empty_like(tensor):
    return Tensor(*tensor.shape, device="cuda")


def matmul(a, b, out):
    assert a.shape == b.shape == out.shape == (8192, 8192)
    assert backends.cuda.matmul.allow_tf32 is False and precision == "highest"
    work(SGEMM_SECONDS)


def set_float32_matmul_precision(name):
    global precision
    precision = name


backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)))
inference_mode = contextlib.nullcontext
float32, bfloat16, float16 = "float32", "bfloat16", "float16"


def scaled_dot_product_attention(q, k, v, is_causal):
    assert q.shape == k.shape == v.shape and q.shape[1] in {heads}
    assert (q.dtype == float32) == (backend in (EFFICIENT, DEFAULT))  # the others take half precision alone
    if backend is None:
        raise RuntimeError("No available kernel. Aborting.\\nmore about it")
    work(backend / 2 if is_causal else backend)
    out = Tensor(*q.shape, device="cuda")
    out.seconds = backend / 2 if is_causal else backend
    return out


def grad(out, leaves, given, retain_graph):
    assert len(leaves) == 3 and given.shape == out.shape and retain_graph
    work(2.5 * out.seconds)


autograd = types.SimpleNamespace(grad=grad)


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time = clock

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.time - self.time) * 1e3


class CUDAGraph:
    def replay(self):
        for seconds in self.calls:
            work(seconds)


@contextlib.contextmanager
def graph(captured):
    global graph_calls
    if not {graphs}:
        raise RuntimeError("operation not permitted when stream is capturing")
    graph_calls = captured.calls = []
    yield
    graph_calls = None


@contextlib.contextmanager
def sdpa_kernel(name):
    global backend
    backend = BY_BACKEND[name]
    try:
        yield
    finally:
        backend = DEFAULT


cuda = types.SimpleNamespace(is_available=lambda: {gpu}, get_device_name=lambda: "Fake 1", Event=Event,
                             CUDAGraph=CUDAGraph, graph=graph, empty_cache=lambda: None, synchronize=lambda: None)
nn = types.ModuleType("torch.nn")
nn.functional = types.SimpleNamespace(scaled_dot_product_attention=scaled_dot_product_attention)
nn.attention = types.ModuleType("torch.nn.attention")
nn.attention.SDPBackend = types.SimpleNamespace(EFFICIENT_ATTENTION="efficient", FLASH_ATTENTION="flash",
                                                 CUDNN_ATTENTION="cudnn")
nn.attention.sdpa_kernel = sdpa_kernel
sys.modules["torch.nn"], sys.modules["torch.nn.attention"] = nn, nn.attention
"""


def fake_torch(sgemm=SGEMM_50, efficient=0.0011, default=0.0023, naive=0.02, flash=0.0008, cudnn=0.0005, graphs=True,
               gpu=True, heads=(1,)):
    """The text of torch.py; seconds, None where it is to refuse. heads: how many somebody may come with."""
    text = TEXT
    for name, value in (("sgemm", sgemm), ("efficient", efficient), ("default", default), ("naive", naive),
                        ("flash", flash), ("cudnn", cudnn), ("graphs", graphs), ("gpu", gpu), ("heads", heads)):
        text = text.replace("{" + name + "}", repr(value))
    return text
