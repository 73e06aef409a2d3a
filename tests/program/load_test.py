#!/usr/bin/env python3
"""Sixteen runs at once on a device: each gives the right bytes, or reports a lack of memory and exits
with 71; no run damages another's output or takes its temporary file."""
import subprocess
import time
import unittest

import cli_test
from cli_test import NO_MEMORY, NOTE, OK, by_seq, generated

AT_ONCE = 16
HANGING = 300  # seconds for all sixteen
# All differ, so that a mix-up shows; the first have several chunks.
CASES = (("uniform", 60, 256, 64), ("spread", 400, 64, 32), ("climb", 3, 1000, 64), ("huge", 7, 300, 40),
         ("denormal", 200, 50, 33), ("brink", 2, 1500, 16), ("fading", 5, 700, 32), ("equal", 1000, 3, 128))


setUpModule = cli_test.setUpModule


class Crowd:
    """Simultaneous runs and their results."""
    def __init__(self, test):
        self.test = test
        self.members = []  # (process, case, output)

    def start(self, case, output, *options, **more):
        process = subprocess.Popen([cli_test.PROGRAMS / "hw4", "--device", self.test.device, *options, case, output],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)
        self.members.append((process, case, output))
        self.test.addCleanup(process.wait)
        self.test.addCleanup(process.kill)
        return process

    def wait(self):
        """Waits for all runs and checks them. Returns the exit codes."""
        deadline = time.monotonic() + HANGING
        finished = [(process, process.communicate(timeout=max(1, deadline - time.monotonic()))[1], case, output)
                    for process, case, output in self.members]
        for process, stderr, case, output in finished:
            self.check(process, stderr, case, output)
        return [process.returncode for process, *_ in finished]

    def check(self, process, stderr, case, output):
        messages = [line for line in stderr.splitlines() if NOTE not in line]
        if process.returncode == OK:
            self.test.assertEqual(messages, [])
            self.test.assert_same_bytes(output.read_bytes(), by_seq(case))
        else:
            self.test.assertEqual(process.returncode, NO_MEMORY, stderr)
            self.test.assertEqual(len(messages), 1, stderr)
            self.test.assertRegex(messages[0], r"^hw4: .*(memory|no thread can be started)")


class Load:
    """Tests for both devices."""
    def setUp(self):
        super().setUp()
        self.cases = [generated(B, N, d, kind) for kind, B, N, d in CASES]
        for case in self.cases:
            by_seq(case)  # beforehand, so that the runs have the machine to themselves

    def case_of(self, member):
        return self.cases[member % len(self.cases)]

    def assert_all_right(self, names_of):
        """names_of(member): the member's case and output."""
        crowd = Crowd(self)
        for member in range(AT_ONCE):
            crowd.start(*names_of(member))
        self.assertEqual(crowd.wait(), [OK] * AT_ONCE)
        self.assertEqual(self.temporaries(), [])

    def test_each_its_output(self):
        self.assert_all_right(lambda member: (self.case_of(member), self.dir / f"{member}.out"))

    def test_one_output_for_all(self):
        self.assert_all_right(lambda _: (self.cases[0], self.out))


class CpuLoadTest(Load, cli_test.CliTest):
    device = "cpu"


if __name__ == "__main__":
    unittest.main(verbosity=2)
