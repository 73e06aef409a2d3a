#!/usr/bin/env python3
"""testcases/bounds without a GPU: which rows it makes of what FlashAttention-2 would give, and when it makes none."""
import contextlib
import io
import math
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()
sys.path[:0] = [str(ROOT / "judge")]

from bounds_table import read_bounds  # noqa: E402 (the path to them is set above)
from case_table import read_cases  # noqa: E402
from program_module import program_as_module  # noqa: E402

BOUNDS = ROOT / "testcases/bounds"
CASES = """name\tB\tN\td\tkind\tseed\tlimit_s\tcrc32_in\theads\tkeys\tmask\toperation\telement
a1\t2\t3\t4\tuniform\t7\t5\t-
c1\t2\t3\t4\tuniform\t7\t5\t-\t4,2\t5\tcausal
g1\t2\t3\t4\tuniform\t7\t5\t-\t1\t3\tnone\tbackward
h1\t2\t3\t4\tuniform\t7\t5\t-\t1\t3\tnone\tforward\tfp16
"""
HEADER = "# a remark\ncase\toperation\tcontract\tmask\trevision\tbound\n"


class BoundsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bounds_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        (self.dir / "cases.tsv").write_text(CASES)
        self.table = self.dir / "bounds.tsv"
        self.table.write_text(HEADER)
        self.program = program_as_module(BOUNDS)
        self.measured = []

    def words(self, *more):
        return ["bounds", "--table", str(self.dir / "cases.tsv"), "--bin", str(BIN), *more]

    def run_with(self, error, *more):
        """error(case, element): what is measured."""
        def measure(path, case, element):
            self.measured.append((case.name, element, os.path.getsize(path)))
            return error(case, element)

        said = io.StringIO()
        with unittest.mock.patch.multiple(self.program, error_of_flash=measure, require_gpu=lambda: None), \
                unittest.mock.patch.object(sys, "argv", self.words(*more)), contextlib.redirect_stdout(said):
            return self.program.bounds(self.program.parse_arguments()), said.getvalue()

    def run_itself(self, *more):
        """Without PyTorch."""
        (self.dir / "torch.py").write_text("raise ImportError('not here')\n")
        done = subprocess.run([sys.executable, BOUNDS, *self.words(*more)[1:]], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(self.dir), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(self.table.read_text(), HEADER)
        return done.returncode, done.stdout + done.stderr

    def rows(self):
        return {key: (row.revision, row.largest) for key, row in read_bounds(str(self.table)).rows.items()}

    def test_a_row_for_every_forward_case_and_contract_that_takes_it(self):
        code, said = self.run_with(lambda case, element: 0.25 if element == "bf16" else 0.5)
        self.assertEqual((code, said), (0, "a1: bf16 0.3, fp16 0.6\nc1: bf16 0.3, fp16 0.6\nh1: fp16 0.6\n"))
        self.assertEqual(self.rows(), {
            ("a1", "forward", "bf16", "none"): ("bf16.forward/1", 0.3),
            ("a1", "forward", "fp16", "none"): ("fp16.forward/1", 0.6),
            ("c1", "forward", "bf16", "causal"): ("bf16.forward/1", 0.3),
            ("c1", "forward", "fp16", "causal"): ("fp16.forward/1", 0.6),
            ("h1", "forward", "fp16", "none"): ("fp16.forward/1", 0.6)})
        sizes = {case.name: case.input_bytes for case in read_cases(str(self.dir / "cases.tsv"))}
        self.assertEqual(self.measured, [(name, element, sizes[name]) for name, element in (
            ("a1", "bf16"), ("a1", "fp16"), ("c1", "bf16"), ("c1", "fp16"), ("h1", "fp16"))])

    def test_some_rows_again_and_the_others_as_they_were(self):
        self.run_with(lambda case, element: 0.25)
        before = self.table.read_text()
        self.assertEqual(self.run_with(lambda case, element: 0.5, "--contract", "fp16", "c*")[0], 0)
        self.assertEqual(self.table.read_text(), before.replace("c1\tforward\tfp16\tcausal\tfp16.forward/1\t0.3",
                                                                "c1\tforward\tfp16\tcausal\tfp16.forward/1\t0.6"))

    def test_numbers_that_the_type_lacks(self):
        code, said = self.run_with(lambda case, element: None if element == "fp16" else 0.0, "a1")
        self.assertEqual((code, said), (0, "a1: bf16 0, fp16 refused\n"))
        self.assertEqual([largest for _, largest in self.rows().values()], [0.0, None])

    def test_what_gives_no_number_has_no_row(self):
        code, said = self.run_with(lambda case, element: math.nan if element == "fp16" else 0.25, "a1")
        self.assertEqual((code, said), (1, "a1: bf16 0.3, fp16 none\n"))
        self.assertEqual(len(self.rows()), 1)

    def test_what_pytorch_refuses_has_no_row(self):
        def refuse(case, element):
            raise RuntimeError("no kernel for it\nmore about it")

        with contextlib.redirect_stderr(io.StringIO()) as complaint:
            code, said = self.run_with(refuse, "a1", "--contract", "bf16")
        self.assertEqual((code, said), (1, "a1: bf16 none\n"))
        self.assertRegex(complaint.getvalue(), r"\Abounds: a1, bf16: no kernel for it")

    def test_an_error_that_is_no_rounding(self):
        self.program.require_rounding(2.0 ** -6, 1.0, "bf16")
        self.program.require_rounding(math.nan, 1.0, "bf16")
        with self.assertRaisesRegex(self.program.CannotMake, "an error of 0.5 beside values of up to 3 is no rounding"):
            self.program.require_rounding(0.5, 3.0, "bf16")

    def test_without_pytorch(self):
        self.assertEqual(self.run_itself(), (69, "bounds: no PyTorch: not here\n"))

    def test_a_contract_that_promises_bytes(self):
        self.assertEqual(self.run_itself("--contract", "f32"),
                         (2, "bounds: contract f32 is not compared by bound: need one that is\n"))


if __name__ == "__main__":
    unittest.main()
