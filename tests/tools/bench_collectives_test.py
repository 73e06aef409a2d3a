#!/usr/bin/env python3
"""report/bench_collectives, by the hw4 with MPI that was built, on the CPU.

    python3 tests/tools/bench_collectives_test.py [-v]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HW4_BUILD") or ROOT / "build")
SMALL = ("--devices", "cpu", "--ranks", "2", "--sizes", "4k,8k", "--models", "tiny", "--batch_size", "1", "--seq_len",
         "16", "--buckets", "64k")


class BenchCollectives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench_collectives_test-")
        self.addCleanup(folder.cleanup)
        self.json = Path(folder.name) / "out.json"

    def measured(self, *words, code=0, build=BUILD):
        command = [sys.executable, ROOT / "report/bench_collectives", *words, "--build", build, "--json", self.json]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    @unittest.skipUnless(shutil.which("mpirun") and (BUILD / "hw4_mpi").exists(), "needs mpirun and a build with MPI")
    def test_rows_of_both(self):
        self.measured(*SMALL)
        document = json.loads(self.json.read_text())
        self.assertIs(document["complete"], True)
        self.assertEqual([(row["ranks"], row["via"], row["size"]) for row in document["allreduce"]],
                         [(ranks, via, size) for ranks in (1, 2) for via in ("mpi", "ordered") for size in (4096, 8192)])
        self.assertTrue(all(row["status"] == "ok" and row["wrong"] == 0 for row in document["allreduce"]))
        self.assertEqual([row["way"] for row in document["gradients"]],
                         ["none", *(["naive", "flat", "overlapped"] * 2)])

    def test_without_the_program(self):
        done = self.measured(*SMALL, code=69, build=self.json.parent)
        self.assertRegex(done.stderr, r"^bench_collectives: \S+/hw4_mpi is not there; make hw4-mpi builds it\n$")


if __name__ == "__main__":
    unittest.main()
