#!/usr/bin/env python3
"""Cases of NumPy arrays, one file each for Q, K, V and dO: hw4 and seq give the bytes of the same case in one file."""
import errno
import os
import unittest

import cli_test
from cli_test import (BAD_DATA, CANNOT_CREATE, IO_ERROR, NO_INPUT, OK, OLD_OUTPUT, USAGE, CliTest, by_seq,
                      generated_by, hw4, run)
from fault_test import PRELOAD_AND_SANITIZER, SHIM
from output_form_test import npy_header

# B, heads, key-value heads, N_q, N_k, d
SHAPES = ((2, 1, 1, 5, 5, 1), (3, 4, 2, 7, 40, 33), (2, 6, 1, 70, 70, 64), (1, 2, 2, 9, 3, 8))
ELEMENTS = {"float32": ("<f4", 4), "fp16": ("<f2", 2)}

setUpModule = cli_test.setUpModule


def cut(data, B, parts):
    """The content of each part's file, cut from data in which every batch has all parts, each of this many bytes."""
    files, at = [b""] * len(parts), 0
    for _ in range(B):
        for number, size in enumerate(parts):
            files[number] += data[at:at + size]
            at += size
    assert at == len(data)
    return files


class ArraysTest(CliTest):
    def made(self, shape, *options, element="float32", axes=4):
        """The case in one file, and the options that name its arrays."""
        B, heads, kv_heads, N_q, N_k, d = shape
        case = generated_by("--shape", f"{B},{N_q},{d}", "--heads", f"{heads},{kv_heads}", "--keys", str(N_k), "--seed",
                            "7", "--long", "--element", element, *options)
        names = ("q", "k", "v", "do")[:4 if "--backward" in options else 3]
        shapes = [self.shape_of(shape, name, axes) for name in names]
        files = cut(case.read_bytes()[64:], B, [self.batch_bytes(shape, name, element) for name in names])
        arguments = []
        for name, array, data in zip(names, shapes, files):
            arguments += [f"--{name}", self.file(npy_header(array, ELEMENTS[element][0]) + data, f"{name}.npy")]
        return case, arguments

    @staticmethod
    def shape_of(shape, name, axes=4):
        B, heads, kv_heads, N_q, N_k, d = shape
        whole = (B, heads, N_q, d) if name in ("q", "do", "dq") else (B, kv_heads, N_k, d)
        return whole if axes == 4 else (whole[0], *whole[2:])

    def batch_bytes(self, shape, name, element):
        _, heads, N, d = self.shape_of(shape, name)
        return heads * N * d * ELEMENTS[element][1]

    def outputs_of(self, case, shape, element, axes=4):
        """dQ, dK and dV, each as an array, from seq's single output file."""
        names = ("dq", "dk", "dv")
        files = cut(by_seq(case), shape[0], [self.batch_bytes(shape, name, element) for name in names])
        return {name: npy_header(self.shape_of(shape, name, axes), ELEMENTS[element][0]) + data
                for name, data in zip(names, files)}

    def computed(self, program, *arguments):
        done = run(program, *(("--device", "cpu") if program == "hw4" else ()), *arguments)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(self.temporaries(), [])
        return done


class BytesTest(ArraysTest):
    def test_forward(self):
        for shape in SHAPES:
            for element, (name, _) in ELEMENTS.items():
                for mask in ((), ("--causal",)):
                    case, arrays = self.made(shape, *mask, element=element)
                    wanted = npy_header(self.shape_of(shape, "q"), name) + by_seq(case)
                    for program in ("hw4", "seq"):
                        with self.subTest(shape=shape, element=element, mask=mask, program=program):
                            out = self.dir / "o.npy"
                            self.computed(program, *mask, *arrays, out)
                            self.assert_same_bytes(out.read_bytes(), wanted)

    def test_gradients_in_three_files(self):
        names = ("dq", "dk", "dv")
        for shape in SHAPES:
            for element in ELEMENTS:
                for mask in ((), ("--causal",)):
                    case, arrays = self.made(shape, "--backward", *mask, element=element)
                    wanted = self.outputs_of(case, shape, element)
                    files = {name: self.dir / f"{name}.npy" for name in names}
                    options = [word for name in names for word in (f"--{name}", files[name])]
                    for program in ("hw4", "seq"):
                        with self.subTest(shape=shape, element=element, mask=mask, program=program):
                            self.computed(program, *mask, *arrays, *options)
                            for name in names:
                                self.assert_same_bytes(files[name].read_bytes(), wanted[name])
                                files[name].unlink()

    def test_gradients_in_one_file(self):
        shape = (2, 3, 3, 40, 40, 8)
        case, arrays = self.made(shape, "--backward")
        for program in ("hw4", "seq"):
            self.computed(program, *arrays, self.dir / "d.npy")
            self.assert_same_bytes((self.dir / "d.npy").read_bytes(), npy_header((2, 3, 3, 40, 8)) + by_seq(case))
        shape = (2, 4, 2, 33, 40, 7)
        case, arrays = self.made(shape, "--backward")
        self.computed("hw4", "--backward", *arrays, self.out)
        self.assert_same_bytes(self.out.read_bytes(), by_seq(case))
        self.assert_refused(USAGE, r"dQ and dK differ in shape and are not one array, need a name without \.npy", *arrays,
                            self.dir / "d.npy")

    def test_arrays_without_an_axis_of_heads(self):
        shape = (2, 1, 1, 9, 12, 8)
        case, arrays = self.made(shape, axes=3)
        self.computed("hw4", *arrays, self.dir / "o.npy")
        self.assert_same_bytes((self.dir / "o.npy").read_bytes(), npy_header((2, 9, 8)) + by_seq(case))
        case, arrays = self.made(shape, "--backward", axes=3)
        names = ("dq", "dk", "dv")
        self.computed("hw4", *arrays, *[word for name in names for word in (f"--{name}", self.dir / f"{name}.npy")])
        for name, wanted in self.outputs_of(case, shape, "float32", axes=3).items():
            self.assert_same_bytes((self.dir / f"{name}.npy").read_bytes(), wanted)


class RefusalTest(ArraysTest):
    def setUp(self):
        super().setUp()
        self.shape = (2, 4, 2, 5, 6, 8)
        self.case, self.arrays = self.made(self.shape, "--backward")
        self.three = self.arrays[:6]

    def spoil(self, name, content):
        path = self.dir / f"{name}.npy"
        path.write_bytes(content)
        return path

    def array(self, shape, size=4, **more):
        count = 1
        for length in shape:
            count *= length
        return npy_header(shape, **more) + bytes(size * count)

    def test_which_options_go_together(self):
        q, k, v, do = ([self.arrays[i], self.arrays[i + 1]] for i in (0, 2, 4, 6))
        d = [["--dq", self.dir / "1"], ["--dk", self.dir / "2"], ["--dv", self.dir / "3"]]
        for wanted, arguments in (
                (r"need all of --q, --k and --v", [*q, *k, self.out]),
                (r"need all of --q, --k and --v", [*do, self.out]),
                (r"need all of --q, --k and --v", [*d[0], self.case, self.out]),
                (r"need all of --dq, --dk and --dv, or none", [*self.arrays, *d[0], *d[2]]),
                (r"--dq, --dk and --dv of arrays: need --do", [*self.three, *d[0], *d[1], *d[2]]),
                (r"--backward of arrays: need --do", ["--backward", *self.three, self.out]),
                (r"are the input: need OUTPUT alone, got 0 names", self.three),
                (r"are the input: need OUTPUT alone, got 2 names", [*self.three, self.case, self.out]),
                (r"are the output: need no other name, got 1 name;", [*self.arrays, *d[0], *d[1], *d[2], self.out]),
                (r"--pairs 'list' names all files, got --q, --k and --v too", ["--pairs", "list", *self.three]),
                (r"--q '': need a name", ["--q", "", self.case, self.out]),
                (r"--backward: the contract fixed lacks it", ["--contract", "fixed", *self.arrays, self.out])):
            self.assert_refused(USAGE, wanted, *arguments)
        done = run("seq", *q, *k, self.out)
        self.assertEqual(done.returncode, USAGE)
        self.assert_one_message(done.stderr, None, r"need all of --q, --k and --v; see --help", program="seq")

    def test_shapes_that_do_not_fit(self):
        for name, shape, wanted in (
                ("q", (2, 4, 5, 8, 1), r"of shape \(2, 4, 5, 8, 1\), need \(B, heads, N, d\), or \(B, N, d\) of one head"),
                ("q", (2, 0, 5, 8), r"of shape \(2, 0, 5, 8\), need \(B, heads"),
                ("k", (2, 6, 8), r"of shape \(2, 6, 8\), need \(2, heads, N, 8\) with B and d of "),
                ("k", (3, 2, 6, 8), r"of shape \(3, 2, 6, 8\), need \(2, heads, N, 8\) with B and d of "),
                ("k", (2, 2, 6, 9), r"of shape \(2, 2, 6, 9\), need \(2, heads, N, 8\) with B and d of "),
                ("v", (2, 2, 7, 8), r"of shape \(2, 2, 7, 8\), need \(2, 2, 6, 8\), that of .*k\.npy"),
                ("v", (2, 1, 6, 8), r"of shape \(2, 1, 6, 8\), need \(2, 2, 6, 8\), that of .*k\.npy"),
                ("do", (2, 4, 6, 8), r"of shape \(2, 4, 6, 8\), need \(2, 4, 5, 8\), that of .*q\.npy")):
            path = self.dir / f"{name}.npy"
            good = path.read_bytes()
            path.write_bytes(self.array(shape))
            self.assert_refused(BAD_DATA, wanted, *self.arrays, self.out, names=path)
            path.write_bytes(good)
        for name in "kv":
            self.spoil(name, self.array((2, 3, 6, 8)))
        self.assert_refused(BAD_DATA, r"with 3 heads, need a number that divides the 4 of ", *self.arrays, self.out,
                            names=self.dir / "k.npy")

    def test_files_that_cannot_be_read(self):
        k = self.dir / "k.npy"
        k.unlink()
        self.assert_refused(NO_INPUT, r"cannot open: No such file", *self.three, self.out, names=k)
        k.mkdir()
        self.assert_refused(NO_INPUT, r"is a directory", *self.three, self.out, names=k)
        k.rmdir()
        os.mkfifo(k)
        self.assert_refused(USAGE, r"is read in no order, need a plain file: no pipe", *self.three, self.out, names=k)
        self.assert_refused(USAGE, r"standard input: an array by itself is read in no order", *self.three[:3], "-",
                            *self.three[4:], self.out)

    def test_outputs_that_are_another_file(self):
        v = self.dir / "v.npy"
        for outputs in ([v], ["--dq", self.dir / "1", "--dk", self.dir / "2", "--dv", v]):
            self.assert_refused(USAGE, r"output is the same file as input .*v\.npy$", *self.arrays, *outputs, names=v)
        self.assert_refused(USAGE, r"output is the same file as input", "--json", v, *self.arrays, self.out, names=v)
        d = ["--dq", self.dir / "1", "--dk", self.dir / "2", "--dv"]
        self.assert_refused(USAGE, r"would overwrite the output", *self.arrays, *d, self.dir / "1")
        self.assert_refused(USAGE, r"would overwrite the output", "--trace", self.dir / "1", *self.arrays, *d,
                            self.dir / "3")
        for name in ("/dev/null", "-", self.dir / "3.npy.gz"):
            self.assert_refused(USAGE, r"is written in no order, need a plain file", *self.arrays, *d, name)

    @unittest.skipIf(cli_test.SANITIZED, PRELOAD_AND_SANITIZER)
    def test_no_gradient_gets_its_name_before_all_are_complete(self):
        files = [self.file(OLD_OUTPUT, name) for name in ("1.npy", "2.npy", "3.npy")]
        outputs = [word for name, file in zip(("--dq", "--dk", "--dv"), files) for word in (name, file)]
        for call, at, how in (("fallocate", 3, errno.ENOSPC), ("pwrite", 1, errno.EIO), ("fsync", 1, errno.EIO),
                              ("fsync", 3, errno.EIO), ("rename", 1, errno.EIO)):
            with self.subTest(call=call, at=at):
                fault = {"LD_PRELOAD": str(SHIM), "FAULT_CALL": call, "FAULT_AT": str(at), "FAULT_HOW": str(how)}
                done = hw4("--sync", *self.arrays, *outputs, env=fault)
                self.assertEqual(done.returncode, CANNOT_CREATE if call == "rename" else IO_ERROR, done.stderr)
                self.assert_one_message(done.stderr, None, os.strerror(how))
                self.assertEqual([file.read_bytes() for file in files], [OLD_OUTPUT] * 3)
                self.assertEqual(self.temporaries(), [])


if __name__ == "__main__":
    unittest.main()
