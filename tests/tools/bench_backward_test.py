#!/usr/bin/env python3
"""report/bench_backward without a GPU: whole runs with a fake time_kernels and a fake PyTorch."""
import json
import os
import sys
import types
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "report"))

from bench_workplace import BenchWorkplace  # noqa: E402 (bench_backward needs the path)
from fake_torch import fake_torch  # noqa: E402
from program_module import program_as_module  # noqa: E402

BENCH = program_as_module(ROOT / "report/bench_backward")

# Leaves its arguments in the file `calls`. Two kernels, of which the second is chosen.
FAKE_TIME_KERNELS = """
import json, sys
with open(CALLS, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
causal = "--causal" in sys.argv
budget = sys.argv[sys.argv.index("--scratch-mib") + 1] if "--scratch-mib" in sys.argv else "all"
scratch = 3000 if budget == "all" else min(3000, int(budget))
shape = next(word for word in sys.argv if word.count(",") == 2)
b, n, d = map(int, shape.split(","))
for kernel, seconds in (("plain", 0.08), ("kept", 0.01)):
    if "--chosen" not in sys.argv or kernel == "kept":
        seconds *= 0.625 if causal else 1
        print(json.dumps({"kernel": kernel, "chosen": kernel == "kept", "batches": b, "tokens": n, "dim": d,
                          "operation": "backward", "mask": "causal" if causal else "none", "launches": 7,
                          "scratch_bytes": scratch << 20, "seconds": [2 * seconds, seconds, seconds / 2]}))
"""
TIMED = ("ladder", "bars", "memory")


class OnTheCpu(unittest.TestCase):
    def test_hw4_bench_says_how_long_forward_and_backward_took(self):
        args = types.SimpleNamespace(bin=Path(os.environ.get("HW4_BIN") or ROOT), threads=1, cpu_runs=3)
        with unittest.mock.patch.object(BENCH, "CPU", (2, 16, 8)):
            record = BENCH.hw4_on_cpu(args)
        self.assertEqual((sorted(record), len(record["hw4"])), (["hw4", "kernel"], 3))


class Runs(BenchWorkplace):
    PROGRAM = "bench_backward"

    def setUp(self):
        super().setUp()
        self.program("time_kernels", FAKE_TIME_KERNELS)
        self.write("torch.py", fake_torch(efficient=0.004))

    def test_what_is_timed(self):
        done = self.bench(*TIMED)
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual([line["kernel"] for line in document["ladder"]], ["plain", "kept"])
        self.assertEqual([(tuple(bar["shape"]), bar["mask"]) for bar in document["bars"]],
                         [(shape, mask) for shape in BENCH.BARS for mask in ("none", "causal")])
        for bar in document["bars"]:
            batches, tokens, dim = bar["shape"]
            share = 0.5 if bar["mask"] == "causal" else 1
            self.assertEqual(bar["flop"], 10 * batches * tokens ** 2 * dim * share)
            self.assertEqual(bar["hw4"]["mask"], bar["mask"])
            self.assertAlmostEqual(bar["torch"]["median_seconds"], 2.5 * 0.004 * share)
            self.assertFalse(bar["torch"]["graph"])
        self.assertEqual([entry["budget_mib"] for entry in document["memory"]],
                         ["64", "128", "256", "512", "1024", "2048", "all"])
        self.assertEqual(document["memory"][0]["scratch_bytes"], 64 << 20)
        # 10 * 4 * 16384^2 * 64 FLOP in 10 and 10 ms
        self.assertRegex(done.stdout, r"\n4,16384,64 +none +68\.7 +PyTorch +68\.7 TFLOP/s\n")
        self.assertNotIn(str(self.dir), json.dumps(document))

    def test_how_time_kernels_is_asked(self):
        self.bench("memory", "ladder", "--runs", "33")
        rest = ["--runs", "33", "--launches", "auto"]
        self.assertEqual(self.calls()[0], ["--backward", "--chosen", "--scratch-mib", "64", "4,8192,64", *rest])
        self.assertEqual(self.calls()[-1], ["--backward", "4,4096,64", *rest])

    def test_without_pytorch(self):
        self.write("torch.py", "raise ImportError('not here')\n")
        for name in ("hw4", "testcases/generate"):
            self.program(name, "")
        done = self.bench("--bin", self.dir)
        for part in BENCH.BY_PYTORCH:
            self.assertIn(f"bench_backward: {part} needs PyTorch: left out\n", done.stderr)
        document = self.document()
        self.assertEqual((document["complete"], document["torch"]), (True, None))
        self.assertEqual([bar["torch"] for bar in document["bars"]], [None] * 8)

    def test_what_fails_ends_the_run(self):
        self.write("torch.py", fake_torch(efficient=None))
        self.assertEqual(self.bench("bars", exit_code=70).stderr.splitlines()[-1],
                         "bench_backward: 4,16384,64: PyTorch: RuntimeError: No available kernel. Aborting.")
        self.program("time_kernels", "import sys\nsys.stderr.write('time_kernels: no CUDA device\\n')\nsys.exit(69)")
        self.assertEqual(self.bench("ladder", exit_code=69).stderr.splitlines()[-1],
                         "bench_backward: time_kernels: no CUDA device")
        self.assertFalse(self.document()["complete"])
        self.assertIn("make all builds it\n", self.bench("cpu", "--bin", self.dir / "none", exit_code=69).stderr)

    def test_refusals(self):
        self.assertIn("no part 'speed'", self.bench("speed", exit_code=2).stderr)
        self.assertIn("need whole numbers from 1", self.bench("--runs", "0", exit_code=2).stderr)
        self.bench("--cases", "nothing*", exit_code=2)


if __name__ == "__main__":
    unittest.main()
