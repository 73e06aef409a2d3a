"""The tables of half precision, of the contracts on the CPU, of Lab5 and of CS336, and of what exactness costs."""
from __future__ import annotations

from statistics import median

from . import sources
from .errors import Failed
from .measured import contracts_on_cpu
from .measured_courses import PASSES, Cs336, Sweep, track_of
from .measured_half import (ANY_ORDER, HALF_TYPES, Half, costs, half_gradients, half_ladder, half_rounds,
                            points)
from .words import NOT_KNOWN, in_words, known, markdown, ms, scientific, short, significant

OOM = "OOM"
STATUS = {"oom": OOM, "unsupported": "–", "failed": "failed", "skipped": ""}  # of what has no time
MIB = 2.0 ** 20


def time_of(found):
    """In ms, or why there is none."""
    return ms(found.seconds.mid) if found.ok else STATUS[found.status]


def rate_of(found):
    return significant(found.tflops.mid, 3) if found.ok else STATUS[found.status]


def with_remark(data, file, table):
    """The table of a sweep, and before it whether all of it was measured."""
    cut = data.documents[file]["cut_short"]
    return ("The run was ended before the last cells: what is missing here was not measured.\n\n" if cut else "") + table


def mib(count):
    return significant(count / MIB, 3)


# ---- Half precision


def ideas(data, ladder, profile):
    """Rates from the first file and, where the second file is there, what the profiler says."""
    by_dim = half_ladder(data, ladder)
    launches = data.documents.get(profile, {"launches": []})["launches"]
    counted = {(launch["dim"], launch["kernel"]): launch["metrics"] for launch in launches}
    names = list(dict.fromkeys(rung.kernel for rungs in by_dim.values() for rung in rungs))
    rows = []
    for name in names:
        cells = []
        for dim, rungs in by_dim.items():
            rung = next((rung for rung in rungs if rung.kernel == name), None)
            metrics = counted.get((dim, name), {})
            cells.append(known(rung.tflops.mid if rung else None, ".0f"))
            if launches:
                cells += [known(metrics.get(name), ".0f") for name in ("tensor_pipe_pct", "issue_slots_busy_pct")]
        rows.append((f"`{name}`", sources.idea(name), *cells))
    shares = ("tensor cores active, %", "issue slots, %") if launches else ()
    titles = [title for dim in by_dim for title in (f"d = {dim}: TFLOP/s", *shares)]
    return markdown(("kernel", "idea", *titles), rows, "ll" + "r" * len(titles))


def half_ideas(data):
    return ideas(data, "half_ladder.json", "profile_half.json")


def fixed16_ideas(data):
    return ideas(data, "fixed16_ladder.json", "profile_fixed16.json")


def cpu_contracts(data):
    rows = [(f"`{record['contract']}`", f"`{record['kernel']}`", ms(median(record["seconds"]["hw4"])),
             significant(record["flop"] * 1e-12 / median(record["seconds"]["hw4"])),
             *(f"{ratio:.2f}" for ratio in over_torch.values())) for record, over_torch in contracts_on_cpu(data)]
    return markdown(("contract", "kernel", "ms", "TFLOP/s", "PyTorch's time over it", "and over it from file to file"),
                    rows, "llrrrr")


def beside_peers(cases, more=()):
    """Rates and ratios of both types; and more columns, a title and what is in them."""
    rows = []
    for case in cases:
        cells = [cell for who in HALF_TYPES for cell in (
            f"{case.rate(who):.0f}", f"{case.rate(f'flash2 {who}'):.0f}", f"{case.rate(f'cudnn {who}'):.0f}",
            f"{case.over(who, f'flash2 {who}'):.2f}", f"{case.over(who, f'cudnn {who}'):.2f}")]
        rows.append((case.text, case.mask, *cells, *(f"{cell(case):.2f}" for _, cell in more)))
    titles = [title for who in HALF_TYPES for title in (f"`{who}`", "FlashAttention-2", "cuDNN",
                                                        "over FlashAttention-2", "over cuDNN")]
    titles += [title for title, _ in more]
    return markdown(("B, H, N, d", "mask", *titles), rows, "ll" + "r" * len(titles))


def half_turns(data):
    return beside_peers(half_rounds(data))


def half_gradient_turns(data):
    return beside_peers(half_gradients(data), (("any order over `bf16`", lambda case: case.over(ANY_ORDER, "bf16")),))


def half_own_errors(data):
    who = {"hw4_bf16": "`bf16`", "flash2 bf16": "FlashAttention-2, bf16", "cudnn bf16": "cuDNN, bf16",
           "hw4_fp16": "`fp16`", "flash2 fp16": "FlashAttention-2, fp16"}
    rows = [(case.title, f"{case.tokens}", f"{case.dim}", *(f"{case.largest[name]:.1e}" for name in who))
            for cases in Half(data).by_distribution().values() for case in cases]
    return markdown(("values", "N", "d", *who.values()), rows, "lrr" + "r" * len(who))


# ---- The front page

PROMISES = {"f32": "everybody's bytes", "fixed": "everybody's bytes", "fixed16": "everybody's bytes",
            "bf16": "an error within a bound, the same bytes in every run and batch",
            "fp16": "an error within a bound, the same bytes in every run and batch"}


def contracts(data):
    found = {point.who: point for point in points(data)}
    rows = [(f"`{who}`", promise, significant(found[who].rate, 3),
             f"{found[who].rate / found['efficient'].rate:.1f}", scientific(found[who].error))
            for who, promise in PROMISES.items() if who in found]
    return markdown(("contract", "promises", "TFLOP/s on t28", "times PyTorch's float32", "largest error"), rows,
                    "llrrr")


# ---- What exactness costs


def exactness(data):
    rows = []
    for cost in costs(data):
        alike = cost.as_accurate
        rows.append((f"`{cost.exact.who}`", scientific(cost.exact.error), significant(cost.exact.rate, 3),
                     f"{in_words(alike.who)}: {significant(alike.rate)}" if alike else "none",
                     f"{cost.over_as_accurate:.2f}" if alike else NOT_KNOWN,
                     f"{in_words(cost.fastest.who)}: {significant(cost.fastest.rate)}, "
                     f"{scientific(cost.fastest.error)}", f"{cost.over_fastest:.2f}"))
    return markdown(("exact", "largest error", "TFLOP/s", "the fastest as accurate: TFLOP/s", "time over its",
                     "the fastest of all: TFLOP/s, error", "time over its"), rows, "lrrlrlr")


# ---- Lab5


def lab5_sweep(data):
    found = Sweep(data, "lab5_sweep.json")
    everybody = found.everybody
    rows = []
    for size in dict.fromkeys(row.size for row in found.rows):
        batches, tokens, heads, columns, causal = size
        by_who = {row.who: row.forward for row in found.rows if row.size == size}
        rows.append((f"{batches}", f"{tokens}", f"{heads}", f"{columns}", "causal" if causal else "none",
                     *(f"{time_of(by_who[who])} ({rate_of(by_who[who])})" if who in by_who and by_who[who].ok
                       else STATUS[by_who[who].status] if who in by_who else NOT_KNOWN for who in everybody)))
    return with_remark(data, "lab5_sweep.json", markdown(
        ("B", "N", "H", "width", "mask", *(in_words(who) for who in everybody)), rows, "rrrrl" + "r" * len(everybody)))


# ---- CS336


def cs336_attention(data):
    found = Cs336(data)
    everybody = found.attention.everybody
    rows = []
    for dim, tokens in found.grid():
        cells = []
        for who in everybody:
            row = found.attention.one(who=who, columns=dim, tokens=tokens)
            if row is None:
                cells += [NOT_KNOWN] * 3
                continue
            before = mib(row.backward.before_backward_bytes) if row.backward.ok else STATUS[row.backward.status]
            cells += [time_of(row.forward), before, time_of(row.backward)]
        rows.append((f"{dim}", f"{tokens}", *cells))
    titles = [title for who in everybody for title in (f"{in_words(who)}: forward, ms", "MiB", "backward, ms")]
    return with_remark(data, "cs336_attention.json",
                       markdown(("d", "N", *titles), rows, "rr" + "r" * len(titles)))


def cs336_flash(data):
    found = Sweep(data, "cs336_flash.json")
    rows = []
    for dtype in dict.fromkeys(row.dtype for row in found.rows):
        of_type = found.where(dtype=dtype)
        for dim, tokens in sorted({(row.columns, row.tokens) for row in of_type}):
            for row in (row for row in of_type if (row.columns, row.tokens) == (dim, tokens)):
                rows.append((dtype, f"{dim}", short(tokens), in_words(row.who),
                             *(time_of(getattr(row, name)) for name in PASSES)))
    return with_remark(data, "cs336_flash.json", markdown(
        ("type", "d", "N", "", "forward, ms", "backward, ms", "both, ms"), rows, "lrrlrrr"))


# What the naive form takes, in numbers of the sizes; float32.
FORMULAS = {"inputs": ("3·B·N·d·4", lambda b, n, d: 12 * b * n * d), "Q": ("B·N·d·4", lambda b, n, d: 4 * b * n * d),
            "K": ("B·N·d·4", lambda b, n, d: 4 * b * n * d), "V": ("B·N·d·4", lambda b, n, d: 4 * b * n * d),
            "O": ("B·N·d·4", lambda b, n, d: 4 * b * n * d), "scores": ("B·N²·4", lambda b, n, d: 4 * b * n * n)}


def cs336_bytes(data):
    """What the pass that was refused memory took and wanted, byte by byte."""
    track = track_of(data, "naive", "forward", refused=True)
    if track is None:
        raise Failed("memory.json: tracks: no forward of naive that was refused memory")
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
    by_device = data.documents["accumulate.json"]["by_device"]
    first = next(iter(by_device.values()))
    rows = []
    for index, one in enumerate(first["sums"]):
        results = [found["sums"][index]["result"] for found in by_device.values()]
        rows.append((one["term"], one["sum"], f"chains of {one['chain']}" if one["chain"] else "one by one",
                     *(f"{result:.9g}" for result in results), f"{one['exact']:.9g}",
                     f"{results[0] - one['exact']:+.1e}"))
    return markdown(("number", "sum", "added", *by_device, "exact", "error"), rows, "lll" + "r" * (len(by_device) + 2))


TABLES = {function.__name__: function for function in (
    contracts, half_ideas, fixed16_ideas, cpu_contracts, half_turns, half_gradient_turns, half_own_errors, exactness,
    lab5_sweep, cs336_attention, cs336_flash, cs336_bytes, accumulate)}
