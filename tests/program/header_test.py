#!/usr/bin/env python3
"""Case files with a header of version 2 (src/io/case_header.h): heads, two lengths, masks, windows, scales, gradients,
d_v, lengths of batches, bf16 and fp16 numbers; and the options that ask for the same. hw4 and seq, file to file."""
import array
import gzip
import json
import struct
import unittest

import cli_test
from cli_test import (BAD_DATA, NO_GPU, OK, OLD_OUTPUT, USAGE, CliTest, by_seq, contracts, floats, generated,
                      generated_by, hw4, kernels, run)
from output_form_test import npy_header

FIELDS = {"version": -2, "operation": 0, "mask": 0, "element": 0, "B": 2, "heads": 4, "key-value heads": 2, "N_q": 3,
          "N_k": 5, "d": 4, "d_v": 4, "window": 0, "scale": 0, "scale's second": 0, "lengths": 0,
          "field 15": 0}
MASK_AT, WINDOW_AT, SCALE_AT = 8, 44, 48  # bytes
CODES = {"bf16": 1, "fp16": 2}  # of elements
# B, heads, key-value heads, N_q, N_k, d
SHAPES = ((1, 1, 1, 1, 1, 1), (2, 1, 1, 3, 5, 4), (2, 4, 2, 33, 33, 7), (1, 6, 1, 5, 70, 33), (3, 3, 3, 65, 1, 32),
          (2, 2, 1, 1, 1100, 5), (1, 2, 2, 130, 31, 64))
SQUARE = (2, 1, 1, 33, 33, 7)

setUpModule = cli_test.setUpModule


def made(shape, *more):
    B, heads, kv_heads, N_q, N_k, d = shape
    return generated_by("--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k), *more)


def header(**changed):
    """Changes some fields, by the names that they have in messages; kv_heads are the key-value heads."""
    changed = {"key-value heads" if name == "kv_heads" else name: value for name, value in changed.items()}
    return struct.pack("<16i", *{**FIELDS, **changed}.values())


def data_bytes(B=2, heads=4, kv_heads=2, N_q=3, N_k=5, d=4):
    """The file's bytes of data for a forward pass."""
    return 4 * B * d * (heads * N_q + 2 * kv_heads * N_k)


def good():
    return header() + floats((i * 37 % 101) / 50 - 1 for i in range(data_bytes() // 4))


def unmasked(case):
    """The same case without a mask in its header."""
    data = bytearray(case.read_bytes())
    struct.pack_into("<i", data, MASK_AT, 0)
    return bytes(data)


class MaskTest(CliTest):
    def test_whatever_the_header_says(self):
        causal = made(SQUARE, "--causal")
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
        causal = [made(SQUARE, "--causal"), made((1, 6, 1, 5, 70, 33), "--causal")]
        paths = [self.file(unmasked(path), f"{number}.in") for number, path in enumerate(causal)]
        report = self.dir / "run.json"
        self.assert_computes_in_one_run(paths, list(map(by_seq, causal)), "--causal", "--json", report)
        self.assertEqual([case["mask"] for case in json.loads(report.read_text())["cases"]], ["causal", "causal"])


class WindowTest(CliTest):
    SHAPE = (2, 4, 2, 70, 130, 64)

    def test_in_the_header_or_by_an_option(self):
        plain, path = (made(self.SHAPE, "--causal", *more) for more in ((), ("--window", "45", "--scale", "0.25")))
        data = bytearray(plain.read_bytes())
        struct.pack_into("<i", data, WINDOW_AT, 45)
        struct.pack_into("<d", data, SCALE_AT, 0.25)
        self.assert_same_bytes(path.read_bytes(), bytes(data))
        want = by_seq(path)
        self.assertNotEqual(by_seq(plain), want)
        other = made(self.SHAPE, "--causal", "--window", "7", "--scale", "0.5")
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
            path = made(self.SHAPE, "--causal", *more)
            done = run("compare", "--exact", "float32", "--atol", "1e-5", path, self.file(by_seq(path)))
            self.assertEqual(done.returncode, 0, done.stdout)


def stored(number, element):
    """Rounds to nearest even."""
    if element == "fp16":
        return struct.pack("<e", number)
    bits, = struct.unpack("<I", struct.pack("<f", number))
    return struct.pack("<I", bits + 0x7fff + (bits >> 16 & 1))[2:]


class ElementTest(CliTest):
    SHAPE = (2, 4, 2, 33, 40, 7)

    def test_every_contract_on_the_cpu(self):
        for element in CODES:
            for more in (), ("--causal",), ("--backward",):
                path = made(self.SHAPE, "--element", element, *more)
                for contract in contracts():
                    if (contract in CODES and contract != element or
                            "--backward" in more and contract.startswith("fixed")):
                        continue
                    for threads in ("1", "3"):
                        with self.subTest(path=path, contract=contract, threads=threads):
                            self.assert_computes(path, "--threads", threads, contract=contract)

    def test_generated_numbers_are_rounded(self):
        plain = generated_by("--shape", "2,5,3", "--seed", "3", "--long").read_bytes()[64:]
        numbers = struct.unpack(f"<{len(plain) // 4}f", plain)
        for element, code in CODES.items():
            data = generated_by("--shape", "2,5,3", "--seed", "3", "--element", element).read_bytes()
            self.assertEqual(struct.unpack_from("<4i", data), (-2, 0, 0, code))
            self.assertEqual(data[64:], b"".join(stored(number, element) for number in numbers))

    def test_an_array_of_numpy(self):
        bf16, fp16 = (made(self.SHAPE, "--element", element) for element in CODES)
        done = hw4(bf16, self.dir / "o.npy")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("O has elements of bf16, which NumPy lacks, need a name without .npy", done.stderr)
        self.assertEqual(hw4(fp16, self.dir / "o.npy").returncode, OK)
        B, heads, _, N_q, _, d = self.SHAPE
        self.assert_same_bytes((self.dir / "o.npy").read_bytes(),
                               npy_header((B, heads, N_q, d), "<f2") + by_seq(fp16))

    def test_gradients_that_the_type_lacks(self):
        """dV of the only key is the sum of dO's rows. Files of either element are refused on an overflow."""
        path = made((1, 1, 1, 4, 1, 1), "--element", "fp16", "--backward")
        header = list(struct.unpack("<16i", path.read_bytes()[:64]))
        for dO, code in ((15000.0, OK), (20000.0, BAD_DATA)):
            numbers = [0.0] * 6 + [dO] * 4
            for element, data in ((0, floats(numbers)), (CODES["fp16"], struct.pack("<10e", *numbers))):
                header[3] = element
                path = self.file(struct.pack("<16i", *header) + data)
                self.assertEqual(hw4("--contract", "fp16", path, self.out).returncode, code)
                self.assertEqual(run("seq", "--contract", "fp16", path, self.out).returncode, code)
                if code != OK:
                    self.assert_refused(code, r"its outputs go beyond fp16; need another contract, or smaller numbers$",
                                        "--contract", "fp16", path, self.out, names=path)
        self.assertEqual(hw4("--contract", "bf16", self.file(cli_test.header(1, 1, 1) + floats([0.0] * 3 + [9e9])),
                             self.out, "--backward").returncode, OK)


class BackwardTest(CliTest):
    SHAPES = (*SHAPES[:1], *SHAPES[2:5], (1, 2, 1, 130, 70, 64))

    @staticmethod
    def short(B, N, d):
        """The same numbers under the course's header, which does not request gradients."""
        return generated_by("--shape", f"{B},{N},{d}", "--backward")

    def test_a_kernel_of_forward(self):
        path = made(SHAPES[2], "--backward")
        for kernel in kernels("cpu"):
            self.assert_refused(BAD_DATA, rf"kernel {kernel} computes forward, this case asks for backward$",
                                "--kernel", kernel, path, self.out, names=path)

    def test_beside_float64_by_compare(self):
        for shape in self.SHAPES:
            for options in ((), ("--causal",), ("--scale", "0.1")):
                path = made(shape, "--backward", *options)
                output = self.file(by_seq(path), "f32.out")
                done = run("compare", "--exact", "float32", "--atol", "3e-5", path, output)
                self.assertEqual(done.returncode, 0, done.stdout)
                numbers = array.array("f", by_seq(path))
                for place in (0, len(numbers) // 2, len(numbers) - 1):
                    wrong = array.array("f", numbers)
                    wrong[place] += 1e-3
                    wrong = self.file(bytes(wrong), "wrong")
                    done = run("compare", "--exact", "float32", "--atol", "3e-5", path, wrong)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"1 of {len(numbers)} values", done.stdout)

    def test_a_tolerance_for_each_gradient(self):
        path = made((1, 1, 1, 2, 3, 1), "--backward")
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

    def test_short_and_long_headers_give_the_same(self):
        for B, N, d in ((1, 1, 1), (2, 33, 7), (3, 130, 64), (300, 64, 32)):  # the last in several chunks
            path = self.short(B, N, d)
            self.assertEqual(path.stat().st_size, 12 + 16 * B * N * d)
            for mask in ((), ("--causal",)):
                want = by_seq(made((B, 1, 1, N, N, d), "--backward", *mask))
                self.assertEqual(len(want), 12 * B * N * d)
                for program, more in (("hw4", ("--device", "cpu")), ("seq", ())):
                    done = run(program, *more, "--backward", *mask, path, self.out)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assert_same_bytes(self.out.read_bytes(), want)

    def test_every_case_of_a_run(self):
        wanted = [by_seq(made((B, 1, 1, N, N, d), "--backward")) for B, N, d in ((2, 33, 7), (3, 130, 64))]
        self.assert_computes_in_one_run([self.short(2, 33, 7), self.short(3, 130, 64)], wanted, "--backward")


class GpuTest(CliTest):
    def test_every_contract(self):
        done = hw4(made(SHAPES[2]), self.out, device="gpu")
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr.splitlines()[-1])
        paths = {made(shape): self.dir / f"{number}.out" for number, shape in enumerate(SHAPES)}
        for contract in contracts("gpu"):
            done = hw4("--contract", contract, *(file for pair in paths.items() for file in pair), device="gpu")
            self.assertEqual(done.returncode, OK, done.stderr)
            for path, out in paths.items():
                self.assert_same_bytes(out.read_bytes(), by_seq(path, contract))


class ColumnsTest(CliTest):
    """d_v other than d."""
    CASES = (((2, 4, 2, 33, 70, 20), "48"), ((2, 4, 2, 33, 70, 48), "20"), ((1, 1, 1, 5, 600, 192), "128"),
             ((3, 1, 1, 40, 40, 1), "3"))

    def test_every_cpu_kernel(self):
        for shape, columns in self.CASES:
            for more in ((), ("--backward",), ("--element", "bf16"), ("--backward", "--causal", "--scale", "0.3")):
                path = made(shape, "--value-dim", columns, *more)
                for kernel in kernels("cpu", "f32", "backward" if "--backward" in more else "forward"):
                    with self.subTest(shape=shape, more=more, kernel=kernel):
                        self.assert_computes(path, "--kernel", kernel, "--threads", "3")
                done = run("compare", "--exact", "float32", "--atol", "0.02" if "bf16" in more else "1e-3", path,
                           self.out)
                self.assertEqual(done.returncode, OK, done.stdout)

    def test_gzip_pipes_and_arrays(self):
        path = made((1, 1, 1, 9, 30, 6), "--value-dim", "10")
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


class LongHeaderTest(CliTest):
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


class LengthsTest(LongHeaderTest):
    SHAPE, LENGTHS = (4, 4, 2, 5, 1100, 32), (1100, 1, 64, 700)

    def test_a_batch_is_that_of_its_keys_alone(self):
        """Values beyond the lengths do not matter. Every kernel, forward, also with rows that see no key."""
        B, heads, kv_heads, N_q, N_k, d = self.SHAPE
        for more in ((), ("--causal",), ("--causal", "--window", "40"), ("--element", "fp16")):
            path = made(self.SHAPE, "--lengths", ",".join(map(str, self.LENGTHS)), *more)
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
        data = bytearray(made(self.SHAPE, "--lengths", "7").read_bytes())
        self.refused(bytes(data), "asks for forward with lengths, which the contract fixed lacks: a GPU has lengths in "
                     "forward under f32, bf16 and fp16 alone, and a contract computes the same cases everywhere$",
                     "--contract", "fixed")
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


class GenerateTest(CliTest):
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
