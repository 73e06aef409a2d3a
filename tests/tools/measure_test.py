#!/usr/bin/env python3
"""report/measure: its steps are commands that their programs take; and in a project of its own, with programs that only
pretend to measure, which steps it runs and when a file replaces another."""
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge"), str(ROOT / "profile")]

from measure_steps import STEPS  # noqa: E402 (the path to it is set above)
from program_module import program_as_module  # noqa: E402

NAMES = [step.name for step in STEPS]
TRACES = ["t22_streams1.trace.json", "t22_streams4.trace.json"]

# Takes the place of every program. What it does is in the file `behaviour`, by the name of the step: exit, complete,
# value, traces.
PROGRAM = f"""
import json, os, sys
from pathlib import Path
sys.path.insert(0, str(Path("report").resolve()))
from bench_document import Document
logs = Path(os.environ["MEASURE_TEST"])
arguments = sys.argv[1:]
path = Path(arguments[arguments.index("--json") + 1])
name = path.name.split(".")[0]
behaviour = json.loads((logs / "behaviour").read_text()).get(name, {{}})
with open(logs / "calls", "a") as calls:
    calls.write(name + "\\n")
document = Document(path, note=f"{{path}} of {{os.getcwd()}}/x")
document.write(measured=behaviour.get("value", 1))
if "--trace-folder" in arguments:
    folder = Path(arguments[arguments.index("--trace-folder") + 1])
    folder.mkdir()
    for trace in behaviour.get("traces", {TRACES!r}):
        (folder / trace).write_text(json.dumps(behaviour.get("value", 1)))
if behaviour.get("complete", True):
    document.write(complete=True)
sys.exit(behaviour.get("exit", 0))
"""
MAKEFILE = """
GOALS := all time-kernels time-tilings references start-up hw4-mpi
.PHONY: $(GOALS)
$(GOALS):
\t@test ! -e $(MEASURE_TEST)/broken-$@
"""


class Steps(unittest.TestCase):
    def test_each_program_takes_its_command(self):
        for step in STEPS:
            program, *words = step.command
            words += ["--json", "out.json", *(["--trace-folder", "x"] if step.traces else []),
                      *(["--seconds", "1"] if step.takes_seconds else [])]
            with self.subTest(step.name), mock.patch.object(sys, "argv", [program, *words]):
                self.assertEqual(program_as_module(ROOT / program).parse_arguments().json.name, "out.json")

    def test_the_committed_files_are_theirs(self):
        files = {path.name for path in (ROOT / "report/data").glob("*.json")}
        self.assertEqual(files, {step.file for step in STEPS} | set(TRACES))


class Measure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="measure_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name).resolve()
        self.root = self.dir / "project"
        self.data = self.root / "report/data"
        self.behave()
        self.write(self.dir / "bin/nvidia-smi", "#!/bin/sh\necho 'Fake 1, 580.1, 1980, 1980, 3201, 45, 100, 700'\n")
        for name in ("report/measure", "report/measure_steps.py", "report/bench_document.py", "judge/provenance.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for program in {step.command[0] for step in STEPS}:
            self.write(self.root / program, PROGRAM)
        self.write(self.root / "Makefile", MAKEFILE)
        self.write(self.root / ".gitignore", "__pycache__/\n")
        self.git("init", "-q")
        self.commit()

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def behave(self, **behaviour):
        self.write(self.dir / "behaviour", json.dumps(behaviour))

    def git(self, *arguments):
        settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", self.root, *settings, *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "one more")

    def measure(self, *arguments, exit_code=0):
        """The steps that were run."""
        calls = self.dir / "calls"
        calls.write_text("")
        inherited = {name: value for name, value in os.environ.items() if name != "ARCHS"}  # of a make around the tests
        done = subprocess.run([sys.executable, self.root / "report/measure", *map(str, arguments)], cwd=self.dir,
                              env={**inherited, "PATH": f"{self.dir / 'bin'}{os.pathsep}{os.environ['PATH']}",
                                   "MAKEFLAGS": "", "MEASURE_TEST": str(self.dir), "PYTHONDONTWRITEBYTECODE": "1"},
                              capture_output=True, text=True, timeout=120)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        self.said = done.stdout + done.stderr
        return calls.read_text().split()

    def document(self, name):
        return json.loads((self.data / f"{name}.json").read_text())

    def test_every_step_and_then_only_what_is_missing(self):
        self.assertEqual(self.measure(), NAMES)
        self.assertEqual(sorted(path.name for path in self.data.iterdir()),
                         sorted([f"{name}.json" for name in NAMES] + TRACES))
        for name in NAMES:
            text = (self.data / f"{name}.json").read_text()
            self.assertNotIn(str(self.dir), text)
            self.assertNotIn(f'"{platform.node()}"', text)
            self.assertFalse(json.loads(text)["git"]["dirty"], "files of measurements do not make the sources dirty")
        self.assertEqual(self.measure(), [])
        (self.data / "steps.json").unlink()
        (self.data / "cpu.json").write_text('{"complete": tr')
        (self.data / "kernels.json").write_text(json.dumps({**self.document("kernels"), "complete": False}))
        (self.data / TRACES[0]).unlink()
        self.assertEqual(self.measure(), ["kernels", "steps", "cpu", "files"])
        self.assertEqual(self.measure("--again", "--only", "cpu,accuracy", "tilings"), ["tilings", "accuracy", "cpu"])
        self.commit()
        self.assertEqual(self.measure("--only", "cpu"), ["cpu"], "of another commit")
        self.write(self.root / "hw4.cu", "changed")
        self.assertEqual(self.measure("--only", "cpu"), ["cpu"], "of changed sources")
        self.assertTrue(self.document("cpu")["git"]["dirty"])

    def test_a_half_written_file_never_replaces_a_complete_one(self):
        some = ("--only", "cpu", "files")
        self.behave(cpu={"value": "old"}, files={"value": "old"})
        self.measure(*some)
        for failing in ({"exit": 70, "value": "new"}, {"complete": False, "value": "new"}):
            self.behave(cpu=failing, files={"traces": TRACES[:1], "value": "new"})
            self.measure("--again", *some, exit_code=1)
            for name in ("cpu", "files"):
                self.assertEqual(self.document(name)["measured"], "old")
                self.assertEqual(json.loads((self.data / f"{name}.json.partial").read_text())["measured"], "new")
            self.assertEqual([json.loads((self.data / trace).read_text()) for trace in TRACES], ["old", "old"])

    def test_a_step_that_fails_leaves_the_others(self):
        self.behave(accuracy={"exit": 1}, cpu={"exit": 1})
        self.write(self.dir / "broken-time-kernels", "")
        self.assertEqual(self.measure("--only", "kernels", "accuracy", "cpu", exit_code=1), ["accuracy", "cpu"])
        self.assertIn("MISSING: make time-kernels failed", self.said)
        self.assertTrue((self.data / "accuracy.json").exists())  # an error beyond its limit is a result
        self.assertFalse((self.data / "cpu.json").exists())  # wrong bytes are none

    def test_refusals(self):
        self.assertEqual(self.measure("--only", "kernel", exit_code=2), [])
        self.write(self.dir / "file", "")
        self.measure("--data", self.dir / "file", exit_code=73)
        self.write(self.dir / "bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
        self.assertEqual(self.measure(exit_code=69), [])
        self.assertEqual(self.measure("--only", "sequential", "cpu"), ["sequential", "cpu"])


if __name__ == "__main__":
    unittest.main()
