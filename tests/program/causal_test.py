#!/usr/bin/env python3
"""The causal mask (src/problem/mask.h), requested by a case's header or by --causal: hw4 and seq from file to file."""
import json
import struct
import unittest

import cli_test
from cli_test import OK, CliTest, by_seq, contracts, generated, generated_by, hw4, run

MASK_AT = 8  # in a header of version 2


setUpModule = cli_test.setUpModule


def made(shape):
    """A causal case."""
    B, heads, kv_heads, N_q, N_k, d = shape
    return generated_by("--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k), "--causal")


def unmasked(case):
    """The same case without a mask in its header."""
    data = bytearray(case.read_bytes())
    struct.pack_into("<i", data, MASK_AT, 0)
    return bytes(data)


class OptionTest(CliTest):
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
        outputs = [self.dir / f"{number}.out" for number in range(2)]
        report = self.dir / "run.json"
        listed = self.file("".join(f"{path}\t{out}\n" for path, out in zip(paths, outputs)).encode(), "pairs")
        for names in ((paths[0], outputs[0], paths[1], outputs[1]), ("--pairs", listed)):
            done = hw4("--causal", "--json", report, *names)
            self.assertEqual(done.returncode, OK, done.stderr)
            for path, out in zip(causal, outputs):
                self.assert_same_bytes(out.read_bytes(), by_seq(path))
                out.unlink()
            self.assertEqual([case["mask"] for case in json.loads(report.read_text())["cases"]], ["causal", "causal"])


if __name__ == "__main__":
    unittest.main()
