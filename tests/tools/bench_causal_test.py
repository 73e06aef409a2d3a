#!/usr/bin/env python3
"""report/bench_causal without a GPU: whole runs with a fake time_kernels and a fake PyTorch."""
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "report"))

from bench_workplace import BenchWorkplace  # noqa: E402 (bench_causal needs the path)
from fake_torch import fake_torch  # noqa: E402
from program_module import program_as_module  # noqa: E402

BENCH = program_as_module(ROOT / "report/bench_causal")

# Leaves its arguments in the file `calls`. A launch takes SECONDS, under the mask five eighths of it; REFUSED
# are shapes that no kernel takes under it.
FAKE_TIME_KERNELS = """
import json, sys
with open(CALLS, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
causal = "--causal" in sys.argv
seconds = SECONDS["fixed" in sys.argv] * (0.625 if causal else 1)
for shape in (word for word in sys.argv if word.count(",") == 2 and (not causal or word not in REFUSED)):
    b, n, d = map(int, shape.split(","))
    print(json.dumps({"kernel": "fast", "chosen": True, "batches": b, "tokens": n, "dim": d, "flop": 1.0,
                      "mask": "causal" if causal else "none", "kind": "uniform", "launches": 7,
                      "seconds": [2 * seconds, seconds, seconds / 2]}))
"""
FOUR = ["4,16384,64", "4,16384,128", "4,32768,32", "512,1024,64"]


class Runs(BenchWorkplace):
    PROGRAM = "bench_causal"

    def setUp(self):
        super().setUp()
        self.time_kernels()
        self.write("torch.py", fake_torch(efficient=0.004))

    def time_kernels(self, refused=()):
        self.program("time_kernels", f"SECONDS, REFUSED = (0.008, 0.0016), {refused!r}\n{FAKE_TIME_KERNELS}")

    def test_every_shape_with_and_without_the_mask(self):
        done = self.bench()
        document = self.document()
        self.assertTrue(document["complete"])
        shapes = [f"{case['batches']},{case['tokens']},{case['dim']}" for case in document["cases"]]
        self.assertEqual(shapes, BENCH.SHAPES)
        self.assertEqual([shape for shape in FOUR if shape not in shapes], [])
        self.assertEqual([case["tokens"] for case in document["cases"]][:7], [512 << n for n in range(7)])
        self.assertEqual({case["batches"] * case["tokens"] for case in document["cases"][:14]}, {65536})
        self.assertEqual(document["torch"]["torch"], "9.9")
        for case in document["cases"]:
            for who, seconds in (("hw4", 0.008), ("hw4_fixed", 0.0016)):
                for mask, share in (("none", 1), ("causal", 0.625)):
                    self.assertEqual(case[who][mask]["mask"], mask)
                    self.assertAlmostEqual(sorted(case[who][mask]["seconds"])[1], share * seconds)
            self.assertAlmostEqual(case["torch"]["median_seconds"], 0.002)
            self.assertEqual(case["causal_flop"], 2 * case["batches"] * case["tokens"] ** 2 * case["dim"])
        # 2 * 4 * 16384^2 * 64 FLOP in 5, 1 and 2 ms
        self.assertRegex(done.stdout, r"\n4,16384,64 +5\.0000 ms +27\.5 +1\.60 +1\.0000 ms +137\.4 +1\.60 +"
                                      r"2\.0000 ms +68\.7\n")
        self.assertNotIn(str(self.dir), json.dumps(document))

    def test_how_time_kernels_is_asked(self):
        self.bench("1,64,8", "2,100,7", "--runs", "33")
        rest = ["--runs", "33", "--launches", "auto", "1,64,8", "2,100,7"]
        self.assertEqual(self.calls(), [["--contract", contract, "--chosen", *mask, *rest]
                                        for contract in ("f32", "fixed") for mask in ([], ["--causal"])])

    def test_without_pytorch(self):
        self.write("torch.py", "raise ImportError('not here')\n")
        done = self.bench("1,64,8")
        self.assertIn("bench_causal: without PyTorch: PyTorch is not installed: not here\n", done.stderr)
        self.assertNotIn("PyTorch", done.stdout)
        document = self.document()
        self.assertEqual((document["complete"], document["torch"]), (True, None))
        self.assertEqual([case["torch"] for case in document["cases"]], [None])
        self.bench("1,64,8", "--no-torch")
        self.assertEqual(self.document()["torch_missing"], "--no-torch was given")

    def test_what_fails_ends_the_run(self):
        self.write("torch.py", fake_torch(efficient=None))
        self.assertEqual(self.bench("1,64,8", exit_code=70).stderr.splitlines()[-1],
                         "bench_causal: 1,64,8: PyTorch: RuntimeError: No available kernel. Aborting.")
        self.time_kernels(refused=["2,100,7"])
        self.assertEqual(self.bench("1,64,8", "2,100,7", exit_code=70).stderr.splitlines()[-1],
                         "bench_causal: 2,100,7: no kernel of f32 takes it with the mask causal")
        self.program("time_kernels", "import sys\nsys.stderr.write('time_kernels: no CUDA device\\n')\nsys.exit(69)")
        self.assertEqual(self.bench(exit_code=69).stderr.splitlines()[-1], "bench_causal: time_kernels: no CUDA device")
        self.assertFalse(self.document()["complete"])
        (self.dir / "time_kernels").unlink()
        self.assertIn("time_kernels is not there; make time-kernels builds it\n", self.bench(exit_code=69).stderr)

    def test_refusals(self):
        for word in ("t28", "1,64", "0,64,8"):
            self.bench(word, exit_code=2)
        self.assertIn("--runs: need a whole number from 1", self.bench("--runs", "0", exit_code=2).stderr)
        self.assertIn("File exists", self.bench("--json", self.dir / "time_kernels/out.json", exit_code=73).stderr)


if __name__ == "__main__":
    unittest.main()
