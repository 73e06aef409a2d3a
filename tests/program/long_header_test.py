#!/usr/bin/env python3
"""Case files with a header of version 2 (src/io/case_header.h): heads, two lengths, and the other fields."""
import gzip
import struct
import unittest

import cli_test
from cli_test import (BAD_DATA, NO_GPU, OK, OLD_OUTPUT, CliTest, by_seq, contracts,
                      floats, generated, hw4, kernels, run)
from output_form_test import npy_header

FIELDS = {"version": -2, "operation": 0, "mask": 0, "element": 0, "B": 2, "heads": 4, "key-value heads": 2, "N_q": 3,
          "N_k": 5, "d": 4, "d_v": 4, "window": 0, "scale": 0, "scale's second": 0, "lengths": 0,
          "field 15": 0}
# B, heads, key-value heads, N_q, N_k, d
SHAPES = ((1, 1, 1, 1, 1, 1), (2, 1, 1, 3, 5, 4), (2, 4, 2, 33, 33, 7), (1, 6, 1, 5, 70, 33), (3, 3, 3, 65, 1, 32),
          (2, 2, 1, 1, 1100, 5), (1, 2, 2, 130, 31, 64))


setUpModule = cli_test.setUpModule


def header(**changed):
    """Changes some fields, by the names that they have in messages; kv_heads are the key-value heads."""
    changed = {"key-value heads" if name == "kv_heads" else name: value for name, value in changed.items()}
    return struct.pack("<16i", *{**FIELDS, **changed}.values())


def data_bytes(B=2, heads=4, kv_heads=2, N_q=3, N_k=5, d=4):
    """The file's bytes of data for a forward pass."""
    return 4 * B * d * (heads * N_q + 2 * kv_heads * N_k)


def good():
    return header() + floats((i * 37 % 101) / 50 - 1 for i in range(data_bytes() // 4))


class LongHeaderTest(CliTest):
    def generated(self, shape, *options, kind="uniform", name="case.in"):
        B, heads, kv_heads, N_q, N_k, d = shape
        path = self.dir / name
        done = run("generate", "--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k),
                   "--kind", kind, "--seed", "3", *options, path)
        self.assertEqual(done.returncode, OK, done.stderr)
        return path

    def refused(self, content, wanted, *options):
        """hw4 and seq refuse the file in one line; an existing output survives."""
        path = self.file(content)
        self.out.write_bytes(OLD_OUTPUT)
        before = self.folder()
        for program, more in (("hw4", ("--device", "cpu")), ("seq", ())):
            done = run(program, *more, *options, path, self.out)
            self.assertEqual(done.returncode, BAD_DATA, done.stderr)
            self.assert_one_message(done.stderr, path, wanted, program)
            self.assertEqual(self.folder(), before)


class ComputedTest(LongHeaderTest):
    def test_gpu(self):
        path = self.generated(SHAPES[2])
        done = hw4(path, self.out, device="gpu")
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr.splitlines()[-1])
        paths = [self.generated(shape, name=f"{number}.in") for number, shape in enumerate(SHAPES)]
        for contract in contracts("gpu"):
            done = hw4("--contract", contract, *(file for path in paths for file in (path, path.with_suffix(".out"))),
                       device="gpu")
            self.assertEqual(done.returncode, OK, done.stderr)
            for path in paths:
                self.assert_same_bytes(path.with_suffix(".out").read_bytes(), by_seq(path, contract))


class ColumnsTest(LongHeaderTest):
    """d_v other than d."""
    CASES = (((2, 4, 2, 33, 70, 20), "48"), ((2, 4, 2, 33, 70, 48), "20"), ((1, 1, 1, 5, 600, 192), "128"),
             ((3, 1, 1, 40, 40, 1), "3"))

    def test_every_cpu_kernel(self):
        for number, (shape, columns) in enumerate(self.CASES):
            for more in ((), ("--backward",), ("--element", "bf16"), ("--backward", "--causal", "--scale", "0.3")):
                path = self.generated(shape, "--value-dim", columns, *more, name=f"{number}{''.join(more)}.in")
                for kernel in kernels("cpu", "f32", "backward" if "--backward" in more else "forward"):
                    with self.subTest(shape=shape, more=more, kernel=kernel):
                        self.assert_computes(path, "--kernel", kernel, "--threads", "3")
                done = run("compare", "--exact", "float32", "--atol", "0.02" if "bf16" in more else "1e-3", path,
                           self.out)
                self.assertEqual(done.returncode, OK, done.stdout)

    def test_gzip_pipes_and_arrays(self):
        path = self.generated((1, 1, 1, 9, 30, 6), "--value-dim", "10")
        want = by_seq(path)
        self.assertEqual(len(want), 4 * 9 * 10)
        self.assert_computes(self.file(gzip.compress(path.read_bytes()), "case.gz"))
        self.assert_same_bytes(self.out.read_bytes(), want)
        data, names = path.read_bytes()[64:], []
        for name, rows, columns in (("q", 9, 6), ("k", 30, 6), ("v", 30, 10)):
            names += [f"--{name}", self.file(npy_header((1, rows, columns)) + data[:4 * rows * columns], f"{name}.npy")]
            data = data[4 * rows * columns:]
        out = self.dir / "o.npy"
        self.assertEqual(hw4(*names, out).returncode, OK)
        self.assert_same_bytes(out.read_bytes()[-len(want):], want)
        self.assertIn(b"'shape': (1, 9, 10)", out.read_bytes())


class LengthsTest(LongHeaderTest):
    SHAPE, LENGTHS = (4, 4, 2, 5, 1100, 32), (1100, 1, 64, 700)

    def test_a_batch_is_that_of_its_keys_alone(self):
        """Values beyond the lengths do not matter. Every kernel, forward, also with rows that see no key."""
        B, heads, kv_heads, N_q, N_k, d = self.SHAPE
        for more in ((), ("--causal",), ("--causal", "--window", "40"), ("--element", "fp16")):
            path = self.generated(self.SHAPE, "--lengths", ",".join(map(str, self.LENGTHS)), *more,
                                  name=f"case{''.join(more)}.in")
            data, item = path.read_bytes(), 2 if "fp16" in more else 4
            self.assertEqual(struct.unpack_from("<4i", data, 64), self.LENGTHS)
            for kernel in kernels("cpu", "f32"):
                with self.subTest(more=more, kernel=kernel):
                    self.assert_computes(path, "--kernel", kernel, "--threads", "40")  # the threads divide the keys
            got, start, each = self.out.read_bytes(), 80, 4 * N_q * d * item
            for batch, length in enumerate(self.LENGTHS):
                q, rows = data[start:start + each], data[start + each:start + each + 2 * kv_heads * N_k * d * item]
                kept = b"".join(rows[at:at + length * d * item] for at in range(0, len(rows), N_k * d * item))
                alone = bytearray(data[:64])
                for place, value in ((4, 1), (8, length), (14, 0)):
                    struct.pack_into("<i", alone, 4 * place, value)
                want = by_seq(self.file(bytes(alone) + q + kept, f"{batch}{''.join(more)}.in"))
                self.assert_same_bytes(got[batch * each:(batch + 1) * each], want)
                start += each + len(rows)
            done = run("compare", "--exact", "float32", "--atol", "0.01" if item == 2 else "1e-4", path, self.out)
            self.assertEqual(done.returncode, OK, done.stdout)

    def test_refusals(self):
        data = bytearray(self.generated(self.SHAPE, "--lengths", "7").read_bytes())
        self.refused(bytes(data), "asks for forward with lengths, which the contract fixed lacks: a GPU has lengths in forward "
                     "under f32, bf16 and fp16 alone, and a contract computes the same cases everywhere$", "--contract", "fixed")
        for length in (0, -1, 1101):
            struct.pack_into("<i", data, 72, length)
            for content in (bytes(data), gzip.compress(data)):
                self.refused(content, rf"lengths: batch 2 has {length} keys, need 1 to N_k = 1100$")
        self.refused(bytes(data[:70]), "got 70: ends in the lengths$")
        self.refused(gzip.compress(data[:70]), "ends in the lengths of its batches$|cannot hold them$")


class RefusedTest(LongHeaderTest):
    def test_too_short(self):
        size = len(good())
        for missing, where in ((1, "batch 1, V, head 1, row 4"), (size - 64, "batch 0, Q, head 0, row 0"),
                               (4 * 4 * 10 + 1, "batch 1, K, head 1, row 4"),
                               (4 * 4 * (4 * 3 + 20) + 1, "batch 0, V, head 1, row 4")):
            with self.subTest(missing):
                self.refused(good()[:-missing],
                             rf"expected {size} bytes for forward, B = 2, heads = 4, key-value heads = 2, N_q = 3, "
                             rf"N_k = 5, d = 4, got {size - missing}: ends in {where}$")
                self.refused(gzip.compress(good()[:-missing]),
                             rf"expected {size} bytes, got {size - missing}: ends in {where}$")


class GenerateTest(LongHeaderTest):
    def test_what_is_not_said_is_one_head_and_as_many_keys(self):
        path = self.dir / "case.in"
        for options, heads, kv_heads, keys in ((("--long",), 1, 1, 3), (("--heads", "4"), 4, 4, 3),
                                               (("--keys", "5"), 1, 1, 5), (("--causal",), 1, 1, 3)):
            with self.subTest(options):
                self.assertEqual(run("generate", "--shape", "2,3,4", *options, path).returncode, OK)
                wanted = header(heads=heads, kv_heads=kv_heads, N_k=keys, mask=int("--causal" in options))
                self.assertEqual(path.read_bytes()[:64], wanted)
                self.assertEqual(path.stat().st_size, 64 + data_bytes(heads=heads, kv_heads=kv_heads, N_k=keys))

    def test_the_same_numbers_under_both_headers(self):
        path = self.dir / "case.in"
        self.assertEqual(run("generate", "--shape", "2,33,7", "--long", path).returncode, OK)
        self.assert_same_bytes(path.read_bytes()[64:], generated(2, 33, 7).read_bytes()[12:])


if __name__ == "__main__":
    unittest.main()
