#!/usr/bin/env python3
"""testcases/cases.tsv against the programs: the inputs they generate, and what seq and hw4 make of them under every
contract, have the CRC-32 that is written there.

    python3 tests/program/table_test.py [-v] [TestClass[.test_name]]

Other tests compare a kernel with seq, and both take their constants from the same headers; these bytes are written
down. Of the course's cases only the first two: the others take minutes, which is what judge/judge is for.
HW4_BIN names the folder with the programs (default: the repository's root).
"""
import concurrent.futures
import dataclasses
import os
import sys
import tempfile
import unittest
from pathlib import Path

import cli_test
from cli_test import NO_GPU, OK, REPO, SANITIZED, generated, run

sys.path.insert(0, str(REPO / "judge"))

from case_table import ARITHMETICS, read_cases, select  # noqa: E402 (the path to it is set above)
from files import crc32_of  # noqa: E402

TABLE = REPO / "testcases" / "cases.tsv"
MOST_FLOPS_SANITIZED = 1e8  # sanitizers slow the programs down ten times and more


def setUpModule():
    cli_test.setUpModule()


def chosen_cases():
    """The most work first, so that the processors are done at the same time."""
    cases = select(read_cases(TABLE), ["t01", "t02", "e*"])
    return sorted((case for case in cases if not SANITIZED or case.flops < MOST_FLOPS_SANITIZED),
                  key=lambda case: -case.flops)


def input_of(case):
    return generated(case.batches, case.tokens, case.dim, case.kind, case.seed)


def wrong_input(case):
    """What is wrong about the generated case; empty where nothing is."""
    got = crc32_of(input_of(case))
    return "" if got == case.crc32_in else f"{case.name}: generate: CRC-32 {got}, want {case.crc32_in}"


def wrong_output(case, arith, command):
    """Likewise about what a program makes of it."""
    name = f"{case.name}: {' '.join(command)} --arith {arith}"
    with tempfile.TemporaryDirectory(prefix="hw4-table-") as folder:
        out = Path(folder) / "out"
        done = run(*command, "--arith", arith, input_of(case), out)
        if done.returncode != OK:
            return f"{name}: exit code {done.returncode}: {done.stderr.strip()}"
        got, wanted = crc32_of(out), case.crc32_out(arith)
    return "" if got == wanted else f"{name}: CRC-32 of the output {got}, want {wanted}"


def in_parallel(look, arguments):
    """The complaints of look() about each of its lists of arguments."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [complaint for complaint in pool.map(look, *zip(*arguments)) if complaint]


class TableTest(unittest.TestCase):
    def assert_none(self, complaints):
        if complaints:
            self.fail("\n".join(["", *complaints]))

    def assert_outputs(self, *command):
        self.assert_none(in_parallel(wrong_output, [(case, arith, command) for case in chosen_cases()
                                                    for arith in ARITHMETICS if case.is_defined_under(arith)]))

    def test_generate(self):
        self.assert_none(in_parallel(wrong_input, [(case,) for case in chosen_cases()]))

    def test_seq(self):
        self.assert_outputs("seq")

    def test_hw4_on_the_cpu(self):
        self.assert_outputs("hw4", "--device", "cpu")

    def test_hw4_on_the_gpu(self):
        done = run("hw4", "--device", "gpu", generated(1, 2, 2), "/dev/null")
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr.splitlines()[-1])
        self.assert_outputs("hw4", "--device", "gpu")


class WrongTableTest(unittest.TestCase):
    """That the tests above can fail, and what they say then."""

    def setUp(self):
        self.case = select(read_cases(TABLE), ["e01"])[0]

    def test_the_row_as_it_is(self):
        self.assertEqual(wrong_input(self.case), "")
        for arith in ARITHMETICS:
            self.assertEqual(wrong_output(self.case, arith, ("seq",)), "")

    def test_wrong_input(self):
        wrong = dataclasses.replace(self.case, crc32_in="0badc0de")
        self.assertEqual(wrong_input(wrong), f"e01: generate: CRC-32 {self.case.crc32_in}, want 0badc0de")

    def test_wrong_outputs(self):
        for arith in ARITHMETICS:
            for unknown in ("0badc0de", "-"):
                wrong = dataclasses.replace(self.case, crc32_outs={**self.case.crc32_outs, arith: unknown})
                for command in (("seq",), ("hw4", "--device", "cpu")):
                    self.assertEqual(wrong_output(wrong, arith, command),
                                     f"e01: {' '.join(command)} --arith {arith}: CRC-32 of the output "
                                     f"{self.case.crc32_out(arith)}, want {unknown}")

    def test_a_program_that_fails(self):
        complaint = wrong_output(self.case, ARITHMETICS[0], ("hw4", "--device", "cpu", "--kernel", "none"))
        self.assertRegex(complaint, r"\Ae01: hw4 --device cpu --kernel none --arith f32: exit code 64: hw4: ")

    def test_all_complaints_are_kept(self):
        wrong = dataclasses.replace(self.case, crc32_in="0badc0de")
        self.assertEqual(len(in_parallel(wrong_input, [(self.case,), (wrong,), (wrong,)])), 2)


if __name__ == "__main__":
    unittest.main()
