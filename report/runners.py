"""The runners of report/measure: each measures the cells of a step (cells.py) and writes them into the step's document,
in the form that report/builder reads.

Kernels and sweeps are timed by `hw4 bench`, whole runs by the clock around hw4 and seq, PyTorch by torch_cell.py in
this process, counters by profile/profile.
"""
from __future__ import annotations

import concurrent.futures
import io
import json
import math
import os
import pickle
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "judge"), str(ROOT / "profile")]

import exact  # noqa: E402 (the path to others is set above)
import provenance  # noqa: E402
import torch_cell  # noqa: E402
from case_table import read_cases, read_plain_cases, select  # noqa: E402
from cells import IMPLS, MASKS, OURS, PEERS  # noqa: E402
from document import Document, Failed, say  # noqa: E402
from decision_tables import read_expectations, table_beside  # noqa: E402
from files import crc32_of  # noqa: E402
from listing import BYTES, NoListing, choose, listing_of  # noqa: E402
from shapes import CASE_TABLE, problems_of  # noqa: E402

NO_GPU, REFUSED = 69, 65  # exit codes of the programs
PATIENCE = 600  # seconds for one run of a program
MOST_SCRATCH = "1024g"
# What each goal of make builds, in the folder of programs or of the build.
PROGRAMS = {"all": ("hw4", "seq", "testcases/generate"), "hw4-mpi": ("build/hw4_mpi",),
            "references": ("build/reference/context_only", "build/reference/plain_copy")}


class RunFailed(Failed):
    """A program ended with an exit code other than 0."""

    def __init__(self, message, status):
        super().__init__(message, NO_GPU if status == NO_GPU else 70)
        self.status = status


def timed(*command, patience=PATIENCE):
    """Wall seconds of a run that succeeds, and what it printed."""
    start = time.perf_counter()
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=patience)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{command[0]}: no end after {patience} s") from expired
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise RunFailed(said[-1] if said else f"{command[0]} ended with {done.returncode}", done.returncode)
    return seconds, done.stdout


def plain_cases(words):
    return select(read_plain_cases(CASE_TABLE), words)


def median(line):
    return statistics.median(line["seconds"])


def rate(flop, seconds):
    """TFLOP/s"""
    return flop / seconds * 1e-12


class Bench:
    """What a runner works with: the programs, a folder for its files, its document, the time that is left."""

    def __init__(self, path, goals, bin_folder=ROOT, build_folder=ROOT / "build", end=None, traces=None):
        self.path, self.end, self.traces = path, end, traces
        self.build, self.cases = build_folder, build_folder / "measured_cases"
        self.document = None  # until it is opened; profile/profile writes its own
        self.program = None  # the first that is measured
        for goal in goals:
            for name in PROGRAMS[goal]:
                path = build_folder / name[6:] if name.startswith("build/") else bin_folder / name
                if not os.access(path, os.X_OK):
                    raise Failed(f"{path} is not there; make {goal} builds it", NO_GPU)
                setattr(self, path.name, path)  # bench.hw4, bench.seq, ...
                self.program = self.program or path

    def open(self, **fields):
        self.document = Document(self.path, program=self.program, build=self.build, **fields)
        self.document.write()  # or fail before anything is measured
        return self.document

    def torch(self, runs):
        """PyTorch's timer; raises where there is none."""
        why = torch_cell.why_no_gpu()
        if why:
            raise Failed(why, NO_GPU)
        return torch_cell.Timer(runs)

    def left(self):
        """Seconds; None: as many as it takes."""
        return None if self.end is None else self.end - time.monotonic()

    # ---- Kernels

    def kernel_lines(self, contract, problems, runs, *more, element="", kernel="", mask="none", backward=False,
                     kind="uniform"):
        """A line for each kernel and shape that hw4 bench has timed, back to back samples after its warm-up; kernel: a
        name, all, or the chosen one where it is empty. Slow samples are fewer."""
        name = "backward" if backward else "forward"
        shapes = [word for text in dict.fromkeys(problem.text for problem in problems) for word in ("--shape", text)]
        told, _ = self.bench_rows("--device", "gpu", "--impl", contract, "--passes", name, "--kind", kind,
                                  *(("--dtype", element) if element else ()),
                                  *(("--causal",) if mask == "causal" else ()),
                                  *(("--kernel", kernel) if kernel else ()), "--repeats", runs, "--limit",
                                  runs * torch_cell.SLOW_SAMPLE, "--quiet", *more, *shapes)
        cells = [row["hw4"] for row in told.get("results", [told])]
        machine = told["machine"] if "results" in told else told["hw4"]["machine"]
        lines = [{"kernel": cell[name]["kernel"], "batches": cell["parameters"]["batch_size"],
                  "tokens": cell["parameters"]["seq_len"], "dim": cell["parameters"]["emb_dim"],
                  "flop": cell[name]["flop"], "operation": name, "mask": mask, "kind": kind,
                  "elements": cell["parameters"]["dtype"], "scratch_bytes": cell[name]["scratch_bytes"],
                  "launches": cell[name]["launches"], "seconds": cell[name]["samples"], "device": machine["name"],
                  "cuda": machine["cuda"]} for cell in cells if cell["status"] == "ok"]
        wrong = [cell for cell in cells if cell["status"] == "failed"] or ([] if lines else cells)
        if wrong:
            raise Failed(f"hw4 bench: {contract}: {wrong[0]['reason']}")
        return lines

    def by_shape(self, contract, problems, runs, **options):
        """{shape: line} of one kernel, by one process."""
        lines = self.kernel_lines(contract, problems, runs, **options)
        found = {(line["batches"], line["tokens"], line["dim"]): line for line in lines}
        for problem in problems:
            if problem.shape not in found:
                raise Failed(f"{problem.text}: no kernel of {contract} takes it, {options}")
        return found

    # ---- Cases

    def case_file(self, case):
        """The case's file, which is made once and is then in the page cache."""
        path = self.cases / f"{case.name}-{case.crc32_in}.in"
        if not path.exists() or path.stat().st_size != case.input_bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            timed(self.generate, *case.recipe(), path)
        with open(path, "rb", buffering=0) as file:
            block = bytearray(1 << 22)
            while file.readinto(block):
                pass
        return path

    def generated(self, path, shape, *words):
        timed(self.generate, "--shape", shape, "--seed", "1", *words, path)
        return path

    def report_of(self, *command):
        """(seconds, what hw4 --json wrote) of a run; the last words are input and output."""
        report = self.path.with_suffix(".run")
        seconds, _ = timed(self.hw4, "--json", report, *command)
        told = json.loads(report.read_text())
        report.unlink()
        return seconds, {**told, "input": Path(told["input"]).name}

    def contracts(self, by_bound):
        """hw4's, of those that promise bytes or of all."""
        try:
            return choose(listing_of(self.hw4).contracts, "all", None if by_bound else BYTES)
        except NoListing as error:
            raise Failed(str(error)) from error

    # ---- hw4 bench

    def bench_rows(self, *words, seconds=None):
        """(document of `hw4 bench`, whether it ended by itself within the time). Its file is whole after each row."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bench.json"
            running = subprocess.Popen([str(self.hw4), "bench", *map(str, words), "--output", str(path)],
                                       stdin=subprocess.DEVNULL)
            try:
                code, ended = running.wait(seconds), True
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGINT)
                code, ended = running.wait(), False
            except BaseException:
                running.kill()
                running.wait()
                raise
            # 69, 70 with a file: no row ran, or one failed, and the rows say why.
            if not path.exists() or ended and code not in (0, 69, 70):
                raise RunFailed(f"hw4 bench {' '.join(map(str, words))} ended with {code}", code)
            return json.loads(path.read_text()), ended


def hw4_under(contract):
    """The name of hw4's results under a contract in a file: those of the default have no suffix."""
    return "hw4" if contract == "f32" else f"hw4_{contract}"


def torch_timing(torch, problem, who, **more):
    """A timing of PyTorch; a refusal is a failure."""
    impl, dtype = PEERS[who]
    timing = torch.attention(problem.shape, impl, dtype=dtype, heads=problem.heads, **more)
    if timing["seconds"] is None:
        raise Failed(f"{problem.text}: {who}: {timing['why']}")
    return timing


# ---- Kernels alone


def beside_torch(bench, contract, shapes, ladder, runs):
    """The chosen kernel on each shape beside PyTorch, under another contract beside f32's too; every kernel on some."""
    problems, is_f32 = problems_of(shapes), contract == "f32"
    document = bench.open(torch=None, torch_missing=torch_cell.why_no_gpu() or None, runs=runs, sgemm=None)
    torch, sgemm = None, {"size": torch_cell.Timer.SGEMM_SIZE, "begin": None, "end": None, "tflops": None}

    def measure_sgemm(when):
        if torch is not None:
            sgemm[when] = torch.sgemm()
            sgemm["tflops"] = max(sgemm[at]["tflops"] for at in ("begin", "end") if sgemm[at])

    def write(**fields):
        document.write(sgemm=sgemm, **(fields if is_f32 else {contract: fields}))

    if document.data["torch_missing"]:
        say(f"without PyTorch and SGEMM: {document.data['torch_missing']}")
    else:
        torch = bench.torch(runs)
        document.data["gpu"]["under_sgemm"] = torch.under_load(provenance.gpu_state)
        document.write(torch=torch.versions())
    measure_sgemm("begin")
    records = []
    for problem in problems:
        record = {"name": problem.name, **problem.sizes, "flop": problem.flop,
                  "hw4": bench.kernel_lines(contract, [problem], runs)[0],
                  **({} if is_f32 else {"f32": bench.kernel_lines("f32", [problem], runs)[0]}),
                  "torch": {impl: torch.attention(problem.shape, impl) for impl, names in IMPLS.items()
                            if torch and (names is None or problem.name in names)}}
        records.append(record | compared(record, sgemm["tflops"]))
        write(shapes=records, ladder=[])
        say(row_text(records[-1]))
    measure_sgemm("end")
    records = [record | compared(record, sgemm["tflops"]) for record in records]
    lines = []
    for problem in (problem for problem in problems if problem.name in ladder):
        lines += bench.kernel_lines(contract, [problem], runs, kernel="all")
        write(shapes=records, ladder=lines)
    write(shapes=records, ladder=lines)


def compared(record, sgemm):
    """A kernel's rate, and its time beside the others'; None for what was not measured."""
    seconds = median(record["hw4"])
    peers = {impl: timing["median_seconds"] for impl, timing in record["torch"].items()
             if timing["seconds"] and impl != "naive"}
    best = min(peers, key=peers.get, default=None)
    tflops = rate(record["flop"], seconds)
    return {"tflops": tflops, "torch_best": best, "speed_up": peers[best] / seconds if best else None,
            "of_sgemm": tflops / sgemm if sgemm else None,
            **({"over_f32": median(record["f32"]) / seconds} if "f32" in record else {})}


def row_text(record):
    ratios = "".join(f"  {record[name]:.3f} {words}" for name, words in (
        ("speed_up", "x PyTorch"), ("of_sgemm", "x SGEMM"), ("over_f32", "x f32")) if record.get(name) is not None)
    return (f"{record['name']:13} {record['hw4']['kernel']:16} {median(record['hw4']) * 1e3:9.4f} ms "
            f"{record['tflops']:7.2f} TFLOP/s{ratios}")


def ladder(bench, contract, shapes, runs):
    """Every kernel of a contract, under bf16 and fp16 from tensors of that type."""
    document, lines = bench.open(contract=contract, runs=runs, ladder=[]), []
    for problem in problems_of(shapes):
        lines += bench.kernel_lines(contract, [problem], runs, element=OURS[contract][1], kernel="all")
        document.write(ladder=lines)


def turns(bench, who, shapes, rounds, runs, backward=False, on_first=(), masks=MASKS):
    """Each of them once in a round, on all shapes, without a mask and under the causal one: a card's clock moves from
    second to second, so only figures of the same round are divided by one another."""
    problems, torch = problems_of(shapes), bench.torch(runs)
    document = bench.open(torch=torch.versions(), runs=runs, rounds=0, cases=[])
    records = {(mask, problem): {
        "name": problem.name, **problem.sizes, "batches": problem.shape[0] // problem.heads, "heads": problem.heads,
        "mask": mask, "flop": problem.flop * (2.5 if backward else 1) / (2 if mask == "causal" else 1), "seconds": {}}
        for mask in masks for problem in problems}

    def take(name, mask, some):
        if name in OURS:
            contract, element, kernel = OURS[name]
            lines = bench.by_shape(contract, some, runs, element=element, kernel=kernel, mask=mask, backward=backward)
            seconds = {problem: median(lines[problem.shape]) for problem in some}
        else:
            seconds = {problem: torch_timing(torch, problem, name, mask=mask, backward=backward)["median_seconds"]
                       for problem in some}
        for problem in some:
            records[mask, problem]["seconds"].setdefault(name, []).append(seconds[problem])

    start = time.monotonic()
    for done in range(1, rounds + 1):
        for mask in masks:
            for name in who:
                take(name, mask, problems)
            for name in on_first if mask == "none" else ():
                take(name, mask, problems[:1])
        document.write(rounds=done, cases=list(records.values()), cut_short=done < rounds)
        say(f"{done} of {rounds} rounds")
        if bench.end is not None and time.monotonic() + (time.monotonic() - start) / done > bench.end:
            break  # one more would end too late


def values(bench, contracts, shapes, kinds, runs):
    """Whether the speed depends on the values: the chosen kernels and PyTorch's, on the same numbers."""
    torch = bench.torch(runs)
    document, cases = bench.open(torch=torch.versions(), runs=runs, kinds=kinds, cases=[]), []
    with tempfile.TemporaryDirectory() as folder:
        for problem in problems_of(shapes):
            for kind in kinds:
                case = bench.generated(Path(folder) / "values.in", problem.text, "--kind", kind)
                cases.append({**problem.sizes, "kind": kind,
                              **{hw4_under(contract): bench.kernel_lines(contract, [problem], runs, kind=kind)[0]
                                 for contract in contracts},
                              "torch": torch_timing(torch, problem, "efficient", case=case)})
                document.write(cases=cases)


def causal(bench, contracts, shapes, runs):
    torch, problems = bench.torch(runs), problems_of(shapes)
    document, cases = bench.open(torch=torch.versions(), runs=runs, cases=[]), []
    lines = {(contract, mask): bench.by_shape(contract, problems, runs, mask=mask) for contract in contracts
             for mask in MASKS}
    for problem in problems:
        cases.append({**problem.sizes, "causal_flop": problem.flop / 2,
                      **{hw4_under(contract): {mask: lines[contract, mask][problem.shape] for mask in MASKS}
                         for contract in contracts},
                      "torch": torch_timing(torch, problem, "efficient", mask="causal")})
        document.write(cases=cases)


def backward(bench, ladder, shapes, memory, budgets, cpu, cpu_runs, errors, lengths, runs):
    """The kernels of backward, forward done before: every one; the chosen one beside PyTorch's and with less memory; on
    the CPU with forward, beside PyTorch's autograd; and the errors against float64, of cases and over the length."""
    torch, device = bench.torch(runs), "cuda"
    document = bench.open(torch=torch.versions(), runs=runs)

    def lines(shape, *more, **options):
        return bench.kernel_lines("f32", problems_of([shape]), runs, *more, backward=True, **options)

    def errors_of(path, output):
        timed(bench.hw4, path, output)
        return exact.gradient_errors(path, output, device)

    document.write(ladder=lines(ladder, kernel="all"))
    document.write(bars=[{
        "shape": problem.shape, "mask": mask, "flop": 2.5 * problem.flop / (2 if mask == "causal" else 1),
        "hw4": lines(problem.text, mask=mask)[0],
        "torch": torch_timing(torch, problem, "efficient", mask=mask, backward=True)}
        for problem in problems_of(shapes) for mask in MASKS])
    document.write(memory=[{"budget_mib": budget, **lines(
        memory, "--scratch", MOST_SCRATCH if budget == "all" else f"{budget}m")[0]} for budget in budgets])
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "in", Path(folder) / "out"

        def generated(shape):
            tokens = shape.split(",")[1]
            return bench.generated(path, shape, "--kind", "uniform", "--heads", "1,1", "--keys", tokens, "--backward")

        document.write(cpu=backward_on_cpu(bench, cpu, cpu_runs, generated(cpu)))
        document.write(errors=[{"case": case.name, **errors_of(bench.case_file(case), output)}
                               for case in select(read_cases(CASE_TABLE), errors)])
        document.write(lengths=[{"tokens": tokens, **errors_of(generated(f"1,{tokens},64"), output)}
                                for tokens in lengths])


def backward_on_cpu(bench, shape, runs, path):
    """Forward and backward as one, by hw4 bench on the numbers of the file, and by PyTorch."""
    threads = len(os.sched_getaffinity(0))
    batches, tokens, dim = map(int, shape.split(","))
    told, _ = bench.bench_rows("--device", "cpu", "--threads", threads, "--batch_size", batches, "--seq_len", tokens,
                               "--num_heads", 1, "--emb_dim", dim, "--kind", "uniform", "--passes", "forward_backward",
                               "--warmup", 1, "--repeats", runs, "--limit", PATIENCE, "--quiet")
    measured = told["hw4"]["forward_backward"]
    return {"shape": [batches, tokens, dim], "threads": threads, "kernel": measured["kernel"],
            "hw4": measured["samples"], **exact.cpu_seconds(path, threads, runs)}


def profile(bench, words):
    """profile/profile writes the file itself."""
    code = subprocess.run([sys.executable, ROOT / "profile/profile", *words, "--hw4", bench.hw4, "--json",
                           bench.path], cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    if code != 0:
        raise RunFailed(f"profile/profile ended with {code}", code)


# ---- Errors


def need_torch():
    try:
        return torch_cell.torch_in_float32()
    except ImportError as error:
        raise Failed(f"PyTorch is not installed: {error}", NO_GPU) from error


def compare_with_exact(bench, contracts, peers, values, path, folder, *options):
    """Errors of hw4 under each contract that takes the columns, and of PyTorch, on the values of a file."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ours = {}
    for contract in (contract for contract in contracts if contract.takes(values.shape[-1])):
        output = Path(folder) / f"{contract.name}.out"
        timed(bench.hw4, *options, "--contract", contract.name, path, output)
        ours[hw4_under(contract.name)] = exact.floats_of(output).view(values[:, 0].shape)
    peers = {name: PEERS[name] for name in peers if device == "cuda" or name == "naive"}
    return exact.errors_of(values, ours, peers, device)


def open_errors(bench, contracts, **fields):
    return bench.open(torch=need_torch().__version__, cases=[], **fields, revisions={
        hw4_under(contract.name): contract.revisions["forward", "none"] for contract in contracts})


def accuracy(bench, shapes, peers):
    """The largest error of each case."""
    contracts, records = bench.contracts(by_bound=False), []
    document = open_errors(bench, contracts)
    for case in plain_cases(shapes):
        path = bench.case_file(case)
        with tempfile.TemporaryDirectory() as folder:
            errors = compare_with_exact(bench, contracts, peers, exact.read_case(path), path, folder)
        records.append({"name": case.name, "batches": case.batches, "tokens": case.tokens, "dim": case.dim,
                        "largest_errors": {who: found["largest"] for who, found in errors.items()}})
        document.write(cases=records)
        say(f"{case.name:5} " + "  ".join(f"{who} {error:.2e}" for who, error in
                                          records[-1]["largest_errors"].items()))


SEED = 20261115


def distributions(bench, seeds, kinds, peers, by_bound, device):
    """Q, K and V drawn from one distribution by PyTorch on the CPU, each case with a seed of its own."""
    contracts, records = bench.contracts(by_bound), []
    titles = {name: title for name, (_, title) in exact.DISTRIBUTIONS.items()}
    document = open_errors(bench, contracts, distributions=titles)
    for problem in problems_of(seeds):
        for kind in kinds:
            seed = SEED + 100 * list(titles).index(kind) + seeds[problem.text]
            values = exact.drawn(kind, problem.shape, seed)
            with tempfile.TemporaryDirectory() as folder:
                exact.write_case(Path(folder) / "in", values)
                errors = compare_with_exact(bench, contracts, peers, values, Path(folder) / "in", folder, "--device",
                                            device)
            records.append({"distribution": kind, **problem.sizes, "seed": seed, "errors": errors})
            document.write(cases=records)


# ---- Whole runs


def check_bytes(case, output, who):
    """The output has the bytes of the table, under the contract that hw4 takes by itself."""
    expectations = read_expectations(table_beside(CASE_TABLE))
    expected = expectations.of(case, expectations.contracts[0])
    if expected and crc32_of(str(output)) != expected.crc32:
        raise Failed(f"{case.name}: {who}: the output has not the CRC-32 of the table")


def there_and_back(names, turn):
    """So that each follows others as well as itself: the driver closes the GPU after its last user, and a program that
    starts in the middle of that is ready sooner."""
    return list(names)[::-1 if turn % 2 else 1]


def files(bench, shapes, variants_on, variants, memory_of, trace_of, trace_streams, device, runs):
    """hw4 from file to file beside a program that only makes a CUDA context and one that copies without arithmetic
    (report/reference), files in the page cache; and what hw4 says of its stages, in a run of its own."""
    document, records, out = bench.open(runs=runs, cases=[], memory=None, start_up=None), [], bench.cases / "out"
    timed(bench.context_only)  # no GPU shows before anything is generated
    cases = plain_cases(shapes)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(bench.case_file, sorted(cases, key=lambda case: -case.input_bytes)))
    os.sync()  # so that nothing is still being written while others are timed
    for case in cases:
        paths = bench.case_file(case), out
        options = {"hw4": (), **(variants if case.name in variants_on else {})}
        commands = {"context": (bench.context_only,), "plain": (bench.plain_copy, *paths),
                    **{name: (bench.hw4, "--device", device, *words, *paths) for name, words in options.items()}}
        seconds = {name: [] for name in commands}
        for turn in range(runs):
            for name in there_and_back(commands, turn):
                out.unlink(missing_ok=True)
                seconds[name].append(timed(*commands[name])[0])
                if turn == 0 and commands[name][0] == bench.hw4:
                    check_bytes(case, out, name)
        out.unlink(missing_ok=True)
        records.append({"name": case.name, "seconds": seconds,
                        "stages": bench.report_of("--device", device, *paths)[1]})
        document.write(cases=records)
        say(f"{case.name:5} " + "  ".join(f"{name} {min(times) * 1e3:.1f} ms" for name, times in seconds.items()))
        if case.name == memory_of:
            peak, context = records[-1]["stages"]["host_peak_bytes"], int(timed(bench.context_only)[1])
            document.write(memory={"case": case.name, "hw4_bytes": peak, "context_bytes": context,
                                   "beyond_bytes": peak - context})
        for streams in trace_streams if case.name == trace_of and bench.traces else ():
            trace = bench.cases / "trace"
            out.unlink(missing_ok=True)
            timed(bench.hw4, "--device", device, "--streams", streams, "--trace", trace, *paths)
            (bench.traces / f"{case.name}_streams{streams}.trace.json").write_text(dense(json.loads(trace.read_text())))
            trace.unlink()
    out.unlink(missing_ok=True)
    document.write(start_up={"return": start_up(bench, runs)})


def dense(trace):
    """The same trace, an event a line and without blanks."""
    def text(value):
        return json.dumps(value, separators=(",", ":"))

    others = text({name: value for name, value in trace.items() if name != "traceEvents"})
    return f'{others[:-1]},"traceEvents":[\n' + ",\n".join(map(text, trace["traceEvents"])) + "\n]}\n"


def start_up(bench, runs):
    """Start and end of a process that uses the GPU, step by step; the fastest of the runs."""
    seconds, steps = min(timed(bench.hw4, "bench", "start-up") for _ in range(runs))
    inside = sum(float(line.split()[0]) for line in steps.splitlines()) * 1e-3
    return {"wall_seconds": seconds, "outside_steps_seconds": seconds - inside, "steps": steps.splitlines()}


PITCHED_FROM = "padded_tiles"  # rows are padded in global memory from the kernel on that pads them in shared memory


def steps_of(kernels, most_streams):
    """From the baseline to the default with one thing changed at a time."""
    found, copies = [], "linear"

    def add(label, kernel, streams=1):
        found.append({"label": label, "kernel": kernel, "streams": streams, "copies": copies, "seconds": [],
                      "kernel_seconds": []})

    for kernel in kernels:
        add(kernel, kernel)
        if kernel == PITCHED_FROM:
            copies = "2d"
            add(f"{kernel}, 2-D copies", kernel)
    add(f"{kernels[-1]}, {most_streams} streams", kernels[-1], most_streams)
    return found


def steps(bench, shapes, streams, device, runs):
    """Whole runs of hw4 on one case by every kernel of the ladder, in turns; what the card refuses is left out."""
    case, = plain_cases(shapes)
    listing = listing_of(bench.hw4)
    ladder_of = (device, "forward", listing.contracts[0].name)
    kernels = [kernel.name for kernel in listing.kernels
               if (kernel.device, kernel.operation, kernel.contract) == ladder_of]
    if not kernels:
        raise Failed(f"this hw4 has no kernels of the {device}", NO_GPU)
    found, left_out = steps_of(kernels, streams), []
    document = bench.open(runs=runs, case=case.name, batches=case.batches, tokens=case.tokens, dim=case.dim,
                          flop=case.flops)
    paths = bench.case_file(case), bench.cases / "out"
    for turn in range(runs):
        for step in there_and_back(found, turn):
            paths[1].unlink(missing_ok=True)
            try:
                seconds, told = bench.report_of("--device", device, "--kernel", step["kernel"], "--streams",
                                                step["streams"], "--copies", step["copies"], *paths)
            except RunFailed as failure:
                if failure.status != REFUSED or turn > 0:
                    raise
                left_out.append({"label": step["label"], "why": str(failure)})
                found = [other for other in found if other is not step]
                continue
            if turn == 0:
                check_bytes(case, paths[1], step["label"])
            step["seconds"].append(seconds)
            step["kernel_seconds"].append(told["kernel_seconds"])
        document.write(steps=found, left_out=left_out)
    paths[1].unlink(missing_ok=True)


ASSUMED_RATE = 12e9  # FLOP/s of seq; only to choose how much is measured
ENOUGH_SECONDS = 0.5
SHORT_SECONDS, SHORT_RUNS = 1.5, 3
MOST_PROCESSES = 5


def batches_of(case):
    """How many batches are measured: the cost of seq is proportional to them."""
    return min(case.batches, max(1, math.ceil(ENOUGH_SECONDS * ASSUMED_RATE * case.batches / case.flops)))


def expected_seconds(case):
    return case.flops * batches_of(case) / case.batches / ASSUMED_RATE


def time_seq(bench, case):
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "in", Path(folder) / "out"
        timed(bench.generate, "--shape", f"{batches_of(case)},{case.tokens},{case.dim}", "--seed", case.seed, "--kind",
              case.kind, paths[0])
        printed = [timed(bench.seq, "--time", *paths)[1]
                   for _ in range(SHORT_RUNS if expected_seconds(case) <= SHORT_SECONDS else 1)]
    return {"name": case.name, "batches": case.batches, "tokens": case.tokens, "dim": case.dim, "flop": case.flops,
            "measured_batches": batches_of(case),
            "seconds": [float(re.search(r"^arithmetic_seconds (\S+)$", text, re.MULTILINE)[1]) for text in printed]}


def sequential(bench, shapes):
    """The arithmetic of seq, without reading, checking and writing; the longest first, beside each other."""
    processors = sorted(os.sched_getaffinity(0))
    # Every second processor: neighbours are often two threads of one core.
    processors = processors[::2][:min(MOST_PROCESSES, max(1, len(processors) // 2))]
    document = bench.open(
        processes=len(processors), cases=[],
        how="arithmetic alone, seq --time, on the first measured_batches batches of each case; at most "
            f"{len(processors)} processes beside each other, each on a processor of its own")
    free = queue.SimpleQueue()
    for processor in processors:
        free.put(processor)
    cases = plain_cases(shapes)
    records = {case.name: None for case in cases}
    # Affinity belongs to the thread, and the processes that it starts inherit it.
    with concurrent.futures.ThreadPoolExecutor(
            len(processors), initializer=lambda: os.sched_setaffinity(0, {free.get()})) as pool:
        longest_first = sorted(cases, key=expected_seconds, reverse=True)
        for done in concurrent.futures.as_completed([pool.submit(time_seq, bench, case) for case in longest_first]):
            records[done.result()["name"]] = done.result()
            document.write(cases=[record for record in records.values() if record])


# ---- The CPU engine

WARM_SAMPLES = 3  # of a turn


def cpu(bench, contracts, shapes, seq, runs):
    """Warm launches by hw4 bench, hw4's kernel in a run from file to file, PyTorch's attention warm by the same rules,
    and seq as a whole process; all in turns, so that they see the same machine."""
    torch, threads = need_torch(), len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    document, records = bench.open(torch=str(torch.__version__), runs=runs, cases=[]), []
    for case in plain_cases(shapes):
        of_case = [{"case": case.name, "contract": contract, "threads": threads, "bytes_equal": None,
                    "seconds": {"hw4": [], "from_file": [], "torch": [], "seq": []}} for contract in contracts]
        with tempfile.TemporaryDirectory() as folder:
            path, out, seq_out = bench.case_file(case), Path(folder) / "out", Path(folder) / "seq.out"
            q, k, v = (m.contiguous().unsqueeze(1) for m in exact.read_case(path).clone().unbind(1))

            def sample(launches):
                start = time.perf_counter()
                with torch.no_grad():
                    for _ in range(launches):
                        torch_cell.attention("default", q, k, v)
                return (time.perf_counter() - start) / launches

            for turn in range(runs):
                for record in of_case:
                    contract, seconds = record["contract"], record["seconds"]
                    seconds["hw4"].append(warm_seconds(bench, contract, case, threads))
                    _, told = bench.report_of("--device", "cpu", "--contract", contract, "--threads", threads, path,
                                              out)
                    record |= {"flop": told["flop"], "kernel": told["kernel"]}
                    seconds["from_file"].append(told["kernel_seconds"])
                    if turn == 0 and seq:
                        seconds["seq"].append(timed(bench.seq, "--contract", contract, path, seq_out)[0])
                        record["bytes_equal"] = seq_out.read_bytes() == out.read_bytes()
                        if not record["bytes_equal"]:
                            raise Failed(f"{case.name}: {contract}: the bytes of hw4 and seq differ")
                launches = torch_cell.launches_for(torch_cell.warm_up(sample))
                seconds = statistics.median(sample(launches) for _ in range(WARM_SAMPLES))
                for record in of_case:
                    record["seconds"]["torch"].append(seconds)
        records += of_case
        document.write(cases=records)


def warm_seconds(bench, contract, case, threads):
    """The median of a launch, with nothing beside it."""
    told, _ = bench.bench_rows("--device", "cpu", "--impl", contract, "--threads", threads, "--passes", "forward",
                               "--dtype", OURS[contract][1] or "float32", "--kind", case.kind, "--batch_size",
                               case.batches, "--num_heads", 1, "--seq_len", case.tokens, "--emb_dim", case.dim,
                               "--repeats", WARM_SAMPLES, "--quiet")
    forward = told["hw4"]["forward"]
    if forward["status"] != "ok":
        raise Failed(f"hw4 bench --impl {contract}: {forward['reason']}")
    return statistics.median(forward["samples"])


# ---- Sweeps of hw4 bench

PASSES = torch_cell.PASSES
# The others follow from the samples.
OF_A_PASS = ("status", "reason", "wanted_bytes", "free_bytes", "kernel", "revision", "launches", "samples", "flop",
             "peak_bytes", "before_backward_bytes", "error", "output_crc32", "as_reference",
             "clock_mhz", "power_w")


def write_rows(document, told, rows):
    """The settings that all rows share once, then of each row what tells it from the others and what was measured."""
    first = rows[0]["parameters"]
    settings = {name: value for name, value in first.items() if all(row["parameters"][name] == value for row in rows)}
    records = [{**{name: value for name, value in row["parameters"].items() if name not in settings},
                **{name: {field: row[name][field] for field in OF_A_PASS if row[name].get(field) is not None}
                   for name in PASSES}} for row in rows]
    kernels = (row[name].get("kernel") or "" for row in rows for name in PASSES)
    torch = next((kernel.split()[1] for kernel in kernels if kernel.startswith("PyTorch ")), None)
    document.write(torch=torch, hw4_version=told["hw4_version"], measured_on=told["machine"], settings=settings,
                   rows=records)


def sweep(bench, runs, device, tracks=False, more=()):
    document, rows, cut = bench.open(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "memory.pickle"
        for words in runs:
            left = bench.left()
            if left is not None and left <= 0:
                cut += 1
                continue
            memory = ("--memory", snapshot) if tracks else ()
            told, ended = bench.bench_rows("--device", device, *words, *memory, *more, seconds=left)
            cut += not ended
            of_run = told.get("results", [told])
            rows += [row["hw4"] for row in of_run]
            write_rows(document, told if "results" in told else told["hw4"], rows)
            if tracks:
                document.write(tracks=tracks_of(PlainUnpickler(io.BytesIO(snapshot.read_bytes())).load()))
    document.write(cut_short=cut > 0)


class PlainUnpickler(pickle.Unpickler):
    """Reads lists, dictionaries, texts and numbers alone."""

    def find_class(self, module_name, global_name):
        raise Failed(f"a snapshot of memory has a {module_name}.{global_name}")


def tracks_of(snapshot):
    """What each pass takes and gives back, from a snapshot as PyTorch has them: the frames of an entry are its purpose,
    the pass and the cell."""
    signs = {"alloc": 1, "free_completed": -1, "oom": 0}
    tracks = {}
    for entry in snapshot["device_traces"][0]:
        if entry["action"] in signs:
            purpose, name, cell = (frame["name"] for frame in entry["frames"])
            tracks.setdefault((cell, name), []).append(
                {"microseconds": entry["time_us"], "purpose": purpose, "bytes": entry["size"],
                 "taken": signs[entry["action"]]})
    return [{"cell": cell, "pass": name, "events": events} for (cell, name), events in tracks.items()]


def accumulate(bench, devices):
    document = bench.open()
    document.write(by_device={device: bench.bench_rows("accumulate", "--device", device)[0] for device in devices})


# Seconds and the like; others are the same in all rows, or follow from these.
OF_RANKS = ("via", "device", "ranks", "machines", "cards", "shares_cards", "library", "status", "reason", "path",
            "samples", "time_us", "algbw_gb_s", "busbw_gb_s", "size", "wrong", "crc32", "same_on_all_ranks", "model",
            "way", "bucket_bytes", "batch_size", "seq_len", "kernel", "bytes", "calls", "step_s", "in_calls_s",
            "exposed_s")


def rows_of_ranks(bench, ranks, *words):
    if not shutil.which("mpirun"):
        raise Failed("mpirun is not there (Debian: openmpi-bin)", NO_GPU)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", *as_root, "-np", ranks, bench.hw4_mpi, "bench",
                   *words, "--output", path]
        try:
            code = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, timeout=PATIENCE).returncode
        except subprocess.TimeoutExpired as expired:
            raise Failed(f"{ranks} ranks: no end after {PATIENCE} s") from expired
        # 69, 70 with a file: rows that could not run or failed say why.
        if code not in (0, 69, 70) or not path.exists() or not path.stat().st_size:
            raise RunFailed(f"hw4 bench {' '.join(words)} on {ranks} ranks ended with {code}", code)
        rows = json.loads(path.read_text())["results"]
    return [{name: row[name] for name in OF_RANKS if row.get(name) is not None} for row in rows]


def collectives(bench, ranks, sizes, rules, devices, gradients):
    document, vectors, steps_ = bench.open(), [], []
    for device, vias in devices.items():
        for count in ranks:
            vectors += rows_of_ranks(bench, count, "allreduce", "--device", device, "--via", vias, "--sizes", sizes,
                                     *rules)
            document.write(allreduce=vectors)
    for count, words in gradients:
        steps_ += rows_of_ranks(bench, count, "gradients", "--device", list(devices)[-1], *words)
        document.write(gradients=steps_)


RUNNERS = {function.__name__: function for function in (
    beside_torch, ladder, turns, values, causal, backward, profile, accuracy, distributions, files, steps,
    sequential, cpu, sweep, accumulate, collectives)}
