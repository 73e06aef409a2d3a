#!/usr/bin/env python3
"""report/bench_sweep, by the hw4 that was built, on the CPU.

    python3 tests/tools/bench_sweep_test.py [-v]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT)
SMALL = ("--batch_size", "1", "--seq_len", "8,16", "--num_heads", "2", "--emb_dim", "8", "--warmup", "0", "--repeats",
         "2", "--threads", "1")


class BenchSweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench_sweep_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.json = self.dir / "out.json"

    def run_sweep(self, *words, more=(), code=0, binaries=BIN):
        command = [sys.executable, ROOT / "report/bench_sweep", *words, "--device", "cpu", "--bin", binaries, "--json",
                   self.json, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def document(self):
        return json.loads(self.json.read_text())

    def test_rows_of_every_sweep(self):
        for what, impls in (("lab5", {"f32", "fixed", "fixed16", "bf16", "pytorch", "flash2", "cudnn"}),
                            ("cs336_attention", {"naive", "f32", "flash2", "pytorch"})):
            self.run_sweep(what, more=SMALL)
            document = self.document()
            self.assertEqual((document["complete"], document["cut_short"]), (True, False))
            self.assertEqual({row["impl"] for row in document["rows"]}, impls)
            self.assertEqual({row["seq_len"] for row in document["rows"]}, {8, 16})
            self.assertEqual((document["settings"]["num_heads"], document["settings"]["device"]), (2, "cpu"))
            self.assertEqual(document["settings"].get("memory_limit"), 8 << 30 if what == "cs336_attention" else 0)
            self.assertIsNone(document["torch"])

    def test_a_row_has_what_was_measured_and_nothing_twice(self):
        self.run_sweep("lab5_sweep", more=SMALL)
        row = next(row for row in self.document()["rows"] if row["impl"] == "f32")
        self.assertEqual(len(row["forward"]["samples"]), 2)
        self.assertLessEqual({"status", "kernel", "peak_bytes", "flop", "error", "output_crc32"}, set(row["forward"]))
        self.assertFalse({"median", "reason", "power_w"} & set(row["forward"]))
        self.assertNotIn("device", row)

    def test_what_memory_is_taken_for(self):
        self.run_sweep("memory", more=SMALL)
        track = next(track for track in self.document()["tracks"] if track["cell"] == "naive B 1 H 2 N 16 d 4 warmup 0")
        self.assertEqual(track["pass"], "forward")
        self.assertEqual([(event["purpose"], event["bytes"], event["taken"]) for event in track["events"]],
                         [("inputs", 1536, 1), ("O", 512, 1), ("scores", 2048, 1), ("scores", 2048, -1), ("O", 512, -1),
                          ("inputs", 1536, -1)])

    def test_a_sweep_without_time_keeps_its_rows(self):
        """The second size of f32 would take hours."""
        long = ("--batch_size", "1", "--seq_len", "8,1M", "--num_heads", "1", "--emb_dim", "8", "--impl", "f32",
                "--warmup", "0", "--repeats", "2")
        done = self.run_sweep("lab5_sweep", "--seconds", "3", more=long)
        document = self.document()
        self.assertEqual((document["complete"], document["cut_short"]), (True, True))
        self.assertEqual([{**document["settings"], **row}["seq_len"] for row in document["rows"]], [8])
        self.assertIn("bench_sweep: 3 s are over; rows of 1 of 1 runs are missing\n", done.stderr)

    def test_sums(self):
        self.run_sweep("accumulate")
        sums = self.document()["by_device"]["cpu"]["sums"]
        self.assertLessEqual({"float32", "fp16", "bf16"}, {one["sum"] for one in sums})

    def test_a_sweep_that_fails_is_not_complete(self):
        done = self.run_sweep("lab5_sweep", more=("--batch_size", "x"), code=70)
        self.assertRegex(done.stderr, r"(?m)^bench_sweep: hw4 bench .* ended with 64$")
        self.assertIs(self.document()["complete"], False)

    def test_without_hw4(self):
        self.run_sweep("lab5_sweep", code=69, binaries=self.dir)


if __name__ == "__main__":
    unittest.main()
