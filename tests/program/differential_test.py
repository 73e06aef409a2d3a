#!/usr/bin/env python3
"""A short run of the differential fuzzer (fuzz/differential.cpp)."""
import json
import os
import re
import subprocess
import unittest
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("HW4_BUILD") or REPO / "build").resolve() / "differential"
HW4 = Path(os.environ.get("HW4_BIN") or REPO).resolve() / "hw4"
SECONDS = 3
OK, NO_GPU = 0, 69


def differential(*args):
    return subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


def kernels(device):
    """name -> whether the kernel runs here, for the contracts that promise bytes."""
    listed = json.loads(subprocess.run([HW4, "--list-kernels", "--json"], capture_output=True, check=True).stdout)
    by_bytes = [contract["name"] for contract in listed["contracts"] if contract["compared"] == "bytes"]
    return {kernel["name"]: kernel["why_not_here"] != "not on this processor" for kernel in listed["kernels"]
            if kernel["device"] == device and kernel["contract"] in by_bytes}


class DifferentialTest(unittest.TestCase):
    def assert_every_kernel_agrees(self, device):
        """The fuzzer reports a kernel that this processor lacks as skipped."""
        done = differential("--device", device, "--seconds", str(SECONDS), "--seed", "3735")  # small cases, soon of every d
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\n\d+ cases in .* \(\d+ a minute\), \d+ comparisons, 0 differences\n\Z")
        print(f"{device}: {done.stdout.splitlines()[-1]}", flush=True)
        counts = dict(re.findall(r"^  (\S+) +(\d+) cases$", done.stdout, re.MULTILINE))
        self.assertTrue(any(kernels(device).values()))
        for kernel, runs_here in kernels(device).items():
            with self.subTest(kernel):
                if not runs_here:
                    self.skipTest(f"this processor has no {kernel}")
                self.assertGreater(int(counts.get(kernel, 0)), 0)

    def test_every_cpu_kernel_gives_the_bytes_of_the_reference(self):
        self.assert_every_kernel_agrees("cpu")

    def test_every_gpu_kernel_gives_the_bytes_of_the_reference(self):
        self.assert_every_kernel_agrees("gpu")


if __name__ == "__main__":
    unittest.main()
