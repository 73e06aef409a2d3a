#!/usr/bin/env python3
"""report/bench_seq: what it measures of each case, and whole runs with seq and with fake programs."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from program_module import run_forked

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()

GENERATE = 'while [ $# -gt 1 ]; do [ "$1" = --shape ] && shape=$2; shift; done; echo $shape > $1'
# Takes a millisecond for each batch, and tells on which processor it may run.
SEQ = ('[ "$1" = --time ] || exit 64\nshape=$(cat $2)\n'
       'echo "$shape $(sed -n "s/^Cpus_allowed_list:[^0-9]*//p" /proc/$$/status)" >> {dir}/calls\n'
       'echo "(B, N, d): ($shape)"; echo "arithmetic_seconds $(echo ${{shape%%,*}} | sed "s/.*/\\0e-3/")"')


class BenchSeq(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench_seq_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.program("testcases/generate", GENERATE)
        self.program("seq", SEQ.format(dir=self.dir))

    def program(self, name, script):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def bench(self, *args, exit_code=0, binaries=None):
        command = [sys.executable, ROOT / "report/bench_seq", "--bin", binaries or self.dir, "--json",
                   self.dir / "out.json", *args]
        done = run_forked(command)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def document(self):
        text = (self.dir / "out.json").read_text()
        for folder in (ROOT, self.dir):
            self.assertNotIn(str(folder), text)
        return json.loads(text)

    def calls(self):
        """(shape, processors) of each run."""
        return [tuple(line.split(" ")) for line in (self.dir / "calls").read_text().splitlines()]

    def test_every_course_case_on_as_many_batches_as_take_a_while(self):
        done = self.bench()
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual([case["name"] for case in document["cases"]], [f"t{number:02}" for number in range(1, 31)])
        cases = {case["name"]: case for case in document["cases"]}
        # All of a small case; 6 GFLOP of a large one; one batch at the least; long ones once.
        self.assertEqual({name: (cases[name]["measured_batches"], len(cases[name]["seconds"]))
                          for name in ("t01", "t11", "t20", "t26", "t27", "t30")},
                         {"t01": (320, 3), "t11": (2862, 3), "t20": (6, 3), "t26": (1, 3), "t27": (1, 1),
                          "t30": (1, 1)})
        self.assertEqual(cases["t11"], {"name": "t11", "batches": 13600, "tokens": 128, "dim": 32,
                                        "flop": 4 * 13600 * 128 * 128 * 32, "measured_batches": 2862,
                                        "seconds": [2.862] * 3})
        self.assertIn("2862,128,32", [shape for shape, _ in self.calls()])
        self.assertRegex(done.stdout, r"\nt11 +13600,128,32 +2862 +3 +2\.8620 +13\.600 +2\.10\n")

    def test_the_longest_first_and_each_on_one_processor(self):
        self.bench("--cases", "t01", "t28", "t30,t20", "--processes", "1")
        self.assertEqual(list(dict.fromkeys(shape for shape, _ in self.calls())),
                         ["1,32768,64", "1,16384,64", "6,2048,64", "320,128,32"])
        self.assertTrue(all(processors.isdigit() for _, processors in self.calls()), self.calls())
        self.assertEqual(self.document()["processes"], 1)

    def test_beside_each_other_on_processors_of_their_own(self):
        if len(os.sched_getaffinity(0)) < 4:
            self.skipTest("needs four processors")
        self.bench("--cases", "t2*", "--processes", "2")
        self.assertEqual(len({processors for _, processors in self.calls()}), 2)

    def test_at_most_one_for_two_processors(self):
        self.bench("--cases", "t01", "--processes", "1000")
        self.assertEqual(self.document()["processes"], max(1, len(os.sched_getaffinity(0)) // 2))

    def test_the_real_one(self):
        self.bench("--cases", "e03", "e05", binaries=BIN)
        for case in self.document()["cases"]:
            self.assertEqual(case["measured_batches"], case["batches"])
            self.assertTrue(all(0 < seconds < 20 for seconds in case["seconds"]), case)

    def test_failures(self):
        self.program("seq", "echo 'seq: it broke' >&2; exit 70")
        self.assertEqual(self.bench("--cases", "t01", exit_code=70).stderr.splitlines()[-1],
                         "bench_seq: seq: it broke")
        self.assertFalse(self.document()["complete"])
        self.program("seq", "echo '(B, N, d): (1, 1, 1)'")
        self.assertIn("printed no arithmetic_seconds", self.bench("--cases", "t01", exit_code=70).stderr)
        (self.dir / "seq").unlink()
        self.assertIn("seq is not there; make all builds it\n", self.bench(exit_code=69).stderr)

    def test_usage(self):
        for args in (("--cases", "t99"), ("--cases", "c01"), ("--processes", "0"), ("--fast",)):
            self.bench(*args, exit_code=2)


if __name__ == "__main__":
    unittest.main()
