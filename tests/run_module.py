#!/usr/bin/env python3
"""Runs the tests of one Python module, for tests/run, which may have to end it.

    python3 tests/run_module.py MODULE RECORD

RECORD gets a line of JSON for everything that happens, [what, test, reason], as soon as it does: of a module that never
comes to its end too, it is known how far it came.
"""
import faulthandler
import json
import signal
import sys
import unittest
from pathlib import Path


class RecordingResult(unittest.TextTestResult):
    record = None  # a file

    def tell(self, what, test, reason=""):
        self.record.write(json.dumps([what, test.id(), reason]) + "\n")
        self.record.flush()

    def startTest(self, test):
        super().startTest(test)
        self.tell("started", test)

    def stopTest(self, test):
        super().stopTest(test)
        self.tell("ended", test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell("passed", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell("skipped", test, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell("failed", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.tell("failed", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell("failed", subtest)


def main():
    module, record = map(Path, sys.argv[1:])
    faulthandler.register(signal.SIGALRM, chain=True)  # where it hangs, and ends
    suite = unittest.defaultTestLoader.discover(str(module.parent), pattern=module.name)
    with open(record, "w", encoding="utf-8") as RecordingResult.record:
        result = unittest.TextTestRunner(stream=sys.stdout, resultclass=RecordingResult, verbosity=0).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
