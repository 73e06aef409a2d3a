#!/usr/bin/env python3
"""report/accuracy, report/distributions and report/bench_cpu on small cases; the errors themselves where PyTorch is."""
import argparse
import contextlib
import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

from bench_document import Document  # noqa: E402 (the path to them is set above)
from case_table import read_cases, select  # noqa: E402
from program_module import program_as_module  # noqa: E402

needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="accuracy_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def run_program(self, name, *args, exit_code=0, **environment):
        done = subprocess.run([sys.executable, ROOT / "report" / name, "--json", self.dir / "out.json", *args],
                              env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}, capture_output=True,
                              text=True, timeout=120)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def without_torch(self):
        (self.dir / "torch.py").write_text("raise ImportError('not here')\n")
        return {"PYTHONPATH": str(self.dir)}

    def document(self):
        text = (self.dir / "out.json").read_text()
        for folder in (ROOT, self.dir):
            self.assertNotIn(str(folder), text)
        return json.loads(text)


class Accuracy(Workplace):
    @needs_torch
    def test_every_case_under_every_contract(self):
        where = ("--bin", BIN, "--folder", self.dir / "cases")
        self.run_program("accuracy", "e03", "t01", *where, "--limit", "1e-3")
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertRegex(document["revisions"]["hw4"], r"\Af32\.forward/\d+\Z")
        self.assertEqual([(case["name"], case["tokens"]) for case in document["cases"]], [("t01", 128), ("e03", 31)])
        for errors in (case["largest_errors"] for case in document["cases"]):
            self.assertLessEqual({"hw4", "hw4_fixed", "hw4_fixed16", "naive"}, set(errors))
            self.assertTrue(0 < errors["hw4"] < 1e-5 > errors["naive"] and errors["hw4_fixed16"] < 1e-3, errors)
        self.run_program("accuracy", "e03", "--contract", "f32", "--limit", "1e-12", *where, exit_code=1)

    def test_limits(self):
        """PyTorch's part is replaced by a table of errors."""
        accuracy = program_as_module(ROOT / "report/accuracy")
        cases = select(read_cases(str(ROOT / "testcases/cases.tsv")), ["e03", "e05", "t01"])
        for limit, beyond in ((None, ["t01"]), (0.5, ["e03", "e05"])):  # edge cases have a limit only if asked
            errors = iter(({"hw4": 1.01e-5}, {"hw4": 1.0}, {"hw4": math.nan}))
            accuracy.largest_errors = lambda case, outputs, device, peers: next(errors)
            args = argparse.Namespace(bin=BIN, folder=self.dir / "cases", limit=limit, contract="f32", cases=cases)
            with contextlib.redirect_stdout(io.StringIO()):
                found = accuracy.measure_all(args, "cpu", ["naive"], Document(self.dir / "out.json"))
            self.assertEqual((found, self.document()["beyond_limit"]), (beyond, beyond))

    def test_refusals(self):
        for name in ("accuracy", "distributions"):
            self.assertEqual(self.run_program(name, exit_code=69, **self.without_torch()).stderr,
                             f"{name}: needs PyTorch: not here\n")
            self.run_program(name, "t99", exit_code=2)


@needs_torch
class Distributions(Workplace):
    """On small shapes and the CPU."""

    def setUp(self):
        super().setUp()
        self.module = program_as_module(ROOT / "report/distributions")
        shapes = ((2, 100, 16), (1, 70, 24))
        self.module.SHAPES, self.module.EVERY_SHAPE = {"float32": shapes}, shapes

    def drawn(self, name):
        return self.module.drawn(name, (2, 100, 16))

    def test_the_values(self):
        for name in self.module.DISTRIBUTIONS:
            values = self.drawn(name)
            self.assertEqual(tuple(values.shape), (2, 3, 100, 16))
            self.assertTrue(values.isfinite().all())
            self.assertTrue((values == self.drawn(name)).all(), "the same every time")
        self.assertLessEqual(self.drawn("uniform").abs().max().item(), 3)
        exponents = self.drawn("powers").abs().log2()
        self.assertTrue((exponents == exponents.round()).all())
        self.assertEqual((exponents.min().item(), exponents.max().item()), (-20, 20))
        self.assertAlmostEqual(self.drawn("normal").std().item(), 1, delta=0.05)
        self.assertAlmostEqual(self.drawn("student").abs().median().item(), 0.8165, delta=0.05)  # the quartile of t2
        self.assertGreater(self.drawn("outliers").abs().max().item(), 10)

    def test_errors(self):
        import torch
        errors = self.module.Errors()
        errors.add(torch.tensor([[[1.0, 2.0], [4.0, -7.0]]]), torch.tensor([[[1.0, 2.5], [4.0, -8.0]]]).double())
        errors.add(torch.tensor([[[1.0, 1.0]]]), torch.tensor([[[1.0, 1.0]]]).double())
        self.assertEqual(errors.record(), {"largest": 1.0, "largest_of_row": 0.2, "rms": math.sqrt(1.25 / 6)})

    def test_a_whole_run(self):
        args = argparse.Namespace(bin=BIN, device="cpu", contract="all", beside="float32",
                                  distributions=["uniform", "normal"])
        with contextlib.redirect_stdout(io.StringIO()):
            self.module.measure_all(args, "cpu", ["naive"], Document(self.dir / "out.json"))
        cases = self.document()["cases"]
        self.assertEqual(len({case["seed"] for case in cases}), 4)
        for case in cases:
            self.assertEqual(list(case["errors"]), ["hw4", "hw4_fixed", "hw4_fixed16", "naive"])
            for name, figures in case["errors"].items():
                self.assertLess(figures["largest_of_row"], 1e-2 if name == "hw4_fixed16" else 1e-5)
                self.assertLessEqual(figures["rms"], figures["largest"])


class BenchCpu(Workplace):
    def test_each_contract(self):
        self.run_program("bench_cpu", "e03", "--contract", "fixed16", "f32", "--runs", "2", "--bin", BIN,
                         **self.without_torch())
        document = self.document()
        self.assertEqual((document["complete"], document["torch"]), (True, None))
        for case, contract in zip(document["cases"], ("fixed16", "f32"), strict=True):
            self.assertEqual((case["case"], case["contract"], case["bytes_equal"]), ("e03", contract, True))
            self.assertEqual([len(case["seconds"][who]) for who in ("hw4", "from_file", "torch", "seq")], [2, 2, 0, 1])

    def test_bytes_that_differ(self):
        (self.dir / "testcases").mkdir()
        for program in ("hw4", "testcases/generate"):
            (self.dir / program).symlink_to(BIN / program)
        (self.dir / "seq").write_text('#!/bin/sh\nfor last; do :; done\necho > "$last"\n')
        (self.dir / "seq").chmod(0o755)
        self.run_program("bench_cpu", "e03", "--bin", self.dir, exit_code=1, **self.without_torch())

    def test_refusals(self):
        for args in (("t99",), ("c01",), ("--runs", "0"), ("--threads", "0")):
            self.run_program("bench_cpu", *args, exit_code=2)
        self.assertIn("hw4 is not there", self.run_program("bench_cpu", "--bin", self.dir, exit_code=69).stderr)


if __name__ == "__main__":
    unittest.main()
