#!/usr/bin/env python3
"""Runs the tests of one Python module, or a share of them, for tests/run, which may have to stop the process.

    python3 tests/run_module.py MODULE RECORD [--share I/N]

RECORD gets a line of JSON for every event, [what, test, more], immediately: it shows how far even an unfinished module
came. A share is every N-th test in the order of the names; each share creates what a class or a module shares among its
tests.
"""
import argparse
import faulthandler
import json
import re
import signal
import sys
import time
import unittest
from pathlib import Path


class RecordingResult(unittest.TextTestResult):
    record = None  # a file
    tests = ()  # the names of the tests to run
    started = 0.0

    def tell(self, what, test, more=""):
        self.record.write(json.dumps([what, test, more]) + "\n")
        self.record.flush()

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        self.tell("started", test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.tell("ended", test.id(), time.monotonic() - self.started)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell("passed", test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        for name in self.all_in(test.id()):
            self.tell("skipped", name, reason)

    def all_in(self, name):
        """The test, or each test of a class or a module that was skipped as a whole."""
        whole = re.fullmatch(r"setUp(?:Class|Module) \((.+)\)", name)
        return [test for test in self.tests if test.startswith(f"{whole[1]}.")] if whole else [name]

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell("failed", test.id())

    def addError(self, test, err):
        super().addError(test, err)
        self.tell("failed", test.id())

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell("failed", subtest.id())


def tests_in(suite):
    for one in suite:
        yield from tests_in(one) if isinstance(one, unittest.TestSuite) else (one,)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path, metavar="MODULE")
    parser.add_argument("record", type=Path, metavar="RECORD")
    parser.add_argument("--share", default="0/1", metavar="I/N", help="1/3: the second of three")
    return parser.parse_args()


def chosen_tests(args):
    index, count = map(int, args.share.split("/"))
    found = tests_in(unittest.defaultTestLoader.discover(str(args.module.parent), pattern=args.module.name))
    return sorted(found, key=lambda test: test.id())[index::count]


def main():
    args = parse_arguments()
    faulthandler.register(signal.SIGALRM, chain=True)  # prints where the test hangs, and ends
    tests = chosen_tests(args)
    RecordingResult.tests = [test.id() for test in tests]
    with open(args.record, "w", encoding="utf-8") as RecordingResult.record:
        runner = unittest.TextTestRunner(stream=sys.stdout, resultclass=RecordingResult, verbosity=0)
        result = runner.run(unittest.TestSuite(tests))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
