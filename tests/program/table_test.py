#!/usr/bin/env python3
"""testcases/cases.tsv and testcases/expected.tsv against the programs: the generated inputs, and the outputs of seq and
hw4 under every contract that promises bytes, have the CRC-32 that the tables list.

Other tests compare a kernel with seq, and both take their constants from the same headers; the tables are independent
of them. Only the first two of the course's cases are tested, and neither of the two long causal ones: the others take
minutes; judge/judge runs them."""
import concurrent.futures
import os
import sys
import tempfile
import unittest
from pathlib import Path

import cli_test
from cli_test import NO_GPU, OK, REPO, SANITIZED, generated, generated_by, run
from fault_test import SOAK

sys.path.insert(0, str(REPO / "judge"))

from case_table import read_cases, select  # noqa: E402 (the path to it is set above)
from decision_tables import read_bounds, read_expectations, table_beside  # noqa: E402
from files import crc32_of  # noqa: E402
from listing import BOUND, BYTES, choose, listing_of  # noqa: E402

TABLE = REPO / "testcases" / "cases.tsv"
MOST_FLOPS_OF_SEQ = 5e8
MOST_FLOPS_SANITIZED = 1e8  # sanitizers make the programs ten times slower or more


def setUpModule():
    global CONTRACTS, EXPECTATIONS
    cli_test.setUpModule()
    CONTRACTS = choose(listing_of(cli_test.PROGRAMS / "hw4").contracts, "all", BYTES)
    EXPECTATIONS = read_expectations(table_beside(TABLE))


def chosen_cases():
    """The cases with the most work first, so that all processors finish at the same time."""
    cases = select(read_cases(TABLE), ["t01", "t02", "e*", "c01", "c0[4-9]", "c[1-9]*", "g*", "h*", "w*", "v*", "k*"])
    return sorted((case for case in cases if not SANITIZED or case.flops < MOST_FLOPS_SANITIZED),
                  key=lambda case: -case.flops)


def input_of(case):
    return generated_by(*case.recipe())


def wrong_input(case):
    """What is wrong with the generated case; empty where nothing is."""
    got = crc32_of(input_of(case))
    return "" if got == case.crc32_in else f"{case.name}: generate: CRC-32 {got}, want {case.crc32_in}"


def wrong_outputs(cases, contract, command):
    """What is wrong with a program's outputs for the cases, in one run; empty where nothing is."""
    name = f"{' '.join(command)} --contract {contract}"
    with tempfile.TemporaryDirectory(prefix="hw4-table-") as folder:
        outs = [Path(folder) / str(number) for number in range(len(cases))]
        done = run(*command, "--contract", contract, *(path for case, out in zip(cases, outs) for path in (input_of(case), out)))
        if done.returncode != OK:
            return f"{name}: {[case.name for case in cases]}: exit code {done.returncode}: {done.stderr.strip()}"
        sums = [(case.name, crc32_of(out), EXPECTATIONS.of(case, contract).crc32) for case, out in zip(cases, outs)]
    return "".join(f"{case}: {name}: CRC-32 of the output {got}, want {wanted}; " for case, got, wanted in sums if got != wanted)


class TableTest(unittest.TestCase):
    def assert_none(self, look, arguments):
        """look() finds nothing wrong with any of its lists of arguments."""
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            self.assertEqual([complaint for complaint in pool.map(look, *zip(*arguments)) if complaint], [])

    def assert_outputs(self, *command, takes=lambda case: True, at_once=16):
        """hw4 takes several cases in a run: it starts once, and on a GPU makes one context."""
        parts = []
        for contract in CONTRACTS:
            cases = [case for case in chosen_cases() if takes(case) and contract.revision_for(case)]
            count = -(-len(cases) // at_once)
            parts += [(cases[first::count], contract.name, command) for first in range(count)]
        self.assert_none(wrong_outputs, parts)

    def test_generate(self):
        self.assert_none(wrong_input, [(case,) for case in chosen_cases()])

    def test_seq(self):
        """The largest cases, which take most of the time, run only with HW4_SOAK=1."""
        self.assert_outputs("seq", takes=lambda case: SOAK or case.flops < MOST_FLOPS_OF_SEQ, at_once=1)

    def test_hw4_on_the_cpu(self):
        self.assert_outputs("hw4", "--device", "cpu")

    def test_hw4_on_the_gpu(self):
        done = run("hw4", "--device", "gpu", generated(1, 2, 2), "/dev/null")
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr.splitlines()[-1])
        self.assert_outputs("hw4", "--device", "gpu", takes=lambda case: case.operation == "forward")

    def test_a_row_for_every_case_and_contract_of_the_revision_that_is_computed(self):
        wanted = {(case.name, case.operation, contract.name, case.mask): contract.revision_for(case)
                  for case in read_cases(TABLE) for contract in CONTRACTS if contract.revision_for(case)}
        self.assertEqual({key: row.revision for key, row in EXPECTATIONS.rows.items()}, wanted)

    def test_a_bound_for_every_case_and_contract_that_promises_one(self):
        bounds = read_bounds(str(TABLE.with_name("bounds.tsv")))
        for contract in choose(listing_of(cli_test.PROGRAMS / "hw4").contracts, "all", BOUND):
            for case in read_cases(TABLE):
                bound = bounds.of(case, contract.name)
                if bound or not case.lengths:  # those are not measured yet: the judge leaves them out
                    self.assertEqual(bound and bound.revision, contract.revision_for(case), (case.name, contract.name))


if __name__ == "__main__":
    unittest.main()
