"""The tables, in Markdown."""
from __future__ import annotations

import re
from statistics import median

from bars import FILES, SMALL_CASES, file_ratios

from . import sources, tables_courses
from .errors import Failed
from .facts import per_load, shared_pipe_pct, waiting
from .measured import CONTRACTS, INTEGER_ROOF, revisions_of
from .measured_backward import GRADIENTS, MASKS, Backward
from .measured_half import CUDNN, FLASH2, FORMATS, FROM_BF16, IN_TURNS, Half
from .schema import DOCUMENTS
from .spread import Spread
from .words import NOT_KNOWN, known, markdown, ms, significant

SHORT_CASES = ("t28", "t22", "t29", "t11", "t01", "4,16384,128")
CAUSAL_SHAPES = ("4,16384,64", "4,16384,128", "4,32768,32", "512,1024,64")


def code(words):
    """As it would be typed."""
    return NOT_KNOWN if words is None else f"`{words}`"


# ---- The machine, and what was measured by which command


def machine(data):
    kernels, device = data.kernels, data.profile["device"]
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
                               f"before, {known(end['power_w'], '.0f')} W and {known(end['temperature_c'], '.0f')} °C after "
                               f"the kernels; limit {known(start['power_limit_w'], '.0f')} W"),
        ("software", f"driver {start['driver']}, CUDA {kernels['ladder'][0]['cuda']}, PyTorch "
                     f"{kernels['torch']['torch']}, Nsight Compute {data.profile['ncu']['version']}, Python "
                     f"{host['python']}"),
        ("host", f"{host['processor']}, {host['processors']} processors, {host['system']}"),
        ("compilers", f"{kernels['compilers'][0]}; nvcc of CUDA {kernels['ladder'][0]['cuda']}"),
        ("host code", code(kernels["build"]["cpp"])),
        ("GPU code", code(kernels["build"]["cu"])),
    ]
    return markdown(("", ""), rows, "ll")


def measurements(data):
    measured = [name for name in DOCUMENTS if "git" in data.documents.get(name, {})]  # a trace has none
    revisions = {name: revisions_of(data.documents[name]) for name in measured}
    with_contracts = any(revisions.values())  # what was measured earlier does not say
    rows = []
    for name in measured:
        document = data.documents[name]
        state = " with changes" if document["git"]["dirty"] else ""
        contracts = [", ".join(f"`{revision}`" for revision in revisions[name])] if with_contracts else []
        rows.append((f"[{name}](data/{name})", code(" ".join(document["command"])), *contracts,
                     f"{document['git']['commit'][:10]}{state}", f"{document['wall_seconds']:.0f} s"))
    titles = ("data", "command", *(["contract"] if with_contracts else []), "commit", "took")
    return markdown(titles, rows, "l" * (len(titles) - 1) + "r")


# ---- Kernels


def _time_and_rate(shape, seconds):
    return (ms(seconds.mid), f"{shape.tflops(seconds).mid:.1f}") if seconds else (NOT_KNOWN, NOT_KNOWN)


def results(data):
    """README's: f32, fixed and PyTorch on the GPU, and the whole command."""
    fixed = {shape.name: shape.hw4 for shape in data.fixed_shapes}
    whole = {record["name"]: Spread.of(record["seconds"]["hw4"]) for record in data.file_cases}
    rows = []
    for shape in map(data.case, SHORT_CASES):
        name = shape.name if shape.name.startswith("t") else ""
        times = (shape.hw4, fixed.get(shape.name), shape.torch_best)
        rows.append((name, shape.text, *(cell for seconds in times for cell in _time_and_rate(shape, seconds)),
                     known(whole[name].mid, ".0f", 1e3) if name in whole else NOT_KNOWN))
    return markdown(("case", "B, N, d", "`f32`, ms", "TFLOP/s", "`fixed`, ms", "TFLOP/s", "PyTorch, ms", "TFLOP/s",
                     "file to file, ms"), rows, "ll" + "r" * 7)


def ladder(data):
    peak = data.profile["device"]["peak_flop_per_second"] * 1e-12
    other = {rung.kernel: rung for rung in data.ladder("t29")}
    rows, before = [], None
    for rung in data.ladder("t28"):
        gain = f"{before.seconds.mid / rung.seconds.mid:.2f}" if before else ""
        there = other.get(rung.kernel)
        rows.append((f"`{rung.kernel}`", sources.idea(rung.kernel), ms(rung.seconds.mid),
                     significant(rung.tflops.mid, 3), gain, f"{100 * rung.tflops.mid / peak:.1f} %",
                     ms(there.seconds.mid) if there else NOT_KNOWN,
                     significant(there.tflops.mid, 3) if there else NOT_KNOWN))
        before = rung
    return markdown(("kernel", "idea", "t28, ms", "TFLOP/s", "× before", "of peak", "t29, ms", "TFLOP/s"), rows,
                    "llrrrrrr")


def fixed_kernels(data):
    """TFLOP/s of every kernel of the contract fixed."""
    rows = []
    for shape in data.fixed_shapes:
        name = shape.name if shape.name.startswith("t") else ""
        rates = {rung.kernel: rung.tflops.mid for rung in data.fixed_ladder(shape.name)}
        ratios = (data.f32_beside(shape.name).mid / shape.hw4.mid, shape.speed_up)  # in the same run
        rows.append((name, shape.text, *(known(rates.get(kernel), ".0f") for kernel in data.fixed_rungs),
                     *map("{:.2f}".format, ratios)))
    titles = [f"`{kernel}`" for kernel in data.fixed_rungs]
    return markdown(("case", "B, N, d", *titles, "over `f32`", "over PyTorch"), rows, "ll" + "r" * (len(titles) + 2))


def fixed_ideas(data):
    rows = []
    for rung in data.fixed_ladder("t28"):
        get = data.fixed_launch(rung.kernel)["metrics"].get
        rows.append((f"`{rung.kernel}`", sources.idea(rung.kernel), ms(rung.seconds.mid),
                     significant(rung.tflops.mid, 3), f"{100 * rung.tflops.mid / INTEGER_ROOF:.0f} %",
                     known(get("tensor_pipe_pct")), known(get("issue_slots_busy_pct")),
                     known(get("registers"), ".0f"), known(get("shared_bytes_per_block"), ".1f", 1 / 1024)))
    return markdown(("kernel", "idea", "t28, ms", "TFLOP/s", "of the roof", "tensor pipe active, %",
                     "issue slots busy, %", "registers", "shared memory a block, KiB"), rows, "llrrrrrrr")


ERROR_COLUMNS = {"hw4": "f32", "hw4_fixed": "fixed", "efficient": "PyTorch efficient", "naive": "PyTorch naive"}


def error(value):
    return f"{value:.1e}" if value else "0"


def distributions(data):
    """The largest error of a row over its largest result, and the root mean square of the errors."""
    titles = data.distributions["distributions"]
    rows = [(re.sub(r"(\d)%", r"\1 %", titles[case["distribution"]]), f"{case['dim']}",
             *(error(case["errors"][who][figure]) for figure in ("largest_of_row", "rms") for who in ERROR_COLUMNS))
            for case in data.distributions["cases"]]
    largest, *others = ERROR_COLUMNS.values()
    first = (f"of the row's largest: {largest}", *others)
    second = (f"root mean square: {largest}", *others)
    return markdown(("values", "d", *first, *second), rows, "lr" + "r" * 2 * len(ERROR_COLUMNS))


def rounds(data):
    """TFLOP/s of fixed and fixed16 in turns with half precision, and what fixed16 is of the others."""
    rows = []
    for case in Half(data).in_turns:
        name = case.name if case.name.startswith("t") else ""
        rows.append((name, case.text, case.mask,
                     *(f"{case.rate(who):.0f}" for who in IN_TURNS),
                     *(f"{case.over('fixed16', who):.2f}" for who in ("fixed", FLASH2, CUDNN)),
                     f"{case.over(FROM_BF16, FLASH2):.2f}"))
    return markdown(("case", "B, N, d", "mask", "`fixed`", "`fixed16`", "from bf16", "FlashAttention-2, bf16",
                     "cuDNN, bf16", "`fixed16` over `fixed`", "over FlashAttention-2", "over cuDNN",
                     "from bf16 over FlashAttention-2"), rows, "lll" + "r" * 9)


HALF_LENGTHS = (1024, 16384)


def half_errors(data):
    """The largest errors by distribution, on the shortest and the longest rows."""
    rows = [(case.title, f"{case.tokens}", f"{case.dim}", error(case.largest["hw4_fixed16"]),
             *(error(case.largest[who]) for who in FORMATS.values()), significant(case.over_fixed16("bf16"), 2))
            for cases in Half(data).by_distribution().values() for case in cases if case.tokens in HALF_LENGTHS]
    return markdown(("values", "N", "d", "`fixed16`", "bf16", "fp16", "TF32", "bf16 over `fixed16`"), rows,
                    "l" + "r" * 7)


def causal(data):
    rows = []
    for case in map(data.masked_case, CAUSAL_SHAPES):
        cells = [cell for who in CONTRACTS for cell in (ms(case.full[who].mid), ms(case.causal[who].mid),
                                                        f"{case.tflops(who).mid:.1f}")]
        rows.append((case.name.replace(",", ", "), *cells, ms(case.causal["torch"].mid),
                     f"{case.tflops('torch').mid:.1f}"))
    return markdown(("B, N, d", "`f32`, full, ms", "causal, ms", "TFLOP/s", "`fixed`, full, ms", "causal, ms",
                     "TFLOP/s", "PyTorch, causal, ms", "TFLOP/s"), rows, "l" + "r" * 8)


def backward(data):
    """The chosen kernel beside PyTorch, without a mask and causal."""
    rows = []
    for name, by_mask in Backward(data).shapes.items():
        cells = [cell for mask in MASKS for rung in (by_mask[mask].hw4, by_mask[mask].torch)
                 for cell in (ms(rung.seconds.mid), f"{rung.tflops.mid:.1f}")]
        rows.append((name.replace(",", ", "), *cells))
    return markdown(("B, N, d", "hw4, ms", "TFLOP/s", "PyTorch, ms", "TFLOP/s", "causal: hw4, ms", "TFLOP/s",
                     "PyTorch, ms", "TFLOP/s"), rows, "l" + "r" * 8)


def gradient_errors(data):
    """Over the g cases: on how many our largest error is not above PyTorch's, and how it compares."""
    found, rows = Backward(data), []
    for gradient in GRADIENTS:
        ratios = found.ratios(gradient)
        best, worst = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        rows.append((gradient, f"{sum(case.not_above(gradient) for case in found.compared.values())} of "
                               f"{len(found.compared)}", f"{median(ratios.values()):.2f}",
                     f"{ratios[best]:.2f} ({best})", f"{ratios[worst]:.2f} ({worst})"))
    return markdown(("gradient", "not above PyTorch's", "ours to PyTorch's: median", "least", "most"), rows, "lrrrr")


def no_help(data):
    """What was tried and did not help, from the kernels' cards."""
    rows = [(f"`{kernel}`", words.replace(" x ", " × ")) for kernel in data.rungs if (words := sources.no_help(kernel))]
    return markdown(("on the card of", "tried, without help"), rows, "ll")


# ---- The profiler


def profile(data):
    """What the course asks for."""
    rows = []
    for kernel in data.rungs:
        get = data.launch(kernel)["metrics"].get
        occupancy = f"{known(get('achieved_occupancy_pct'))} of {known(get('theoretical_occupancy_pct'))}"
        rows.append((f"`{kernel}`", occupancy, known(get("sm_efficiency_pct")),
                     known(get("warp_execution_efficiency_pct")),
                     *(known(get(f"{what}_bytes_per_second"), ".0f", 1e-9) for what in
                       ("shared_load", "shared_store", "global_load", "global_store")),
                     *(known(get(f"{what}_bytes_per_second"), ".1f", 1e-9) for what in ("dram_read", "dram_write"))))
    return markdown(("kernel", "occupancy, %", "SM efficiency, %", "warp efficiency, %", "shared load, GB/s",
                     "shared store", "global load", "global store", "DRAM read", "DRAM write"), rows, "lrrrrrrrrr")


def profile_reasons(data):
    """What explains a rung."""
    rows = []
    for kernel in data.rungs:
        launch = data.launch(kernel)
        get = launch["metrics"].get
        stalls = waiting(launch)
        top = [reason for reason in sorted(stalls, key=stalls.get, reverse=True)[:3] if stalls[reason] >= 0.05]
        rows.append((f"`{kernel}`", known(get("issue_slots_busy_pct")), known(get("ipc"), ".2f"),
                     known(get("fma_pipe_pct")), known(get("fma_share_pct")),
                     known(shared_pipe_pct(launch["metrics"], data.profile["device"]), ".0f"),
                     known(per_load(launch), ".2f"),
                     known(get("bytes_per_sector_load_pct"), ".0f"), known(get("registers"), ".0f"),
                     known(get("shared_bytes_per_block"), ".1f", 1 / 1024),
                     ", ".join(f"{reason.replace('_', ' ')} {stalls[reason]:.1f}" for reason in top) or NOT_KNOWN))
    return markdown(("kernel", "issue slots busy, %", "IPC", "FMA pipe, %", "FMA pipe's share of instructions, %",
                     "shared-memory pipe, %", "passes a shared load", "used of global sectors, %", "registers",
                     "shared memory a block, KiB", "cycles a warp waits for"), rows, "lrrrrrrrrrl")


# ---- From file to file


FILE_CASES = ("t12", "t22", "t28", "t30")  # that have a bar of their own


def _megabytes(stages):
    return f"{stages['read_bytes'] * 1e-6:.0f}, {stages['write_bytes'] * 1e-6:.0f} MB"


def _bar_row(title, size, name, ratio):
    """hw4 over a reference, by the best run of each, as its bar judges it."""
    by, most = FILES[name]
    return title, size, f"{ratio:.2f} × {by}", f"≤ {most:.2f}{'' if ratio <= most else ': missed'}"


START_UP = {"driver": "driver (`cudaGetDeviceCount`)", "context": "context",
            "32 MiB of huge pages: pin": "pin 32 MiB of huge pages",
            "launch of drawn_tiles, first": "first launch: the kernel's code is loaded",
            "launch of drawn_tiles, second": "second launch"}


def start_up(data):
    """What a process pays for the GPU, step by step."""
    found = data.files["start_up"]["return"]
    steps = dict(reversed(re.fullmatch(r"\s*([\d.]+) ms  (.*)", line).groups()) for line in found["steps"])
    rows = [(title, f"{float(steps[name]):.2f}") for name, title in START_UP.items() if name in steps]
    rows.append(("before `main()` and after it", f"{found['outside_steps_seconds'] * 1e3:.2f}"))
    return markdown(("step", "ms"), rows, "lr")


def files_short(data):
    ratios = file_ratios({record["name"]: record["seconds"] for record in data.file_cases})
    sizes = {record["name"]: _megabytes(record["stages"]) for record in data.file_cases}
    small = [name for name in SMALL_CASES if name in ratios]
    worst = max(small, key=ratios.get)
    rows = [_bar_row(f"{small[0]} to {small[-1]}, the worst: {worst}", sizes[worst], worst, ratios[worst])]
    rows += [_bar_row(name, sizes[name], name, ratios[name]) for name in FILE_CASES if name in ratios]
    rows.append(_bar_row(f"all {len(sizes)}", "", "total", ratios["total"]))
    return markdown(("case", "input, output", "hw4's best run", "wanted"), rows, "llrl")


# ---- Collectives


def collectives(data):
    rows = data.collectives["allreduce"]
    libraries = sorted({row["library"] for row in rows if "library" in row})
    sharing = max((row["ranks"] for row in rows if row["shares_cards"]), default=0)
    words = (f"A vector of float32 added up over ranks of one machine ({', '.join(libraries)}), as "
             f"`hw4 bench allreduce` measures it: GB/s of the bus, 2 (n − 1)/n of the vector's bytes over the time of the "
             f"slowest of n ranks. "
             + (f"Up to {sharing} ranks share one card here, and all of them the machine's memory: the columns can be "
                f"compared with one another, and say nothing of a network. " if sharing else "")
             + f"`ordered` is the sum in an order that does not depend on the number of ranks: {same_bytes(rows)}.")
    return f"{words}\n\n{_bandwidths(rows)}\n\n{_gradient_steps(data.collectives['gradients'])}"


def same_bytes(rows):
    """Whether the sums in order are the same for every number of ranks, in words."""
    found = {}
    for row in rows:
        if row["via"] == "ordered" and row["status"] == "ok":
            found.setdefault(row["size"], {}).setdefault(row["crc32"], set()).add(row["ranks"])
    if not found or any(len(set().union(*checksums.values())) < 2 for checksums in found.values()):
        raise Failed("collectives.json: allreduce: need sums in order of every size by two numbers of ranks or more")
    if all(len(checksums) == 1 for checksums in found.values()):
        counts = sorted({rank for checksums in found.values() for ranks in checksums.values() for rank in ranks})
        return f"with {', '.join(map(str, counts))} ranks it had the same bytes, for every size"
    return "its bytes differed"  # which nobody should ever read


def _bandwidths(rows):
    sizes = sorted({row["size"] for row in rows})
    several = [row for row in rows if row["ranks"] > 1]
    kinds = list(dict.fromkeys((row["device"], row["ranks"], row["via"]) for row in several))
    cells = {(row["device"], row["ranks"], row["via"], row["size"]): row for row in several}
    table = [(f"`{via}`", device, str(ranks), *(known(cells.get((device, ranks, via, size), {}).get("busbw_gb_s"), ".2f")
                                                for size in sizes)) for device, ranks, via in kinds]
    reasons = dict.fromkeys(f"`{row['via']}` on {row['ranks']} ranks: {row['reason']}" for row in several
                            if "reason" in row)
    remark = f"\n\n{NOT_KNOWN}: {'; '.join(reasons)}." if reasons else ""
    return markdown(("via", "vectors", "ranks", *(f"{size / (1 << 20):.0f} MiB" for size in sizes)), table,
                    "llr" + "r" * len(sizes)) + remark


def _gradient_steps(rows):
    """Ways beside one another; a column for each model, number of ranks and library."""
    first = rows[0]
    words = (f"Gradients of a transformer's parameters added up after or during a backward pass of the program's own "
             f"kernels ({first['device']}, a launch a layer), `hw4 bench gradients`: ms a step, and how many of them "
             f"backward alone does not take.")
    table = []
    for row in rows:
        bucket = f" {row['bucket_bytes'] / (1 << 20):.0f} MiB" if "bucket_bytes" in row else ""
        table.append((row["model"], str(row["ranks"]), f"`{row['via']}`" if "via" in row else "",
                      ("backward alone" if row["way"] == "none" else row["way"]) + bucket, str(row["calls"]),
                      known(row.get("step_s"), ".1f", 1e3), known(row.get("exposed_s"), ".1f", 1e3)))
    return f"{words}\n\n" + markdown(("model", "ranks", "via", "way", "calls", "step, ms", "exposed, ms"), table,
                                     "lrllrrr")


TABLES = {function.__name__: function for function in (machine, measurements, results, ladder, fixed_kernels,
                                                       fixed_ideas, distributions, rounds, half_errors, causal,
                                                       backward, gradient_errors, no_help, profile,
                                                       profile_reasons, files_short, start_up, collectives)}
TABLES |= tables_courses.TABLES
