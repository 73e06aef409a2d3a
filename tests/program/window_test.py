#!/usr/bin/env python3
"""Windows (src/problem/mask.h) and scales, asked for by a case's header or by options: hw4 and seq, file to file."""
import struct
import unittest

import cli_test
from cli_test import OK, CliTest, by_seq, generated_by, run

WINDOW_AT, SCALE_AT = 44, 48  # in a header of version 2
B, HEADS, KV_HEADS, N_Q, N_K, D = 2, 4, 2, 70, 130, 64


setUpModule = cli_test.setUpModule


def made(*more):
    return generated_by("--shape", f"{B},{N_Q},{D}", "--heads", f"{HEADS},{KV_HEADS}", "--keys", str(N_K), "--causal", *more)


class ComputedTest(CliTest):
    def computed(self, program, path, *options):
        done = run(program, *(("--device", "cpu") if program == "hw4" else ()), *options, path, self.out)
        self.assertEqual(done.returncode, OK, done.stderr)
        return self.out.read_bytes(), done.stdout

    def test_in_the_header_or_by_an_option(self):
        plain, path = made(), made("--window", "45", "--scale", "0.25")
        data = bytearray(plain.read_bytes())
        struct.pack_into("<i", data, WINDOW_AT, 45)
        struct.pack_into("<d", data, SCALE_AT, 0.25)
        self.assert_same_bytes(path.read_bytes(), bytes(data))
        want = by_seq(path)
        self.assertNotEqual(by_seq(plain), want)
        other = made("--window", "7", "--scale", "0.5")
        for program in ("hw4", "seq"):
            for given, options in ((path, ()), (plain, ("--window", "45", "--scale", "0.25")),
                                   (other, ("--window", "45", "--scale", "0.25"))):
                with self.subTest(program=program, options=options):
                    got, said = self.computed(program, given, *options)
                    self.assert_same_bytes(got, want)
                    self.assertIn("d, mask, window, scale): (2, 4, 2, 70, 130, 64, causal, 45, 0.25)\n", said)

    def test_beside_float64_by_compare(self):
        for more in (("--window", "45"), ("--window", "1"), ("--scale", "0.3"), ("--window", "45", "--scale", "0.3")):
            path = made(*more)
            done = run("compare", "--exact", "float32", "--atol", "1e-5", path, self.file(by_seq(path)))
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
