#!/usr/bin/env python3
"""The differential fuzzer (fuzz/differential.cpp): a short run of it, and cases whose bytes are written down.

    python3 tests/program/differential_test.py [-v]

HW4_BUILD names the folder with the program (default: build in the repository), HW4_BIN the one with hw4.
"""
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
    """name -> whether it runs here; of the contracts that promise bytes."""
    listed = json.loads(subprocess.run([HW4, "--list-kernels", "--json"], capture_output=True, check=True).stdout)
    by_bytes = [contract["name"] for contract in listed["contracts"] if contract["compared"] == "bytes"]
    return {kernel["name"]: kernel["why_not_here"] != "not on this processor" for kernel in listed["kernels"]
            if kernel["device"] == device and kernel["contract"] in by_bytes}


class DifferentialTest(unittest.TestCase):
    def assert_every_kernel_agrees(self, device):
        """One that this processor lacks is told as skipped."""
        done = differential("--device", device, "--seconds", str(SECONDS), "--seed", "5")  # whose first cases are small
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

    def test_a_case_is_the_same_on_every_machine(self):
        for case, shape, values, *outputs in PINNED:
            done = differential("--device", "cpu", "--case", str(case))
            self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
            self.assertIn(f"\n{shape}\n", done.stdout)
            under = "".join(f", of the output under {contract} {crc}"
                            for contract, crc in zip(("f32", "fixed", "fixed16"), outputs))
            self.assertIn(f"\n  CRC-32 of the input {values}{under}\n", done.stdout)

    def test_a_case_at_the_borders_is_within_the_domain_at_any_length(self):
        done = differential("--device", "cpu", "--case", "9865")  # would be of kind threshold, but is too long
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)


# Case, shape, CRC-32 of the input and of the output under f32 and, of forward, under fixed and fixed16, written down on
# aarch64.
PINNED = (
    (3, "(B, N, d) (5, 2, 129)", "3aaec105", "a378b7af", "53a152d3", "121aa68d"),
    (4, "(B, N, d) (1, 125, 2)", "0979a8eb", "5f8b31a1", "6afdc71c", "65aa88d7"),
    (5, "(B, heads, key-value heads, N_q, N_k, d) (1, 1, 1, 2, 143, 128)",
     "d96c3325", "f84bc272", "6ebd7756", "13585549"),
    (8, "(B, N, d) (1, 1, 13)", "7f22c1c0", "b52c50e3", "d36a9893", "8f1ee45e"),
    (10, "(B, N, d) (2, 32, 15)", "62cdfb97", "a0172549", "678a8119", "f5a2d4ec"),
    (11, "(B, heads, key-value heads, N_q, N_k, d) (1, 2, 1, 128, 256, 10)",
     "5ce066cf", "b6865ab8", "97d726ab", "12e410f5"),
    (14, "(B, N, d) (4, 68, 128)", "5afd0f4d", "f3b5ad5b", "be99b833", "c53d9f10"),
    (16, "(B, N, d) (2, 192, 43)", "9f47b539", "84447a85", "6bb5cd4b", "433fe7cc"),
    (25, "(B, N, d) (1, 575, 12)", "fd4997bd", "bde782ff", "f108655d", "d43e31be"),
    (105, "(B, N, d) (2, 223, 33)", "4d5f99ec", "1b13c018", "e610e2e6", "db8c96f1"),
    (4101, "(B, heads, key-value heads, N_q, N_k, d, operation) (1, 1, 1, 89, 8, 128, backward)",
     "f38c4d37", "708dd434"),
    (4107, "(B, heads, key-value heads, N_q, N_k, d, operation) (1, 37, 1, 1, 37, 64, backward)",
     "3b0b2dd3", "0f1e51f7"),
    (6001, "(B, heads, key-value heads, N_q, N_k, d, mask, operation) (1, 1, 1, 306, 306, 44, causal, backward)",
     "8e991797", "6e03a5b2"),
)

if __name__ == "__main__":
    unittest.main()
