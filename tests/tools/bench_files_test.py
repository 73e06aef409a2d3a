#!/usr/bin/env python3
"""report/bench_files without a GPU: its rules, and whole runs with hw4 on the CPU beside fake references."""
import argparse
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
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

import file_bars  # noqa: E402 (the path to it is set above)
from case_table import read_cases  # noqa: E402
from program_module import program_as_module  # noqa: E402

CONTEXT = "sleep {sleep}; echo 5000000"
PLAIN = "sleep {sleep}; head -c 4 $1 > $2"
HW4 = 'shift 2; exec {bin}/hw4 --device cpu "$@"'  # without --device gpu
START_UP = "echo '    1.500 ms  driver'; echo '    2.000 ms  context'"


class Bars(unittest.TestCase):
    def record(self, name, context, plain, hw4):
        return file_bars.evaluate(name, {"context": [context * 2, context], "plain": [plain, plain * 3],
                                         "hw4": [hw4, hw4 * 2, hw4 * 1.5]})

    def test_the_best_of_each_counts(self):
        record = self.record("t22", 0.2, 1.0, 0.4)
        self.assertEqual(record["best_seconds"], {"context": 0.2, "plain": 1.0, "hw4": 0.4})
        self.assertAlmostEqual(record["of_plain"], 0.4)
        self.assertAlmostEqual(record["of_context"], 2.0)

    def test_each_case_has_its_bar(self):
        for name, hw4, met in (("t01", 0.219, True), ("t10", 0.221, False), ("t28", 0.249, True), ("t30", 0.251, False),
                               ("t22", 0.499, True), ("t12", 0.501, False), ("t17", 9.0, None)):
            with self.subTest(name):
                self.assertIs(self.record(name, 0.2, 1.0, hw4)["met"], met)
        self.assertEqual(len(file_bars.BARS), 14)

    def test_what_was_not_measured_is_not_judged(self):
        record = file_bars.evaluate("t22", {"context": [0.2], "plain": [], "hw4": [0.3]})
        self.assertIsNone(record["met"])
        self.assertIn("not judged", file_bars.table([record]))

    def test_total_needs_every_case(self):
        records = [self.record(name, 0.2, 1.0, 0.59) for name in file_bars.COURSE_CASES]
        self.assertIs(file_bars.evaluate_total(records)["met"], True)
        self.assertIsNone(file_bars.evaluate_total(records[1:])["met"])
        slow = [self.record(name, 0.2, 1.0, 0.61) for name in file_bars.COURSE_CASES]
        self.assertIs(file_bars.evaluate_total(slow)["met"], False)

    def test_memory_beyond_the_context(self):
        self.assertTrue(file_bars.evaluate_memory(428_000_000, 300_000_000)["met"])
        self.assertFalse(file_bars.evaluate_memory(428_000_001, 300_000_000)["met"])

    def test_every_missed_bar_is_named(self):
        records = [self.record("t01", 0.2, 1.0, 0.5), self.record("t22", 0.2, 1.0, 0.4)]
        total = file_bars.evaluate_total(records)
        self.assertEqual(file_bars.not_met(records, total, None), ["t01", "total", "memory"])


class WholeRuns(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="hw4-bench-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.program("reference/context_only", CONTEXT.format(sleep=0.01))
        self.program("reference/plain_copy", PLAIN.format(sleep=0.02))
        self.program("start_up", START_UP)
        self.program("hw4", HW4.format(bin=BIN))
        (self.dir / "testcases").mkdir()
        (self.dir / "testcases/generate").symlink_to(BIN / "testcases/generate")

    def program(self, name, script):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def bench(self, *args, runs=2):
        command = [sys.executable, ROOT / "report/bench_files", "--bin", self.dir, "--build", self.dir, "--folder",
                   self.dir / "cases", "--json", self.dir / "bench.json", "--runs", str(runs), *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def test_measures_every_case_and_writes_all_down(self):
        done = self.bench("--cases", "t01", "e03,e05")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads((self.dir / "bench.json").read_text())
        self.assertTrue(told["complete"])
        self.assertEqual([record["name"] for record in told["cases"]], ["t01", "e03", "e05"])
        for record in told["cases"]:
            self.assertEqual({name: len(runs) for name, runs in record["seconds"].items()},
                             {"context": 2, "plain": 2, "hw4": 2})
            self.assertGreaterEqual(record["best_seconds"]["plain"], 0.02)
        self.assertEqual([(record["stages"]["queries"], record["stages"]["input"]) for record in told["cases"]],
                         [(128, "t01-2b8ab9a8.in"), (31, "e03-b69771cc.in"), (100, "e05-6dbb6297.in")])
        self.assertEqual(set(told["gpu"]), {"at_start", "at_end"})
        for folder in (self.dir, ROOT):
            self.assertNotIn(str(folder), json.dumps(told))
        self.assertEqual(told["start_up"]["return"]["steps"], ["    1.500 ms  driver", "    2.000 ms  context"])
        self.assertRegex(done.stdout, r"\nt01 +\d+\.\d +\d+\.\d +\d+\.\d +\d+\.\d{3} +\d+\.\d{3} <= 1.10 x context")
        self.assertRegex(done.stdout, r"\ntotal .* not judged\n")
        self.assertEqual(sorted(path.suffix for path in (self.dir / "cases").iterdir()), [".in"] * 3)

    def test_cases_are_made_once(self):
        self.assertEqual(self.bench("--cases", "e03", runs=1).returncode, 0)
        self.program("testcases/generate2", "exit 9")
        (self.dir / "testcases/generate").unlink()
        (self.dir / "testcases/generate2").rename(self.dir / "testcases/generate")
        self.assertEqual(self.bench("--cases", "e03", runs=1).returncode, 0)
        self.assertEqual(self.bench("--cases", "e05", runs=1).returncode, 70)

    def test_missed_bars_can_fail_the_run(self):
        self.assertEqual(self.bench("--cases", "t01", "--require-bars", runs=1).returncode, 1)

    def test_wrong_bytes_and_failures(self):
        self.program("hw4", 'shift 3; echo wrong > "$1"')
        done = self.bench("--cases", "e03", runs=1)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (70, "bench_files: e03: hw4: the output has not the CRC-32 of the table"))
        self.program("hw4", "echo 'hw4: it broke' >&2; exit 70")
        done = self.bench("--cases", "e03", runs=1)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (70, "bench_files: hw4: it broke"))
        self.program("reference/context_only", "echo 'context_only: no GPU' >&2; exit 69")
        self.assertEqual(self.bench("--cases", "e03", runs=1).returncode, 69)

    def test_traces_with_four_streams_and_with_one(self):
        trace = {"displayTimeUnit": "ms", "traceEvents": [{"ph": "M", "name": "a b", "pid": 1},
                                                          {"ph": "X", "ts": 259969.351, "dur": 1e-05}]}
        (self.dir / "trace").write_text(json.dumps(trace))
        self.program("hw4", f'echo "$3 $4" >> {self.dir}/asked; cp {self.dir}/trace "$6"')
        bench_files = program_as_module(ROOT / "report/bench_files")
        case = next(case for case in read_cases(str(ROOT / "testcases/cases.tsv")) if case.name == "t22")
        args = argparse.Namespace(bin=self.dir, build=self.dir, folder=self.dir, runs=1)
        bench_files.Bench(args, bench_files.Programs(args)).traces(case, self.dir / "new/traces")
        self.assertEqual((self.dir / "asked").read_text(), "--streams 4\n--streams 1\n")
        written = sorted((self.dir / "new/traces").iterdir())
        self.assertEqual([path.name for path in written], ["t22_streams1.trace.json", "t22_streams4.trace.json"])
        text = written[0].read_text()
        self.assertEqual(json.loads(text), trace)
        self.assertEqual(len(text.splitlines()), 4)
        self.assertNotIn(": ", text)

    def test_usage(self):
        for args in (("--cases", "t99"), ("--cases", "c01"), ("--runs", "0"),
                     ("--cases", "t01", "--trace-folder", "x")):
            with self.subTest(args):
                self.assertEqual(self.bench(*args).returncode, 2)
        self.assertEqual(self.bench("--build", self.dir / "none").returncode, 69)


if __name__ == "__main__":
    unittest.main()
