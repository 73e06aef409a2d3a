#!/usr/bin/env python3
"""time_tilings from the outside: its arguments, and where there is a GPU its lines.

HW4_BUILD names the folder with the program (default: build in the repository).
"""
import json
import os
import subprocess
import unittest
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("HW4_BUILD") or REPO / "build").resolve() / "time_tilings"
PATIENCE_S = 300
OK, USAGE, NO_GPU = 0, 64, 69
BR, BC = (4, 8, 16, 32), (32, 64, 96, 128, 256)
FIELDS = {"rows", "keys", "batches", "tokens", "dim", "flop", "launches", "seconds", "registers", "shared_bytes",
          "blocks_per_multiprocessor", "device", "cuda"}


@unittest.skipUnless(PROGRAM.exists(), "this build has no time_tilings, which needs CUDA")
class TimeTilings(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)

    def lines_of(self, *arguments):
        done = self.run_program(*arguments)
        if done.returncode == NO_GPU:
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"^time_tilings: .+\n$")
            self.skipTest(f"no usable GPU: {done.stderr.strip()}")
        self.assertEqual(done.returncode, OK, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.splitlines()

    def test_wrong_usage_is_one_line(self):
        for arguments, said in (((), "need at least one shape B,N,d"),
                                (("4,5",), "shape '4,5': need B,N,d"),
                                (("4,5,65",), "shape '4,5,65': the tilings take d up to 64"),
                                (("--runs", "0", "4,5,6"), "--runs '0': need a whole number from 1 to 1000000"),
                                (("--once", "4,5,6"), "usage: time_tilings [--runs N] [--launches K|auto] B,N,d ...")):
            done = self.run_program(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (USAGE, "", f"time_tilings: {said}\n"))

    def test_every_tiling_has_a_line(self):
        lines, remarks = self.lines_of("--runs", "2", "2,200,20")
        self.assertEqual([(line["rows"], line["keys"]) for line in lines], [(br, bc) for br in BR for bc in BC])
        self.assertEqual(remarks, [])
        for line in lines:
            self.assertEqual(set(line), FIELDS)
            self.assertEqual((line["batches"], line["tokens"], line["dim"], line["flop"]), (2, 200, 20, 6400000))
            self.assertEqual((line["launches"], len(line["seconds"])), (1, 2))
            self.assertGreater(min(line["seconds"]), 0)
            # As many warps whatever Br: 32, where the shared memory is enough for the blocks.
            self.assertIn(line["registers"], range(1, 65))
            self.assertLessEqual(line["shared_bytes"], 48 << 10)
            self.assertGreaterEqual(line["blocks_per_multiprocessor"], 1)

    def test_what_is_left_out_says_why(self):
        lines, remarks = self.lines_of("--runs", "1", "--launches", "3", "1,100,64")
        left_out = [line for line in lines if "why" in line]
        self.assertEqual([(line["rows"], line["keys"]) for line in left_out], [(br, 256) for br in BR])
        self.assertEqual(remarks, [f"time_tilings: left out: {line['rows']} rows, {line['keys']} keys: {line['why']}"
                                   for line in left_out])
        self.assertEqual({line["launches"] for line in lines if "why" not in line}, {3})


if __name__ == "__main__":
    unittest.main()
