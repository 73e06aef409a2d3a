#!/usr/bin/env python3
"""The judge as a teaching assistant uses it: external programs and files, tolerances, points, before and after."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import unittest

import judge_test
from judge_test import CRCS, GENERATE, HW4, JUDGE, SEQ, SHAPES, Workplace, fixture, read, write
from program_module import run_forked

setUpModule = judge_test.setUpModule
MOVED = judge_test.CourseRule.MOVED


def verdicts(said):
    return [line.split()[:2] for line in said.splitlines() if line[:1].isupper() and line.split()[0] in
            ("AC", "WA", "RE", "TLE", "NO-OUT", "SIZE", "SKIP", "JE", "INPUT", "BUILD")]


class FilesFromElsewhere(Workplace):
    """A folder of NAME.in and NAME.out that no table describes."""

    def setUp(self):
        super().setUp()
        self.add("a1", SHAPES["a1"])  # in the table, with other values
        self.add("mine", (2, 7, 3))

    def add(self, name, shape, *options):
        case_input, output = (os.path.join(self.cases, name + suffix) for suffix in (".in", ".out"))
        subprocess.run([GENERATE, "--shape", ",".join(map(str, shape)), "--seed", "99", *options, case_input],
                       check=True)
        subprocess.run([SEQ, case_input, output], check=True, stdout=subprocess.DEVNULL)

    def judge(self, *arguments, hw4=None, **more):
        """Judges a program that knows the outputs of the folder."""
        good = f"GOOD = open({self.cases!r} + '/' + NAME + '.out', 'rb').read()"
        program = self.program("theirs", "INPUT, OUTPUT = sys.argv[1:]\nNAME = os.path.basename(INPUT)[:-3]\n"
                               f"def put(data): open(OUTPUT, 'wb').write(data)\n{good}\n{hw4 or 'put(GOOD)'}")
        return self.run_judge("--expected", self.cases, "--hw4", program, *arguments, **more)

    def test_no_crc_is_asked_for(self):
        before = {name: read(os.path.join(self.cases, name)) for name in os.listdir(self.cases)}
        done = self.judge("a1")
        self.assertEqual((done.returncode, verdicts(done.stdout)), (0, [["AC", "a1"]]), done.stdout + done.stderr)
        self.assertIn("limit 5 s  bytes: equal: 24 values, 96 bytes\n", done.stdout)
        self.assertEqual({name: read(os.path.join(self.cases, name)) for name in os.listdir(self.cases)}, before)

    def test_all_that_have_both_files_are_judged(self):
        write(os.path.join(self.cases, "alone.in"), b"no output")
        self.add("long", (1, 4, 2), "--heads", "2,1", "--keys", "6", "--causal")
        done = self.judge("--atol", "5e-3", "a1", "long", "mine")
        self.assertEqual(verdicts(done.stdout), [["AC", "a1"], ["AC", "long"], ["AC", "mine"]], done.stderr)
        self.assertIn("AC      long  (1, 2, 1, 4, 6, 2, causal)", done.stdout)
        self.assertIn("no limit", done.stdout.splitlines()[1])
        self.assertEqual(verdicts(self.judge("--atol", "5e-3").stdout), [["AC", "a1"], ["AC", "mine"]])

    def test_the_limit_of_what_the_table_does_not_know(self):
        done = self.judge("--limit", "7.5", "--limit-factor", "2", "a1", "mine")
        self.assertEqual([line.split("  limit ")[1][:6] for line in done.stdout.splitlines()[:2]], ["10 s  ", "7.5 s "])
        late = self.judge("--limit", "0.01", "mine", hw4="time.sleep(60)")
        self.assertEqual((late.returncode, verdicts(late.stdout)), (1, [["TLE", "mine"]]))

    def test_the_judge_makes_no_input_for_a_given_output(self):
        os.remove(os.path.join(self.cases, "a1.in"))
        done = self.judge("a1", hw4="mark('ran')")
        self.assertEqual((verdicts(done.stdout), self.marks()), ([["JE", "a1"]], []))
        self.assertIn(f"no input a1.in or a1 in {self.cases}; with --expected the judge makes none\n", done.stdout)

    def test_the_shape_of_the_file_counts(self):
        self.add("a2", (2, 4, 3))
        done = self.judge("a2", "mine")
        self.assertRegex(done.stdout, r"\AAC +a2 +\(2, 4, 3\) .* limit 5 s  bytes: equal: 24 values")
        self.assertEqual(done.stderr, "judge: note: the table has other shapes for a2; the files' shapes count\n")
        write(os.path.join(self.cases, "a2.in"), struct.pack("<3i", 1, 0, 2) + bytes(120))
        self.assertIn("a2.in: the header has a size below 1\n", self.judge("a2").stdout)

    def test_files_that_are_no_case(self):
        for data, message in ((b"", "mine.in: is empty, need a header of 12 bytes\n"),
                              (struct.pack("<3i", 0, 1, 1), "mine.in: the header has a size below 1"),
                              (struct.pack("<16i", -2, 9, *[1] * 14), "mine.in: a header of version 2 with fields")):
            with self.subTest(message):
                write(os.path.join(self.cases, "mine.in"), data)
                done = self.judge("mine")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(message, done.stderr)
                everything = self.judge()
                self.assertEqual((everything.returncode, verdicts(everything.stdout)), (0, [["AC", "a1"]]))
                self.assertRegex(everything.stderr, rf"\Ajudge: note: .*{message.strip()}.*; left out\n\Z")

    def test_an_input_that_is_cut_is_a_judge_error(self):
        for name, said in (("mine", "mine.in has 512 bytes, (2, 7, 3) needs 516 or 568\n"),
                           ("a1", "a1.in has 296 bytes, (2, 3, 4) needs 300 or 352\n")):
            with self.subTest(name):
                path = os.path.join(self.cases, name + ".in")
                write(path, read(path)[:-4])
                done = self.judge(name, hw4="mark('ran')")
                self.assertEqual((verdicts(done.stdout), self.marks()), ([["JE", name]], []))
                self.assertIn(said, done.stdout)


class ProgramsFromElsewhere(Workplace):
    def test_are_told_input_and_output_alone(self):
        self.expect("AC", "--contract", "f32", hw4="mark(str(len(sys.argv))); put(GOOD)", exit_code=0)
        self.assertEqual(self.marks(), ["3"])

    def test_run_in_the_folder_of_their_output(self):
        """Also with a launcher, where both names are relative to the judge's folder."""
        self.fake_hw4("assert os.getcwd() == os.path.dirname(OUTPUT)\nput(GOOD); open('litter', 'w')")
        self.program("launch.py", "mark('launched'); os.execv(sys.argv[1], sys.argv[1:])")
        for launcher in ([], ["--launcher", "./launch.py"], ["--launcher", f"{sys.executable} launch.py"]):
            with self.subTest(launcher):
                before = sorted(os.listdir(self.folder))
                done = self.run_judge("--hw4", "fake_hw4", *launcher, "a1", cwd=self.folder)
                self.assertEqual(verdicts(done.stdout), [["AC", "a1"]], done.stdout + done.stderr)
                self.assertEqual(sorted({*os.listdir(self.folder)} - {"mark"}), sorted({*before} - {"mark"}))
        self.assertEqual(self.marks(), ["launched"] * 2)

    def test_the_exit_code_of_a_missing_gpu_fails_the_case_alone(self):
        self.expect("RE", hw4="sys.exit(69)")

    def test_options_that_the_program_does_not_get_are_refused(self):
        done = self.run_judge("--device", "cpu", "a1", hw4="mark('ran')")
        self.assertEqual((done.returncode, done.stdout, self.marks()), (2, "", []))
        self.assertIn("gets its input and output alone; --device only reaches the hw4 in --bin\n", done.stderr)

    def test_output_without_end_is_ended_at_the_limit(self):
        self.write_table(judge_test.row("a1", judge_test.crc_in_of("a1"), limit="0.1"))
        said = self.expect("TLE", hw4="while True: os.write(1, b'y\\n' * 999); os.write(2, b'n\\n' * 999)")
        self.assertIn("        stdout: y\n", said)


class DefaultRule(Workplace):
    default_rule = True
    NEAR = MOVED.replace("MOVE", "1e-3")

    def test_the_courses_for_a_program_from_elsewhere(self):
        said = self.expect("AC", hw4=self.NEAR, exit_code=0)
        self.assertIn("  atol 0.005: largest absolute difference: 0.001", said)
        self.assertIn("\natol 0.005 decides about programs from elsewhere (--bytes: the bytes)\n", said)
        self.assertNotIn("decides about", self.expect("WA", "--bytes", hw4=self.NEAR))
        self.assertNotIn("decides about", self.expect("AC", "--atol", "5e-3", hw4=self.NEAR, exit_code=0))

    def test_the_bytes_for_our_own(self):
        self.assertNotIn("decides about", self.expect("WA", hw4=self.NEAR, ours=True))


class Mischief(Workplace):
    """A program's damage to the judge's files and processes decides its own verdict, and no other's."""

    # FOLDER is the program's own, CASE the judge's for the case, ELSEWHERE a folder with a file that must stay.
    PREFIX = """
import shutil
FOLDER, CASE = os.path.dirname(INPUT), os.path.dirname(os.path.dirname(INPUT))
def replace(path, by):
    os.rename(path, path + 'x')
    shutil.rmtree(path + 'x')
    by(path)
def spoil(path, data=None):
    before = os.stat(path)
    open(path, 'r+b').write(data or bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
def deep(path):
    os.mkdir(path)
    os.chdir(path)
    for _ in range(1500): os.mkdir('d'); os.chdir('d')
"""

    def judge_with_good(self, body, *arguments):
        elsewhere = self.path("elsewhere")
        os.makedirs(elsewhere, exist_ok=True)
        write(os.path.join(elsewhere, "stays"), b"")
        bad = self.program("bad", self.judged(f"ELSEWHERE = {elsewhere!r}{self.PREFIX}{body}"))
        good = self.program("good", self.judged("assert open(INPUT, 'rb').read() == good('.in')\nput(GOOD)"))
        mode = os.stat(self.cases).st_mode
        done = self.run_judge("--hw4", bad, "--hw4", good, *arguments, "a1", "a2")
        self.assertEqual(os.listdir(elsewhere), ["stays"])
        self.assertEqual(os.stat(self.cases).st_mode, mode, done.stdout)
        self.assertEqual(os.listdir(self.cases), [], done.stdout)
        found = [verdict for verdict, _ in verdicts(done.stdout)]
        self.assertEqual(found[1::2], ["AC", "AC"], done.stdout + done.stderr)
        self.assertEqual(found[0], found[2])
        return found[0]

    def test_of_inputs_and_folders(self):
        for body, verdict in (("put(GOOD); spoil(INPUT)", "INPUT"),
                              ("put(GOOD); spoil(CASE + '/' + NAME + '.in')", "INPUT"),
                              ("put(GOOD); os.remove(INPUT); os.mkfifo(INPUT)", "INPUT"),
                              ("replace(FOLDER, lambda path: os.symlink(ELSEWHERE, path))", "INPUT"),
                              ("replace(FOLDER, lambda path: open(path, 'w'))", "INPUT"),
                              ("replace(CASE, lambda path: os.symlink(ELSEWHERE, path))", "INPUT"),
                              ("replace(CASE, lambda path: open(path, 'w'))", "INPUT"),
                              ("put(GOOD); os.chmod(os.path.dirname(CASE), 0)", "AC"),
                              ("shutil.rmtree(os.path.dirname(CASE))", "INPUT")):
            with self.subTest(body):
                self.assertEqual(self.judge_with_good(body), verdict)

    def test_of_outputs(self):
        for body, verdict in (("os.mkdir(OUTPUT); open(OUTPUT + '/x', 'w'); os.chmod(OUTPUT, 0)", "NO-OUT"),
                              ("deep(OUTPUT)", "NO-OUT"), ("os.mkfifo(OUTPUT)", "NO-OUT"),
                              (f"os.symlink({judge_test.FIXTURES!r} + '/' + NAME + '.out', OUTPUT)", "NO-OUT")):
            with self.subTest(body):
                self.assertEqual(self.judge_with_good(body), verdict)

    def test_of_references(self):
        """The judge recomputes a reference that a program has overwritten before it decides."""
        cache = self.path("cache")
        spoil = self.program("spoil", self.judged(
            f"put(bytes(len(GOOD)))\nfor name in os.listdir({cache!r}): open({cache!r} + '/' + name, 'wb').write("
            "bytes(len(GOOD)))"))
        near = [self.program(name, self.judged(MOVED.replace("MOVE", "1e-3"))) for name in ("near", "near_too")]
        said = self.run_judge("--atol", "5e-3", "--hw4", near[0], "--hw4", spoil, "--hw4", near[1], "a1").stdout
        self.assertEqual(verdicts(said), [["AC", "a1"], ["WA", "a1"], ["AC", "a1"]])

    def test_processes_in_sessions_of_their_own_are_ended(self):
        leaving = ("put(GOOD)\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: os.setsid()\n"
                   "    mark(str(os.getpid())); time.sleep(60); os._exit(0)\n"
                   "while not os.path.exists(MARK) or open(MARK).read().count('\\n') < 2: time.sleep(0.01)")
        self.expect("AC", hw4=leaving, exit_code=0)
        self.assertEqual(len(self.marks()), 2)
        for pid in self.marks():
            self.assertFalse(judge_test.is_running(int(pid)))

    def test_processes_that_were_there_before_are_not(self):
        script = f'sleep 60 > /dev/null 2>&1 & echo $! > {self.path("mark")}; exec "$@"'
        done = subprocess.run(["sh", "-c", script, "sh", *self.command("a1")], capture_output=True, check=False)
        sleeping = int(self.marks()[0])
        self.assertTrue(judge_test.is_running(sleeping))
        os.kill(sleeping, signal.SIGKILL)
        self.assertEqual(done.returncode, 0, done.stderr)


class Students(Workplace):
    """A class: one folder a student."""

    def add(self, name, makefile, body="put(GOOD)"):
        os.makedirs(self.path(f"class/{name}"))
        self.program(f"class/{name}/made", self.judged(body))
        write(self.path(f"class/{name}/Makefile"), makefile.encode())

    def judge(self, *arguments):
        return self.run_judge("--students", self.path("class"), *arguments)

    BUILDS = "hw4:\n\tcp made hw4\n"

    def setUp(self):
        super().setUp()
        self.add("Ada Lovelace", self.BUILDS, MOVED.replace("MOVE", "1e-3"))
        self.add("=1+1", self.BUILDS, "put(GOOD if NAME == 'a1' else bytes(len(GOOD)))")
        self.add("bob", "hw4:\n\t@echo 'hw4.cu:3: error: no' >&2; seq 9 >&2; exit 1\n")
        self.add("zoe", "hw4:\n\ttrue\n")
        write(self.path("class/notes.txt"), b"")

    WHY = {"bob": "did not build: make: hw4.cu:3: error: no", "zoe": "did not build: make left no program hw4"}

    def test_by_student(self):
        done = self.judge("--atol", "5e-3", "--json", self.path("run.json"), "--csv", self.path("run.csv"), "a1", "a2")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"\n'=1+1,", read(self.path("run.csv")), "a spreadsheet would compute it")
        progress, *failures, summary = done.stdout.split("\n\n")
        self.assertEqual([line.split("  ")[2] for line in progress.splitlines()], ["2 of 4 passed", "1 of 4 passed"])
        self.assertEqual([block.splitlines()[0] for block in failures], ["=1+1", "bob", "zoe"])
        self.assertRegex(failures[0].splitlines()[1], r"\AWA +a2 ")
        for name, why in self.WHY.items():
            self.assertIn(f"\n{name}\n{why}\n", done.stdout)
            self.assertRegex(summary, rf"{name} +did not build\n")
        self.assertRegex(summary, r"Ada Lovelace +2 of 2 passed, ")
        cases = json.loads(read(self.path("run.json")))["cases"]
        self.assertEqual({case["program"] for case in cases if case["verdict"] == "BUILD"}, {*self.WHY})

    def test_a_make_that_does_not_end(self):
        shutil.rmtree(self.path("class"))
        self.add("eve", "hw4:\n\tsleep 60\n")
        self.assertIn("\neve\ndid not build: make took longer than 0.1 s\n", self.judge("--build-limit", "0.1").stdout)


class ReferenceCache(Workplace):
    NEAR = MOVED.replace("MOVE", "1e-3")

    def judge_near(self, *arguments, folder=None):
        return self.expect("AC", "--atol", "5e-3", *(["--bin", folder] if folder else []), *arguments, hw4=self.NEAR,
                           exit_code=0)

    def bin_with(self, **programs):
        """Programs that leave a mark and then run the real ones."""
        real = {"hw4": HW4, "seq": SEQ}
        bodies = {name: f"mark({name!r}) if '--list-kernels' not in sys.argv else 0\n" +
                  (body or f"os.execv({real[name]!r}, [{real[name]!r}, *sys.argv[1:]])")
                  for name, body in programs.items()}
        return self.fake_bin(generate=True, compare=True, **bodies)

    def test_made_once_by_hw4_and_kept(self):
        folder = self.bin_with(hw4="", seq="")
        self.judge_near(folder=folder)
        self.judge_near(folder=folder)
        self.assertEqual(self.marks(), ["hw4"])
        name = f"a1.f32.{CRCS['a1', 'f32']}.out"
        self.assertEqual(os.listdir(self.path("cache")), [name])
        self.assertEqual(read(os.path.join(self.path("cache"), name)), read(fixture("a1", ".out")))

    def test_seq_makes_what_hw4_does_not(self):
        for wrong in ("open(sys.argv[-1], 'wb').write(bytes(96))", "sys.exit(70)"):
            with self.subTest(wrong):
                self.judge_near(folder=self.bin_with(hw4=wrong, seq=""))
                self.assertEqual(self.marks(), ["hw4", "seq"])
                for made in ("bin", "cache"):
                    shutil.rmtree(self.path(made))
                os.remove(self.path("mark"))


class BeforeAndAfter(Workplace):
    def results(self, name, *cases):
        document = {"cases": [{"name": case, "contract": "f32", "program": "hw4", "verdict": verdict, "best_s": seconds,
                               "samples": [{"wall_s": seconds}]}  # as the judge writes it
                              for case, verdict, seconds in cases]}
        return write(self.path(name), json.dumps(document).encode())

    def compare(self, old, new, *more):
        done = run_forked([sys.executable, JUDGE, "--compare", old, new, *more])
        self.assertNotIn("Traceback", done.stderr)
        return done

    def test_case_by_case(self):
        old = self.results("old.json", ("t01", "AC", 0.4), ("t02", "AC", 1.0), ("t03", "WA", 1.0), ("t04", "AC", 1.0))
        new = self.results("new.json", ("t01", "AC", 0.2), ("t02", "AC", 1.01), ("t03", "AC", 2.0), ("t05", "RE", None))
        done = self.compare(old, new)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, [
            "t01  f32  AC -> AC  0.400 s  ->  0.200 s  2.00 times as fast",
            "t02  f32  AC -> AC  1.000 s  ->  1.010 s  about the same",
            "t03  f32  WA -> AC  1.000 s  ->  2.000 s  now passes",
            "t04  f32  AC -> -   1.000 s  ->  -        only old",
            "t05  f32  - -> RE   -        ->  -        only new",
            "1.41 times as fast in the geometric mean of 2 cases that passed both times",
            "1 now pass, 0 no longer pass"]))
        self.assertEqual(self.compare(new, old).returncode, 1, "t03 no longer passes")
        lines = done.stdout.splitlines()
        changed = self.compare(old, new, "--changed")
        self.assertEqual((changed.returncode, changed.stdout.splitlines()), (0, lines[:1] + lines[2:]))
        self.assertEqual(self.compare(old, old, "--changed").stdout.splitlines()[-1], lines[-1].replace("1 now", "0 now"))

    def measured(self, name, samples, status="ok"):
        """A file of hw4 bench on one cell, as if its forward had taken this long."""
        path = self.path("bench.json")
        if not os.path.exists(path):
            subprocess.run([HW4, "bench", "--device", "cpu", "--shape", "2,4,128,32", "--kv_heads", "2", "--decode",
                            "--once", "--quiet", "--output", path], check=True)
        row = json.loads(read(path))
        row["hw4"]["forward"].update(status=status, samples=samples)
        return write(self.path(name), json.dumps(row).encode())

    def test_files_of_bench(self):
        old = self.measured("old.json", [1.0, 1.01, 1.02])
        same, lost = "about the same", "no longer passes"
        for samples, status, change in (([1.02, 1.03, 1.04], "ok", same), ([0.8, 1.2, 1.4], "ok", same),
                                        ([0.5], "ok", "2.02 times as fast"), ([2.0], "ok", "0.51 times as fast"),
                                        ([0.1], "failed", lost), ([], "oom", lost)):
            done = self.compare(old, self.measured("new.json", samples, status))
            self.assertEqual(done.returncode, change in ("0.51 times as fast", lost), done.stdout)
            line = done.stdout.splitlines()[0]
            self.assertTrue(line.startswith("f32 float32 B 2 H 4/2 N 1/128 d 32 normal:1 cpu warmup 0  forward  AC -> "), line)
            self.assertTrue(line.endswith(change), line)


if __name__ == "__main__":
    unittest.main()
