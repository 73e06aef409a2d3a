#!/usr/bin/env python3
"""The programs report/bench_*: their rules, their options, and small runs: on the CPU by hw4 itself, without a GPU by a
timer that prints made-up times, with a GPU by the timers that were built."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()
BUILD = Path(os.environ.get("HW4_BUILD") or ROOT / "build").resolve()
NO_GPU = 69
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

import file_bars  # noqa: E402 (the path to them is set above)
import gpu_bars  # noqa: E402
import round_ratios  # noqa: E402
import sampling_rules  # noqa: E402
from case_table import TableError, read_cases  # noqa: E402
from program_module import program_as_module  # noqa: E402

CASES = read_cases(str(ROOT / "testcases/cases.tsv"))


def problem(word):
    return gpu_bars.problems_of([word], CASES)[0]


class Rules(unittest.TestCase):
    def record(self, word, tflops, sgemm=50.0, **torch):
        seconds = problem(word).flop / tflops * 1e-12
        line = {"kernel": "k", "seconds": [seconds * 3, seconds, seconds / 2]}
        times = {name: {"seconds": [time], "median_seconds": time} for name, time in torch.items()}
        return gpu_bars.evaluate(problem(word), line, times, sgemm)

    def test_shapes(self):
        names = [one.name for one in gpu_bars.problems_of(["t28,t01", "4,16384,64", "4,16384,128", "t1[12]"], CASES)]
        self.assertEqual(names, ["t28", "t01", "4,16384,128", "t11", "t12"])
        self.assertEqual(problem("t28").flop, 4 * 4 * 16384 ** 2 * 64)
        for word in ("t99", "4,16384", "0,1,1"):
            with self.assertRaises(TableError):
                problem(word)

    def test_bars_of_kernels(self):
        result = self.record("t28", 40.0, efficient=0.008)
        self.assertAlmostEqual(result["tflops"], 40.0)
        self.assertAlmostEqual(result["of_sgemm"], 0.8)
        self.assertAlmostEqual(result["speed_up"], 0.008 / result["median_seconds"])
        for tflops, sgemm, met in ((47.1, 50.0, True), (46.9, 50.0, False), (47.1, 52.0, False), (47.1, None, None)):
            self.assertIs(self.record("t30", tflops, sgemm)["met"], met, (tflops, sgemm))
        seconds = problem("t01").flop / 20.0 * 1e-12
        slower = self.record("t01", 20.0, efficient=2 * seconds, default=0.9 * seconds)
        self.assertEqual((slower["met"], slower["torch_best"]), (False, "default"))
        self.assertEqual(gpu_bars.not_met([slower, self.record("t29", 50.0)]), ["t01"])
        self.assertLessEqual(set(gpu_bars.BARS) | set(gpu_bars.FIXED_BARS),
                             {case.name for case in CASES} | {gpu_bars.LONG_HEADS})

    def test_bars_of_files(self):
        def record(name, hw4):
            return file_bars.evaluate(name, {"context": [0.4, 0.2], "plain": [1.0, 3.0], "hw4": [hw4, 2 * hw4]})
        for name, hw4, met in (("t01", 0.219, True), ("t10", 0.221, False), ("t30", 0.251, False), ("t22", 0.499, True),
                               ("t12", 0.501, False), ("t17", 9.0, None)):
            self.assertIs(record(name, hw4)["met"], met, name)
        records = [record(name, 0.59) for name in file_bars.COURSE_CASES]
        self.assertIs(file_bars.evaluate_total(records)["met"], True)
        self.assertIsNone(file_bars.evaluate_total(records[1:])["met"])
        self.assertTrue(file_bars.evaluate_memory(428_000_000, 300_000_000)["met"])
        self.assertFalse(file_bars.evaluate_memory(428_000_001, 300_000_000)["met"])

    def test_a_ratio_is_that_of_a_round(self):
        record = {"flop": 4e12, "seconds": {"ours": [1.0, 2.0, 5.0], "theirs": [2.0, 8.0, 5.0]}}
        self.assertEqual(round_ratios.over(record, "ours", "theirs"), 2.0)  # of 2, 4 and 1; by the medians 2.5
        self.assertEqual(round_ratios.rate(record, "ours"), 2.0)

    def test_samples(self):
        """The rules of src/bench/sampling.h, with the numbers of tests/unit/sampling_test.cpp."""
        self.assertEqual([sampling_rules.launches_for(seconds) for seconds in (0.039e-3, 0.004, 1e-9, 0.0, 0.01, 0.85)],
                         [257, 3, 1000, 1000, 1, 1])
        asked = ((0.007, 20), (0.05, 20), (0.1, 20), (0.85, 20), (0.85, 2), (0.85, 200))
        self.assertEqual([sampling_rules.runs_for(*pair) for pair in asked], [20, 20, 10, 3, 2, 11])

    def test_seq_is_timed_on_as_many_batches_as_take_a_while(self):
        batches_of = program_as_module(ROOT / "report/bench_seq").batches_of
        self.assertEqual([batches_of(case) for case in CASES if case.name in ("t01", "t11", "t20", "t27")],
                         [320, 2862, 6, 1])

    def test_kinds_of_values_are_those_of_generate(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in program_as_module(ROOT / "report/bench_values").KINDS:
                subprocess.run([BIN / "testcases/generate", "--shape", "1,2,3", "--kind", kind, Path(folder) / "x.in"],
                               check=True)


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="report_bench_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name).resolve()

    def script(self, name, text):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def bench(self, name, *arguments, exit_code=0):
        """What it said on stderr."""
        done = subprocess.run([sys.executable, ROOT / "report" / name, "--json", self.dir / "out.json",
                               *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertNotIn("Traceback", done.stderr)
        if exit_code == 0 and done.returncode == NO_GPU and isinstance(self, WithGpu):
            self.skipTest(done.stderr.splitlines()[-1])
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done.stderr

    def document(self, complete=True):
        text = (self.dir / "out.json").read_text()
        for folder in (ROOT, self.dir):
            self.assertNotIn(str(folder), text)
        document = json.loads(text)
        self.assertIs(document["complete"], complete)
        return document


class Refusals(Programs):
    def test_wrong_usage(self):
        for words in ("bench_gpu --shapes t99", "bench_gpu --contract f64", "bench_gpu --runs 0", "bench_causal 1,64",
                      "bench_rounds 4,0,64,64", "bench_rounds --backward", "bench_ladder bf16 4,0,64",
                      "bench_values normal:7", "bench_backward speed", "bench_seq --cases c01",
                      "bench_steps --case t*", "bench_files --cases t99", "bench_files --cases t01 --trace-folder x",
                      "bench_sweep lab6", "bench_tilings --fast", "bench_collectives --devices tpu"):
            with self.subTest(words):
                self.assertIn("error: ", self.bench(*words.split(), exit_code=2))

    def test_a_program_that_is_not_there(self):
        none = self.dir / "none"
        for name, *words in (("bench_gpu", "--time-kernels", none), ("bench_causal", "--time-kernels", none),
                             ("bench_tilings", "--time-tilings", none), ("bench_seq", "--bin", none),
                             ("bench_steps", "--bin", none), ("bench_files", "--build", none),
                             ("bench_sweep", "lab5", "--bin", none), ("bench_collectives", "--build", none)):
            with self.subTest(name):
                self.assertRegex(self.bench(name, *words, exit_code=NO_GPU), r"is not there; make [\w-]+ builds it\n")

    def test_a_file_that_cannot_be(self):
        timer = self.script("timer", "")
        self.assertIn("File exists", self.bench("bench_causal", "--time-kernels", timer, "--json", timer / "x",
                                                exit_code=73))


class OnTheCpu(Programs):
    SMALL = ("--batch_size", "1", "--seq_len", "8,16", "--num_heads", "2", "--emb_dim", "8", "--warmup", "0",
             "--repeats", "2", "--threads", "1")

    def sweep(self, what, *more, **outcome):
        return self.bench("bench_sweep", what, "--device", "cpu", "--bin", BIN, *more, **outcome)

    def test_sweeps(self):
        self.sweep("cs336_attention", *self.SMALL)
        document = self.document()
        self.assertEqual((document["cut_short"], document["torch"], document["settings"]["memory_limit"]),
                         (False, None, 8 << 30))
        self.assertEqual({row["impl"] for row in document["rows"]}, {"naive", "f32", "flash2", "pytorch"})
        row = next(row for row in document["rows"] if row["impl"] == "f32")
        self.assertEqual(len(row["forward"]["samples"]), 2)
        self.assertLessEqual({"status", "kernel", "peak_bytes", "flop", "error", "output_crc32"}, set(row["forward"]))

    def test_what_memory_is_taken_for(self):
        self.sweep("memory", *self.SMALL)
        track = next(track for track in self.document()["tracks"] if track["cell"] == "naive B 1 H 2 N 16 d 4 warmup 0")
        self.assertEqual([(event["purpose"], event["bytes"], event["taken"]) for event in track["events"]],
                         [("inputs", 1536, 1), ("O", 512, 1), ("scores", 2048, 1), ("scores", 2048, -1), ("O", 512, -1),
                          ("inputs", 1536, -1)])

    def test_sums_in_several_types(self):
        self.sweep("accumulate")
        sums = self.document()["by_device"]["cpu"]["sums"]
        self.assertLessEqual({"float32", "fp16", "bf16"}, {one["sum"] for one in sums})

    def test_a_sweep_that_fails_is_not_complete(self):
        self.assertIn("ended with 64", self.sweep("lab5_sweep", "--batch_size", "x", exit_code=70))
        self.document(complete=False)

    def test_seq(self):
        self.bench("bench_seq", "--cases", "e03", "e05", "--bin", BIN)
        cases = self.document()["cases"]
        self.assertEqual([(case["name"], case["measured_batches"], len(case["seconds"])) for case in cases],
                         [("e03", 3, 3), ("e05", cases[1]["batches"], 3)])

    @unittest.skipUnless(shutil.which("mpirun") and (BUILD / "hw4_mpi").exists(), "needs mpirun and a build with MPI")
    def test_collectives(self):
        self.bench("bench_collectives", "--devices", "cpu", "--ranks", "2", "--sizes", "4k,8k", "--models", "tiny",
                   "--batch_size", "1", "--seq_len", "16", "--buckets", "64k", "--build", BUILD)
        document = self.document()
        self.assertEqual([(row["ranks"], row["via"], row["size"]) for row in document["allreduce"]],
                         [(ranks, via, size) for ranks in (1, 2) for via in ("mpi", "ordered")
                          for size in (4096, 8192)])
        self.assertTrue(all(row["status"] == "ok" and row["wrong"] == 0 for row in document["allreduce"]))
        self.assertEqual([row["way"] for row in document["gradients"]],
                         ["none", *(["naive", "flat", "overlapped"] * 2)])


class FromFileToFile(Programs):
    """bench_files and bench_steps, with hw4 on the CPU where they ask for the GPU."""
    LISTING = {"contracts": [{"name": "f32", "compared": "bytes", "most_columns": None, "computes": []}],
               "kernels": [{"device": device, "name": name, "operation": "forward", "contract": "f32"} for device, name
                           in (("gpu", "plain_rows"), ("gpu", "padded_tiles"), ("cpu", "generic"))]}

    def setUp(self):
        super().setUp()
        (self.dir / "testcases").mkdir()
        (self.dir / "testcases/generate").symlink_to(BIN / "testcases/generate")
        self.script("reference/context_only", "#!/bin/sh\necho 5000000\n")
        self.script("reference/plain_copy", "#!/bin/sh\nhead -c 4 $1 > $2\n")
        self.script("start_up", "#!/bin/sh\necho '    1.500 ms  driver'\n")
        self.hw4(f'[ "$1" = --kernel ] && shift 2; exec {BIN}/hw4 --device cpu "$@"')
        self.where = ("--bin", self.dir, "--folder", self.dir / "cases", "--runs", "2")

    def hw4(self, text):
        """The arguments are those after --device gpu."""
        (self.dir / "list.json").write_text(json.dumps(self.LISTING))
        self.script("hw4", f'#!/bin/sh\nif [ "$1" = --list-kernels ]; then exec cat {self.dir}/list.json; fi\n'
                           f'shift 2\n{text}\n')

    def test_files(self):
        self.bench("bench_files", *self.where, "--build", self.dir, "--cases", "t01", "e03")
        records = self.document()["cases"]
        self.assertEqual([(record["name"], record["stages"]["queries"]) for record in records],
                         [("t01", 128), ("e03", 31)])
        for record in records:
            self.assertEqual({name: len(runs) for name, runs in record["seconds"].items()},
                             {"context": 2, "plain": 2, "hw4": 2})

    def test_steps(self):
        self.bench("bench_steps", *self.where, "--case", "e03")
        document = self.document()
        self.assertEqual([(step["label"], step["streams"], step["copies"]) for step in document["steps"]],
                         [("plain_rows", 1, "linear"), ("padded_tiles", 1, "linear"),
                          ("padded_tiles, 2-D copies", 1, "2d"), ("padded_tiles, 4 streams", 4, "2d")])
        for step in document["steps"]:
            self.assertTrue(all(0 < kernel < whole for kernel, whole in
                                zip(step["kernel_seconds"], step["seconds"], strict=True)))

    def test_wrong_bytes_are_not_measured(self):
        self.hw4('for last; do :; done; echo wrong > "$last"; while [ $# -gt 1 ]; do '
                 '[ "$1" = --json ] && echo \'{"kernel_seconds": 1, "input": "x"}\' > "$2"; shift; done')
        for name, *words in (("bench_files", "--build", self.dir, "--cases", "e03"), ("bench_steps", "--case", "e03")):
            self.assertIn("the output has not the CRC-32 of the table",
                          self.bench(name, *self.where, *words, exit_code=70))
            self.document(complete=False)


# Leaves its arguments in the file `calls` and prints a line for two kernels, or the chosen one, of each shape and kind.
# A launch takes 4 ms under f32 and 1 ms under others, five eighths of that under the mask.
TIMER = """#!{python} -IS
import json, sys
words = sys.argv[1:]
with open({calls!r}, "a") as calls:
    calls.write(" ".join(words) + "\\n")
mask = "causal" if "--causal" in words else "none"
seconds = (0.001 if {{"fixed", "fixed16", "bf16"}} & set(words) else 0.004) * (0.625 if mask == "causal" else 1)
for shape in (word for word in words if word.count(",") == 2):
    b, n, d = map(int, shape.split(","))
    for kind in [words[at + 1] for at, word in enumerate(words) if word == "--kind"] or ["uniform"]:
        for kernel in ("fast",) if "--chosen" in words else ("plain", "fast"):
            print(json.dumps({{"kernel": kernel, "chosen": kernel == "fast", "batches": b, "tokens": n, "dim": d,
                               "mask": mask, "kind": kind, "launches": 7, "scratch_bytes": 1 << 20, "flop": 1.0,
                               "seconds": [2 * seconds, seconds, seconds / 2]}}))
"""


class ByMadeUpTimes(Programs):
    def setUp(self):
        super().setUp()
        timer = self.script("timer", TIMER.format(python=sys.executable, calls=str(self.dir / "calls")))
        self.timer = ("--time-kernels", timer, "--runs", "3")

    def calls(self):
        return (self.dir / "calls").read_text().splitlines()

    def test_kernels(self):
        self.bench("bench_gpu", "--shapes", "t28", "--no-torch", *self.timer)
        document = self.document()
        rates = [document["shapes"], document["fixed"]["shapes"], document["fixed16"]["shapes"]]
        flop = problem("t28").flop
        for (record,), seconds in zip(rates, (0.004, 0.001, 0.001)):
            self.assertAlmostEqual(record["tflops"], flop / seconds * 1e-12)
        self.assertAlmostEqual(document["fixed"]["shapes"][0]["over_f32"], 4.0)
        self.assertEqual([line["kernel"] for line in document["ladder"]], ["plain", "fast"])
        self.assertEqual(self.calls()[0], "--contract f32 --chosen --runs 3 --launches auto 4,16384,64")

    def test_every_kernel_of_a_contract(self):
        self.bench("bench_ladder", "bf16", "4,1024,64", "2,1024,128", *self.timer)
        self.assertEqual([(line["kernel"], line["dim"]) for line in self.document()["ladder"]],
                         [("plain", 64), ("fast", 64), ("plain", 128), ("fast", 128)])
        self.assertEqual(self.calls()[0], "--contract bf16 --elements bf16 --runs 3 --launches auto 4,1024,64")

    def test_the_causal_mask(self):
        self.bench("bench_causal", "2,100,8", "--no-torch", *self.timer)
        case, = self.document()["cases"]
        self.assertEqual(case["causal_flop"], 2 * 2 * 100 ** 2 * 8)
        for who, seconds in (("hw4", 0.004), ("hw4_fixed", 0.001)):
            self.assertEqual([sorted(case[who][mask]["seconds"])[1] for mask in ("none", "causal")],
                             [seconds, 0.625 * seconds])

    def test_kinds_of_values(self):
        self.bench("bench_values", "normal:1", "low", "--no-torch", "--bin", BIN, *self.timer)
        self.assertEqual([(case["dim"], case["kind"], case["hw4"]["kind"]) for case in self.document()["cases"]],
                         [(dim, kind, kind) for dim in (64, 128, 32) for kind in ("normal:1", "low")])

    def test_backward(self):
        self.bench("bench_backward", "ladder", "bars", "memory", "--no-torch", *self.timer)
        document = self.document()
        self.assertEqual([line["kernel"] for line in document["ladder"]], ["plain", "fast"])
        for bar in document["bars"]:
            batches, tokens, dim = bar["shape"]
            self.assertEqual(bar["flop"], 10 * batches * tokens ** 2 * dim / (2 if bar["mask"] == "causal" else 1))
            self.assertEqual(bar["hw4"]["mask"], bar["mask"])
        self.assertEqual([entry["budget_mib"] for entry in document["memory"]][::6], ["64", "all"])

    def test_a_timer_that_fails(self):
        broken = self.script("broken", "#!/bin/sh\necho 'time_kernels: no CUDA device' >&2; exit 69\n")
        for words in (("bench_gpu", "--no-torch"), ("bench_causal", "--no-torch"), ("bench_ladder", "f32", "1,64,8"),
                      ("bench_values", "--no-torch", "--bin", BIN), ("bench_backward", "ladder")):
            self.assertIn("no CUDA device", self.bench(*words, "--time-kernels", broken, exit_code=NO_GPU))
            self.document(complete=False)


@unittest.skipUnless((BUILD / "time_kernels").exists() and shutil.which("nvidia-smi"), "needs a GPU")
class WithGpu(Programs):
    """The timers that were built; a copy, since a program brings the default one up to date first."""

    def setUp(self):
        super().setUp()
        self.timer = ("--time-kernels", shutil.copy(BUILD / "time_kernels", self.dir), "--runs", "2")

    def test_kernels(self):
        self.bench("bench_gpu", "--contract", "f32", "--shapes", "t01", "--no-torch", *self.timer)
        self.assertGreater(self.document()["shapes"][0]["tflops"], 0)
        self.bench("bench_causal", "4,1024,64", "--no-torch", *self.timer)
        self.assertGreater(min(self.document()["cases"][0]["hw4"]["causal"]["seconds"]), 0)

    def test_beside_pytorch(self):
        self.bench("bench_rounds", "4,1024,64", "--rounds", "1", "--masks", "causal", "--contracts", "fixed16",
                   *self.timer)
        case, = self.document()["cases"]
        self.assertEqual(case["flop"], 2 * 4 * 1024 ** 2 * 64)
        self.assertLessEqual({"fixed16", "flash2 bf16", "cudnn bf16"}, set(case["seconds"]))

    def test_tilings(self):
        self.bench("bench_tilings", "--shape", "1,100,64", "--time-tilings", BUILD / "time_tilings")
        document = self.document()
        tilings = {(one["rows"], one["keys"]) for one in (*document["tilings"], *document["left_out"])}
        self.assertEqual(tilings, {(rows, keys) for rows in (4, 8, 16, 32) for keys in (32, 64, 96, 128, 256)})
        self.assertEqual({one["keys"] for one in document["left_out"]}, {256})


if __name__ == "__main__":
    unittest.main()
