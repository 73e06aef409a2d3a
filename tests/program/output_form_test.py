#!/usr/bin/env python3
"""Inputs and outputs in other formats, NAME.gz and NAME.npy, from file to file."""
import gzip
import resource
import struct
import unittest

import cli_test
from cli_test import (BAD_DATA, IO_ERROR, OK, OLD_OUTPUT, USAGE, CliTest, by_seq, generated,
                      generated_by, hw4, limited, run, spoiled)

setUpModule = cli_test.setUpModule


def npy_header(shape, element="<f4", order=False, version=1):
    words = f"{{'descr': {element!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    words += " " * (-(len(words) + 11) % 64) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(words)) + words.encode()


class FormTest(CliTest):
    def setUp(self):
        super().setUp()
        self.case = generated(3, 50, 8)

    def computed(self, output, *options, case=None, program="hw4"):
        done = run(program, *(("--device", "cpu") if program == "hw4" else ()), *options, case or self.case, output)
        self.assertEqual(done.returncode, OK, done.stderr)
        return output.read_bytes()


class GzipOutputTest(FormTest):
    def test_has_the_bytes_of_the_plain_one(self):
        packed = self.computed(self.dir / "case.out.gz")
        self.assertEqual(packed[:3], b"\x1f\x8b\x08")
        self.assert_same_bytes(gzip.decompress(packed), by_seq(self.case))

    def test_is_the_same_by_seq_and_in_a_run_of_many(self):
        packed = self.computed(self.dir / "a.gz")
        self.assertEqual(self.computed(self.dir / "b.gz", program="seq"), packed)
        done = hw4(self.case, self.out, self.case, self.dir / "c.gz")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((self.dir / "c.gz").read_bytes(), packed)

    def test_an_old_one_survives(self):
        out = self.dir / "a.gz"
        bad = self.file(spoiled(3, 4, 3, 2, "V", 3, 2, float("nan")))
        for code, options in ((BAD_DATA, {}), (IO_ERROR, limited(resource.RLIMIT_FSIZE, 100))):
            with self.subTest(code=code):
                out.write_bytes(OLD_OUTPUT)
                done = hw4(self.case if options else bad, out, **options)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assert_one_message(done.stderr, None, "File too large" if options else "nan, need a finite")
                self.assertEqual((out.read_bytes(), self.temporaries()), (OLD_OUTPUT, []))
        done = run("seq", self.case, out, **limited(resource.RLIMIT_FSIZE, 100))
        self.assertEqual((done.returncode, out.read_bytes()), (IO_ERROR, OLD_OUTPUT), done.stderr)

    def test_logsumexps(self):
        self.computed(self.out, "--lse", self.dir / "a.gz")
        self.computed(self.out, "--lse", self.dir / "a.lse")
        self.assertEqual(gzip.decompress((self.dir / "a.gz").read_bytes()), (self.dir / "a.lse").read_bytes())


class NpyTest(FormTest):
    def array(self, name="case.npy", **other):
        shape = other.pop("shape", (3, 3, 50, 8))
        return self.file(npy_header(shape, **other) + self.case.read_bytes()[12:], name)

    def test_output(self):
        self.assert_same_bytes(self.computed(self.dir / "a.npy"), npy_header((3, 50, 8)) + by_seq(self.case))
        self.assert_same_bytes(self.computed(self.dir / "b.npy", program="seq"), (self.dir / "a.npy").read_bytes())
        packed = self.computed(self.dir / "c.npy.gz")
        self.assert_same_bytes(gzip.decompress(packed), (self.dir / "a.npy").read_bytes())

    def test_input(self):
        for program in ("hw4", "seq"):
            self.assert_same_bytes(self.computed(self.out, case=self.array(), program=program), by_seq(self.case))
        packed = self.file(gzip.compress(self.array().read_bytes()), "packed")
        self.assert_same_bytes(self.computed(self.out, case=packed), by_seq(self.case))

    def test_backward(self):
        path = self.array(shape=(3, 3, 50, 8))
        self.assert_refused(USAGE, r"a \.npy file has Q, K, V of each batch, --backward needs one that begins with B",
                            "--backward", path, self.out)
        four = generated_by("--shape", "2,40,8", "--backward")
        self.computed(self.out, "--backward", case=four)
        self.assert_same_bytes(self.computed(self.dir / "a.npy", "--backward", case=four),
                               npy_header((2, 3, 40, 8)) + self.out.read_bytes())


if __name__ == "__main__":
    unittest.main()
