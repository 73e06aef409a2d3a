"""Times hw4 beside PyTorch's attention (cuDNN, FlashAttention-2, memory-efficient, naive) on one GPU, fairly:

    python -m hw4.neighbours                                          # bf16 beside cuDNN and FlashAttention-2
    python -m hw4.neighbours --dtype float32 --contracts f32 fixed --peers efficient naive --cells 4,16,1024,64
    python -m hw4.neighbours --passes both --regime burst --graphs --json table.json
    python -m hw4.neighbours --decode --contracts f32 bf16 --cells 64,32,8,8192,128 --peers cudnn fa2 paged

Both sides run in one process, on the same tensors, with samples in the order A B B A. A ratio is the peer's time over
ours in two neighbouring samples; the table has the median of the ratios and their spread (half the interquartile range,
in percent). Each sample records the SM clock, watts and temperature while it runs; a pair whose clocks differ by more
than 1 % is discarded and counted. sustained: back to back, after a warm-up to a steady clock. burst: the GPU idles
before each sample. --decode: one query row against caches, several of them in turns, so that L2 has none of the next;
its rate is that of reading K and V. The peers paged and lengths are hw4 itself, with the cache in pages that lie in
disorder, and as packed sequences instead of a batch.
"""
import argparse
import contextlib
import ctypes
import json
import math
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(f"neighbours: needs PyTorch 2.4 or later: {error}")

from . import attention, library, shapes, torch_op

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}
PEERS = (*BACKENDS, "naive", "paged", "lengths")
CELLS = ("16,32,1024,64", "4,16,8192,64", "2,16,8192,128")  # B, H, N, d
DECODE_CELLS = ("64,32,32,8192,128", "64,32,8,8192,128", "64,64,8,8192,128", "1,32,8,131072,128")  # B, H, H_kv, N, d
PAGE_KEYS = 64
CACHES_BYTES = 256 << 20  # of all caches that take turns
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
VALUES = {"normal": lambda shape: torch.randn(shape, device="cuda"),
          "uniform": lambda shape: torch.rand(shape, device="cuda") * 6 - 3}
SAMPLE_SECONDS = 0.02
WARM_UP_SECONDS = 0.5
IDLE_SECONDS = 0.25
CLOCKS_APART = 0.01


class Sensors:
    """A GPU's clock, power and temperature from NVML."""

    def __init__(self, index):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self.require(self.nvml.nvmlInit_v2())
        bus = torch.cuda.get_device_properties(index)
        name = f"{bus.pci_domain_id:08x}:{bus.pci_bus_id:02x}:{bus.pci_device_id:02x}.0".encode()
        self.require(self.nvml.nvmlDeviceGetHandleByPciBusId_v2(name, ctypes.byref(self.device)))

    @staticmethod
    def require(status):
        if status != 0:
            raise RuntimeError(f"NVML returns {status}")

    def read(self):
        clock, milliwatts, celsius = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        self.require(self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(clock)))
        self.require(self.nvml.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(milliwatts)))
        self.require(self.nvml.nvmlDeviceGetTemperature(self.device, 0, ctypes.byref(celsius)))
        return {"mhz": clock.value, "watts": milliwatts.value / 1000, "celsius": celsius.value}


def naive(q, k, v, causal):
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


def forward_of(name, q, k, v, causal):
    """A function without arguments that computes O."""
    if name in shapes.CONTRACTS:
        return lambda: torch_op.attention(q, k, v, causal=causal, contract=name)
    if name == "naive":
        return lambda: naive(q, k, v, causal)
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def packed_of(contract, q, k, v, causal):
    """The same as packed sequences of equal lengths."""
    rows = [x.transpose(1, 2).flatten(0, 1).contiguous() for x in (q, k, v)]
    lengths = [q.shape[2]] * q.shape[0]
    return lambda: attention(*rows, causal=causal, contract=contract, lengths=lengths)


def decode_of(name, contract, q, k, v):
    """A function without arguments that computes O of one query row a head."""
    if name not in (contract, "paged"):
        return forward_of(name, q, k, v, False)
    batches, kv_heads, keys, dim = k.shape
    lengths = torch.full((batches,), keys, dtype=torch.int32, device="cuda")
    pages = None
    if name == "paged":
        columns = keys // PAGE_KEYS
        places = torch.randperm(batches * columns, device="cuda")
        pages = places.argsort().view(batches, columns).int()  # row i of a cache cut into pages goes to pages[i]
        k, v = (x.view(batches, kv_heads, columns, PAGE_KEYS, dim).transpose(1, 2).flatten(0, 1)[places].contiguous()
                for x in (k, v))
    return lambda: torch_op.decode(q, k, v, lengths, pages, True, None, contract, False, False)


def in_turns(works):
    def run():
        with torch.no_grad():
            for work in works:
                work()
    return run


def work_of(name, contract, passes, sets, causal):
    """The timed work, as a function without arguments. It runs once for each of the sets of tensors."""
    if passes == "decode":
        return in_turns([decode_of(name, contract, *tensors) for tensors in sets])
    q, k, v, d_o = sets[0]
    if name == "lengths":
        return in_turns([packed_of(contract, q, k, v, causal)])
    forward = forward_of(name, q, k, v, causal)
    if passes == "forward":
        def run():
            with torch.no_grad():
                forward()
        return run
    if passes == "both":
        return lambda: torch.autograd.grad(forward(), (q, k, v), d_o)
    o = forward()
    return lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)


def captured(work):
    """The same work as a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class Sampler:
    def __init__(self, sensors, idle_s):
        self.sensors, self.idle_s = sensors, idle_s

    def sample(self, work, launches, times):
        """The seconds of the work, done `times` times in a launch, and the sensors' readings while launches run."""
        if self.idle_s:
            torch.cuda.synchronize()
            time.sleep(self.idle_s)
            work()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(launches):
            work()
        end.record()
        seen = self.sensors.read()
        end.synchronize()
        return {"seconds": begin.elapsed_time(end) / 1000 / launches / times, **seen}


def launches_for(work):
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return max(1, min(1000, round(SAMPLE_SECONDS / (time.perf_counter() - start))))


def warm_up(works):
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        for work, launches in works:
            for _ in range(launches):
                work()
        torch.cuda.synchronize()


def compare(sampler, ours, peer, rounds, sustained, times):
    """The samples of both in turns, the ratios of neighbours, and the number of discarded pairs. One call of a work
    does it `times` times."""
    works = [(work, launches_for(work)) for work in (ours, peer)]
    if sustained:
        warm_up(works)
    samples, ratios, thrown = {"ours": [], "peer": []}, [], 0
    for _ in range(rounds):
        a1, b1, b2, a2 = (sampler.sample(*works[i], times) for i in (0, 1, 1, 0))
        samples["ours"] += [a1, a2]
        samples["peer"] += [b1, b2]
        for mine, other in ((a1, b1), (a2, b2)):
            if abs(mine["mhz"] - other["mhz"]) > CLOCKS_APART * max(mine["mhz"], other["mhz"]):
                thrown += 1
            else:
                ratios.append(other["seconds"] / mine["seconds"])
    return samples, ratios, thrown


def summary(samples, ratios, thrown, rate, amount):
    def median(side, field):
        return statistics.median(sample[field] for sample in samples[side])

    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [0, 0, 0]
    ratio = statistics.median(ratios) if ratios else None
    return {"ratio": ratio, "spread_percent": 50 * (quartiles[2] - quartiles[0]) / ratio if ratio else None,
            "pairs": len(ratios), "thrown_away": thrown,
            **{f"{side}_{what}": value for side in samples for what, value in (
                ("seconds", median(side, "seconds")), (rate, amount / median(side, "seconds")),
                ("mhz", median(side, "mhz")), ("watts", median(side, "watts")), ("celsius", median(side, "celsius")))}}


def work_in(cell, passes, causal, dtype):
    """What a rate counts: "tflops" and their number, or "gb_per_s" of K and V and theirs."""
    if passes == "decode":
        batch, _, kv_heads, tokens, dim = cell
        return "gb_per_s", 2e-9 * batch * kv_heads * tokens * dim * DTYPES[dtype].itemsize
    batch, heads, tokens, dim = cell
    pairs = tokens * (tokens + 1) / 2 if causal else tokens * tokens
    return "tflops", {"forward": 4e-12, "backward": 1e-11, "both": 1.4e-11}[passes] * batch * heads * pairs * dim


def sets_of(cell, values, args):
    """Tensors q, k, v and, where there is backward, dO. For decode as many caches as take turns."""
    torch.manual_seed(0)
    if args.passes != "decode":
        trains = args.passes != "forward"
        return [[VALUES[values](cell).to(DTYPES[args.dtype]).requires_grad_(trains and i < 3) for i in range(4)]]
    batch, heads, kv_heads, tokens, dim = cell
    shapes_of_set = ((batch, heads, 1, dim), *[(batch, kv_heads, tokens, dim)] * 2)
    bytes_of_set = 1e9 * work_in(cell, args.passes, False, args.dtype)[1]
    return [[VALUES[values](shape).to(DTYPES[args.dtype]) for shape in shapes_of_set]
            for _ in range(math.ceil(CACHES_BYTES / bytes_of_set))]


def rows_of(args):
    torch.backends.cuda.matmul.allow_tf32 = False
    sampler = Sampler(Sensors(torch.cuda.current_device()), IDLE_SECONDS if args.regime == "burst" else 0)
    for text in args.cells:
        cell = tuple(int(number) for number in text.split(","))
        for values in args.values:
            tensors = sets_of(cell, values, args)
            for causal in (False,) if args.passes == "decode" else (False, True):
                for contract in args.contracts:
                    for peer in args.peers:
                        yield row_of(args, sampler, cell, values, causal, contract, peer, tensors)


def row_of(args, sampler, cell, values, causal, contract, peer, tensors):
    row = {"cell": cell, "values": values, "causal": causal, "contract": contract, "peer": peer}
    with contextlib.ExitStack() as stack:
        if peer in BACKENDS:
            stack.enter_context(sdpa_kernel(BACKENDS[peer]))  # entered here, since it takes microseconds
        return measured(args, sampler, cell, causal, contract, peer, tensors, row)


def measured(args, sampler, cell, causal, contract, peer, tensors, row):
    works = []
    try:
        for name in (contract, peer):
            work = work_of(name, contract, args.passes, tensors, causal)
            works.append(captured(work) if args.graphs else work)
            works[-1]()
            torch.cuda.synchronize()
        found = compare(sampler, *works, args.rounds, args.regime == "sustained", len(tensors))
        return {**row, **summary(*found, *work_in(cell, args.passes, causal, args.dtype)), "samples": found[0]}
    except (RuntimeError, ValueError) as error:
        torch.cuda.synchronize()
        return {**row, "refused": str(error).splitlines()[0], "refused_by": name}


def line_of(row):
    name = f"{','.join(map(str, row['cell'])):18} {'causal' if row['causal'] else '':6} {row['values']:8} " \
           f"{row['contract']:8} {row['peer']:9}"
    if "refused" in row:
        return f"{name} {row['refused'][:80]}"
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
    spread = "-" if row["ratio"] is None else f"{row['spread_percent']:.1f}"
    ours, peer = (row[f"{side}_tflops"] if "ours_tflops" in row else row[f"{side}_gb_per_s"]
                  for side in ("ours", "peer"))
    return (f"{name} {ours:7.1f} {peer:7.1f} {ratio:>7} {spread:>6} {row['thrown_away']:6} "
            f"{row['ours_mhz']:5.0f} {row['peer_mhz']:5.0f} {row['ours_watts']:5.0f} {row['peer_watts']:5.0f}")


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m hw4.neighbours", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", metavar="B,H,N,d", help="with --decode B,H,H_kv,N,d")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=("cudnn", "fa2"))
    parser.add_argument("--contracts", nargs="+", choices=shapes.CONTRACTS)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--values", nargs="+", choices=VALUES, default=("normal",))
    parser.add_argument("--passes", choices=("forward", "backward", "both"), default="forward")
    parser.add_argument("--decode", dest="passes", action="store_const", const="decode")
    parser.add_argument("--regime", choices=("sustained", "burst"), default="sustained")
    parser.add_argument("--graphs", action="store_true", help="both sides as CUDA graphs")
    parser.add_argument("--rounds", type=int, default=5, help="turns A B B A of a row (default 5)")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args(argv)
    if args.graphs and args.passes == "backward":
        parser.error("--graphs takes --passes forward or both: backward runs in forward's stream, outside the graph")
    if ("paged" in args.peers and args.passes != "decode") or ("lengths" in args.peers and args.passes != "forward"):
        parser.error("the peer paged goes with --decode, and lengths with --passes forward")
    args.cells = args.cells or (DECODE_CELLS if args.passes == "decode" else CELLS)
    if not args.contracts:
        args.contracts = [shapes.DEFAULT_CONTRACT[torch_op.ELEMENTS[DTYPES[args.dtype]]]]
    return args


def main(argv=None):
    args = parse(argv)
    if not torch.cuda.is_available() or library.LIBRARY.hw4_gpu() != 0:
        reason = "PyTorch finds no GPU" if not torch.cuda.is_available() else library.LIBRARY.hw4_error().decode()
        print(f"neighbours: needs a GPU: {reason}", file=sys.stderr)
        return 69
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {args.dtype}, {args.passes}, {args.regime}"
          f"{', CUDA graphs' if args.graphs else ''}, {args.rounds} rounds\n"
          f"{'cell':18} {'mask':6} {'values':8} {'ours':8} {'peer':9} "
          f"{'GB/s' if args.passes == 'decode' else 'TFLOP/s':>7} {'peer':>7} {'ratio':>7} "
          f"{'+-%':>6} {'thrown':>6} {'MHz':>5} {'peer':>5} {'W':>5} {'peer':>5}")
    rows = []
    with contextlib.suppress(KeyboardInterrupt):
        for row in rows_of(args):
            rows.append(row)
            print(line_of(row), flush=True)
    if args.json:
        frame = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "hw4": library.version(),
                 **{name: getattr(args, name) for name in ("dtype", "passes", "regime", "graphs", "rounds")}}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({**frame, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
