#!/usr/bin/env python3
"""Masks, windows (src/problem/mask.h) and scales, asked for by a case's header or by options: hw4 and seq, file to file."""
import json
import struct
import unittest

import cli_test
from cli_test import OK, CliTest, by_seq, contracts, generated, generated_by, run

MASK_AT, WINDOW_AT, SCALE_AT = 8, 44, 48  # in a header of version 2
SHAPE = (2, 4, 2, 70, 130, 64)

setUpModule = cli_test.setUpModule


def made(shape, *more):
    B, heads, kv_heads, N_q, N_k, d = shape
    return generated_by("--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k), "--causal",
                        *more)


def unmasked(case):
    """The same case without a mask in its header."""
    data = bytearray(case.read_bytes())
    struct.pack_into("<i", data, MASK_AT, 0)
    return bytes(data)


class MaskTest(CliTest):
    def test_whatever_the_header_says(self):
        shape = (2, 1, 1, 33, 33, 7)
        causal = made(shape)
        short = generated(2, 33, 7)
        self.assert_same_bytes(short.read_bytes()[12:], causal.read_bytes()[64:])
        long = self.file(unmasked(causal))
        for contract in contracts():
            want = by_seq(causal, contract)
            for path in (short, long, causal):
                for program, options in (("hw4", ("--device", "cpu")), ("seq", ())):
                    with self.subTest(path=path, program=program, contract=contract):
                        done = run(program, *options, "--contract", contract, "--causal", path, self.out)
                        self.assertEqual(done.returncode, OK, done.stderr)
                        self.assert_same_bytes(self.out.read_bytes(), want)
                        self.assertIn(", causal)\n", done.stdout)

    def test_every_case_of_a_run(self):
        causal = [made((2, 1, 1, 33, 33, 7)), made((1, 6, 1, 5, 70, 33))]
        paths = [self.file(unmasked(path), f"{number}.in") for number, path in enumerate(causal)]
        report = self.dir / "run.json"
        self.assert_computes_in_one_run(paths, list(map(by_seq, causal)), "--causal", "--json", report)
        self.assertEqual([case["mask"] for case in json.loads(report.read_text())["cases"]], ["causal", "causal"])


class WindowTest(CliTest):
    def test_in_the_header_or_by_an_option(self):
        plain, path = made(SHAPE), made(SHAPE, "--window", "45", "--scale", "0.25")
        data = bytearray(plain.read_bytes())
        struct.pack_into("<i", data, WINDOW_AT, 45)
        struct.pack_into("<d", data, SCALE_AT, 0.25)
        self.assert_same_bytes(path.read_bytes(), bytes(data))
        want = by_seq(path)
        self.assertNotEqual(by_seq(plain), want)
        other = made(SHAPE, "--window", "7", "--scale", "0.5")
        for program, more in (("hw4", ("--device", "cpu")), ("seq", ())):
            for given, options in ((path, ()), (plain, ("--window", "45", "--scale", "0.25")),
                                   (other, ("--window", "45", "--scale", "0.25"))):
                with self.subTest(program=program, options=options):
                    done = run(program, *more, *options, given, self.out)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assert_same_bytes(self.out.read_bytes(), want)
                    self.assertIn("d, mask, window, scale): (2, 4, 2, 70, 130, 64, causal, 45, 0.25)\n", done.stdout)

    def test_beside_float64_by_compare(self):
        for more in (("--window", "45"), ("--window", "1"), ("--scale", "0.3"), ("--window", "45", "--scale", "0.3")):
            path = made(SHAPE, *more)
            done = run("compare", "--exact", "float32", "--atol", "1e-5", path, self.file(by_seq(path)))
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
