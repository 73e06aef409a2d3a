#!/usr/bin/env python3
"""tests/gpu-check with a sanitizer, a GPU and tests that are made up.

    python3 tests/tools/gpu_check_test.py [-v]
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = "#!/bin/sh\necho 'Suite.'\necho '  One'\necho '  Two'\n"
PASSES = "#!/bin/sh\necho '[  PASSED  ] 1 test.'\n"


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program("gpu_tests", TESTS)
        self.program("nvidia-smi", "#!/bin/sh\nexit 0\n")

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def check(self, sanitizer, *options):
        self.program("compute-sanitizer", sanitizer)
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run([sys.executable, ROOT / "tests/gpu-check", "--build", self.folder, *options],
                              env=environment, capture_output=True, text=True, timeout=60)

    def test_clean(self):
        done = self.check(PASSES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"racecheck +2 of 2 clean; the longest 0 s: Suite\.")
        self.assertEqual(done.stdout.splitlines()[-1], "8 passed, 0 failed")

    def test_some_tools(self):
        done = self.check(PASSES, "--tools", "memcheck", "initcheck")
        self.assertEqual(done.stdout.splitlines()[-1], "4 passed, 0 failed", done.stderr)
        self.assertEqual(self.check(PASSES, "--tools", "nocheck").returncode, 2)

    def test_line_for_each(self):
        done = self.check(PASSES, "--tools", "memcheck", "--verbose")
        self.assertRegex(done.stdout, r"memcheck +Suite\.Two: clean, 0 s\n")

    def test_initcheck_finds_memory_as_it_is(self):
        done = self.check("#!/bin/sh\ncase \"$* ${HW4_POISON-unset}\" in *initcheck*0|*memcheck*unset) "
                          "echo '[  PASSED  ] 1 test.';; esac\n", "--tools", "initcheck", "memcheck")
        self.assertEqual(done.stdout.splitlines()[-1], "4 passed, 0 failed")

    def test_something_found(self):
        done = self.check(f"#!/bin/sh\ncase \"$*\" in *racecheck*Two*) echo hazard; exit 99;; esac\n{PASSES[10:]}")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"racecheck +1 of 2 clean")
        self.assertIn("racecheck on Suite.Two: exit 99\nhazard", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "7 passed, 1 failed")

    def test_tool_that_does_not_end(self):
        done = self.check(f"#!/bin/sh\ncase \"$*\" in *initcheck*One*) sleep 30;; esac\n{PASSES[10:]}",
                          "--limit", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("initcheck on Suite.One: not done after 1 s", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "7 passed, 1 failed")

    def test_nothing_is_left_of_a_run_that_is_ended(self):
        self.program("compute-sanitizer", f"#!/bin/sh\necho $$ >> {self.folder}/started\nsleep 30\n")
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        with subprocess.Popen([sys.executable, ROOT / "tests/gpu-check", "--build", self.folder], env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as check:
            started = self.folder / "started"
            for _ in range(200):
                if started.exists() and len(started.read_text().split()) >= 2:
                    break
                time.sleep(0.05)
            check.terminate()
            self.assertEqual(check.wait(timeout=20), 143)
        for process in started.read_text().split():
            self.assertFalse(Path("/proc", process).exists(), "a tool still runs")

    def test_test_that_ran_nothing_has_failed(self):
        done = self.check("#!/bin/sh\necho '[  PASSED  ] 0 tests.'\n")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 8 failed")

    def test_card_that_lacks_something(self):
        skipped = "x.cu:1: Skipped\nkernel k needs 9.0, this card has 8.0\n[  SKIPPED ] 1 test, listed below:\n"
        done = self.check(f"#!/bin/sh\ncase \"$*\" in *Two*) printf '{skipped}'; exit 0;; esac\n{PASSES[10:]}")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"memcheck +1 of 2 clean, 1 skipped: kernel k needs 9\.0, this card has 8\.0;")
        self.assertEqual(done.stdout.splitlines()[-1], "4 passed, 0 failed, 4 skipped")


if __name__ == "__main__":
    unittest.main()
