#!/usr/bin/env python3
"""report/bench_ladder without a GPU: whole runs with a fake time_kernels."""
import unittest

from bench_workplace import BenchWorkplace

FAKE_TIME_KERNELS = """
import json, sys
with open(CALLS, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
b, n, d = map(int, sys.argv[-1].split(","))
for kernel, seconds in (("first", 0.002), ("last", 0.001)):
    print(json.dumps({"kernel": kernel, "chosen": kernel == "last", "batches": b, "tokens": n, "dim": d,
                      "seconds": [seconds]}))
"""


class Runs(BenchWorkplace):
    PROGRAM = "bench_ladder"

    def setUp(self):
        super().setUp()
        self.program("time_kernels", FAKE_TIME_KERNELS)

    def test_every_kernel_on_every_shape(self):
        done = self.bench("bf16", "4,1024,64", "2,1024,128")
        document = self.document()
        self.assertEqual((document["complete"], document["contract"]), (True, "bf16"))
        self.assertEqual([(line["kernel"], line["dim"]) for line in document["ladder"]],
                         [("first", 64), ("last", 64), ("first", 128), ("last", 128)])
        self.assertEqual(self.calls()[0], ["--contract", "bf16", "--elements", "bf16", "--runs", "10", "--launches",
                                           "auto", "4,1024,64"])
        self.assertRegex(done.stdout, r"(?m)^4,1024,64 +last +1\.1 \*$")

    def test_other_contracts_take_floats(self):
        self.bench("fixed", "4,1024,64")
        self.assertNotIn("--elements", self.calls()[0])

    def test_what_is_wrong(self):
        self.assertIn("need B,N,d", self.bench("bf16", "4,0,64", exit_code=2).stderr)
        self.assertIn("--runs: need", self.bench("bf16", "4,8,64", "--runs", "0", exit_code=2).stderr)
        self.program("time_kernels", "import sys\nsys.exit('no such kernel')\n")
        self.assertIn("bench_ladder: no such kernel", self.bench("bf16", "4,8,64", exit_code=1).stderr)


if __name__ == "__main__":
    unittest.main()
