#!/usr/bin/env python3
"""testcases/bounds without a GPU: the errors that it measures, where PyTorch is installed; its committed rows."""
import importlib.util
import math
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()
sys.path[:0] = [str(ROOT / folder) for folder in ("judge", "report", "testcases")]

import exact  # noqa: E402 (the path to them is set above)
import flash_errors  # noqa: E402
from case_table import read_cases  # noqa: E402
from decision_tables import read_bounds  # noqa: E402
from listing import BOUND, choose, listing_of  # noqa: E402
from program_module import program_as_module  # noqa: E402

BOUNDS = ROOT / "testcases/bounds"
COLUMNS = ("name\tB\tN\td\tkind\tseed\tlimit_s\tcrc32_in\theads\tkeys\tmask\toperation\telement\twindow\tscale\td_v"
           "\tlengths")
MULTIPROCESSORS = 3


def flash(q, k, v, dropout, causal, mask_wanted, scale):
    """FlashAttention-2 as PyTorch calls it: attention in float64, on any device, rounded once to the operands' type."""
    import torch
    assert q.shape[-1] % 8 == 0 and q.shape[1] == k.shape[1] and (dropout, mask_wanted) == (0.0, False)
    assert q.shape[0] * q.shape[1] * math.ceil(q.shape[2] / 64) >= 2 * MULTIPROCESSORS, "it would divide the keys"
    scores = q.double() @ k.double().mT * scale
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, -math.inf)
    return [(scores.softmax(-1) @ v.double()).to(q.dtype)]


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
class MeasuredTest(unittest.TestCase):
    """On the CPU, a FlashAttention-2 that rounds once has the errors of one rounding."""

    # B, heads, N_q, d and the rest of a row
    CASES = {"one key": "2\t3\t4\tuniform\t7\t5\t-\t1\t1\tnone\t{}",
             "full": "2\t5\t8\tuniform\t7\t5\t-\t1\t7\tnone\t{}",
             "more keys": "2\t3\t4\tuniform\t7\t5\t-\t2\t6\tcausal\t{}",
             "blind rows": "2\t6\t9\tuniform\t7\t5\t-\t2\t3\tcausal\t{}",
             "shared keys": "2\t4\t3\tuniform\t7\t5\t-\t4,2\t5\tcausal\t{}",
             "lengths": "3\t4\t8\tuniform\t7\t5\t-\t2\t9\tcausal\t{}\tfloat32\t0\t0\t-\t9,2",
             "narrow": "1\t4\t3\tuniform\t7\t5\t-\t1\t4\tnone\t{}\tfp16"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bounds_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.program = program_as_module(BOUNDS)

    def case(self, name, operation):
        """The case and its input file."""
        table = self.dir / "cases.tsv"
        table.write_text(COLUMNS + f"\nx\t{self.CASES[name].format(operation)}\n")
        case, = read_cases(str(table))
        path = str(self.dir / "in")
        self.program.generate(str(BIN / "testcases/generate"), case, path)
        return case, path

    def measured(self, case, path, element, at_once=1 << 27, attention=flash):
        import torch
        card = types.SimpleNamespace(multi_processor_count=MULTIPROCESSORS)
        with unittest.mock.patch.object(flash_errors, "operands", lambda *case: exact.operands(*case[:2], "cpu")), \
                unittest.mock.patch.object(torch.cuda, "get_device_properties", lambda device: card), \
                unittest.mock.patch.object(torch.ops.aten, "_scaled_dot_product_flash_attention", attention), \
                unittest.mock.patch.object(exact, "SCORES_AT_ONCE", at_once):
            return flash_errors.errors_of_flash(path, case, element)

    def by_hw4(self, case, path, element):
        """The errors of hw4's plain CPU kernels, which round only the result: other kernels round the weights too."""
        output = str(self.dir / "out")
        backward = case.operation == "backward"
        subprocess.run([BIN / "hw4", "--device", "cpu", "--contract", element, "--kernel",
                        f"{element}_backward_generic" if backward else f"{element}_generic", path, output], check=True,
                       capture_output=True)
        done = subprocess.run([BIN / "judge/compare", "--exact", element, "--atol", "9,9,9" if backward else "9", path,
                               output], check=True, capture_output=True, text=True)
        return [float(found) for found in re.findall(r"^largest absolute difference: (\S+)", done.stdout, re.MULTILINE)]

    def test_of_one_rounding_it_is_that_rounding(self):
        for operation in ("forward", "backward"):
            for name in self.CASES:
                for element in ("bf16", "fp16"):
                    if (name == "narrow" and element != "fp16") or (name, operation) == ("lengths", "backward"):
                        continue
                    with self.subTest(name, operation=operation, element=element):
                        case, path = self.case(name, operation)
                        found, wanted = self.measured(case, path, element), self.by_hw4(case, path, element)
                        if name == "one key":  # O is V, and dQ and dK are 0: float32's error remains
                            self.assertLess(max(found[:2]), 1e-4)
                            found, wanted = found[2:], wanted[2:]
                        for place, (mine, other) in enumerate(zip(found, wanted)):
                            if name == "shared keys" and place > 0:  # rounded by head, then added
                                self.assertTrue(other <= mine <= 3 * other, (found, wanted))
                            else:
                                self.assertAlmostEqual(mine / other, 1, delta=0.01, msg=(found, wanted))


class CommittedTest(unittest.TestCase):
    def test_every_case_has_a_row_of_its_revision(self):
        bounds = read_bounds(str(ROOT / "testcases/bounds.tsv"))
        for contract in choose(listing_of(str(BIN / "hw4")).contracts, "all", BOUND):
            for case in read_cases(str(ROOT / "testcases/cases.tsv")):
                bound, revision = bounds.of(case, contract.name), contract.revision_for(case)
                if case.lengths and bound is None:
                    continue  # not measured yet: the judge leaves them out
                self.assertEqual(bound and bound.revision, revision, f"{case.name} under {contract.name}")


if __name__ == "__main__":
    unittest.main()
