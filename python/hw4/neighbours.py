"""Times hw4 beside PyTorch's attention (cuDNN, FlashAttention-2, memory-efficient, naive) on one GPU, fairly:

    python -m hw4.neighbours                                          # bf16 beside cuDNN and FlashAttention-2
    python -m hw4.neighbours --dtype float32 --contracts f32 fixed --peers efficient naive --cells 4,16,1024,64
    python -m hw4.neighbours --passes forward backward --regime sustained burst --values normal uniform --json t.json
    python -m hw4.neighbours --cells 8,1,256,64 --graphs --and --cells 4,16,8192,64 --passes both
    python -m hw4.neighbours --decode --contracts f32 bf16 --cells 64,32,8,8192,128 --peers cudnn fa2 paged

hw4 and its peers run in one process, on the same tensors, in turns: A B B A, or A B C C B A with two peers. A ratio is
a peer's time over ours in the same half of a turn; the table has the median of the ratios and their spread (half the
interquartile range, in percent). Each sample records the SM clock, watts and temperature while it runs; a pair whose
clocks differ by more than 1 % is discarded and counted. While fewer than 5 pairs are left, or the samples of one side
drift by more than 2 %, more rounds are taken, up to 3 times as many; with a drift the oldest round is dropped.
sustained: back to back, after a warm-up to a steady clock. burst: the GPU idles before each sample. --decode: one query
row against caches, several of them in turns, so that L2 has none of the next; its rate is that of reading K and V. Each
peer computes the faster of two forms: heads that share K and V (enable_gqa), and their queries as rows of one head. The
peers paged and lengths are hw4 itself, with the cache in pages that lie in disorder, and as packed sequences instead of
a batch.
"""
import argparse
import contextlib
import ctypes
import itertools
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
SAMPLE_SECONDS = 0.01
LEAST_WARM_UP_SECONDS, WARM_UP_SECONDS = 0.1, 0.5
IDLE_SECONDS = 0.02  # the GPU then works a third of the time, and its power limit does not slow it
CLOCKS_APART = 0.01
LEAST_PAIRS = 5
MOST_DRIFT = 0.02
MOST_ROUNDS = 3  # times --rounds


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
    if name == "naive":
        return forward_of(name, q, k, v, False)
    if name not in (contract, "paged"):
        return fastest_form(q, k, v)
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


def fastest_form(q, k, v):
    """PyTorch's attention of one query row: with shared heads of K and V, or with their queries as rows of a head."""
    grouped = q.shape[1] != k.shape[1]
    forms = [lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=grouped)]
    if grouped:
        rows = q.view(*k.shape[:2], -1, k.shape[-1])
        forms.append(lambda: F.scaled_dot_product_attention(rows, k, v))
    found, refused = [], None
    for form in forms:
        try:
            found.append((seconds_of(form), form))
        except RuntimeError as error:
            refused = error
    if not found:
        raise refused
    return min(found, key=lambda one: one[0])[1]


def seconds_of(work):
    """A second run takes about this long."""
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


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


def context_of(name):
    return sdpa_kernel(BACKENDS[name]) if name in BACKENDS else contextlib.nullcontext()


class Work:
    """What a sample times: `launches` calls, each of which does the work `times` times."""

    def __init__(self, name, run, times):
        self.name, self.run, self.times = name, run, times
        self.launches = max(1, min(1000, round(SAMPLE_SECONDS / seconds_of(run))))

    def launch(self):
        for _ in range(self.launches):
            self.run()


class Sampler:
    def __init__(self, sensors):
        self.sensors = sensors

    def sample(self, work, idles):
        """The seconds of the work, and the readings while it runs."""
        with context_of(work.name):  # entered outside the sample, since it takes microseconds
            if idles:
                torch.cuda.synchronize()
                time.sleep(IDLE_SECONDS)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if work.launches > 1:
                work.run()  # keeps the GPU busy until the sample's launches are in its queue
            begin.record()
            work.launch()
            end.record()
            seen = self.sensors.read()
            end.synchronize()
        return {"seconds": float(f"{begin.elapsed_time(end) / 1000 / work.launches / work.times:.6g}"), **seen}

    def warm_up(self, works):
        """Until the clock is steady."""
        start, clocks = time.perf_counter(), [0]
        while (spent := time.perf_counter() - start) < WARM_UP_SECONDS:
            clocks = [*clocks[-2:], self.sensors.read()["mhz"]]
            if spent > LEAST_WARM_UP_SECONDS and min(clocks) > (1 - CLOCKS_APART) * max(clocks):
                return
            for work in works:
                with context_of(work.name):
                    work.launch()
            torch.cuda.synchronize()


def drifts(samples):
    """Whether the last half of the samples differs by more than 2 % from the first."""
    half = len(samples) // 2
    return abs(statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1) > MOST_DRIFT


def pairs_of(mine, others):
    """The pairs of samples in the same half of a turn whose clocks are equal."""
    return [(a, b) for a, b in zip(mine, others) if abs(a["mhz"] - b["mhz"]) <= CLOCKS_APART * max(a["mhz"], b["mhz"])]


def compared(sampler, works, rounds, idles):
    """The samples of each work, of which the first is ours, and the number of rounds."""
    samples, taken = {name: [] for name in works}, 0

    def wanting():
        mine, *others = samples.values()
        if len(mine) < 2 * rounds or any(len(pairs_of(mine, other)) < LEAST_PAIRS for other in others):
            return True
        if not any(drifts([sample["seconds"] for sample in some]) for some in samples.values()):
            return False
        for some in samples.values() if taken < MOST_ROUNDS * rounds else ():
            del some[:2]
        return True

    if not idles:
        sampler.warm_up(works.values())
    while wanting() and taken < MOST_ROUNDS * rounds:
        for name in (*works, *reversed(works)):
            samples[name].append(sampler.sample(works[name], idles))
        taken += 1
    return samples, taken


def summary(mine, others):
    """The ratio of a peer's samples to ours."""
    ratios = [b["seconds"] / a["seconds"] for a, b in pairs_of(mine, others)]
    counts = {"pairs": len(ratios), "thrown_away": len(mine) - len(ratios)}
    if len(ratios) < 2:
        return {"ratio": None, "spread_percent": None, **counts}
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return {"ratio": ratio, "spread_percent": 50 * (high - low) / ratio, **counts}


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
    if args.passes != ["decode"]:
        trains = args.passes != ["forward"]
        return [[VALUES[values](cell).to(DTYPES[args.dtype]).requires_grad_(trains and i < 3) for i in range(4)]]
    batch, heads, kv_heads, tokens, dim = cell
    shapes_of_set = ((batch, heads, 1, dim), *[(batch, kv_heads, tokens, dim)] * 2)
    bytes_of_set = 1e9 * work_in(cell, "decode", False, args.dtype)[1]
    return [[VALUES[values](shape).to(DTYPES[args.dtype]) for shape in shapes_of_set]
            for _ in range(math.ceil(CACHES_BYTES / bytes_of_set))]


def rows_of(args, sampler):
    for text in args.cells:
        cell = tuple(int(number) for number in text.split(","))
        for values in args.values:
            tensors = sets_of(cell, values, args)
            for regime, passes, causal, contract in itertools.product(
                    args.regime, args.passes, (False,) if args.passes == ["decode"] else (False, True), args.contracts):
                unit, amount = work_in(cell, passes, causal, args.dtype)
                yield {"section": args.section, "dtype": args.dtype, "passes": passes, "regime": regime,
                       "graphs": args.graphs, "cell": cell, "values": values, "causal": causal, "contract": contract,
                       "unit": unit, "amount": amount,
                       **measured(args, sampler, tensors, regime, passes, causal, contract)}


def measured(args, sampler, tensors, regime, passes, causal, contract):
    """Samples as columns, and what they say of each peer: a ratio, or why it refused."""
    works, peers = {}, {}
    for name in (contract, *args.peers):
        try:
            with context_of(name):
                run = work_of(name, contract, passes, tensors, causal)
                run = captured(run) if args.graphs else run
                works[name] = Work(name, run, len(tensors))
        except (RuntimeError, ValueError) as error:
            torch.cuda.synchronize()
            if name == contract:
                return {"rounds": 0, "series": {}, "peers": dict.fromkeys(args.peers, refusal(name, error))}
            peers[name] = refusal(name, error)
    samples, rounds = compared(sampler, works, args.rounds, regime == "burst") if len(works) > 1 else ({}, 0)
    return {"rounds": rounds,
            "peers": {name: peers.get(name) or summary(samples[contract], samples[name]) for name in args.peers},
            "series": {name: {field: [sample[field] for sample in some] for field in some[0]}
                       for name, some in samples.items()}}


def refusal(name, error):
    return {"refused": str(error).splitlines()[0], "refused_by": name}


def lines_of(row):
    for peer, found in row["peers"].items():
        name = f"{','.join(map(str, row['cell'])):18} {'causal' if row['causal'] else '':6} {row['values']:8} " \
               f"{row['regime']:9} {row['passes']:8} {row['contract']:8} {peer:9}"
        if "refused" in found:
            yield f"{name} {found['refused'][:80]}"
            continue
        ratio, spread = ("-", "-") if found["ratio"] is None else (f"{found['ratio']:.3f}",
                                                                    f"{found['spread_percent']:.1f}")
        sides = [{field: statistics.median(values) for field, values in row["series"][side].items()}
                 for side in (row["contract"], peer)]
        rates = " ".join(f"{row['amount'] / side['seconds']:7.1f}" for side in sides)
        sensed = " ".join(f"{side[field]:5.0f}" for field in ("mhz", "watts") for side in sides)
        yield f"{name} {rates} {ratio:>7} {spread:>6} {row['rounds']:6} {found['thrown_away']:6} {sensed}"


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m hw4.neighbours", usage="%(prog)s [options] [--and options] ...",
                                     description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="--and begins another measurement in the same process.")
    parser.add_argument("--cells", nargs="+", metavar="B,H,N,d", help="with --decode B,H,H_kv,N,d")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=("cudnn", "fa2"))
    parser.add_argument("--contracts", nargs="+", choices=shapes.CONTRACTS)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--values", nargs="+", choices=VALUES, default=("normal",))
    parser.add_argument("--passes", nargs="+", choices=("forward", "backward", "both"), default=["forward"])
    parser.add_argument("--decode", dest="passes", action="store_const", const=["decode"])
    parser.add_argument("--regime", nargs="+", choices=("sustained", "burst"), default=("sustained",))
    parser.add_argument("--graphs", action="store_true", help="both sides as CUDA graphs")
    parser.add_argument("--rounds", type=int, default=5, help="turns of a row (default 5)")
    parser.add_argument("--section", default="", metavar="WORD", help="a word that the rows of --json carry")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args(argv)
    if args.graphs and "backward" in args.passes:
        parser.error("--graphs takes --passes forward or both: backward runs in forward's stream, outside the graph")
    if ("paged" in args.peers and args.passes != ["decode"]) or (
            "lengths" in args.peers and args.passes != ["forward"]):
        parser.error("the peer paged goes with --decode, and lengths with --passes forward")
    args.cells = args.cells or (DECODE_CELLS if args.passes == ["decode"] else CELLS)
    if not args.contracts:
        args.contracts = [shapes.DEFAULT_CONTRACT[torch_op.ELEMENTS[DTYPES[args.dtype]]]]
    return args


def main(argv=None):
    words, runs = list(sys.argv[1:] if argv is None else argv), []
    for starts, some in itertools.groupby(words, lambda word: word == "--and"):
        runs += [] if starts else [parse(list(some))]
    runs = runs or [parse([])]
    if not torch.cuda.is_available() or library.LIBRARY.hw4_gpu() != 0:
        reason = "PyTorch finds no GPU" if not torch.cuda.is_available() else library.LIBRARY.hw4_error().decode()
        print(f"neighbours: needs a GPU: {reason}", file=sys.stderr)
        return 69
    torch.backends.cuda.matmul.allow_tf32 = False
    sampler, rows = Sampler(Sensors(torch.cuda.current_device())), []
    with contextlib.suppress(KeyboardInterrupt):
        for args in runs:
            print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {args.dtype}"
                  f"{', CUDA graphs' if args.graphs else ''}, {args.rounds} rounds or more\n"
                  f"{'cell':18} {'mask':6} {'values':8} {'regime':9} {'pass':8} {'ours':8} {'peer':9} "
                  f"{'GB/s' if args.passes == ['decode'] else 'TFLOP/s':>7} {'peer':>7} {'ratio':>7} "
                  f"{'+-%':>6} {'rounds':>6} {'thrown':>6} {'MHz':>5} {'peer':>5} {'W':>5} {'peer':>5}")
            for row in rows_of(args, sampler):
                rows.append(row)
                print("\n".join(lines_of(row)), flush=True)
    path = next((args.json for args in runs if args.json), None)
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "hw4": library.version(),
                       "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
