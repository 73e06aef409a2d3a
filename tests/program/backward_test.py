#!/usr/bin/env python3
"""The gradients of attention, requested by a case's header or by --backward: hw4 and seq from file to file."""
import array
import unittest

import cli_test
from cli_test import BAD_DATA, OK, CliTest, by_seq, generated, generated_by, kernels, run

# B, heads, key-value heads, N_q, N_k, d
SHAPES = ((1, 1, 1, 1, 1, 1), (2, 4, 2, 33, 33, 7), (1, 6, 1, 5, 70, 33), (3, 3, 3, 65, 1, 32), (1, 2, 1, 130, 70, 64))


setUpModule = cli_test.setUpModule


def made(shape, *more, kind="uniform"):
    """A case with a header that asks for backward."""
    B, heads, kv_heads, N_q, N_k, d = shape
    return generated_by("--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k), "--kind",
                        kind, "--backward", *more)


def short(B, N, d):
    """The same numbers under the course's header, which does not request gradients."""
    return generated_by("--shape", f"{B},{N},{d}", "--backward")


class HeaderTest(CliTest):
    def test_a_kernel_of_forward(self):
        path = made(SHAPES[1])
        for kernel in kernels("cpu"):
            self.assert_refused(BAD_DATA, rf"kernel {kernel} computes forward, this case asks for backward$",
                                "--kernel", kernel, path, self.out, names=path)

    def test_beside_float64_by_compare(self):
        for shape in SHAPES:
            for options in ((), ("--causal",), ("--scale", "0.1")):
                path = made(shape, *options)
                output = self.file(by_seq(path), "f32.out")
                done = run("compare", "--exact", "float32", "--atol", "3e-5", path, output)
                self.assertEqual(done.returncode, 0, done.stdout)
                numbers = array.array("f", by_seq(path))
                for place in (0, len(numbers) // 2, len(numbers) - 1):
                    wrong = array.array("f", numbers)
                    wrong[place] += 1e-3
                    done = run("compare", "--exact", "float32", "--atol", "3e-5", path, self.file(bytes(wrong), "wrong"))
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"1 of {len(numbers)} values", done.stdout)

    def test_a_tolerance_for_each_gradient(self):
        path = made((1, 1, 1, 2, 3, 1))
        numbers = array.array("f", by_seq(path))
        expected = self.file(bytes(numbers), "expected")
        for place, gradient in ((1, "dQ"), (4, "dK"), (7, "dV")):
            wrong = array.array("f", numbers)
            wrong[place] += 0.5
            got = self.file(bytes(wrong), "got")
            for tolerance, code in (("0.6", 0), ("0.6,0.6,0.6", 0), ("0.4,0.6,0.6", int(gradient == "dQ")),
                                    ("0.6,0.4,0.6", int(gradient == "dK")), ("0.6,0.6,0.4", int(gradient == "dV"))):
                done = run("compare", "--atol", tolerance, path, expected, got)
                self.assertEqual(done.returncode, code, (gradient, tolerance, done.stdout))
                self.assertIn(f"(rule: |expected - got| <= {tolerance})", done.stdout)
        for tolerance, message in (("1,2", "asks for backward, --atol has 2 numbers, need 1 or 3"),
                                   ("1,,2", "--atol '': need a number from 0; see --help")):
            done = run("compare", "--atol", tolerance, path, expected, expected)
            self.assertEqual(done.returncode, 2)
            self.assert_one_message(done.stderr, None, message, program="compare")
        done = run("compare", "--atol", "1,2,3", generated(1, 1, 1), expected, expected)
        self.assertEqual(done.returncode, 2)
        self.assert_one_message(done.stderr, None, "asks for forward, --atol has 3 numbers, need 1$", program="compare")


class OptionTest(CliTest):
    def test_short_and_long_headers_give_the_same(self):
        for B, N, d in ((1, 1, 1), (2, 33, 7), (3, 130, 64), (300, 64, 32)):  # the last in several chunks
            path = short(B, N, d)
            self.assertEqual(path.stat().st_size, 12 + 16 * B * N * d)
            for mask in ((), ("--causal",)):
                want = by_seq(made((B, 1, 1, N, N, d), *mask))
                self.assertEqual(len(want), 12 * B * N * d)
                for program, more in (("hw4", ("--device", "cpu")), ("seq", ())):
                    done = run(program, *more, "--backward", *mask, path, self.out)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assert_same_bytes(self.out.read_bytes(), want)

    def test_every_case_of_a_run(self):
        wanted = [by_seq(made((B, 1, 1, N, N, d))) for B, N, d in ((2, 33, 7), (3, 130, 64))]
        self.assert_computes_in_one_run([short(2, 33, 7), short(3, 130, 64)], wanted, "--backward")


if __name__ == "__main__":
    unittest.main()
