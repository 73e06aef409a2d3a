#!/usr/bin/env python3
"""How the programs were built: the usual hardening, as readelf sees it in the finished files.

    python3 tests/program/hardening_test.py [-v]

HW4_BIN names the folder with the programs (default: the repository's root).
"""
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or REPO).resolve()
PROGRAMS = ("hw4", "seq", "testcases/generate", "judge/compare")
INSTRUMENTED = re.search(b"__[at]san_init|__gcov_", (BIN / "hw4").read_bytes())


def readelf(program, *options):
    return subprocess.run(["readelf", "--wide", *options, BIN / program], check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


@unittest.skipUnless(shutil.which("readelf"), "needs readelf (binutils)")
@unittest.skipIf(INSTRUMENTED, "a build for a sanitizer or for coverage is not hardened")
class HardeningTest(unittest.TestCase):
    def test_every_program(self):
        for program in PROGRAMS:
            with self.subTest(program):
                self.assertRegex(readelf(program, "--file-header"), r"Type: +DYN ")  # position independent
                dynamic = readelf(program, "--dynamic")
                self.assertRegex(dynamic, r"\(FLAGS\) +BIND_NOW|\(BIND_NOW\)")
                self.assertNotIn("TEXTREL", dynamic)
                if "[libmpi" not in dynamic:  # which may be anywhere
                    self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")
                headers = readelf(program, "--program-headers")
                self.assertIn("GNU_RELRO", headers)
                segments = re.findall(r"^  (GNU_STACK|LOAD)(?: +0x[0-9a-f]+){5} ([RWE ]{3})", headers, re.MULTILINE)
                self.assertIn("GNU_STACK", [kind for kind, _ in segments])
                self.assertEqual([s for s in segments if "W" in s[1] and "E" in s[1]], [])
                symbols = readelf(program, "--dyn-syms")
                self.assertIn(" __stack_chk_fail@", symbols)
                self.assertRegex(symbols, r" __\w*printf_chk@")


if __name__ == "__main__":
    unittest.main()
