#!/usr/bin/env python3
"""report/accuracy, report/distributions and report/bench_cpu without a GPU, and but for the numbers without PyTorch."""
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

from bench_document import Document, Failed  # noqa: E402 (the path to them is set above)
from case_table import read_cases, select  # noqa: E402
from program_module import program_as_module  # noqa: E402

CASES = read_cases(str(ROOT / "testcases/cases.tsv"))


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="accuracy_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        (self.dir / "torch.py").write_text("raise ImportError('not here')\n")

    def run_program(self, name, *args, exit_code=0):
        environment = {**os.environ, "PYTHONPATH": str(self.dir), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, ROOT / "report" / name, "--json", self.dir / "out.json", *args],
                              env=environment, capture_output=True, text=True, timeout=120)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def document(self):
        text = (self.dir / "out.json").read_text()
        for folder in (ROOT, self.dir):
            self.assertNotIn(str(folder), text)
        return json.loads(text)


class Accuracy(Workplace):
    """PyTorch's part is replaced by a table of errors."""

    def measure(self, errors, limit=None, binaries=BIN, contract="f32"):
        """The cases beyond the limit."""
        accuracy = program_as_module(ROOT / "report/accuracy")
        self.compared = []

        def largest_errors(case, outputs, device, peers):
            sizes = {name: output.stat().st_size for name, output in outputs.items()}
            self.compared.append((case.name, case.stat().st_size, sizes, device))
            self.outputs = [output.read_bytes() for output in outputs.values()]
            return errors[len(self.compared) - 1]

        accuracy.largest_errors = largest_errors
        args = argparse.Namespace(bin=binaries, folder=self.dir / "cases", limit=limit, contract=contract,
                                  cases=select(CASES, ["e03", "e05", "t01"]))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            beyond = accuracy.measure_all(args, "cpu", ["naive"], Document(self.dir / "out.json"))
        self.said = said.getvalue()
        return beyond

    def test_every_case_with_its_shape(self):
        errors = [{"hw4": 1e-6, "naive": 2e-6}, {"hw4": 3e-6, "naive": 1e-6}, {"hw4": 1e-6, "naive": 1.0}]
        self.assertEqual(self.measure(errors), [])
        cases = self.document()["cases"]
        self.assertEqual([case["name"] for case in cases], ["t01", "e03", "e05"])
        self.assertEqual(cases[1], {"name": "e03", "batches": 3, "tokens": 31, "dim": 32, "largest_errors": errors[1]})
        self.assertEqual(self.compared[1], ("e03-b69771cc.in", 12 + 12 * 3 * 31 * 32, {"hw4": 4 * 3 * 31 * 32}, "cpu"))
        self.assertTrue(self.document()["complete"])
        self.assertRegex(self.document()["revisions"]["hw4"], r"\Af32\.forward/\d+\Z")
        self.assertIn("\ne03      3.00e-06    1.00e-06\n", self.said)

    def test_limits(self):
        errors = [{"hw4": 1.01e-5}, {"hw4": 1.0}, {"hw4": math.nan}]  # of nobody else: a dash in the table
        self.assertEqual(self.measure(errors), ["t01"])  # edge cases have none unless one is asked for
        self.assertEqual(self.document()["beyond_limit"], ["t01"])
        self.assertEqual(self.measure(errors, limit=0.5), ["e03", "e05"])
        self.assertIn("BEYOND 0.5", self.said)

    def test_all_contracts(self):
        errors = [{"hw4": 1e-6, "hw4_fixed": 2e-6, "hw4_fixed16": 4e-6, "naive": 3e-6},
                  {"hw4": 1e-6, "hw4_fixed": 1e-6, "hw4_fixed16": 1e-6, "naive": 1e-6},
                  {"hw4": 1e-6, "hw4_fixed": math.nan, "hw4_fixed16": 1e-6, "naive": 1e-6}]
        ours = ["hw4", "hw4_fixed", "hw4_fixed16"]
        self.assertEqual(self.measure(errors, limit=1e-5, contract="all"), ["e05"])
        self.assertEqual(self.compared[1][2], dict.fromkeys(ours, 4 * 3 * 31 * 32))
        self.assertEqual(len(set(self.outputs)), 3)  # each contract has bytes of its own
        self.assertEqual(self.document()["cases"][0]["largest_errors"], errors[0])
        self.assertRegex(self.said, r"^case +hw4 +hw4_fixed +hw4_fixed16 +naive ")
        self.assertIn("\ne03      1.00e-06    1.00e-06    1.00e-06    1.00e-06\n", self.said)
        self.assertEqual(list(self.document()["revisions"]), ours)
        self.assertEqual(self.measure(errors, contract="fixed"), [])
        self.assertEqual(list(self.compared[0][2]), ["hw4_fixed"])
        self.assertEqual(list(self.document()["revisions"]), ["hw4_fixed"])

    def test_failures(self):
        (self.dir / "testcases").mkdir()
        (self.dir / "testcases/generate").symlink_to(BIN / "testcases/generate")
        with self.assertRaisesRegex(Failed, "hw4 is not there"):
            self.measure([], binaries=self.dir)
        (self.dir / "hw4").write_text("#!/bin/sh\necho 'hw4: it broke' >&2\nexit 70\n")
        (self.dir / "hw4").chmod(0o755)
        with self.assertRaisesRegex(Failed, "hw4: it broke"):
            self.measure([], binaries=self.dir)
        with self.assertRaisesRegex(Failed, "--contract 'f64': need f32, fixed, fixed16 or all") as refused:
            self.measure([], contract="f64")
        self.assertEqual(refused.exception.code, 2)
        self.assertEqual(self.compared, [])

    def test_without_pytorch(self):
        self.assertEqual(self.run_program("accuracy", "--arith", "fixed", exit_code=69).stderr, "accuracy: needs PyTorch: not here\n")
        self.run_program("accuracy", "t99", exit_code=2)


class Distributions(Workplace):
    """PyTorch's part is replaced by a table of errors."""

    ERRORS = {"hw4": {"largest": 1e-6, "largest_of_row": 2e-6, "rms": 3e-7},
              "hw4_fixed": {"largest": 4e-6, "largest_of_row": 5e-6, "rms": 6e-7},
              "hw4_fixed16": {"largest": 4e-4, "largest_of_row": 5e-4, "rms": 6e-5},
              "naive": {"largest": 7e-6, "largest_of_row": math.nan, "rms": 8e-7}}

    def measure(self, beside="float32"):
        distributions = program_as_module(ROOT / "report/distributions")
        drawn = []
        distributions.drawn = lambda name, shape: drawn.append((name, shape))
        distributions.computed = lambda args, folder, name, shape, values: "results"
        distributions.errors_of = lambda values, ours, device, peers: self.ERRORS
        args = argparse.Namespace(bin=BIN, device="cpu", contract="all", beside=beside,
                                  distributions=["uniform", "powers"])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            distributions.measure_all(args, "cpu", ["naive"], Document(self.dir / "out.json"))
        self.said = said.getvalue()
        return drawn

    def test_every_distribution_on_every_shape(self):
        small, large = (8, 1024, 64), (2, 4096, 128)
        self.assertEqual(self.measure(), [("uniform", small), ("powers", small), ("uniform", large), ("powers", large)])
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual(list(document["revisions"]), ["hw4", "hw4_fixed", "hw4_fixed16"])
        cases = document["cases"]
        self.assertEqual([(case["distribution"], case["dim"]) for case in cases],
                         [("uniform", 64), ("powers", 64), ("uniform", 128), ("powers", 128)])
        self.assertEqual(len({case["seed"] for case in cases}), 4)
        self.assertEqual(cases[0]["errors"]["hw4_fixed"], self.ERRORS["hw4_fixed"])
        self.assertIn("\npowers    2,4096,128   hw4_fixed         4.00e-06       5.00e-06       6.00e-07\n", self.said)

    def test_more_shapes_and_contracts_beside_half_precision(self):
        shapes = dict.fromkeys(shape for _, shape in self.measure("half"))
        self.assertEqual(list(self.document()["revisions"]),
                         ["hw4", "hw4_fixed", "hw4_fixed16", "hw4_bf16", "hw4_fp16"])
        self.assertEqual({(tokens, dim) for _, tokens, dim in shapes},
                         {(tokens, dim) for tokens in (1024, 4096, 16384) for dim in (64, 128)})
        cases = self.document()["cases"]
        self.assertEqual(len({case["seed"] for case in cases}), len(cases))

    def test_without_pytorch(self):
        self.assertEqual(self.run_program("distributions", exit_code=69).stderr,
                         "distributions: needs PyTorch: not here\n")
        for arguments in (("cauchy",), ("--device", "tpu")):
            self.run_program("distributions", *arguments, exit_code=2)


def has_torch():
    return importlib.util.find_spec("torch") is not None


@unittest.skipUnless(has_torch(), "needs PyTorch")
class DistributionsByTorch(Workplace):
    """The numbers themselves, on small shapes and the CPU."""

    def setUp(self):
        super().setUp()
        self.module = program_as_module(ROOT / "report/distributions")
        self.module.SHAPES = ((2, 100, 16), (1, 70, 24))

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
        for case in self.document()["cases"]:
            self.assertEqual(list(case["errors"]), ["hw4", "hw4_fixed", "hw4_fixed16", "naive"])
            for name, figures in case["errors"].items():
                self.assertLess(figures["largest_of_row"], 1e-2 if name == "hw4_fixed16" else 1e-5)
                self.assertLessEqual(figures["rms"], figures["largest"])


# hw4 bench whose only cell does not fit.
REFUSING_BENCH = """#!/bin/sh
for last; do :; done
echo '{"hw4": {"hw4_version": "1", "machine": {}, "forward": {"status": "oom", "reason": "no memory"}}}' > "$last"
exit 69
"""


class BenchCpu(Workplace):
    def test_without_pytorch(self):
        done = self.run_program("bench_cpu", "e03", "e05", "--runs", "2", "--bin", BIN)
        document = self.document()
        self.assertEqual((document["complete"], document["torch"]), (True, None))
        self.assertEqual([case["case"] for case in document["cases"]], ["e03", "e05"])
        for case in document["cases"]:
            self.assertIs(case["bytes_equal"], True)
            self.assertEqual([len(case["seconds"][who]) for who in ("hw4", "from_file", "torch", "seq")],
                             [2, 2, 0, 1])
        self.assertRegex(done.stdout, r"\ne03 .* equal\n")

    def test_each_contract(self):
        done = self.run_program("bench_cpu", "e03", "--contract", "fixed16", "f32", "--runs", "1", "--bin", BIN)
        self.assertEqual([(case["contract"], case["bytes_equal"]) for case in self.document()["cases"]],
                         [("fixed16", True), ("f32", True)])
        self.assertRegex(done.stdout, r"\ne03 +fixed16 .* equal\ne03 +f32 .* equal\n")

    def test_pytorch_is_as_warm_as_hw4(self):
        module, seconds = program_as_module(ROOT / "report/bench_cpu"), []

        def sample(launches):
            seconds.append((launches, 0.5 if not seconds else 0.02 + 0.001 * len(seconds)))  # the first allocates
            return seconds[-1][1]

        self.assertAlmostEqual(module.warm_median(sample), 0.027)
        self.assertEqual(len(seconds), 1 + 5 + 3)  # one, a tenth of a second, the samples

    def test_pytorch_that_is_needed(self):
        done = self.run_program("bench_cpu", "e03", "--need-torch", "--bin", BIN, exit_code=69)
        self.assertEqual(done.stderr, "bench_cpu: PyTorch is not installed\n")

    def test_why_a_contract_was_not_timed(self):
        (self.dir / "testcases").mkdir()
        (self.dir / "testcases/generate").symlink_to(BIN / "testcases/generate")
        (self.dir / "seq").symlink_to(BIN / "seq")
        (self.dir / "hw4").write_text(REFUSING_BENCH)
        (self.dir / "hw4").chmod(0o755)
        self.assertEqual(self.run_program("bench_cpu", "e03", "--bin", self.dir, exit_code=70).stderr,
                         "bench_cpu: hw4 bench --impl f32: no memory\n")

    def test_bytes_that_differ(self):
        (self.dir / "testcases").mkdir()
        for program in ("hw4", "testcases/generate"):
            (self.dir / program).symlink_to(BIN / program)
        (self.dir / "seq").write_text('#!/bin/sh\nfor last; do :; done\necho > "$last"\n')
        (self.dir / "seq").chmod(0o755)
        self.assertIn(" DIFFER\n", self.run_program("bench_cpu", "e03", "--bin", self.dir, exit_code=1).stdout)
        (self.dir / "seq").write_text("#!/bin/sh\necho 'seq: it broke' >&2\nexit 70\n")
        self.assertEqual(self.run_program("bench_cpu", "e03", "--bin", self.dir, exit_code=70).stderr,
                         "bench_cpu: seq: it broke\n")
        self.assertFalse(self.document()["complete"])

    def test_usage(self):
        for args in (("t99",), ("c01",), ("--runs", "0"), ("--threads", "0")):
            self.run_program("bench_cpu", *args, exit_code=2)
        self.assertIn("hw4 is not there", self.run_program("bench_cpu", "--bin", self.dir, exit_code=69).stderr)


if __name__ == "__main__":
    unittest.main()
