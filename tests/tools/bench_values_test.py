#!/usr/bin/env python3
"""report/bench_values without a GPU: whole runs with a fake time_kernels, a fake generate and a fake PyTorch."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "report"))

from bench_workplace import BenchWorkplace  # noqa: E402 (bench_values needs the path)
from fake_torch import fake_torch  # noqa: E402
from program_module import program_as_module  # noqa: E402

BENCH = program_as_module(ROOT / "report/bench_values")
GENERATE = Path(os.environ.get("HW4_BIN") or ROOT).resolve() / "testcases/generate"

# Leaves its arguments in the file `calls`. A launch takes SECONDS, with stray rows three times as long.
FAKE_TIME_KERNELS = """
import json, sys
with open(CALLS, "a") as calls:
    calls.write(json.dumps(["time_kernels", *sys.argv[1:]]) + "\\n")
b, n, d = map(int, sys.argv[-1].split(","))
for kind in (sys.argv[at + 1] for at, word in enumerate(sys.argv) if word == "--kind"):
    seconds = SECONDS["fixed" in sys.argv] * (3 if kind == "stray:60" else 1)
    print(json.dumps({"kernel": "fast", "chosen": True, "batches": b, "tokens": n, "dim": d, "flop": 1.0, "kind": kind,
                      "launches": 7, "seconds": [2 * seconds, seconds, seconds / 2]}))
"""

# A file of zeros in the size of the case.
FAKE_GENERATE = """
import json, sys
with open(CALLS, "a") as calls:
    calls.write(json.dumps(["generate", *sys.argv[1:-1]]) + "\\n")
b, n, d = map(int, sys.argv[2].split(","))
with open(sys.argv[-1], "wb") as file:
    file.truncate(12 + 12 * b * n * d)
"""


class Runs(BenchWorkplace):
    PROGRAM = "bench_values"

    def setUp(self):
        super().setUp()
        self.program("time_kernels", f"SECONDS = (0.004, 0.001)\n{FAKE_TIME_KERNELS}")
        self.program("testcases/generate", FAKE_GENERATE)
        self.write("torch.py", fake_torch(efficient=0.002))

    def options(self):
        return "--bin", self.dir

    def test_every_kind_on_every_shape(self):
        done = self.bench()
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual([(case["batches"], case["tokens"], case["dim"], case["kind"]) for case in document["cases"]],
                         [(16, 4096, dim, kind) for dim in (64, 128, 32) for kind in BENCH.KINDS])
        self.assertEqual(document["kinds"], BENCH.KINDS)
        self.assertEqual(document["torch"]["torch"], "9.9")
        for case in document["cases"]:
            self.assertEqual(case["hw4"]["kind"], case["kind"])
            self.assertEqual(sorted(case["hw4"]["seconds"])[1], 0.012 if case["kind"] == "stray:60" else 0.004)
            self.assertEqual(sorted(case["hw4_fixed"]["seconds"])[1], 0.003 if case["kind"] == "stray:60" else 0.001)
            self.assertAlmostEqual(case["torch"]["median_seconds"], 0.002)
        self.assertRegex(done.stdout,
                         r"d = 64 +stray:60 +12\.0000 ms +3\.000 +3\.0000 ms +3\.000 +2\.0000 ms +1\.000\n")
        self.assertNotIn(str(self.dir), json.dumps(document))

    def test_how_the_programs_are_asked(self):
        self.bench("normal:1", "low", "--runs", "33")
        calls = self.calls()
        self.assertEqual(calls[0], ["time_kernels", "--contract", "f32", "--chosen", "--kind", "normal:1", "--kind",
                                    "low", "--runs", "33", "--launches", "auto", "16,4096,64"])
        self.assertEqual(calls[1][:3], ["time_kernels", "--contract", "fixed"])
        self.assertEqual(calls[2:4], [["generate", "--shape", "16,4096,64", "--kind", kind, "--seed", "1"]
                                      for kind in ("normal:1", "low")])
        self.assertEqual(len(calls), 3 * 4)

    def test_without_pytorch(self):
        self.write("torch.py", "raise ImportError('not here')\n")
        done = self.bench("low")
        self.assertIn("bench_values: without PyTorch: PyTorch is not installed: not here\n", done.stderr)
        document = self.document()
        self.assertEqual((document["complete"], document["torch"]), (True, None))
        self.assertEqual(document["torch_missing"], "PyTorch is not installed: not here")
        self.assertEqual([case["torch"] for case in document["cases"]], [None] * 3)
        self.assertNotIn("generate", [call[0] for call in self.calls()])
        self.bench("low", "--no-torch")
        self.assertEqual(self.document()["torch_missing"], "--no-torch was given")

    def test_what_fails_ends_the_run(self):
        self.write("torch.py", fake_torch(efficient=None))
        self.assertEqual(self.bench("low", exit_code=70).stderr.splitlines()[-1],
                         "bench_values: 16,4096,64 low: PyTorch: RuntimeError: No available kernel. Aborting.")
        self.program("testcases/generate", "import sys\nsys.exit('generate: no space left')")
        self.assertEqual(self.bench("low", exit_code=70).stderr.splitlines()[-1],
                         "bench_values: generate: no space left")
        self.program("time_kernels", "import sys\nsys.stderr.write('time_kernels: no CUDA device\\n')\nsys.exit(69)")
        self.assertEqual(self.bench("low", exit_code=69).stderr.splitlines()[-1],
                         "bench_values: time_kernels: no CUDA device")
        self.assertFalse(self.document()["complete"])
        (self.dir / "testcases/generate").unlink()
        self.assertIn("generate is not there; make all builds it\n", self.bench(exit_code=69).stderr)

    def test_refusals(self):
        self.assertIn("no kind 'normal:7'; there are normal:1, ", self.bench("normal:7", exit_code=2).stderr)
        self.assertIn("--runs: need a whole number from 1", self.bench("--runs", "0", exit_code=2).stderr)
        beneath_a_file = self.dir / "testcases/generate/out.json"
        self.assertIn("File exists", self.bench("--json", beneath_a_file, exit_code=73).stderr)


class Kinds(unittest.TestCase):
    def test_are_those_of_generate(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in BENCH.KINDS:
                subprocess.run([GENERATE, "--shape", "1,2,3", "--kind", kind, Path(folder) / "case.in"], check=True)


if __name__ == "__main__":
    unittest.main()
