#!/usr/bin/env python3
"""Tests of child_signals.py.

    python3 tests/tools/child_signals_test.py [-v]
"""
import signal
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IGNORED_BY_CHILD = """
import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
import child_signals
if sys.argv[2] == "heed":
    child_signals.heed()
os.kill(os.getpid(), signal.SIGHUP)  # which this process survives either way
subprocess.run(["grep", "^SigIgn:", "/proc/self/status"], check=True)
"""


def ignored_by_child(*, heed):
    """Those of SIGINT and SIGHUP that the child of a process ignores which was started with both ignored."""
    done = subprocess.run(["sh", "-c", 'trap "" INT HUP; exec "$0" "$@"', sys.executable, "-c", IGNORED_BY_CHILD,
                           ROOT / "tests", "heed" if heed else "as it is"], check=True, stdout=subprocess.PIPE)
    mask = int(done.stdout.split()[1], 16)
    return {number for number in (signal.SIGINT, signal.SIGHUP) if mask >> (number - 1) & 1}


class ChildSignalsTest(unittest.TestCase):
    def test_children_heed_what_this_process_ignores(self):
        self.assertEqual(ignored_by_child(heed=False), {signal.SIGINT, signal.SIGHUP})
        self.assertEqual(ignored_by_child(heed=True), set())


if __name__ == "__main__":
    unittest.main()
