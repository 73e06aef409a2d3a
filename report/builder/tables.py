"""The tables, in Markdown."""
from __future__ import annotations

import re
from statistics import median

from . import beside, courses, sources, training
from .errors import Failed
from .facts import per_load, shared_pipe_pct, waiting
from .measured import MEMORY_BYTES, T28, error_name
from .schema import DOCUMENTS
from .spread import Spread
from .words import NOT_KNOWN, known, markdown, ms, scientific, significant

EXACT = "the same bytes on every machine"
BOUNDED = "an error within a bound, the same bytes in every run"
PROMISES = {"f32": EXACT, "fixed": EXACT, "fixed16": EXACT, "bf16": BOUNDED, "fp16": BOUNDED}
WITH_BACKWARD = ("f32", "bf16", "fp16")
RESULTS_CELL = (4, 16, 8192, 64)  # B, H, N, d
MIB = 2.0 ** 20


def code(words):
    """A command in code font."""
    return NOT_KNOWN if words is None else f"`{words}`"


# ---- The results


def results(data):
    """Every contract: forward, causal and backward, beside the fastest peer."""
    errors = data.errors("uniform", *T28[1:])
    rows = [(f"`{contract}`", promise, scientific(errors[error_name(contract)]),
             *operation(data, contract, "forward", False), *operation(data, contract, "forward", True),
             *operation(data, contract, "backward", False)) for contract, promise in PROMISES.items()]
    titles = [title for name in ("forward", "causal", "backward")
              for title in (f"{name}: TFLOP/s, of peak", f"{name} × best peer")]
    return markdown(("contract", "promise", "largest error", *titles), rows, "llr" + "r" * len(titles))


def operation(data, contract, passes, causal):
    """The rate with its fraction of the peak, and the speed-up over the best peer."""
    if passes == "backward" and contract not in WITH_BACKWARD:
        return "–", "–"
    some = beside.pairs(data, "results", "lengths", regime="sustained", values="normal", contract=contract,
                        passes=passes, causal=causal, cell=RESULTS_CELL)
    rates, best = [pair.rate for pair in some if pair.fair], beside.best_peer(some)
    return (f"{significant(rates[0])}, {100 * rates[0] / data.peak(contract):.0f} %" if rates else NOT_KNOWN,
            f"{best.ratio:.2f} × {beside.PEERS[best.peer]}" if best else NOT_KNOWN)


def losses(data):
    """The comparisons in which the peer is faster, by contract, tensors, pass and peer."""
    groups = {}
    for pair in beside.sustained(data):
        groups.setdefault((pair.contract, pair.dtype, pair.passes, pair.peer), []).append(pair)
    lost = [(min(some, key=lambda pair: pair.ratio), some) for some in groups.values()]
    rows = [(code(worst.contract), worst.dtype, worst.passes, beside.PEERS[worst.peer],
             f"{sum(pair.ratio < 1 for pair in some)} of {len(some)}", f"{worst.ratio:.2f}", worst.title)
            for worst, some in sorted(lost, key=lambda group: group[0].ratio) if worst.ratio < 1]
    return markdown(("contract", "tensors", "pass", "peer", "slower in", "least ratio", "at B, H, N, d"), rows,
                    "llllrrl")


def compared(name, *fields, **wanted):
    """A row for each cell: the rate, and the ratios to each peer, regime and kind of values; n/a where that comparison
    is not fair, empty where there is none."""
    def place(pair):
        return pair.peer, pair.regime == "burst", pair.values

    def table(data):
        pairs = beside.pairs(data, name, **wanted)
        columns = sorted({place(pair): pair for pair in pairs}.items())
        several, rows = len({key[1:] for key, _ in columns}) > 1, []
        for some in beside.by_cell(pairs).values():
            found = {place(pair): pair for pair in some}
            usual = [pair for key, pair in found.items() if pair.fair and key[1:] == (False, "normal")]
            rows.append((*(code(getattr(some[0], field)) for field in fields), some[0].passes, some[0].title,
                         *((significant(usual[0].rate), f"{usual[0].mhz:.0f}") if usual else (NOT_KNOWN,) * 2),
                         *("" if key not in found else f"{found[key].ratio:.2f} ± {found[key].spread_percent:.1f} %"
                           if found[key].fair else NOT_KNOWN for key, _ in columns)))
        titles = [", ".join((beside.PEERS[pair.peer], *((pair.regime, pair.values) if several else ())))
                  for _, pair in columns]
        heads = (*(field.replace("dtype", "tensors") for field in fields), "pass", "B, H, N, d", "TFLOP/s", "MHz")
        return markdown((*heads, *titles), rows, "l" * (len(fields) + 2) + "r" * (len(titles) + 2))
    return table


def beside_decode(data):
    """The rate of reading a cache beside the fastest peer's."""
    rows = []
    for some in beside.by_cell(beside.pairs(data, "decode", passes="decode")).values():
        one, best = next((pair for pair in some if pair.fair), None), beside.best_peer(some)
        batch, heads, kv_heads, tokens, dim = some[0].cell
        rows.append((code(some[0].contract), some[0].dtype, f"{batch}, {heads}/{kv_heads}, {tokens}, {dim}",
                     *((significant(one.seconds * 1e6), f"{one.rate:.0f}",
                        f"{100 * one.rate * 1e9 / MEMORY_BYTES:.0f} %") if one else (NOT_KNOWN,) * 3),
                     *((f"{best.ratio:.2f} × {beside.PEERS[best.peer]}", f"{best.spread_percent:.1f}") if best else
                       (NOT_KNOWN,) * 2)))
    return markdown(("contract", "cache", "B, heads of Q/K, N, d", "µs", "GB/s", "of 4.8 TB/s", "× best peer",
                     "±, %"), rows, "lll" + "r" * 5)


def published(data):
    """FlashAttention-3's figures, beside our bf16 with as many heads."""
    ours = courses.rates_of_bf16(data)

    def cells(rate):
        return (NOT_KNOWN,) * 2 if rate is None else (significant(rate), f"{100 * rate / data.peak('bf16'):.0f} %")

    rows = [(f"{rate['dim']}", "causal" if rate["causal"] else "none", f"{rate['tokens']}", *cells(rate["tflops"]),
             *cells(ours.get((rate["dim"], rate["causal"], rate["tokens"])))) for rate in data["published"]["rates"]]
    return markdown(("d", "mask", "N", "FlashAttention-3, TFLOP/s", "of peak", "`bf16`, TFLOP/s", "of peak"), rows,
                    "rlrrrrr")


def ablation(data):
    """Each part's contribution: the rate without it, relative to the whole kernel's."""
    rows = [(code(cell["kernel"]), cell["shape"], cell["without"],
             significant(1e-12 * cell["flop"] / median(cell["seconds"])) if share else NOT_KNOWN, known(share, ".2f"))
            for cell, share in data.ablation]
    return markdown(("kernel", "shape", "without", "TFLOP/s", "of its rate"), rows, "lllrr")


# ---- Ladders


def rungs(contract):
    """A row per kernel: its idea, and on each shape the rate, the gain and the fraction of the peak."""
    def table(data):
        shapes = data.ladders(contract)
        peak, of_shapes = data.peak("f32" if contract == "backward" else contract), list(shapes.values())
        rows = [(code(column[0].kernel), sources.idea(column[0].kernel),
                 *(cell for rung, before in zip(column, ([None] * len(column) if not index else lines[index - 1]))
                   for cell in rung_cells(rung, before, peak)))
                for lines in [list(zip(*of_shapes))] for index, column in enumerate(lines)]
        titles = [title for name in shapes for title in (f"{name}: ms", "TFLOP/s", "× before", "of peak")]
        return markdown(("kernel", "idea", *titles), rows, "ll" + "r" * len(titles))
    return table


def rung_cells(rung, before, peak):
    if rung.seconds is None:
        return [NOT_KNOWN] * 4
    gain = rung.over(before) if before else None
    return [ms(rung.seconds.mid), significant(rung.tflops.mid), "" if before is None else known(gain, ".2f"),
            f"{100 * rung.tflops.mid / peak:.0f} %"]


def tensor_profile(data):
    """Profiler metrics of the kernels on tensor cores."""
    rows = []
    for contract in ("fixed", "fixed16", "bf16"):
        for shape in data.ladders(contract):
            for kernel, launch in data.launches(contract, shape).items():
                get = launch["metrics"].get
                rows.append((code(kernel), shape, known(get("tensor_pipe_pct"), ".0f"),
                             known(get("issue_slots_busy_pct"), ".0f"), known(get("l2_throughput_pct"), ".0f"),
                             known(get("registers"), ".0f"), known(get("shared_bytes_per_block"), ".0f", 1 / 1024)))
    return markdown(("kernel", "shape", "tensor cores active, %", "issue slots busy, %", "L2, % of its peak",
                     "registers", "shared memory per block, KiB"), rows, "llrrrrr")


# ---- The machine, and the command of each measurement


def machine(data):
    kernels, device = data["half_ladder"], data.device
    start, end = (kernels["gpu"][when][0] for when in ("at_start", "at_end"))
    host = kernels["machine"]
    rows = [
        ("GPU", f"{start['name']}, {device['multiprocessors']:.0f} multiprocessors, float32 peak "
                f"{device['peak_flop_per_second'] * 1e-12:.1f} TFLOP/s, memory "
                f"{device['peak_dram_bytes_per_second'] * 1e-12:.2f} TB/s"),
        ("clocks", f"multiprocessors {known(end['sm_clock_mhz'], '.0f')} MHz after the kernels (at most "
                   f"{known(start['sm_clock_max_mhz'], '.0f')}), memory {known(end['memory_clock_mhz'], '.0f')} MHz; "
                   f"not locked"),
        ("power, temperature", f"{known(start['power_w'], '.0f')} W and {known(start['temperature_c'], '.0f')} °C "
                               f"before, {known(end['power_w'], '.0f')} W and {known(end['temperature_c'], '.0f')} °C "
                               f"after the kernels; limit {known(start['power_limit_w'], '.0f')} W"),
        ("software", f"driver {start['driver']}, CUDA {kernels['ladder'][0]['cuda']}, PyTorch "
                     f"{data['half_errors']['torch']}, Nsight Compute {data['profile_ladder']['ncu']['version']}, "
                     f"Python {host['python']}"),
        ("host", f"{host['processor']}, {host['processors']} processors, {host['system']}"),
        ("compilers", f"{kernels['compilers'][0]}; nvcc of CUDA {kernels['ladder'][0]['cuda']}"),
        ("host code", code(kernels["build"]["cpp"])),
        ("GPU code", code(kernels["build"]["cu"])),
    ]
    return markdown(("", ""), rows, "ll")


def measurements(data):
    """The origin of each file."""
    rows = []
    for name in DOCUMENTS:
        document = data.documents.get(name, {})
        if "git" in document:
            state = " with changes" if document["git"]["dirty"] else ""
            rows.append((f"[{name}](data/{name})", code(" ".join(document["command"])),
                         f"{document['git']['commit'][:10]}{state}", f"{document['wall_seconds']:.0f} s"))
    return markdown(("data", "command", "commit", "took"), rows, "lllr")


# ---- The profiler


def profile(data):
    """The metrics that the course asks for."""
    rows = []
    for kernel, launch in data.launches("f32").items():
        get = launch["metrics"].get
        occupancy = f"{known(get('achieved_occupancy_pct'))} of {known(get('theoretical_occupancy_pct'))}"
        rows.append((f"`{kernel}`", occupancy, known(get("sm_efficiency_pct")),
                     known(get("warp_execution_efficiency_pct")),
                     *(known(get(f"{what}_bytes_per_second"), ".0f", 1e-9) for what in
                       ("shared_load", "shared_store", "global_load", "global_store")),
                     *(known(get(f"{what}_bytes_per_second"), ".1f", 1e-9) for what in ("dram_read", "dram_write"))))
    return markdown(("kernel", "occupancy, %", "SM efficiency, %", "warp efficiency, %", "shared load, GB/s",
                     "shared store", "global load", "global store", "DRAM read", "DRAM write"), rows, "lrrrrrrrrr")


def profile_reasons(data):
    """The metrics that explain a rung."""
    rows = []
    for kernel, launch in data.launches("f32").items():
        get = launch["metrics"].get
        stalls = waiting(launch)
        top = [reason for reason in sorted(stalls, key=stalls.get, reverse=True)[:3] if stalls[reason] >= 0.05]
        rows.append((f"`{kernel}`", known(get("issue_slots_busy_pct")), known(get("ipc"), ".2f"),
                     known(get("fma_pipe_pct")), known(get("fma_share_pct")),
                     known(shared_pipe_pct(launch["metrics"], data.device), ".0f"),
                     known(per_load(launch), ".2f"),
                     known(get("bytes_per_sector_load_pct"), ".0f"), known(get("registers"), ".0f"),
                     known(get("shared_bytes_per_block"), ".1f", 1 / 1024),
                     ", ".join(f"{reason.replace('_', ' ')} {stalls[reason]:.1f}" for reason in top) or NOT_KNOWN))
    return markdown(("kernel", "issue slots busy, %", "IPC", "FMA pipe, %", "FMA pipe's share of instructions, %",
                     "shared-memory pipe, %", "passes per shared load", "used of global sectors, %", "registers",
                     "shared memory per block, KiB", "cycles a warp waits for"), rows, "lrrrrrrrrrl")


def no_help(data):
    """Failed attempts, from the kernels' cards."""
    rows = [(f"`{kernel}`", words.replace(" x ", " × ")) for kernel in data.launches("f32")
            if (words := sources.no_help(kernel))]
    return markdown(("kernel", "tried without gain"), rows, "ll")


# ---- Whole runs

FILE_CASES = ("t01", "t12", "t22", "t28", "t30")


def files(data):
    """Medians of the whole command in ms, for some cases and for all together."""
    programs = ("context", "plain", "hw4", "1 stream", "linear copies")
    rows = [(name, f"{record['stages']['read_bytes'] * 1e-6:.0f}, {record['stages']['write_bytes'] * 1e-6:.0f}",
             *(ms(Spread.of(record["seconds"][program]).mid) if program in record["seconds"] else NOT_KNOWN
               for program in programs))
            for name in FILE_CASES for record in [data.file_case(name)]]
    totals = [sum(Spread.of(record["seconds"][program]).mid for record in data.file_cases) for program in programs[:3]]
    rows.append((f"all {len(data.file_cases)}", "", *map(ms, totals), "", ""))
    return markdown(("case", "input, output, MB", "a bare context", "plain copy, no arithmetic", "hw4", "one stream",
                     "flat copies"), rows, "llrrrrr")


START_UP = {"driver": "driver (`cudaGetDeviceCount`)", "context": "context",
            "32 MiB of huge pages: pin": "pin 32 MiB of huge pages",
            "launch of drawn_tiles, first": "first launch: the kernel's code is loaded",
            "launch of drawn_tiles, second": "second launch"}


def start_up(data):
    """The cost of the GPU for a process, step by step."""
    found = data["files"]["start_up"]["return"]
    steps = dict(reversed(re.fullmatch(r"\s*([\d.]+) ms  (.*)", line).groups()) for line in found["steps"])
    rows = [(title, f"{float(steps[name]):.2f}") for name, title in START_UP.items() if name in steps]
    rows.append(("before `main()` and after it", f"{found['outside_steps_seconds'] * 1e3:.2f}"))
    return markdown(("step", "ms"), rows, "lr")


# ---- Errors, and the CPU

ERROR_COLUMNS = {"hw4": "f32", "hw4_fixed": "fixed", "efficient": "PyTorch efficient", "naive": "PyTorch naive"}


def error(value):
    return f"{value:.1e}" if value else "0"


def distributions(data):
    """The largest error of a row relative to its largest result, and the root mean square of the errors."""
    titles = data["distributions"]["distributions"]
    rows = [(re.sub(r"(\d)%", r"\1 %", titles[case["distribution"]]), f"{case['dim']}",
             *(error(case["errors"][name][figure]) for figure in ("largest_of_row", "rms") for name in ERROR_COLUMNS))
            for case in data["distributions"]["cases"]]
    largest, *others = ERROR_COLUMNS.values()
    first = (f"of the row's largest: {largest}", *others)
    second = (f"root mean square: {largest}", *others)
    return markdown(("values", "d", *first, *second), rows, "lr" + "r" * 2 * len(ERROR_COLUMNS))


def half_errors(data):
    """The largest errors by kind of values, for the shortest and the longest rows."""
    document, titles = data["half_errors"], {"hw4_fixed16": "`fixed16`", "hw4_bf16": "`bf16`", **{
        name: name.replace("flash2", "FlashAttention-2,").replace("cudnn", "cuDNN,")
        for name in ("flash2 bf16", "cudnn bf16")}, "hw4_fp16": "`fp16`", "flash2 fp16": "FlashAttention-2, fp16",
        "naive tf32": "naive, TF32"}
    lengths = sorted({case["tokens"] for case in document["cases"]})
    cases = sorted((case for case in document["cases"] if case["tokens"] in (lengths[0], lengths[-1])),
                   key=lambda case: (list(document["distributions"]).index(case["distribution"]), case["tokens"]))
    rows = [(document["distributions"][case["distribution"]], f"{case['tokens']}", f"{case['dim']}",
             *(error(case["errors"][name]["largest"]) for name in titles)) for case in cases]
    return markdown(("values", "N", "d", *titles.values()), rows, "lrr" + "r" * len(titles))


def cpu(data):
    rates = [(record, record["flop"] * 1e-9 / median(record["seconds"])) for record in data["cpu"]["cases"]]
    rows = [(code(record["contract"]), code(record["kernel"]), ms(median(record["seconds"])), significant(rate),
             f"{rate / rates[0][1]:.2f}") for record, rate in rates]
    return markdown(("contract", "kernel", "ms", "GFLOP/s", "× `f32`"), rows, "llrrr")


# ---- Lab5


def lab5_sizes(data):
    """Forward's time over batch, heads and width."""
    rows = []
    for size in ("batch_size", "num_heads", "emb_dim"):
        others = {name: value for name, value in courses.BASE.items() if name != size}
        found = {}
        for row in courses.sweep(data, "lab5", **others):
            found.setdefault(row.cell[size], {})[row.impl] = row
        for value, by_impl in sorted(found.items()):
            rows.append((LAB5_SIZES[size], str(value), *(time_of(by_impl[impl], "forward") for impl in PROMISES
                                                         if impl != "fp16"),
                         *(significant(by_impl[impl].mib()) for impl in ("f32", "bf16"))))
    contracts = [code(impl) for impl in PROMISES if impl != "fp16"]
    return markdown(("varied", "value", *(f"{impl}, ms" for impl in contracts), "`f32`, peak MiB", "`bf16`, peak MiB"),
                    rows, "lr" + "r" * 6)


LAB5_SIZES = {"batch_size": "batch", "num_heads": "heads", "emb_dim": "columns of all heads"}


def lab5_passes(data):
    """Rates of forward, backward and both together, over the length."""
    rows = []
    for impl, by_length in courses.over_length(data, False).items():
        for tokens, row in by_length.items():
            if row.status("backward") == "ok":
                rows.append((code(impl), str(tokens),
                             *(significant(row.tflops(name).mid) if row.tflops(name) else NOT_KNOWN
                               for name in courses.PASSES),
                             known(row.backward_over_forward, ".2f"),
                             *(significant(row.mib(name=name)) for name in ("forward", "forward_backward"))))
    return markdown(("contract", "N", "forward, TFLOP/s", "backward", "both", "backward's time over forward's",
                     "forward, peak MiB", "both, peak MiB"), rows, "lrrrrrrr")


# ---- CS336

STATUS = {"oom": "OOM", "unsupported": "–", "failed": "failed", "skipped": ""}  # for cells without a time


def time_of(row, name):
    """The time in ms, or why there is none."""
    return ms(row.seconds(name).mid) if row.seconds(name) else STATUS.get(row.status(name), NOT_KNOWN)


def cs336_attention(data):
    found = {}
    for row in courses.sweep(data, "cs336_attention"):
        found.setdefault((row.cell["emb_dim"], row.cell["seq_len"]), {})[row.impl] = row
    rows = []
    for (dim, tokens), by_impl in sorted(found.items()):
        cells = []
        for impl in ("naive", "f32"):
            before = by_impl[impl].mib("before_backward_bytes", "backward")
            cells += [time_of(by_impl[impl], "forward"), STATUS["oom"] if before is None else significant(before),
                      time_of(by_impl[impl], "backward")]
        rows.append((f"{dim}", f"{tokens}", *cells))
    return markdown(("d", "N", *(title for impl in ("naive", "`f32`") for title in (
        f"{impl}: forward, ms", "MiB before backward", "backward, ms"))), rows, "rr" + "r" * 6)


KINDS = {"inputs": ("inputs", "Q", "K", "V", "dO"), "O": ("O",), "scores, weights": ("scores",),
         "their gradients": ("gradients of scores",), "dQ, dK, dV": ("dQ, dK, dV", "dQ", "dK", "dV")}


def cs336_memory(data):
    """The purposes of each pass's peak memory, on the longest rows that the naive form could compute."""
    tokens = courses.track_of(data, "naive", "forward_backward").tokens
    found = {(track.impl, track.name): track for track in courses.tracks(data) if track.tokens == tokens}
    columns = {key: found[key].held()[-1] for key in ((impl, name) for name in ("forward", "forward_backward")
                                                      for impl in ("naive", "f32"))}
    named = {purpose: kind for kind, purposes in KINDS.items() for purpose in purposes}
    rows = [(kind, *(mib(sum(count for purpose, count in held.items()
                             if named.get(purpose, "scratch and row statistics") == kind))
                     for held in columns.values())) for kind in (*KINDS, "scratch and row statistics")]
    rows.append(("in all", *(mib(sum(held.values())) for held in columns.values())))
    return markdown(("for, MiB", *(f"{impl}, {name.replace('_', ' and ')}" for impl, name in columns)), rows, "lrrrr")


def mib(count):
    return significant(count / MIB) if count else "0"


# The naive form's allocations in terms of the sizes; float32.
FORMULAS = {"inputs": ("3·B·N·d·4", lambda b, n, d: 12 * b * n * d), "scores": ("B·N²·4", lambda b, n, d: 4 * b * n * n),
            **dict.fromkeys("QKVO", ("B·N·d·4", lambda b, n, d: 4 * b * n * d))}


def cs336_bytes(data):
    """The allocations of the pass that ran out of memory, and its last request, in bytes."""
    track = courses.track_of(data, "naive", "forward", refused=True)
    rows, total = [], 0
    for event in track.events:
        if event["taken"] < 0:
            break
        formula, value = FORMULAS.get(event["purpose"], ("", None))
        if value and value(track.batches, track.tokens, track.dim) != event["bytes"]:
            raise Failed(f"memory.json: {event['purpose']} of naive at N = {track.tokens}: {event['bytes']} bytes are "
                         f"not {formula}")
        total += event["bytes"]
        rows.append((event["purpose"] if event["taken"] else f"{event['purpose']}, refused", formula,
                     f"{event['bytes']}", f"{total}"))
    return markdown(("for", "bytes, by the sizes", "bytes", "in all"), rows, "llrr")


def accumulate(data):
    by_device = data["accumulate"]["by_device"]
    first = next(iter(by_device.values()))
    rows = []
    for index, one in enumerate(first["sums"]):
        results = [found["sums"][index]["result"] for found in by_device.values()]
        rows.append((one["term"], one["sum"], f"chains of {one['chain']}" if one["chain"] else "one by one",
                     *(f"{result:.9g}" for result in results), f"{one['exact']:.9g}",
                     f"{results[0] - one['exact']:+.1e}"))
    return markdown(("number", "sum", "added", *by_device, "exact", "error"), rows, "lll" + "r" * (len(by_device) + 2))


# ---- Collectives


def allreduce(data):
    rows = data["collectives"]["allreduce"]
    sizes = sorted({row["size"] for row in rows})
    several = [row for row in rows if row["ranks"] > 1]
    kinds = list(dict.fromkeys((row["device"], row["ranks"], row["via"]) for row in several if row["status"] == "ok"))
    cells = {(row["device"], row["ranks"], row["via"], row["size"]): row for row in several}
    table = [(code(via), device, str(ranks),
              *(known(cells.get((device, ranks, via, size), {}).get("busbw_gb_s"), ".2f") for size in sizes))
             for device, ranks, via in kinds]
    return markdown(("via", "vectors", "ranks", *(f"{size / MIB:.0f} MiB, GB/s" for size in sizes)), table,
                    "llr" + "r" * len(sizes))


def gradient_steps(data):
    """Each way of adding up gradients; for the overlapped one, the best bucket."""
    found = {}
    for row in data["collectives"]["gradients"]:
        if row["status"] == "ok":
            key = row["model"], row["ranks"], row.get("via", ""), row["way"]
            found[key] = min(found.get(key, row), row, key=lambda row: row["step_s"])
    table = [(model, str(ranks), code(via) if via else "", ("backward alone" if way == "none" else way)
              + (f", {row['bucket_bytes'] / MIB:.0f} MiB" if "bucket_bytes" in row else ""), str(row["calls"]),
              known(row["step_s"], ".1f", 1e3), known(row.get("exposed_s"), ".1f", 1e3))
             for (model, ranks, via, way), row in found.items()]
    return markdown(("model", "ranks", "via", "way", "calls", "step, ms", "exposed, ms"), table, "lrllrrr")


TABLES = {function.__name__: function for function in (
    machine, measurements, results, losses, published, ablation, tensor_profile, profile, profile_reasons, no_help,
    files, start_up, distributions, half_errors, cpu, lab5_sizes, lab5_passes, cs336_attention, cs336_memory,
    cs336_bytes, accumulate, allreduce, gradient_steps, beside_decode)}
TABLES |= {**training.TABLES, "ladder": rungs("f32"),
           **{f"{name}_ladder": rungs(name) for name in ("fixed", "fixed16", "bf16", "backward")},
           **{f"beside_{name}": compared(name, "contract", "dtype") for name in ("results", "lab5", "cs336")},
           **{f"{name}_over_lengths": compared("lengths", contract=name) for name in ("bf16", "f32")}}
