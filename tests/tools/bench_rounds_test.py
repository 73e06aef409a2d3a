#!/usr/bin/env python3
"""report/bench_rounds without a GPU: whole runs with a fake time_kernels and a fake PyTorch."""
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "report"))

from bench_workplace import BenchWorkplace  # noqa: E402 (bench_rounds needs the path)
from fake_torch import fake_torch  # noqa: E402
from program_module import program_as_module  # noqa: E402

BENCH = program_as_module(ROOT / "report/bench_rounds")

# Leaves its arguments in the file `calls`. A launch takes 1 ms under fixed, 4 under f32, half a one under others; half
# of that under the mask; and in each later call a quarter more, as on a card that gets warm. REFUSED: shapes that no
# kernel takes.
FAKE_TIME_KERNELS = """
import json, os, sys
before = len(open(CALLS).readlines()) if os.path.exists(CALLS) else 0
with open(CALLS, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
seconds = 0.001 * (4 if "f32" in sys.argv else 1 if "fixed" in sys.argv else 0.5) * (1 + before / 4)
if "--causal" in sys.argv:
    seconds /= 2
for shape in (word for word in sys.argv if word.count(",") == 2 and word not in REFUSED):
    b, n, d = map(int, shape.split(","))
    print(json.dumps({"batches": b, "tokens": n, "dim": d, "seconds": [seconds, seconds / 2, 2 * seconds]}))
"""


class Runs(BenchWorkplace):
    PROGRAM = "bench_rounds"

    def setUp(self):
        super().setUp()
        self.program("time_kernels", f"REFUSED = []\n{FAKE_TIME_KERNELS}")
        self.write("torch.py", fake_torch(flash=0.002, cudnn=0.00125, efficient=0.006, naive=0.003))

    def test_everybody_once_in_each_round(self):
        done = self.bench("4,16384,64", "--rounds", "3", "--masks", "none")
        [case] = self.document()["cases"]
        self.assertTrue(self.document()["complete"])
        self.assertEqual(self.document()["rounds"], 3)
        self.assertEqual((case["name"], case["mask"], case["flop"]), ("t28", "none", 4 * 4 * 16384 ** 2 * 64))
        # Five calls of time_kernels a round.
        expected = {"fixed": [0.001, 0.00225, 0.0035], "fixed16": [0.000625, 0.00125, 0.001875],
                    "flash2 bf16": [0.002] * 3, "cudnn bf16": [0.00125] * 3, "f32": [0.006, 0.011, 0.016],
                    "bf16": [0.000875, 0.0015, 0.002125], "fp16": [0.001, 0.001625, 0.00225],
                    "flash2 fp16": [0.002] * 3, "efficient": [0.006] * 3, "naive tf32": [0.0015] * 3}
        self.assertEqual(list(case["seconds"]), list(expected))
        for who, seconds in expected.items():
            for got, wanted in zip(case["seconds"][who], seconds, strict=True):
                self.assertAlmostEqual(got, wanted)
        # Rates by the median of the rounds; 2 ms over 2.25 and over 1.25.
        self.assertRegex(done.stdout, r"\n4,16384,64 +none +122\.2 +219\.9 +137\.4 +219\.9 +0\.889 +1\.600\n")
        self.assertIn("\nf32 on t28: 25.0\nbf16 on t28: 183.3\n", done.stdout)

    def test_half_precision(self):
        """Beside its own type, from operands of the type, with heads as they are."""
        self.write("torch.py", fake_torch(flash=0.001, cudnn=0.0006, heads=(16, 32)))
        done = self.bench("4,16,8192,64", "16,32,1024,128", "--rounds", "2", "--masks", "none", "--contracts", "bf16",
                          "fp16")
        self.assertEqual(self.calls()[:2], [["--contract", contract, "--elements", contract, "--chosen", "--runs", "7",
                                             "--launches", "auto", "64,8192,64", "512,1024,128"]
                                            for contract in ("bf16", "fp16")])
        first, second = self.document()["cases"]
        self.assertEqual([first[key] for key in ("name", "batches", "heads", "tokens", "dim", "flop")],
                         ["4,16,8192,64", 4, 16, 8192, 64, 4 * 64 * 8192 ** 2 * 64])
        self.assertEqual(list(second["seconds"]), ["bf16", "fp16", "flash2 bf16", "cudnn bf16", "flash2 fp16",
                                                   "cudnn fp16"])
        # 0.5 and 0.75 ms of bf16, 0.625 and 0.875 of fp16.
        ratios = r" +1\.667 +1\.371 +1\.000 +0\.823 +0\.829\n"
        self.assertRegex(done.stdout, r"\nB,H,N,d .* bf16 / FA2 +fp16 / FA2 +bf16 / cuDNN +fp16 / cuDNN +fp16 / bf16\n")
        self.assertRegex(done.stdout, r"\n4,16,8192,64 +none .*" + ratios + r"16,32,1024,128 +none .*" + ratios)
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("missed")],
                         ["missed: 4,16,8192,64, none: fp16 / cuDNN is 0.823, wanted 1",
                          "missed: 4,16,8192,64, none: fp16 / bf16 is 0.829, wanted 0.98",
                          "missed: 16,32,1024,128, none: fp16 / cuDNN is 0.823, wanted 0.95",
                          "missed: 16,32,1024,128, none: fp16 / bf16 is 0.829, wanted 0.98"])

    def test_half_precision_has_shapes_of_its_own(self):
        self.write("torch.py", fake_torch(flash=0.001, cudnn=0.001, heads=(16, 32)))
        self.bench("--rounds", "1", "--contracts", "bf16", "--masks", "none")
        self.assertEqual([case["name"] for case in self.document()["cases"]],
                         ["4,16,8192,64", "2,16,8192,128", "16,32,1024,64", "1,16,16384,64", "1,16,16384,128"])

    def test_backward(self):
        """Two and a half times the operations, and other ways beside bf16's kernel."""
        self.write("torch.py", fake_torch(flash=0.001, cudnn=0.0006, heads=(16, 32)))
        done = self.bench("4,16,8192,64", "--backward", "--rounds", "1", "--masks", "none", "--contracts", "bf16",
                          "fp16")
        rest = ["--runs", "7", "--launches", "auto", "64,8192,64"]
        asked = [["--contract", contract, "--elements", contract, "--backward", *way, *rest]
                 for contract, way in (("bf16", ["--chosen"]), ("fp16", ["--chosen"]),
                                       ("bf16", ["--chosen", "--any-order"]), ("bf16", ["--kernel", "wgmma_again"]))]
        self.assertEqual(self.calls(), asked)
        [case] = self.document()["cases"]
        self.assertEqual(case["flop"], 10 * 64 * 8192 ** 2 * 64)
        self.assertEqual(list(case["seconds"])[:4], ["bf16", "fp16", "bf16 any order", "bf16 dQ apart"])
        self.assertAlmostEqual(case["seconds"]["flash2 bf16"][0], 0.0025)
        # 0.5, 0.625, 0.75 and 0.875 ms
        self.assertRegex(done.stdout, r" any order / bf16 +dQ apart / bf16\n4,16,8192,64 +none .* 0\.667 +0\.571\n")
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("missed")],
                         ["missed: 4,16,8192,64, none: fp16 / bf16 is 0.800, wanted 0.98"])

    def test_the_ratio_is_that_of_a_round(self):
        record = {"seconds": {"ours": [1.0, 2.0, 5.0], "theirs": [2.0, 8.0, 5.0]}}
        self.assertEqual(BENCH.over(record, "ours", "theirs"), 2.0)  # of 2, 4 and 1; by the medians 2.5

    def test_under_the_mask_half_the_operations(self):
        self.bench("4,16384,64", "--rounds", "1", "--contracts", "fixed16")
        none, causal = self.document()["cases"]
        self.assertEqual((none["mask"], causal["mask"], causal["flop"]), ("none", "causal", none["flop"] / 2))
        self.assertAlmostEqual(causal["seconds"]["flash2 bf16"][0], 0.001)

    def test_rounds_that_would_take_too_long_are_not_begun(self):
        self.bench("1,64,8", "--rounds", "3", "--seconds", "0", "--masks", "none")
        document = self.document()
        self.assertEqual((document["complete"], document["cut_short"], document["rounds"]), (True, True, 1))
        self.bench("1,64,8", "--rounds", "1", "--seconds", "0", "--masks", "none")
        self.assertIs(self.document()["cut_short"], False)

    def test_how_time_kernels_is_asked(self):
        self.bench("1,64,8", "2,100,7", "--rounds", "1", "--runs", "9")
        rest = ["--runs", "9", "--launches", "auto", "1,64,8", "2,100,7"]
        first = ["--runs", "9", "--launches", "auto", "1,64,8"]
        half = [["--contract", dtype, "--elements", dtype, "--chosen", *first] for dtype in ("bf16", "fp16")]
        others = [["--contract", contract, "--chosen", *how]
                  for contract, how in (("fixed", rest), ("fixed16", rest), ("f32", first),
                                        ("fixed", ["--causal", *rest]), ("fixed16", ["--causal", *rest]))]
        self.assertEqual(self.calls(), [*others[:3], *half, *others[3:]])

    def test_a_contract_from_other_elements(self):
        done = self.bench("1,64,8", "--rounds", "1", "--contracts", "fixed16", "fixed16:bf16", "--masks", "none")
        rest = ["--chosen", "--runs", "7", "--launches", "auto", "1,64,8"]
        self.assertEqual(self.calls()[:2], [["--contract", "fixed16", *rest],
                                            ["--contract", "fixed16", "--elements", "bf16", *rest]])
        [case] = self.document()["cases"]
        self.assertIn("fixed16:bf16", case["seconds"])
        self.assertIn("  fixed16:bf16 / FA2\n", done.stdout)  # in bf16, as what it is beside

    def test_the_shapes_of_the_bars(self):
        self.bench("--rounds", "1", "--contracts", "fixed16", "--masks", "none")
        shapes = [(case["batches"], case["tokens"], case["dim"]) for case in self.document()["cases"]]
        self.assertEqual(shapes, [(4, 16384, 64), (2, 32768, 64), (500, 2048, 64), (512, 1024, 64), (4, 16384, 128),
                                  (4, 32768, 32)])

    def last_line(self, *arguments, exit_code):
        return self.bench(*arguments, exit_code=exit_code).stderr.splitlines()[-1]

    def test_what_cannot_be_measured(self):
        self.program("time_kernels", f"REFUSED = ['2,100,7']\n{FAKE_TIME_KERNELS}")
        self.assertEqual(self.last_line("1,64,8", "2,100,7", exit_code=70),
                         "bench_rounds: 2,100,7: no kernel of fixed takes it with the mask none")
        self.write("torch.py", fake_torch(cudnn=None))
        self.assertEqual(self.last_line("1,64,8", exit_code=70),
                         "bench_rounds: 1,64,8: cudnn bf16: RuntimeError: No available kernel. Aborting.")
        self.write("torch.py", "raise ImportError('not here')\n")
        self.assertEqual(self.last_line("1,64,8", exit_code=69),
                         "bench_rounds: PyTorch is not installed: not here")
        (self.dir / "time_kernels").unlink()
        self.assertIn("time_kernels is not there; make time-kernels builds it", self.last_line(exit_code=69))

    def test_wrong_usage(self):
        for arguments, told in ((["--rounds", "0"], "--rounds: need a whole number from 1"),
                                (["--runs", "0"], "--runs: need a whole number from 1"), (["t99"], "t99"),
                                (["4,0,64,64"], "shape '4,0,64,64': need B,H,N,d from 1"),
                                (["--backward"], "--backward: is of --contracts bf16 fp16")):
            with self.subTest(arguments):
                self.assertIn(told, self.bench(*arguments, exit_code=2).stderr)


if __name__ == "__main__":
    unittest.main()
