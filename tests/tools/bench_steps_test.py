#!/usr/bin/env python3
"""report/bench_steps without a GPU: a fake ladder over hw4 on the CPU."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from program_module import run_forked

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()

KERNELS = ("plain_rows", "padded_tiles", "drawn_tiles")
# Leaves what it is asked for in the file `calls` and computes on the CPU.
HW4 = """
if [ "$*" = "--list-kernels --json" ]; then
    cat {dir}/list.json
    exit
fi
echo "$*" | sed 's/ --json.*//' >> {dir}/calls
{first}
shift 2  # --device gpu
kernel=$2
shift 2
{bin}/hw4 --device cpu "$@"
"""


def listing(kernels):
    """With kernels of other ladders beside them."""
    others = [("gpu", "backwards", "backward", "f32"), ("gpu", "of_fixed", "forward", "fixed"),
              ("cpu", "neon", "forward", "f32")]
    contracts = [{"name": name, "compared": "bytes", "most_columns": None, "computes": []} for name in ("f32", "fixed")]
    rows = [*(("gpu", kernel, "forward", "f32") for kernel in kernels), *others]
    return {"contracts": contracts, "kernels": [dict(zip(("device", "name", "operation", "contract"), row))
                                                for row in rows]}


class BenchSteps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench_steps_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        (self.dir / "testcases").mkdir()
        (self.dir / "testcases/generate").symlink_to(BIN / "testcases/generate")
        self.hw4()

    def hw4(self, first="", kernels=KERNELS):
        path = self.dir / "hw4"
        path.write_text("#!/bin/sh\n" + HW4.format(dir=self.dir, bin=BIN, first=first))
        (self.dir / "list.json").write_text(json.dumps(listing(kernels)))
        path.chmod(0o755)

    def bench(self, *args, exit_code=0):
        command = [sys.executable, ROOT / "report/bench_steps", "--bin", self.dir, "--folder", self.dir / "cases",
                   "--json", self.dir / "out.json", "--case", "e03", "--runs", "2", *args]
        done = run_forked(command)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def document(self):
        text = (self.dir / "out.json").read_text()
        for folder in (ROOT, self.dir):
            self.assertNotIn(str(folder), text)
        return json.loads(text)

    def test_one_thing_changed_at_a_time(self):
        done = self.bench()
        document = self.document()
        self.assertEqual((document["complete"], document["case"], document["left_out"]), (True, "e03", []))
        self.assertEqual([(step["label"], step["kernel"], step["streams"], step["copies"])
                          for step in document["steps"]],
                         [("plain_rows", "plain_rows", 1, "linear"), ("padded_tiles", "padded_tiles", 1, "linear"),
                          ("padded_tiles, 2-D copies", "padded_tiles", 1, "2d"), ("drawn_tiles", "drawn_tiles", 1, "2d"),
                          ("drawn_tiles, 4 streams", "drawn_tiles", 4, "2d")])
        for step in document["steps"]:
            self.assertEqual((len(step["seconds"]), len(step["kernel_seconds"])), (2, 2))
            self.assertTrue(all(0 < kernel < whole for kernel, whole in zip(step["kernel_seconds"], step["seconds"])))
        self.assertRegex(done.stdout, r"\ndrawn_tiles, 4 streams +4 +2d +\d+\.\d +\d+\.\d +\d+\.\d{3}\n")

    def test_there_and_back(self):
        self.bench()
        calls = (self.dir / "calls").read_text().splitlines()
        self.assertEqual(calls[1], "--device gpu --kernel padded_tiles --streams 1 --copies linear")
        self.assertEqual(calls[5:], calls[4::-1])

    def test_leaves_nothing_but_the_case(self):
        self.bench()
        self.assertEqual([path.name for path in (self.dir / "cases").iterdir()], ["e03-b69771cc.in"])

    def test_what_the_card_cannot_run(self):
        self.hw4(first="case $4 in drawn*) echo 'hw4: x.in: kernel drawn_tiles needs more' >&2; exit 65;; esac")
        self.bench()
        document = self.document()
        self.assertEqual([step["label"] for step in document["steps"]],
                         ["plain_rows", "padded_tiles", "padded_tiles, 2-D copies"])
        self.assertEqual([len(step["seconds"]) for step in document["steps"]], [2, 2, 2])
        self.assertEqual(document["left_out"][0],
                         {"label": "drawn_tiles", "why": "hw4: x.in: kernel drawn_tiles needs more"})

    def test_failures(self):
        self.hw4(first="echo 'hw4: no usable GPU: none' >&2; exit 69")
        self.assertEqual(self.bench(exit_code=69).stderr.splitlines()[-1], "bench_steps: hw4: no usable GPU: none")
        self.hw4(first="echo 'hw4: it broke' >&2; exit 70")
        self.assertEqual(self.bench(exit_code=70).stderr.splitlines()[-1], "bench_steps: hw4: it broke")
        self.assertFalse(self.document()["complete"])
        self.hw4(kernels=())
        self.assertIn("this hw4 has no GPU kernels\n", self.bench(exit_code=69).stderr)
        (self.dir / "list.json").write_text("none")
        self.assertIn("not a list of contracts and kernels\n", self.bench(exit_code=70).stderr)
        (self.dir / "hw4").unlink()
        self.assertIn("hw4 is not there; make all builds it\n", self.bench(exit_code=69).stderr)

    def test_wrong_bytes(self):
        self.hw4(first='shift 8; echo {\\"kernel_seconds\\": 1, \\"input\\": \\"x\\"} > "$2"; echo > "$4"; exit')
        self.assertEqual(self.bench(exit_code=70).stderr.splitlines()[-1],
                         "bench_steps: e03: plain_rows: the output has not the CRC-32 of the table")

    def test_usage(self):
        for args in (("--case", "t99"), ("--case", "c01"), ("--case", "t*"), ("--runs", "0")):
            self.bench(*args, exit_code=2)


if __name__ == "__main__":
    unittest.main()
