#!/usr/bin/env python3
"""Large cases from file to file: many batches, a long sequence, more than 4 GiB, more than 2^31 numbers. Most tests take
minutes and run only with HW4_SOAK=1."""
import shutil
import unittest
import zlib

import cli_test
from cli_test import OK, case_bytes, floats, generated, header, hw4, mean_of_ramps, ramps, run, write_zeros
from fault_test import NeedsGpu, SOAK

SLOW = "takes minutes: make soak"
HANGING = 1800  # seconds


setUpModule = cli_test.setUpModule


class Sparse:
    """A case of zeros with values in some batches, each of which has its own number (ramps). Zeros in Q and K weigh
    every value the same, so that the output is their mean. Zeros take no disk space."""

    def __init__(self, batches, tokens, dim, numbers):
        self.shape = (batches, tokens, dim)
        self.matrix = 4 * tokens * dim  # bytes
        self.numbers = numbers

    def input_bytes(self):
        return case_bytes(*self.shape)

    def output_bytes(self):
        return self.shape[0] * self.matrix

    def values(self, number):
        return ramps(number, *self.shape[1:])

    def write_input(self, path):
        write_zeros(path, *self.shape)
        with open(path, "r+b") as file:
            for batch, number in self.numbers.items():
                file.seek(12 + (3 * batch + 2) * self.matrix)
                file.write(self.values(number))

    def write_output(self, path):
        with open(path, "wb") as file:
            file.truncate(self.output_bytes())
            for batch, number in self.numbers.items():
                file.seek(batch * self.matrix)
                file.write(mean_of_ramps(number, *self.shape[1:]))

    def write_gzip(self, path):
        """One gzip stream, which stores its length in 32 bits only."""
        squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
        nothing = bytes(3 * self.matrix)
        with open(path, "wb") as file:
            file.write(squeeze.compress(header(*self.shape)))
            for batch in range(self.shape[0]):
                number = self.numbers.get(batch)
                file.write(squeeze.compress(nothing if number is None else bytes(2 * self.matrix) + self.values(number)))
            file.write(squeeze.flush())


class SizeTest(cli_test.CliTest):
    device = "cpu"
    long_dim = 1

    def need_disk(self, amount):
        free = shutil.disk_usage(self.dir).free
        if free < amount + (1 << 30):
            self.skipTest(f"needs {amount >> 30} GiB of disk and one to spare, there are {free >> 30} in {self.dir}")

    def compute(self, path):
        done = hw4(path, self.out, device=self.device, patience=HANGING)
        self.assertEqual(done.returncode, OK, done.stderr)

    def compare(self, case, expected):
        return run("compare", case, expected, self.out, patience=HANGING)

    def assert_computed(self, sparse, case):
        """Returns the path of the expected output."""
        self.need_disk(sparse.output_bytes())
        self.compute(case)
        plain = case
        if case.suffix == ".gz":
            plain = self.dir / "plain.in"
            sparse.write_input(plain)
        expected = self.dir / "expected"
        sparse.write_output(expected)
        done = self.compare(plain, expected)
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertIn(f"equal: {sparse.output_bytes() // 4} values", done.stdout)
        return expected

    def test_many_batches(self):
        self.assert_computes(generated(14000, 8, 32), device=self.device)

    @unittest.skipUnless(SOAK, SLOW)
    def test_many_batches_of_the_course(self):
        case = generated(14000, 128, 32)
        self.compute(case)
        self.assertEqual(run("seq", case, self.dir / "expected", patience=HANGING).returncode, OK)
        done = self.compare(case, self.dir / "expected")
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)

    @unittest.skipUnless(SOAK, SLOW)
    def test_more_than_2_to_31_numbers(self):
        # 24 GiB in, 8 GiB out: numbers wherever bytes or counts of input or output pass 2^31 or 2^32, and at the ends.
        batches, matrix = (1 << 20) + 1, 8 * 256
        sizes = (matrix, 4 * matrix, 3 * matrix, 12 * matrix)  # per batch
        passed = {(1 << bits) // size for bits in (31, 32) for size in sizes}
        places = sorted({0, batches - 1, *(batch for batch in passed if batch < batches)})
        sparse = Sparse(batches, 8, 256, {place: number for number, place in enumerate(places, 1)})
        self.assertGreater(sparse.output_bytes() // 4, 1 << 31)
        case = self.dir / "case.in"
        sparse.write_input(case)
        expected = self.assert_computed(sparse, case)
        with open(expected, "r+b") as file:  # a difference beyond all of these
            file.seek(sparse.output_bytes() - 4 * 257)
            file.write(floats([-1]))
        done = self.compare(case, expected)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"first: batch {batches - 1}, row 6, column 255: .*"
                                      rf"byte offset {sparse.output_bytes() - 4 * 257}")

    @unittest.skipUnless(SOAK, SLOW)
    def test_gzip_of_more_than_4_gib(self):
        sparse = Sparse(180_000, 8, 256, {0: 1, 90_000: 2, 179_999: 3})
        self.assertGreater(sparse.input_bytes(), 1 << 32)
        case = self.dir / "case.in.gz"
        sparse.write_gzip(case)
        self.assert_computed(sparse, case)

    @unittest.skipUnless(SOAK, SLOW)
    def test_long_sequence(self):
        sparse = Sparse(1, 1 << 18, self.long_dim, {0: 3})
        case = self.dir / "case.in"
        sparse.write_input(case)
        self.assert_computed(sparse, case)


class GpuSizeTest(NeedsGpu, SizeTest):
    device = "gpu"
    long_dim = 64


if __name__ == "__main__":
    unittest.main()
