#!/usr/bin/env python3
"""The logsumexp of every row of scores, --lse FILE: hw4 and seq from file to file, and the fate of the second file."""
import functools
import unittest

import cli_test
import header_test
from cli_test import (BAD_DATA, CANNOT_CREATE, IO_ERROR, OK, OLD_OUTPUT, USAGE, CliTest, by_seq, contracts,
                      counting, generated, run)
from standard_streams_test import HW4, SEQ, run as run_for_bytes

OLD_LSE = b"the logsumexps of an earlier run"


def setUpModule():
    cli_test.setUpModule()
    lse_by_seq.cache_clear()


@functools.lru_cache(maxsize=None)
def lse_by_seq(path, contract="f32"):
    lse = path.with_suffix(f".seq-{contract}-lse")
    done = run("seq", "--contract", contract, "--lse", lse, path, "/dev/null")
    if done.returncode != OK:
        raise AssertionError(done.stderr)
    return lse.read_bytes()


class LseTest(CliTest):
    def setUp(self):
        super().setUp()
        self.lse = self.dir / "case.lse"

    def assert_fails(self, code, wanted, *args, program="hw4", **more):
        """hw4 fails in one line, with both files as they were."""
        self.out.write_bytes(OLD_OUTPUT)
        self.lse.write_bytes(OLD_LSE)
        with self.subTest(program=program, args=[str(a) for a in args]):
            done = run(program, *(("--device", "cpu") if program == "hw4" else ()), *args, **more)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assert_one_message(done.stderr, None, wanted, program)
            self.assertEqual((self.out.read_bytes(), self.lse.read_bytes()), (OLD_OUTPUT, OLD_LSE))
            self.assertEqual(self.temporaries(), [])


class ValuesTest(LseTest):
    def test_gpu_or_the_cpu_in_its_place(self):
        for path in (generated(3, 256, 64), header_test.made((2, 4, 2, 33, 33, 7), "--causal")):
            for contract in contracts("any"):
                self.assert_computes(path, "--lse", self.lse, device=None, contract=contract)
                self.assert_same_bytes(self.lse.read_bytes(), lse_by_seq(path, contract))


class FileTest(LseTest):
    def setUp(self):
        super().setUp()
        self.case = self.file(counting(1, 4, 3))

    def test_pipes_and_standard_output(self):
        path = generated(2, 33, 7)
        for program in (HW4, SEQ):
            with self.subTest(program):
                done = run_for_bytes(*program, "--lse", "-", path, self.out)
                self.assertEqual((done.returncode, done.stdout), (OK, lse_by_seq(path)), done.stderr)
                self.assertIn("(B, N, d): (2, 33, 7)\n", done.stderr)
                self.assert_same_bytes(self.out.read_bytes(), by_seq(path))
                done = run_for_bytes(*program, "--lse", self.lse, "-", "-", input=path.read_bytes())
                self.assertEqual((done.returncode, done.stdout), (OK, by_seq(path)), done.stderr)
                self.assert_same_bytes(self.lse.read_bytes(), lse_by_seq(path))
                done = run(*program, "--lse", "/dev/null", path, self.out)
                self.assertEqual((done.returncode, done.stdout.splitlines()[0]), (OK, "(B, N, d): (2, 33, 7)"))

    def test_replaces_no_other_file(self):
        (self.dir / "link").symlink_to(self.out.name)
        for program in ("hw4", "seq"):
            self.assert_fails(USAGE, r"same file as input", "--lse", self.case, self.case, self.out, program=program)
            for name in (self.out, f"{self.dir}/./case.out", self.dir / "link"):
                self.assert_fails(USAGE, r"would overwrite the output", "--lse", name, self.case, self.out,
                                  program=program)
        for option in ("--json", "--trace"):
            self.assert_fails(USAGE, r"would overwrite the output .*case\.lse", "--lse", self.lse, option, self.lse,
                              self.case, self.out)
        self.assertEqual(self.case.read_bytes(), counting(1, 4, 3))

    def test_failures_leave_both_files_as_they_were(self):
        bad = self.file(counting(1, 4, 3)[:-4] + b"\0\0\xc0\x7f", "nan.in")
        short = self.file(counting(1, 4, 3)[:-4], "short.in")
        for program in ("hw4", "seq"):
            for code, wanted, args in (
                    (BAD_DATA, r"nan, need a finite number", (self.lse, bad, self.out)),
                    (BAD_DATA, r"short\.in: ", (self.lse, short, self.out)),
                    (IO_ERROR, r"/dev/full: cannot write: No space left", ("/dev/full", self.case, self.out)),
                    (IO_ERROR, r"/dev/full: cannot write: No space left", (self.lse, self.case, "/dev/full")),
                    (CANNOT_CREATE, r"missing", (self.dir / "missing" / "x", self.case, self.out)),
                    (CANNOT_CREATE, r"missing", (self.lse, self.case, self.dir / "missing" / "x")),
                    (CANNOT_CREATE, r"directory", (self.dir, self.case, self.out)),
                    (USAGE, r"--lse '': need a name", ("", self.case, self.out))):
                self.assert_fails(code, wanted, "--lse", *args, program=program)


if __name__ == "__main__":
    unittest.main()
