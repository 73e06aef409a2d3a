"""The runners of report/measure: each measures the cells of a step (cells.py) and writes them into the step's document,
in the form that report/builder reads.

`hw4 bench` times kernels and counts memory, a clock around hw4 and seq times whole runs, profile/profile reads
counters, and PyTorch computes errors in this process.
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
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "judge"), str(ROOT / "profile")]

import exact  # noqa: E402 (the path to others is set above)
import variants  # noqa: E402
from case_table import read_plain_cases, select  # noqa: E402
from cells import PEERS  # noqa: E402
from document import Document, Failed, dense, say  # noqa: E402
from decision_tables import read_expectations, table_beside  # noqa: E402
from files import crc32_of  # noqa: E402
from listing import BYTES, NoListing, choose, listing_of  # noqa: E402
from shapes import CASE_TABLE, problems_of  # noqa: E402

NO_GPU, REFUSED = 69, 65  # exit codes of the programs
PATIENCE = 600  # seconds for one run of a program
SLOW_SAMPLE = 0.05  # seconds; slower kernels get fewer samples
# The programs that each make target builds, and their folder.
PROGRAMS = {"all": (("bin", "hw4"), ("bin", "seq"), ("bin", "testcases/generate")), "hw4-mpi": (("build", "hw4_mpi"),),
            "lib": (("build", "libhw4.so"),),
            "references": (("build", "reference/context_only"), ("build", "reference/plain_copy"))}


class RunFailed(Failed):
    """A program ended with an exit code other than 0."""

    def __init__(self, message, status):
        super().__init__(message, NO_GPU if status == NO_GPU else 70)
        self.status = status


def timed(*command, patience=PATIENCE):
    """Wall seconds of a successful run, and its output."""
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


class Bench:
    """A runner's environment: the programs, a folder for its files, its document."""

    def __init__(self, path, goals, bin_folder=ROOT, build_folder=ROOT / "build", traces=None):
        self.path, self.traces = path, traces
        folders = {"bin": bin_folder, "build": build_folder}
        self.build, self.cases = build_folder, build_folder / "measured_cases"
        self.document = None  # until opened; profile/profile writes its own
        self.program = None  # the first measured program
        for goal in goals:
            for folder, name in PROGRAMS[goal]:
                path = folders[folder] / name
                if not os.access(path, os.X_OK):
                    raise Failed(f"{path} is not there; make {goal} builds it", NO_GPU)
                setattr(self, path.stem, path)  # bench.hw4, bench.seq, ...
                self.program = self.program or path

    def open(self, clean=False, **fields):
        """clean: a comparison, which counts only if its sources are a commit's."""
        self.document = Document(self.path, program=self.program, build=self.build, **fields)
        if clean and (self.document.data["git"] or {"dirty": True})["dirty"]:
            raise Failed("needs a clean tree: commit the changes first (git status)")
        self.document.write()  # fails before anything is measured
        return self.document

    # ---- Cases

    def case_file(self, case):
        """The case's file, which is generated once and then in the page cache."""
        path = self.cases / f"{case.name}-{case.crc32_in}.in"
        if not path.exists() or path.stat().st_size != case.input_bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            timed(self.generate, *case.recipe(), path)
        with open(path, "rb", buffering=0) as file:
            block = bytearray(1 << 22)
            while file.readinto(block):
                pass
        return path

    def report_of(self, *command):
        """(seconds, the output of hw4 --json) of a run; the last words are input and output."""
        report = self.path.with_suffix(".run")
        seconds, _ = timed(self.hw4, "--json", report, *command)
        told = json.loads(report.read_text())
        report.unlink()
        return seconds, {**told, "input": Path(told["input"]).name}

    def contracts(self, by_bound):
        """The contracts of hw4 that promise bytes, or all of them."""
        try:
            return choose(listing_of(self.hw4).contracts, "all", None if by_bound else BYTES)
        except NoListing as error:
            raise Failed(str(error)) from error

    # ---- hw4 bench

    def bench_rows(self, *words):
        """The document that `hw4 bench` writes, for one cell or several."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bench.json"
            code = subprocess.run([str(self.hw4), "bench", *map(str, words), "--output", str(path)],
                                  stdin=subprocess.DEVNULL).returncode
            # 69, 70 with a file: no row ran, or one failed; the rows contain the reasons.
            if not path.exists() or code not in (0, 69, 70):
                raise RunFailed(f"hw4 bench {' '.join(map(str, words))} ended with {code}", code)
            told = json.loads(path.read_text())
        if "hw4" in told:  # a single cell
            return {**{name: told["hw4"][name] for name in ("hw4_version", "machine")}, "results": [told]}
        return told


def hw4_under(contract):
    """The name of hw4's results under a contract in a file; the default's has no suffix."""
    return "hw4" if contract == "f32" else f"hw4_{contract}"


# ---- Kernels alone


def ladder(bench, contract, shapes, passes, runs):
    """Every kernel of a contract; under bf16 and fp16 from tensors of that type."""
    document, lines = bench.open(contract=contract, runs=runs, ladder=[]), []
    element = contract if contract in ("bf16", "fp16") else "float32"
    for problem in problems_of(shapes):
        told = bench.bench_rows("--device", "gpu", "--impl", contract, "--dtype", element, "--kernel", "all",
                                "--passes", passes, "--kind", "uniform", "--repeats", runs, "--limit",
                                runs * SLOW_SAMPLE, "--quiet", "--shape", problem.text)
        cells = [row["hw4"] for row in told["results"]]
        wrong = [cell for cell in cells if cell["status"] == "failed"]
        measured = [cell for cell in cells if cell["status"] == "ok"]
        if wrong or not measured:
            raise Failed(f"hw4 bench: {contract}: {(wrong or cells)[0]['reason']}")
        lines += [{**problem.sizes, **{name: cell[passes][name] for name in (
            "kernel", "flop", "scratch_bytes", "launches")}, "seconds": cell[passes]["samples"], "elements": element,
            "device": told["machine"]["name"], "cuda": told["machine"]["cuda"]} for cell in measured]
        document.write(ladder=lines)


def profile(bench, words):
    """profile/profile writes the file itself."""
    code = subprocess.run([sys.executable, ROOT / "profile/profile", *words, "--hw4", bench.hw4, "--json",
                           bench.path], cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    if code != 0:
        raise RunFailed(f"profile/profile ended with {code}", code)


# ---- Errors


def need_torch():
    try:
        return exact.torch_in_float32()
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
        largest = {program: found["largest"] for program, found in errors.items()}
        records.append({"name": case.name, "batches": case.batches, "tokens": case.tokens, "dim": case.dim,
                        "largest_errors": largest})
        document.write(cases=records)
        say(f"{case.name:5} " + "  ".join(f"{program} {error:.2e}" for program, error in largest.items()))


SEED = 20261115


def distributions(bench, seeds, kinds, peers, by_bound, device):
    """Q, K and V drawn by PyTorch on the CPU from one distribution, each case with its own seed."""
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


def check_bytes(case, output, program):
    """The output has the bytes of the table, under hw4's default contract."""
    expectations = read_expectations(table_beside(CASE_TABLE))
    expected = expectations.of(case, expectations.contracts[0])
    if expected and crc32_of(str(output)) != expected.crc32:
        raise Failed(f"{case.name}: {program}: the output does not have the CRC-32 of the table")


def there_and_back(names, turn):
    """Alternates the order, so that each program follows itself as well as others: the driver closes the GPU after its
    last user, and a program that starts during that time is ready sooner."""
    return list(names)[::-1 if turn % 2 else 1]


def files(bench, shapes, variants_on, variants, memory_of, trace_of, trace_streams, device, runs):
    """hw4 from file to file beside a program that only creates a CUDA context and one that copies without arithmetic
    (report/reference), with files in the page cache; and hw4's times of its stages, from a separate run."""
    document, records, out = bench.open(runs=runs, cases=[], memory=None, start_up=None), [], bench.cases / "out"
    timed(bench.context_only)  # fails without a GPU, before anything is generated
    cases = plain_cases(shapes)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(bench.case_file, sorted(cases, key=lambda case: -case.input_bytes)))
    os.sync()  # nothing is still being written during the timed runs
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


def start_up(bench, runs):
    """Start and end of a process that uses the GPU, step by step; the fastest run."""
    seconds, steps = min(timed(bench.hw4, "bench", "start-up") for _ in range(runs))
    inside = sum(float(line.split()[0]) for line in steps.splitlines()) * 1e-3
    return {"wall_seconds": seconds, "outside_steps_seconds": seconds - inside, "steps": steps.splitlines()}


ASSUMED_RATE = 12e9  # FLOP/s of seq; only to choose the number of batches
ENOUGH_SECONDS = 0.5
SHORT_SECONDS, SHORT_RUNS = 1.5, 3
MOST_PROCESSES = 5


def batches_of(case):
    """The number of batches to measure: seq's cost is proportional to it."""
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
    """seq's arithmetic without reading, checking and writing; the longest cases first, in parallel."""
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


# ---- hw4 bench: memory, sums, ranks

PASSES = ("forward", "backward", "forward_backward")
# The other fields follow from the samples.
OF_A_PASS = ("status", "reason", "wanted_bytes", "free_bytes", "kernel", "revision", "launches", "samples", "flop",
             "peak_bytes", "before_backward_bytes", "error", "output_crc32", "as_reference")


def records_of(results):
    """Settings that all rows share are stored once; each row keeps its own settings and measurements."""
    rows = [row["hw4"] for row in results]
    settings = {name: value for name, value in rows[0]["parameters"].items()
                if all(row["parameters"][name] == value for row in rows)}
    return {"settings": settings, "rows": [
        {**{name: value for name, value in row["parameters"].items() if name not in settings},
         **{name: {field: row[name][field] for field in OF_A_PASS if row[name].get(field) is not None}
            for name in PASSES}} for row in rows]}


def sweep(bench, runs, device):
    document, results = bench.open(), []
    for words in runs:
        told = bench.bench_rows("--device", device, *words)
        results += told["results"]
        document.write(hw4_version=told["hw4_version"], measured_on=told["machine"], **records_of(results))


def memory(bench, words, device):
    """The allocations and frees of each pass."""
    document = bench.open()
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "memory.pickle"
        told = bench.bench_rows("--device", device, *words, "--memory", snapshot)
        tracks = tracks_of(PlainUnpickler(io.BytesIO(snapshot.read_bytes())).load())
    document.write(hw4_version=told["hw4_version"], measured_on=told["machine"], **records_of(told["results"]),
                   tracks=tracks)


def cpu(bench, case, runs):
    """The CPU's default kernel for each contract, warm and in memory."""
    document, records = bench.open(case=case, runs=runs), []
    for contract in bench.contracts(by_bound=True):
        told = bench.bench_rows("--device", "cpu", "--impl", contract.name, "--passes", "forward", "--kind", "uniform",
                                "--repeats", runs, "--shape", case)
        row = told["results"][0]["hw4"]
        if row["status"] != "ok":
            raise Failed(f"hw4 bench: {contract.name}: {row['reason']}")
        records.append({"contract": contract.name, "threads": os.cpu_count(), "seconds": row["forward"]["samples"],
                        **{name: row["forward"][name] for name in ("kernel", "flop")}})
        document.write(cases=records)


# ---- Beside PyTorch


def beside(bench, words):
    """One `python -m hw4.neighbours`, which times hw4 and the peers in turns."""
    bench.open(clean=True).write(**told_by("hw4.neighbours", bench, *words))


def training_beside(bench, words):
    """One `python -m hw4.step`, which times hw4's step before and after each of PyTorch's."""
    bench.open(clean=True).write(**told_by("hw4.step", bench, "--hw4", bench.hw4, *words))


def told_by(module, bench, *words):
    """The document that a program of python/hw4 writes."""
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HW4_LIBRARY": str(bench.libhw4)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        code = subprocess.run([sys.executable, "-m", module, *words, "--json", path], env=environment,
                              stdin=subprocess.DEVNULL).returncode
        if code != 0:
            raise RunFailed(f"python -m {module} ended with {code}", code)
        return json.loads(path.read_text())


class PlainUnpickler(pickle.Unpickler):
    """Unpickles lists, dictionaries, texts and numbers alone."""

    def find_class(self, module_name, global_name):
        raise Failed(f"a snapshot of memory has a {module_name}.{global_name}")


def tracks_of(snapshot):
    """The allocations and frees of each pass, from a snapshot in PyTorch's format: the frames of an entry are its
    purpose, the pass and the cell."""
    signs = {"alloc": 1, "free_completed": -1, "oom": 0}
    tracks = {}
    for entry in snapshot["device_traces"][0]:
        if entry["action"] in signs:
            purpose, name, cell = (frame["name"] for frame in entry["frames"])
            track = tracks.setdefault((cell, name), {"cell": cell, "pass": name,
                                                     "purpose": [], "bytes": [], "taken": []})
            for column, value in (("purpose", purpose), ("bytes", entry["size"]), ("taken", signs[entry["action"]])):
                track[column].append(value)
    return list(tracks.values())


def accumulate(bench, devices):
    document = bench.open()
    document.write(by_device={device: bench.bench_rows("accumulate", "--device", device) for device in devices})


# The varying fields; others are the same in all rows, or follow from these.
OF_RANKS = ("via", "device", "ranks", "machines", "cards", "shares_cards", "library", "status", "reason", "path",
            "samples", "time_us", "algbw_gb_s", "busbw_gb_s", "size", "wrong", "crc32", "same_on_all_ranks", "model",
            "way", "bucket_bytes", "batch_size", "seq_len", "kernel", "bytes", "calls", "step_s", "in_calls_s",
            "exposed_s", "contract", "attention", "shard", "warmup", "step", "forward", "backward", "optimizer",
            "of_peak", "in_use_in_forward_bytes", "in_use_in_step_bytes", "peak_bytes")


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
        # 69, 70 with a file: rows that could not run or failed contain the reasons.
        if code not in (0, 69, 70) or not path.exists() or not path.stat().st_size:
            raise RunFailed(f"hw4 bench {' '.join(words)} on {ranks} ranks ended with {code}", code)
        rows = json.loads(path.read_text())["results"]
    for row in rows:
        if "step" in row:  # a row of hw4 bench step: its sums are always in order
            step = row["step"]
            row.update(via="ordered", bytes=4 * (row["parameters"] or 0), step_s=step["mean"], samples=step["samples"])
            row["exposed_s"] = row["step_s"] and row["step_s"] * row["communication_share"]
    return [{name: row[name] for name in OF_RANKS if row.get(name) is not None} for row in rows]


def collectives(bench, ranks, sizes, rules, devices, gradients):
    document, vectors, steps_ = bench.open(), [], []
    for device, vias in devices.items():
        for count in ranks:
            vectors += rows_of_ranks(bench, count, "allreduce", "--device", device, "--via", vias, "--sizes", sizes,
                                     *rules)
            document.write(allreduce=vectors)
    for count, words in gradients:
        steps_ += rows_of_ranks(bench, count, "step", *words)
        document.write(gradients=steps_)


def training(bench, device, runs):
    """Each run is the number of ranks and the arguments of one `hw4 bench step`."""
    document, rows = bench.open(), []
    for count, words in runs:
        rows += rows_of_ranks(bench, count, "step", "--device", device, *words)
        document.write(rows=rows)


RUNNERS = {function.__name__: function for function in (
    ladder, profile, accuracy, distributions, files, sequential, sweep, memory, cpu, beside, accumulate, collectives,
    training, training_beside)}
RUNNERS["ablation"] = variants.ablation
