#!/usr/bin/env python3
"""Case files of bf16 or fp16 numbers, and the contracts of these types."""
import struct
import unittest

import cli_test
from cli_test import BAD_DATA, OK, USAGE, CliTest, by_seq, contracts, floats, generated_by, hw4, run
from output_form_test import npy_header

CODES = {"bf16": 1, "fp16": 2}
SHAPE = (2, 4, 2, 33, 40, 7)  # B, heads, key-value heads, N_q, N_k, d


setUpModule = cli_test.setUpModule


def made(element, *options, shape=SHAPE, kind="uniform"):
    B, heads, kv_heads, N_q, N_k, d = shape
    return generated_by("--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k), "--seed", "3",
                        "--kind", kind, "--element", element, *options)


def stored(number, element):
    """Rounds to nearest even."""
    if element == "fp16":
        return struct.pack("<e", number)
    bits, = struct.unpack("<I", struct.pack("<f", number))
    return struct.pack("<I", bits + 0x7fff + (bits >> 16 & 1))[2:]


def takes(contract, element):
    return contract not in CODES or contract == element


class StoredTest(CliTest):
    def test_every_contract_on_the_cpu(self):
        for element in CODES:
            for path in (made(element), made(element, "--causal"), made(element, "--backward")):
                for contract in contracts():
                    if not takes(contract, element) or ("backward" in path.name and contract.startswith("fixed")):
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


class RefusedTest(CliTest):
    def test_an_array_of_numpy(self):
        done = hw4(made("bf16"), self.dir / "o.npy")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("O has elements of bf16, which NumPy lacks, need a name without .npy", done.stderr)
        self.assertEqual(hw4(made("fp16"), self.dir / "o.npy").returncode, OK)
        B, heads, _, N_q, _, d = SHAPE
        self.assert_same_bytes((self.dir / "o.npy").read_bytes(),
                               npy_header((B, heads, N_q, d), "<f2") + by_seq(made("fp16")))

    def test_gradients_that_the_type_lacks(self):
        """dV of the only key is the sum of dO's rows. Files of either element are refused on an overflow."""
        header = list(struct.unpack("<16i", made("fp16", "--backward", shape=(1, 1, 1, 4, 1, 1)).read_bytes()[:64]))
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


if __name__ == "__main__":
    unittest.main()
