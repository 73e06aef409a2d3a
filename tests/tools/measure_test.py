#!/usr/bin/env python3
"""report/measure in a project of its own: the real one's measure, with programs that only pretend to measure."""
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "report")]

from measure_steps import STEPS  # noqa: E402 (the path to it is set above)
from program_module import run_forked  # noqa: E402

NAMES = [step.name for step in STEPS]
TRACES = ["t22_streams1.trace.json", "t22_streams4.trace.json"]
PATIENCE = 60

# Takes the place of every program. How it behaves is in the file `behaviour`, by the name of the step:
#   exit, complete, fields, say, traces, pid (a file to leave its process in, and then wait)
PROGRAM = f"""
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, str(Path("report").resolve()))
from bench_document import Document
logs = Path(os.environ["MEASURE_TEST"])
arguments = sys.argv[1:]
path = Path(arguments[arguments.index("--json") + 1])
name = path.name.split(".")[0]
behaviour = json.loads((logs / "behaviour").read_text()).get(name, {{}})
with open(logs / "calls", "a") as calls:
    calls.write(json.dumps([name, sys.argv[0], *arguments]) + "\\n")
document = Document(path, note=f"{{path}} of {{os.getcwd()}}/x", **behaviour.get("fields", {{}}))
document.write(measured=behaviour.get("value", 1))
if "say" in behaviour:
    print("first line\\n" + behaviour["say"], file=sys.stderr)
if "pid" in behaviour:
    Path(behaviour["pid"]).write_text(str(os.getpid()))
    time.sleep({PATIENCE})
if "--trace-folder" in arguments:
    folder = Path(arguments[arguments.index("--trace-folder") + 1])
    folder.mkdir()
    for trace in behaviour.get("traces", {TRACES!r}):
        (folder / trace).write_text(json.dumps(behaviour.get("value", 1)))
print(f"{{name}} is done")
if behaviour.get("complete", True):
    document.write(complete=True)
sys.exit(behaviour.get("exit", 0))
"""

MAKEFILE = """
GOALS := all time-kernels time-tilings references start-up hw4-mpi
.PHONY: $(GOALS)
$(GOALS):
\t@echo $@ $(ARCHS) >> $(MEASURE_TEST)/made
\t@test ! -e $(MEASURE_TEST)/broken-$@
"""


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="measure_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name).resolve()
        self.root = self.dir / "project"
        self.data = self.root / "report/data"
        self.behave()
        self.write(self.dir / "bin/nvidia-smi", "#!/bin/sh\necho 'Fake 1, 580.1, 1980, 1980, 3201, 45, 100, 700'\n", 0o755)
        # What is installed for Python is no business of the pretending programs, and takes most of their time.
        self.write(self.dir / "bin/bare-python", f'#!/bin/sh\nexec {sys.executable} -IS "$@"\n', 0o755)
        self.make_project()

    def make_project(self):
        for name in ("report/measure", "report/measure_steps.py", "report/bench_document.py", "judge/provenance.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for program in {step.command[0] for step in STEPS}:
            self.write(self.root / program, PROGRAM, 0o755)
        self.write(self.root / "Makefile", MAKEFILE)
        self.write(self.root / ".gitignore", "__pycache__/\n")
        self.git("init", "-q")
        self.commit()

    def write(self, path, text, mode=0o644):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def behave(self, **behaviour):
        self.write(self.dir / "behaviour", json.dumps(behaviour))

    def git(self, *arguments):
        settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", self.root, *settings, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "one more")

    def no_gpu(self):
        self.write(self.dir / "bin/nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755)

    def environment(self, **more):
        inherited = {name: value for name, value in os.environ.items() if name != "ARCHS"}  # of a make around the tests
        return {**inherited, "PATH": f"{self.dir / 'bin'}{os.pathsep}{os.environ['PATH']}", "MAKEFLAGS": "",
                "MEASURE_TEST": str(self.dir), **more}

    def measure(self, *arguments, exit_code=0, **environment):
        for log in ("calls", "made"):
            (self.dir / log).unlink(missing_ok=True)
        done = run_forked([sys.executable, self.root / "report/measure", *map(str, arguments)], cwd=self.dir,
                          env=self.environment(**environment), executable=str(self.dir / "bin/bare-python"))
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def calls(self):
        """What was run: the step's name, the program and its arguments."""
        path = self.dir / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def ran(self):
        return [call[0] for call in self.calls()]

    def made(self):
        path = self.dir / "made"
        return path.read_text().splitlines() if path.exists() else []

    def document(self, name):
        return json.loads((self.data / f"{name}.json").read_text())

    def files(self):
        return sorted(path.name for path in self.data.iterdir())


class WholeRuns(Workplace):
    def test_every_step_in_order(self):
        done = self.measure()
        self.assertEqual(NAMES, ["kernels", "kernels_fixed", "rounds", "half_rounds",
                                 "half_backward", "half_lengths", "half_ladder", "lengths", "tilings", "steps",
                                 "profile_ladder", "profile_cases", "profile_fixed", "fixed16_ladder", "profile_fixed16",
                                 "profile_half", "accuracy", "distributions", "half_errors", "values", "causal",
                                 "backward", "sequential", "cpu", "cpu_contracts", "files", "lab5", "lab5_sweep",
                                 "cs336_attention", "cs336_flash", "warmups", "memory", "accumulate", "collectives"])
        self.assertEqual(self.ran(), NAMES)
        self.assertEqual(self.files(), sorted([f"{name}.json" for name in NAMES] + TRACES))
        for number, name in enumerate(NAMES, 1):
            self.assertIn(f"measure: step {number} of {len(NAMES)}, {name}: ", done.stderr)
            self.assertRegex(done.stdout, rf"(?m)^{name} is done$")  # the programs' own output
            self.assertRegex(done.stdout, rf"(?m)^{name} +measured in \d+ s$")

    def test_what_the_programs_are_asked_for(self):
        self.measure()
        calls = {name: words for name, *words in self.calls()}
        json_of = {name: ["--json", f"{self.data}/{name}.json.partial"] for name in NAMES}
        self.assertEqual(calls["kernels"], ["report/bench_gpu", "--contract", "f32", *json_of["kernels"]])
        self.assertEqual(calls["kernels_fixed"],
                         ["report/bench_gpu", "--contract", "fixed", *json_of["kernels_fixed"]])
        self.assertEqual(calls["profile_ladder"],
                         ["profile/profile", "--case", "t28", "--kernel", "all", *json_of["profile_ladder"]])
        self.assertEqual(calls["profile_cases"],
                         ["profile/profile", "--case", "t02", "t04", "t06", "t08", "t10", "t18", "t20", "t26", "t28",
                          "--kernel", "padded_tiles", "register_rows", "chosen", *json_of["profile_cases"]])
        self.assertEqual(calls["files"], ["report/bench_files", "--trace-folder", f"{self.data}/files.partial",
                                          *json_of["files"]])
        self.assertEqual(calls["cs336_flash"], ["report/bench_sweep", "cs336_flash", *json_of["cs336_flash"]])

    def test_shapes_of_equal_size(self):
        self.measure("--only", "lengths")
        words = self.calls()[0]
        self.assertEqual(words[1:6], ["report/bench_gpu", "--contract", "f32", "--no-ladder", "--shapes"])
        shapes = [tuple(map(int, word.split(","))) for word in words[6:-2]]
        self.assertEqual(len(set(shapes)), 27)
        self.assertEqual({tokens * batches for batches, tokens, _ in shapes}, {65536})
        self.assertEqual(sorted({dim for *_, dim in shapes}), [32, 64, 128])
        self.assertEqual([tokens for _, tokens, dim in shapes if dim == 64],
                         [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768])

    def test_a_time_for_all_of_them(self):
        self.measure("--only", "lab5", "cpu", "--seconds", "600")
        calls = {name: words for name, *words in self.calls()}
        self.assertNotIn("--seconds", calls["cpu"])
        self.assertIn(int(calls["lab5"][calls["lab5"].index("--seconds") + 1]), range(540, 601))
        done = self.measure("--only", "lab5", "--again", "--seconds", "0", exit_code=1)
        self.assertEqual(self.ran(), [])
        self.assertRegex(done.stdout, r"(?m)^lab5 +MISSING: no time is left$")
        self.behave(lab5={"fields": {"cut_short": True}})
        self.assertRegex(self.measure("--only", "lab5", "--again").stdout, r"(?m)^lab5 +measured in \d+ s, cut short$")

    def test_each_goal_is_made_once(self):
        done = self.measure(MAKEFLAGS="w -j7 --jobserver-auth=3,4 -- ARCHS=90")  # as make measure -j7 ARCHS=90 has it
        self.assertNotIn("jobserver", done.stderr)
        self.assertEqual(self.made(), [f"{goal} 90" for goal in
                                       ("time-kernels", "time-tilings", "all", "references", "start-up", "hw4-mpi")])

    def test_nobodys_name_and_nobodys_folder(self):
        self.measure()
        self.measure("--data", self.dir / "elsewhere")
        for folder in (self.data, self.dir / "elsewhere"):
            for name in NAMES:
                text = (folder / f"{name}.json").read_text()
                self.assertNotIn(str(self.dir), text)
                self.assertNotIn("host", json.loads(text)["machine"])
                self.assertNotIn(f'"{platform.node()}"', text)
        self.assertEqual(self.document("cpu")["command"], ["report/bench_cpu", "--json", "report/data/cpu.json"])

    def test_files_of_measurements_do_not_make_the_sources_dirty(self):
        self.measure()
        self.assertEqual({name: self.document(name)["git"]["dirty"] for name in NAMES}, dict.fromkeys(NAMES, False))


class Resumed(Workplace):
    """Everything has been measured before."""

    template = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="measure_test-")
        cls.addClassCleanup(folder.cleanup)
        cls.template = Path(folder.name) / "project"

    def make_project(self):
        if self.template.exists():
            shutil.copytree(self.template, self.root)
            return
        super().make_project()
        self.measure()
        shutil.copytree(self.root, self.template)

    def test_what_is_there_is_passed_over(self):
        done = self.measure()
        self.assertEqual((self.ran(), self.made()), ([], []))
        self.assertIn(f"measure: step 9 of {len(NAMES)}, tilings: tilings.json is there, of this commit; "
                      "--again measures it again\n", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^cpu +was there$")

    def test_without_a_gpu_nothing_is_left_to_do(self):
        self.no_gpu()
        self.measure()

    def test_only_what_is_missing(self):
        (self.data / "steps.json").unlink()
        (self.data / "cpu.json").write_text('{"complete": tr')
        self.write(self.data / "kernels.json", json.dumps({**self.document("kernels"), "complete": False}))
        (self.data / TRACES[0]).unlink()
        self.assertRegex(self.measure("--list").stdout, r"(?m)^files .*\n +without its traces; report/bench_files$")
        self.measure()
        self.assertEqual(self.ran(), ["kernels", "steps", "cpu", "files"])
        self.assertEqual(self.made(), ["time-kernels", "all", "references", "start-up"])

    def test_again(self):
        self.measure("--again")
        self.assertEqual(self.ran(), NAMES)

    def test_some(self):
        self.measure("--again", "--only", "cpu,accuracy", "tilings")
        self.assertEqual(self.ran(), ["tilings", "accuracy", "cpu"])

    def test_another_commit(self):
        self.commit()
        self.assertRegex(self.measure("--list").stdout, r"(?m)^cpu .*\n +of commit [0-9a-f]{12}; report/bench_cpu$")
        self.measure("--only", "cpu")
        self.assertEqual(self.ran(), ["cpu"])
        self.assertEqual(self.document("cpu")["git"]["commit"], self.git("rev-parse", "HEAD"))
        self.measure("--only", "cpu", "tilings")
        self.assertEqual(self.ran(), ["tilings"])

    def test_committed_data_and_report(self):
        commit = self.git("rev-parse", "HEAD")
        self.write(self.root / "report/report.md", "text")
        self.write(self.root / "report/figures/a.svg", "text")
        self.measure()
        self.assertEqual((self.ran(), self.document("cpu")["git"]["commit"]), ([], commit))

    def test_changed_sources(self):
        self.write(self.root / "hw4.cu", "changed")
        done = self.measure("--only", "cpu")
        self.assertEqual(self.ran(), ["cpu"])
        self.assertTrue(self.document("cpu")["git"]["dirty"])
        self.assertRegex(done.stderr, r"^measure: commit [0-9a-f]{12} with changes \(hw4\.cu\), into ")
        self.measure("--only", "cpu")
        self.assertEqual(self.ran(), ["cpu"], "it may have been other changes")
        self.git("clean", "-q", "-f", "hw4.cu")
        self.measure("--only", "cpu")
        self.assertEqual(self.ran(), ["cpu"])

    def test_how_long_it_took_the_last_time(self):
        self.write(self.data / "cpu.json", json.dumps({**self.document("cpu"), "wall_seconds": 33.3}))
        self.assertRegex(self.measure("--list").stdout, r"(?m)^cpu +33 s  .*\n +there; report/bench_cpu$")
        self.assertIn("cpu: the CPU engine, beside seq and PyTorch, about 33 s (0 s so far)\n",
                      self.measure("--only", "cpu", "--again").stderr)


class Failures(Workplace):
    def test_a_step_that_fails_leaves_the_others(self):
        self.behave(profile_ladder={"exit": 69, "complete": False, "say": "profile: the counters are closed"})
        done = self.measure(exit_code=1)
        self.assertEqual(self.ran(), NAMES)
        self.assertIn("first line\nprofile: the counters are closed\n", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^profile_ladder +MISSING: profile: the counters are closed$")
        self.assertEqual(done.stderr.splitlines()[-1], "measure: missing: profile_ladder")
        self.assertEqual(self.files(), sorted([f"{name}.json" for name in NAMES if name != "profile_ladder"] + TRACES
                                              + ["profile_ladder.json.partial"]))
        self.behave()
        self.measure()
        self.assertEqual(self.ran(), ["profile_ladder"])
        self.assertNotIn("profile_ladder.json.partial", self.files())

    def test_a_half_written_file_never_replaces_a_complete_one(self):
        some = ("--only", "cpu", "files")
        self.behave(cpu={"value": "old"}, files={"value": "old"})
        self.measure(*some)
        # Ended badly; ended well without being complete; without one of its traces.
        for failing in ({"exit": 70, "value": "new"}, {"complete": False, "value": "new"}):
            self.behave(cpu=failing, files={"traces": TRACES[:1], "value": "new"})
            self.measure("--again", *some, exit_code=1)
            self.assertEqual(self.document("cpu")["measured"], "old")
            self.assertEqual(self.document("files")["measured"], "old")
            self.assertEqual([json.loads((self.data / trace).read_text()) for trace in TRACES], ["old", "old"])
            for name in ("cpu", "files"):
                self.assertEqual(json.loads((self.data / f"{name}.json.partial").read_text())["measured"], "new")

    def test_exit_codes_of_a_missed_limit(self):
        self.behave(accuracy={"exit": 1}, cpu={"exit": 1, "say": "the bytes differ"})
        self.measure("--only", "accuracy", "cpu", exit_code=1)
        self.assertTrue((self.data / "accuracy.json").exists())  # beyond its limit is a result
        self.assertFalse((self.data / "cpu.json").exists())  # wrong bytes are none

    def test_without_pytorch(self):
        self.behave(kernels={"fields": {"torch": None}}, cpu={"fields": {"torch": "2.11"}})
        done = self.measure("--only", "kernels", "cpu")
        self.assertRegex(done.stdout, r"(?m)^kernels +measured in \d+ s, without PyTorch$")
        self.assertRegex(done.stdout, r"(?m)^cpu +measured in \d+ s$")

    def test_what_make_cannot_build_is_not_measured(self):
        self.write(self.dir / "broken-time-kernels", "")
        done = self.measure(exit_code=1)
        self.assertEqual(self.ran(), ["tilings", "steps", "accuracy", "distributions", "half_errors", "sequential",
                                      *NAMES[NAMES.index("cpu"):]])
        self.assertEqual(self.made().count("time-kernels"), 1)
        self.assertRegex(done.stdout, r"(?m)^lengths +MISSING: make time-kernels failed$")

    def test_a_program_that_is_not_there(self):
        (self.root / "profile/profile").unlink()
        self.assertRegex(self.measure("--only", "profile_cases", exit_code=1).stdout,
                         r"(?m)^profile_cases +MISSING: profile/profile is not there$")

    def test_no_gpu(self):
        self.no_gpu()
        done = self.measure(exit_code=69)
        self.assertEqual((done.stdout, done.stderr),
                         ("", "measure: no GPU that nvidia-smi knows of; --only sequential cpu cpu_contracts needs "
                          "none\n"))
        self.assertEqual((self.ran(), self.made()), ([], []))
        self.measure("--only", "sequential", "cpu")
        self.assertEqual(self.ran(), ["sequential", "cpu"])

    def test_interrupted(self):
        pid_file = self.dir / "pid"
        self.behave(lengths={"pid": str(pid_file)})
        running = subprocess.Popen([sys.executable, self.root / "report/measure"], env=self.environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE / 2
        while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=PATIENCE / 2)[1]
        self.assertEqual((running.returncode, said.splitlines()[-1]),
                         (130, "measure: interrupted; the next run goes on from here"))
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)
        self.behave()
        self.measure()
        self.assertEqual(self.ran(), NAMES[NAMES.index("lengths"):])

    def test_usage(self):
        for arguments in (("--only", "kernel"), ("--only",), ("--fast",)):
            self.measure(*arguments, exit_code=2)
        self.assertEqual(self.ran(), [])

    def test_a_folder_that_cannot_be(self):
        self.write(self.dir / "file", "")
        self.assertIn(f"{self.dir}/file", self.measure("--data", self.dir / "file", exit_code=73).stderr)


class Tilings(Workplace):
    """report/bench_tilings with a fake timer."""

    def bench(self, script, exit_code=0):
        self.write(self.dir / "time_tilings", f"#!/bin/sh\n{script}\n", 0o755)
        done = run_forked([sys.executable, ROOT / "report/bench_tilings", "--time-tilings", self.dir / "time_tilings",
                           "--json", self.dir / "out.json"])
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done, json.loads((self.dir / "out.json").read_text())

    def test_lines_become_one_file(self):
        tiling = {"rows": 64, "keys": 32, "flop": 2.75e11, "seconds": [0.011, 0.01, 0.012], "registers": 128}
        left_out = {"rows": 256, "keys": 256, "why": "needs more shared memory"}
        done, document = self.bench(f"echo '{json.dumps(tiling)}'; echo '{json.dumps(left_out)}'; echo $1 >&2")
        self.assertEqual((document["tilings"], document["left_out"], document["complete"]), ([tiling], [left_out], True))
        for line in ("64 x 32      11.000 ms   25.00 TFLOP/s", "256 x 256 left out: needs more shared memory",
                     "4,16384,64"):  # the last one is the timer's own, and may come into the middle of another
            self.assertIn(line, done.stderr)
        self.assertNotIn(str(self.dir), json.dumps(document))

    def test_failures(self):
        for script, code, said in (("echo 'time_tilings: no CUDA device' >&2; exit 69", 69, "ended with 69"),
                                   ("echo '{\"rows\": 1, \"keys\": 1, \"why\": \"x\"}'; exit 70", 70, "ended with 70"),
                                   ("echo nonsense", 70, "no JSON: nonsense"), ("exit 0", 70, "no tiling was measured")):
            done, document = self.bench(script, code)
            self.assertIn(said, done.stderr.splitlines()[-1])
            self.assertFalse(document["complete"])

    def test_no_timer(self):
        done = subprocess.run([sys.executable, ROOT / "report/bench_tilings", "--time-tilings", self.dir / "none"],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr.split("/")[-1]),
                         (69, "none is not there; make time-tilings builds it\n"))


if __name__ == "__main__":
    unittest.main()
