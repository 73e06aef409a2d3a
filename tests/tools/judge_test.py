#!/usr/bin/env python3
"""The judge, compare and update on tiny tables and on fake hw4 programs that fail in known ways."""
import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path
from unittest import mock

from program_module import program_as_module, run_forked

ROOT = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, os.path.join(ROOT, "judge"))  # for the judge's modules

import child  # noqa: E402 (the path to it is set above)
from case_table import read_cases, select  # noqa: E402

BIN = os.path.abspath(os.environ.get("HW4_BIN") or ROOT)
JUDGE = os.path.join(ROOT, "judge", "judge")
UPDATE = os.path.join(ROOT, "testcases", "update")
COMPARE = os.path.join(BIN, "judge", "compare")
GENERATE = os.path.join(BIN, "testcases", "generate")
HW4 = os.path.join(BIN, "hw4")
SEQ = os.path.join(BIN, "seq")

HEADER = "name\tB\tN\td\tkind\tseed\tlimit_s\tcrc32_in"
LONG_HEADER = HEADER + "\theads\tkeys\tmask\toperation"
EXPECTED_HEADER = "case\toperation\tcontract\tmask\trevision\texpected"
BOUNDS_HEADER = "case\toperation\tcontract\tmask\trevision\tbound"
SHAPES = {"a1": (2, 3, 4), "a2": (1, 5, 2), "b1": (1, 1, 1)}
PATIENCE_S = 20  # for an immediate event on a machine that is not overloaded

FIXTURES = None  # NAME.in, NAME.out, NAME.fixed.out and NAME.fixed16.out of every case in SHAPES
ROWS = {}  # the cases' rows in the table of cases
CRCS = {}  # the CRCs of their outputs, by name and contract
REVISIONS = {}  # of hw4's contracts that promise bytes, by name, the default first
BOUNDED = {}  # the same for contracts that promise a bound
BOUNDED_GRADIENTS = {}  # the same for backward


def setUpModule():
    global FIXTURES
    program_as_module(Path(JUDGE))  # imports once instead of in each run
    FIXTURES = tempfile.mkdtemp(prefix="judge_test-")
    unittest.addModuleCleanup(shutil.rmtree, FIXTURES)
    listed = subprocess.run([HW4, "--list-kernels", "--json"], stdout=subprocess.PIPE, check=True).stdout
    for contract in json.loads(listed)["contracts"]:
        revisions = REVISIONS if contract["compared"] == "bytes" else BOUNDED
        revisions[contract["name"]] = contract["computes"][0]["revision"]
        if contract["compared"] == "bound":
            BOUNDED_GRADIENTS[contract["name"]] = contract["computes"][1]["revision"]
    for name, (batches, tokens, dim) in SHAPES.items():
        case_input = fixture(name, ".in")
        subprocess.run([GENERATE, "--shape", f"{batches},{tokens},{dim}", "--seed", "7", case_input], check=True)
        ROWS[name] = row(name, crc_in=crc_of(read(case_input)))
        for contract, suffix in (("f32", ".out"), ("fixed", ".fixed.out"), ("fixed16", ".fixed16.out")):
            output = fixture(name, suffix)
            subprocess.run([SEQ, "--contract", contract, case_input, output], check=True, stdout=subprocess.DEVNULL)
            CRCS[name, contract] = crc_of(read(output))


def fixture(name, suffix):
    return os.path.join(FIXTURES, name + suffix)


def row(name, crc_in, shape=None, kind="uniform", limit="5"):
    batches, tokens, dim = shape or SHAPES[name]
    return f"{name}\t{batches}\t{tokens}\t{dim}\t{kind}\t7\t{limit}\t{crc_in}"


def expected_row(name, contract="f32", crc=None, revision=None):
    return f"{name}\tforward\t{contract}\tnone\t{revision or REVISIONS[contract]}\t{crc or CRCS[name, contract]}"


def expected_rows():
    return [expected_row(name, contract) for name, contract in CRCS]


def bound_row(name, contract="bf16", bound="0.05", revision=None):
    return f"{name}\tforward\t{contract}\tnone\t{revision or BOUNDED[contract]}\t{bound}"


def gradient_bound_row(name, contract="bf16", mask="none", bound="0.05,0.05,0.05"):
    return f"{name}\tbackward\t{contract}\t{mask}\t{BOUNDED_GRADIENTS[contract]}\t{bound}"


def listing(revision, *names):
    """The listing of an hw4 with these contracts, all of one revision."""
    computes = [{"operation": "forward", "revision": revision, "masks": ["none"]}]
    return json.dumps({"contracts": [{"name": name, "compared": "bytes", "most_columns": None, "computes": computes}
                                     for name in names], "kernels": []})


def crc_in_of(name):
    return ROWS[name].split("\t")[-1]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return path


def crc_of(data):
    return f"{zlib.crc32(data):08x}"


def is_running(pid):
    try:
        state = read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != b"Z"


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.01)


def obey_signals():
    """For a child: a runner in the background of a shell script starts with SIGINT ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Workplace(unittest.TestCase):
    """A folder with a cases folder, a table and fake programs."""
    default_rule = False

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="judge_test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.cases = self.path("cases")
        os.mkdir(self.cases)
        self.write_table(*ROWS.values())
        self.write_expected(*expected_rows())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_table(self, *rows, header=HEADER):
        self.table = write(self.path("table.tsv"), "\n".join(["# a remark", header, *rows, ""]).encode())

    def write_expected(self, *rows, header=EXPECTED_HEADER):
        self.expected = write(self.path("expected.tsv"), "\n".join(["# a remark", header, *rows, ""]).encode())

    def write_bounds(self, *rows, header=BOUNDS_HEADER):
        write(self.path("bounds.tsv"), "\n".join(["# a remark", header, *rows, ""]).encode())

    def program(self, name, body):
        """An executable Python script; it knows MARK, a file in which it leaves traces."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, f"#!{sys.executable} -IS\nimport os, signal, sys, time\nMARK = {self.path('mark')!r}\n"
                    f"def mark(text): open(MARK, 'a').write(text + '\\n')\n{body}\n".encode())
        os.chmod(path, 0o755)
        return path

    @staticmethod
    def judged(body):
        """A program that knows GOOD, the output of its case, and can put() it."""
        return ("INPUT, OUTPUT = sys.argv[-2:]\nNAME = os.path.basename(INPUT)[:-3]\n"
                f"def good(suffix): return open({FIXTURES!r} + '/' + NAME + suffix, 'rb').read()\n"
                f"GOOD = good('.out')\ndef put(data): open(OUTPUT, 'wb').write(data)\n{body}")

    def fake_hw4(self, body):
        """An external program."""
        return self.program("fake_hw4", self.judged(body))

    def our_bin(self, body):
        """A --bin folder with this hw4."""
        if os.path.exists(self.path("bin")):
            shutil.rmtree(self.path("bin"))
        return self.fake_bin(generate=True, compare=True, seq=True, hw4=self.judged(body))

    def marks(self):
        return read(self.path("mark")).decode().splitlines() if os.path.exists(self.path("mark")) else []

    def fake_bin(self, **programs):
        """A --bin folder with the given programs; True stands for the real one."""
        places = {"hw4": "hw4", "seq": "seq", "generate": "testcases/generate", "compare": "judge/compare"}
        for name, body in programs.items():
            if body is True:
                target = self.path(os.path.join("bin", places[name]))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.symlink(os.path.join(BIN, places[name]), target)
            else:
                self.program(os.path.join("bin", places[name]), body)
        return self.path("bin")

    def command(self, *arguments, hw4="put(GOOD)", ours=False):
        """Judges an external program, unless it is to be ours or one is named. The bytes decide, unless the test names
        a rule or tests the default one."""
        program = [] if ours or "--hw4" in arguments or "--students" in arguments else ["--hw4", self.fake_hw4(hw4)]
        program += [] if self.default_rule or {"--atol", "--rtol"} & {*arguments} else ["--bytes"]
        return [sys.executable, JUDGE, "--bin", self.our_bin(hw4) if ours else BIN, "--table", self.table, "--dir",
                self.cases, "--cache", self.path("cache"), *program, *arguments]

    def run_judge(self, *arguments, hw4="put(GOOD)", ours=False, **more):
        done = run_forked(self.command(*arguments, hw4=hw4, ours=ours), **more)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def run_update(self, *arguments, folder=BIN):
        done = run_forked([sys.executable, UPDATE, "--bin", folder, "--table", self.table, *arguments])
        self.assertNotIn("Traceback", done.stderr)
        return done

    def expected_text(self):
        return read(self.expected).decode()

    def expect(self, verdict, *arguments, hw4, exit_code=1, ours=False):
        """Judges a1 and returns the text about it after the verdict."""
        done = self.run_judge(*arguments, "a1", hw4=hw4, ours=ours)
        self.assertEqual(done.stdout.split()[:2], [verdict, "a1"], done.stdout + done.stderr)
        self.assertEqual(done.returncode, exit_code)
        self.assertEqual(done.stdout.splitlines()[-1],
                         "1 passed, 0 failed" if verdict == "AC" else "0 passed, 1 failed")
        return done.stdout


class Verdicts(Workplace):
    def test_accepted(self):
        said = self.expect("AC", hw4="put(GOOD)", exit_code=0)
        self.assertRegex(said, r"\(2, 3, 4\) +\d+\.\d{3} s +limit 5 s +bytes: CRC-32 " + CRCS["a1", "f32"])

    def test_wrong_answer_is_explained_by_compare(self):
        said = self.expect("WA", hw4="put(GOOD[:20] + b'\\0\\0\\0\\1' + GOOD[24:])")
        wrong = read(fixture("a1", ".out"))
        wrong = wrong[:20] + b"\0\0\0\1" + wrong[24:]
        self.assertIn(f"bytes: CRC-32 {crc_of(wrong)}, expected {CRCS['a1', 'f32']}", said)
        self.assertRegex(said, r"\n {4,}different \(rule: bytes\): 1 of 24 values")
        self.assertRegex(said, r"\n {4,}first: batch 0, row 1, column 1: .*byte offset 20")

    def test_killed_at_the_limit_with_everything_it_started(self):
        stubborn = ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\npid = os.fork()\n"
                    "mark(str(os.getpid()))\ntime.sleep(60)")
        said = self.expect("TLE", "--limit-factor", "0.1", hw4=stubborn)
        self.assertRegex(said, r"limit 0\.5 s +killed after [1-9]\.")
        self.assertEqual(len(self.marks()), 2)
        for pid in self.marks():
            self.assertFalse(is_running(int(pid)))

    def test_finishing_over_the_limit_is_too_late_whatever_the_output(self):
        with mock.patch.object(child, "KILL_GRACE_S", PATIENCE_S):  # the judge is a copy of this process
            said = self.expect("TLE", "--limit-factor", "0.1", hw4="put(GOOD); time.sleep(0.52)")
        self.assertRegex(said, r"finished \d+\.\d{3} s over the limit")

    def test_by_the_end_of_the_run_and_the_size_of_the_output(self):
        for verdict, hw4, words in (
                ("RE", "put(GOOD); sys.stderr.write('one\\nhw4: \\x1b[31mbad data\\n\\n'); sys.exit(65)",
                 "exit code 65: hw4: ?[31mbad data\n"),
                ("RE", "put(GOOD); os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV"),
                ("OOM", "sys.stderr.write('hw4: out of host memory\\n'); sys.exit(71)", "code 71: hw4: out of host"),
                ("NO-OUT", "print('AC a1 1 passed, 0 failed')", "exit code 0, but no output file\n"),
                ("NO-OUT", "os.mkdir(OUTPUT)", "exit code 0, but no output file that can be read\n"),
                ("SIZE", "put(GOOD[:48])", "the output has 48 bytes, need 96"),
                ("SIZE", "put(GOOD + b'\\0')", ""), ("SIZE", "put(b'')", "")):
            with self.subTest(hw4):
                self.assertIn(words, self.expect(verdict, hw4=hw4))


class JudgeErrors(Workplace):
    NEVER = "mark('ran'); put(GOOD)"

    def expect_error(self, *arguments, hw4=NEVER):
        said = self.expect("JE", *arguments, hw4=hw4, exit_code=2)
        if hw4 == self.NEVER:
            self.assertEqual(self.marks(), [])
        return said

    def test_unknown_crcs_never_pass(self):
        self.write_table(row("a1", "-"))
        self.assertIn("the table has no crc32_in; testcases/update a1 makes it\n", self.expect_error())
        self.write_table(ROWS["a1"])
        self.write_expected(expected_row("a2"), expected_row("a1", "fixed"))
        self.assertIn("expected.tsv has no forward of a1 under f32; testcases/update a1 makes it\n",
                      self.expect_error())
        self.expect_error("--atol", "1")

    def test_input_of_the_wrong_crc_names_both(self):
        changed = bytearray(read(fixture("a1", ".in")))
        changed[40] ^= 1
        write(os.path.join(self.cases, "a1.in"), changed)
        self.assertIn(f"has CRC-32 {crc_of(changed)}, the table says {crc_in_of('a1')}", self.expect_error())

    def test_table_that_seq_does_not_confirm(self):
        self.write_expected(expected_row("a1", crc="12345678"))
        said = self.expect_error(hw4="put(GOOD)")
        self.assertIn(f"has CRC-32 {crc_of(read(fixture('a1', '.out')))}, the table says 12345678", said)


class Contracts(Workplace):
    # A program that computes under all contracts.
    OBEDIENT = ("CONTRACT = sys.argv[sys.argv.index('--contract') + 1]\nmark(CONTRACT)\n"
                "SUFFIX = '.out' if CONTRACT == 'f32' else f'.{CONTRACT}.out'\n"
                "put(good(SUFFIX))")

    def test_fixed_is_decided_by_its_own_row(self):
        said = self.expect("AC", "--contract", "fixed", hw4=self.OBEDIENT, ours=True, exit_code=0)
        self.assertRegex(said, r"\AAC +a1 +fixed +\(2, 3, 4\) .*CRC-32 " + CRCS["a1", "fixed"])
        said = self.expect("WA", "--contract", "fixed", hw4="put(GOOD)")
        self.assertIn(f"bytes: CRC-32 {CRCS['a1', 'f32']}, expected {CRCS['a1', 'fixed']}", said)
        self.assertRegex(said, r"\n {4,}different \(rule: bytes\): \d+ of 24 values")

    def test_a_case_that_a_contract_does_not_take(self):
        self.write_table(row("wide", "00000000", shape=(1, 2, 257)))
        done = self.run_judge("--contract", "fixed", "wide", hw4="mark('ran')")
        self.assertRegex(done.stdout, r"\AJE +wide +fixed .* d = 257, and fixed takes d up to 256\n")
        self.assertEqual((done.returncode, self.marks()), (2, []))


class Bounds(Workplace):
    """Contracts that promise a bound: the judge compares an output with float64."""

    def judge(self, *arguments, code, contract="bf16"):
        done = self.run_judge("--hw4", HW4, "--device", "cpu", "--contract", contract, *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def error_of(self, name, contract):
        """The largest value of hw4's output."""
        output = self.path("out")
        case_input = fixture(name, ".in")
        subprocess.run([HW4, "--device", "cpu", "--contract", contract, case_input, output], check=True,
                       capture_output=True)
        done = subprocess.run([COMPARE, "--exact", contract, "--atol", "1", case_input, output], capture_output=True,
                              text=True, check=True)
        return float(re.search(r"^largest absolute difference: (\S+) at", done.stdout, re.MULTILINE)[1])

    def test_an_output_passes_as_far_as_its_bound_goes(self):
        for contract in BOUNDED:
            with self.subTest(contract):
                error = self.error_of("a1", contract)
                self.assertGreater(error, 0)
                self.write_bounds(bound_row("a1", contract, f"{error * 1.01:.9g}"))
                said = self.judge("a1", code=0, contract=contract)
                self.assertRegex(said, rf"\AAC +a1 +{contract} .* bound {error * 1.01:.4g}: largest absolute difference: ")
                self.write_bounds(bound_row("a1", contract, f"{error * 0.99:.9g}"))
                said = self.judge("a1", code=1, contract=contract)
                self.assertRegex(said, rf"\AWA +a1 +{contract} .* bound {error * 0.99:.4g}: different \(rule: ")
                self.assertIn("first: batch ", said)

    def test_a_case_without_a_bound_fails(self):
        said = self.judge("a1", code=2)
        wanted = r"JE +a1 +bf16 .* no bound yet: bounds\.tsv has no forward of a1 under bf16; testcases/bounds a1 makes it\n"
        self.assertRegex(said, rf"\A{wanted}")
        self.write_bounds(bound_row("a2"), bound_row("a1", "fp16"))
        said = self.judge("a*", code=1)
        self.assertRegex(said, wanted)
        self.assertRegex(said, r"\nAC +a2 +bf16 ")

    def test_numbers_that_the_type_lacks_have_to_be_refused(self):
        self.write_table(row("wide", "-", shape=(1, 3, 4), kind="stray:1e6"))
        self.write_expected()
        made = self.path("wide.in")
        subprocess.run([GENERATE, "--shape", "1,3,4", "--seed", "7", "--kind", "stray:1e6", made], check=True)
        self.write_table(row("wide", crc_of(read(made)), shape=(1, 3, 4), kind="stray:1e6"))
        self.write_bounds(bound_row("wide", "fp16", "refused"), bound_row("wide", "bf16", "refused"))
        self.assertRegex(self.judge(code=0, contract="fp16"), r"\AAC +wide +fp16 .* refused, as it has to be: exit code 65")
        self.assertRegex(self.judge(code=1), r"\AWA +wide +bf16 .* exit code 0, need 65")


class ListedContracts(Workplace):
    def test_another_revision_than_the_table_has(self):
        lists = f"if '--list-kernels' in sys.argv: print({listing('old.forward/3', 'old')!r}); sys.exit()\n"
        folder = self.fake_bin(generate=True, compare=True, seq=True, hw4=lists + "if len(sys.argv) > 2: mark('ran')")
        self.write_expected(expected_row("a1", revision="old.forward/2").replace("f32", "old", 1))
        done = run_forked([sys.executable, JUDGE, "--bin", folder, "--table", self.table, "--dir", self.cases, "a1"])
        self.assertEqual((done.returncode, done.stdout.split()[:2], self.marks()), (2, ["JE", "a1"], []), done.stderr)
        self.assertIn(" expected.tsv has old.forward/2, this hw4 computes old.forward/3; ", done.stdout)


class Tables(Workplace):
    def test_globs_choose_in_the_order_of_the_table(self):
        for patterns, names in ((["a*"], ["a1", "a2"]), (["b1", "a?", "a1"], ["a1", "a2", "b1"]), (["[!a]1"], ["b1"])):
            done = self.run_judge(*patterns)
            self.assertEqual(re.findall(r"^AC +(\S+)", done.stdout, re.MULTILINE), names)


class Files(Workplace):
    def test_an_input_that_was_there_is_used_and_stays(self):
        shutil.copy(fixture("a1", ".in"), self.cases)
        self.expect("AC", hw4="mark(INPUT); put(GOOD)", exit_code=0, ours=True)
        self.assertEqual(self.marks(), [os.path.join(self.cases, "a1.in")])
        self.assertEqual(os.listdir(self.cases), ["a1.in"])

    def test_old_output_is_not_taken_for_new(self):
        shutil.copy(fixture("a1", ".out"), self.cases)
        self.expect("NO-OUT", hw4="pass")

    def test_signals_clean_up(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                running = subprocess.Popen(self.command(hw4="mark(str(os.getpid())); put(GOOD); time.sleep(60)"),
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=obey_signals)
                wait_until(lambda: self.marks() and self.marks()[-1].isdigit())
                running.send_signal(number)
                _, errors = running.communicate(timeout=PATIENCE_S)
                self.assertEqual(running.returncode, 128 + number)
                self.assertEqual(errors, b"judge: interrupted\n")
                self.assertFalse(is_running(int(self.marks()[-1])))
                self.assertEqual(os.listdir(self.cases), [])
                os.remove(self.path("mark"))


class Running(Workplace):
    def test_options_reach_hw4_and_only_those_given(self):
        tell = "put(GOOD); mark(' '.join(sys.argv[1:-2]))"
        given = ["--device", "cpu", "--kernel", "k1", "--kernel-file", "k2", "--threads", "2", "--streams", "3"]
        self.expect("AC", *given, hw4=tell, exit_code=0, ours=True)
        self.expect("AC", hw4=tell, exit_code=0, ours=True)
        self.assertEqual(self.marks(), [" ".join(given), ""])

    def test_limits(self):
        for arguments, limit in (([], "limit 5 s"), (["--limit-factor", "2.5"], "limit 12.5 s"),
                                 (["--no-limit"], "no limit"), (["--device", "gpu"], "limit 5 s"),
                                 (["--device", "cpu"], "no limit"),
                                 (["--device", "cpu", "--limit-factor", "2"], "limit 10 s")):
            with self.subTest(arguments=arguments):
                said = self.expect("AC", *arguments, hw4="put(GOOD)", exit_code=0, ours=True)
                self.assertIn(f" s  {limit} ", said)

    def test_every_run_is_checked(self):
        third_is_wrong = "mark('run'); put(GOOD if len(open(MARK).readlines()) < 3 else GOOD[::-1])"
        self.expect("WA", "--runs", "4", hw4=third_is_wrong)
        self.assertEqual(len(self.marks()), 3)

    def test_without_the_gpu_that_is_asked_for(self):
        """In one process and in one each, it ends with the first case."""
        for more in ((), ("--separate",)):
            done = self.run_judge("--device", "gpu", *more, ours=True,
                                  hw4="mark('ran'); sys.stderr.write(f'hw4: {INPUT}: no usable GPU: none\\n'); sys.exit(69)")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "judge: hw4: no usable GPU: none\n"))
        self.assertEqual(self.marks(), ["ran"] * 2)

    def test_fail_fast(self):
        done = self.run_judge("--fail-fast", hw4="mark(NAME); put(GOOD if NAME != 'a2' else GOOD[::-1])")
        self.assertEqual(re.findall(r"^(\w+) +(\w\d) ", done.stdout, re.MULTILINE),
                         [("AC", "a1"), ("WA", "a2"), ("SKIP", "b1")])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertEqual(self.marks(), ["a1", "a2"])


class OneProcess(Workplace):
    """Our own hw4 runs the cases one after another in a single process."""

    def our_hw4(self, body):
        """A --bin folder whose hw4 computes under f32, by `body` for each case, and prints what --pairs promises,
        unless that has failed(). It marks each process by its last argument, each case by its name."""
        return self.fake_bin(generate=True, compare=True, seq=True, hw4=f"""
if '--list-kernels' in sys.argv: print({listing(REVISIONS["f32"], "f32", "fixed")!r}); sys.exit()
code, seconds = 0, 0.125
def say(text): sys.stderr.write(text + '\\n'); sys.stderr.flush()
def failed(exit_code, text):
    global code
    code = code or exit_code
    say(text)
    raise ValueError
def compute(INPUT, OUTPUT):
    global seconds
    NAME = os.path.basename(INPUT)[:-3]
    mark(NAME)
    GOOD = open({FIXTURES!r} + '/' + NAME + '.out', 'rb').read()
    def put(data): open(OUTPUT, 'wb').write(data)
    try:
{"".join("        " + line + chr(10) for line in body.splitlines())}
        print(INPUT, '(2, 3, 4)', f'{{seconds:.3f}} s', flush=True)
    except ValueError:
        pass
mark('start ' + sys.argv[-1 if '--pairs' in sys.argv else -2].split('/')[-1])
if '--pairs' in sys.argv:
    for line in sys.stdin:
        compute(*line.rstrip('\\n').split('\\t'))
else:
    compute(*sys.argv[-2:])
sys.exit(code)
""".replace("\\\\", "\\"))

    def judge_ours(self, body, *arguments, code=0):
        done = run_forked([sys.executable, JUDGE, "--bin", self.our_hw4(body), "--table", self.table, "--dir",
                           self.cases, *arguments])
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.path("cases")), [])
        shutil.rmtree(self.path("bin"))
        return done.stdout

    def verdicts(self, said):
        return re.findall(r"^(AC|WA|TLE|RE|OOM|NO-OUT|SIZE|SKIP|JE) +(\w\d) ", said, re.MULTILINE)

    ONE = ["start -", "a1", "a2", "b1"]
    EACH = ["start a1.in", "a1", "start a2.in", "a2", "start b1.in", "b1"]
    ALL_PASS = [("AC", "a1"), ("AC", "a2"), ("AC", "b1")]

    def test_all_cases_with_their_own_times(self):
        report = self.path("run.json")
        said = self.judge_ours("put(GOOD); time.sleep(0.02)", "--json", report)
        self.assertEqual((self.verdicts(said), self.marks()), (self.ALL_PASS, self.ONE))
        self.assertEqual(len(re.findall(r"  0\.125 s  limit 5 s ", said)), 3)
        self.assertIn("\none process runs all cases: only the first time includes its start-up (--separate: every time)\n",
                      said)
        document = json.loads(read(report))
        self.assertFalse(document["separate"])
        samples = [sample for case in document["cases"] for sample in case["samples"]]
        self.assertEqual([(sample["wall_s"], sample["exit_code"]) for sample in samples], [(0.125, 0)] * 3)

    def test_a_process_each_where_it_is_asked_for_or_has_to_be(self):
        launcher = self.program("launch", "os.execv(sys.argv[1], sys.argv[1:])")
        report = self.path("run.json")
        for arguments in (["--separate"], ["--launcher", launcher]):
            with self.subTest(arguments):
                said = self.judge_ours("put(GOOD)", "--json", report, *arguments)
                self.assertEqual((self.verdicts(said), self.marks()), (self.ALL_PASS, self.EACH))
                self.assertNotIn("in one process", said)
                self.assertTrue(json.loads(read(report))["separate"])
                os.remove(self.path("mark"))

    def test_a_failure_is_the_cases_alone(self):
        """A wrong output does not end the process; after an event that ends it, another process starts."""
        another = ["start -", "a1", "a2", "start -", "b1"]
        for body, verdict, words, marks in (
                ("put(GOOD) if NAME != 'a2' else failed(65, 'hw4: bad data')", "RE", "exit code 65: hw4: bad data\n",
                 another),
                ("put(GOOD)\nif NAME == 'a2': os.kill(os.getpid(), signal.SIGSEGV)", "RE", "signal SIGSEGV", another),
                ("put(GOOD); seconds = 5.25 if NAME == 'a2' else 0.125", "TLE", "finished 0.250 s over", self.ONE),
                ("put(GOOD if NAME != 'a2' else GOOD[::-1])", "WA", "", self.ONE),
                ("if NAME != 'a2': put(GOOD)", "NO-OUT", "", self.ONE)):
            with self.subTest(body):
                said = self.judge_ours(body, code=1)
                self.assertEqual(self.verdicts(said), [("AC", "a1"), (verdict, "a2"), ("AC", "b1")])
                self.assertIn(words, said)
                self.assertEqual(self.marks(), marks)
                os.remove(self.path("mark"))

    def test_a_hang_is_the_cases_alone_and_goes_with_all_it_started(self):
        stubborn = ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nput(GOOD)\nif NAME == 'a2':\n    os.fork()\n"
                    "    mark(str(os.getpid())); say('hw4: note: reading'); time.sleep(60)")
        said = self.judge_ours(stubborn, "--limit-factor", "0.1", code=1)
        self.assertEqual(self.verdicts(said), [("AC", "a1"), ("TLE", "a2"), ("AC", "b1")])
        self.assertRegex(said, r"limit 0\.5 s +killed after 1\.\d{3} s: hw4: note: reading\n")
        pids = [mark for mark in self.marks() if mark.isdigit()]
        self.assertEqual(len(pids), 2)
        for pid in pids:
            self.assertFalse(is_running(int(pid)))


class CourseRule(Workplace):
    # hw4's output with every value moved.
    MOVED = ("import struct\nvalues = struct.unpack(f'<{len(GOOD) // 4}f', GOOD)\n"
             "put(struct.pack(f'<{len(values)}f', *(value + MOVE for value in values)))")

    def moved(self, distance):
        return self.MOVED.replace("MOVE", distance)

    def test_within_passes_beyond_does_not(self):
        said = self.expect("AC", "--atol", "5e-3", hw4=self.moved("4e-3"), exit_code=0)
        self.assertRegex(said, r"limit 5 s +atol 0\.005: largest absolute difference: 0\.0040\d+ at batch \d, row \d, "
                               r"column \d: expected -?\d\.\d+, got -?\d\.\d+\n")
        said = self.expect("WA", "--atol", "5e-3", hw4=self.moved("6e-3"))
        self.assertIn("atol 0.005: different (rule: |expected - got| <= 0.005): 24 of 24 values", said)
        self.assertRegex(said, r"\n {4,}first: batch 0, row 0, column 0")
        self.expect("WA", hw4=self.moved("4e-3"))


class Points(Workplace):
    def points_after(self, failing, chosen="t*"):
        names = [f"t{number:02}" for number in range(1, 31)]
        self.write_table(*(row(name, crc_in_of("b1"), shape=SHAPES["b1"]) for name in names))
        self.write_expected(*(expected_row(name, crc=CRCS["b1", "f32"]) for name in names))
        body = f"number=${{1%.in}}\n[ ${{number##*/t}} -gt {failing} ] && exec cp {fixture('b1', '.out')} $2\n: > $2\n"
        program = write(self.path("one_value"), f"#!/bin/sh\n{body}".encode())  # for a hundred runs
        os.chmod(program, 0o755)
        done = self.run_judge("--hw4", program, "--csv", self.path("points.csv"), chosen)
        self.assertEqual(done.returncode, 1 if failing else 0)
        self.points = read(self.path("points.csv")).decode().splitlines()[1].split(",")[1]
        return done.stdout

    def test_three_for_each_failed_case(self):
        for failing, chosen, said, points in (
                (0, "t*", "60 of 60\n30 passed, 0 failed\n", "60"), (2, "t*", "54 of 60\n28 passed, 2 failed\n", "54"),
                (21, "t*", "0 of 60\n9 passed, 21 failed\n", "0"),
                (2, "t0[1-3]", "54 of 60 if the 27 cases that were not judged pass\n1 passed, 2 failed\n", "")):
            with self.subTest(failing, chosen=chosen):
                self.assertIn(f"\npoints: {said}", self.points_after(failing, chosen))
                self.assertEqual(self.points, points)


class Reports(Workplace):
    def test_what_was_judged_is_there_whatever_ends_the_judge(self):
        files = [self.path(name) for name in ("run.json", "run.csv")]
        hw4 = "mark(NAME); put(GOOD); time.sleep(60 if NAME == 'a2' else 0)"
        command = self.command("--json", files[0], "--csv", files[1], hw4=hw4)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=obey_signals) as running:
            wait_until(lambda: "a2" in self.marks())
            running.send_signal(signal.SIGINT)
        self.assertEqual(running.returncode, 130)
        document = json.loads(read(files[0]))
        self.assertEqual((document["complete"], [case["name"] for case in document["cases"]]), (False, ["a1"]))
        self.assertIn(b",1,0,0,", read(files[1]))
        self.assertIn("a1  f32  AC -> AC", self.run_judge("--compare", files[0], files[0]).stdout)


class Compare(Workplace):
    SHAPE = (2, 3, 4)

    @staticmethod
    def case_of(shape):
        batches, tokens, dim = shape
        return struct.pack("<3i", *shape) + bytes(12 * batches * tokens * dim)

    def compare(self, expected, got, *options, shape=SHAPE):
        case_input = write(self.path("in"), self.case_of(shape))
        return self.run_compare(*options, case_input, write(self.path("expected"), expected),
                                write(self.path("got"), got))

    def run_compare(self, *arguments):
        done = subprocess.run([COMPARE, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    @staticmethod
    def floats(**replaced):
        """24 ones, with value i replaced by v for each vI=..."""
        values = [1.0] * 24
        for key, value in replaced.items():
            values[int(key[1:])] = value
        return struct.pack("<24f", *values)

    def test_a_verdict_that_cannot_be_written_is_none(self):
        files = [write(self.path(name), content) for name, content in
                 (("in", self.case_of(self.SHAPE)), ("expected", self.floats()), ("got", self.floats()))]
        for buffered in ("-o0", "-oL", "-o4096"):  # a line lost before the end counts too
            with self.subTest(buffered), open("/dev/full", "wb") as full:
                done = subprocess.run(["stdbuf", buffered, COMPARE, *files], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stderr),
                                 (2, "compare: cannot write to standard output: No space left on device\n"))

    def test_first_and_largest_difference(self):
        got = self.floats(v18=1.0000001192092896, v21=-2.5, v23=1.5)
        self.assertEqual(self.compare(self.floats(), got), (1, (
            "different (rule: bytes): 3 of 24 values\n"
            "first: batch 1, row 1, column 2: expected 1 (0x3f800000), got 1.00000012 (0x3f800001), 1 ulp apart, "
            "byte offset 72\n"
            "largest absolute difference: 3.5 at batch 1, row 2, column 1: expected 1, got -2.5\n"), ""))

    def test_differences_far_into_large_files(self):
        shape = (3, 512, 512)  # three blocks in compare
        expected = bytearray(4 * 3 * 512 * 512)
        got = bytearray(expected)
        for index in (262143, 262144, 786431):
            struct.pack_into("<f", got, 4 * index, index)
        code, out, _ = self.compare(expected, got, shape=shape)
        self.assertEqual(code, 1)
        self.assertIn("3 of 786432 values\nfirst: batch 0, row 511, column 511: ", out)
        self.assertIn("largest absolute difference: 786431 at batch 2, row 511, column 511", out)
        self.assertEqual(self.compare(expected, expected, shape=shape)[0], 0)

    def test_zeros_of_different_sign_differ_in_bytes_only(self):
        code, out, _ = self.compare(self.floats(v0=0.0), self.floats(v0=-0.0))
        self.assertEqual(code, 1)
        self.assertIn("expected 0 (0x00000000), got -0 (0x80000000), 0 ulp apart", out)
        code, out, _ = self.compare(self.floats(v0=0.0), self.floats(v0=-0.0), "--atol", "0")
        self.assertEqual(code, 0)
        self.assertIn("within (rule: |expected - got| <= 0): all of 24 values; the bytes of 1 differ", out)

    def test_tolerances(self):
        ones, far, large = self.floats(), self.floats(v1=1.004, v9=1.006), self.floats(v1=1000)
        for expected, got, options, code in (
                (ones, self.floats(v1=1.004), ["--atol", "5e-3"], 0), (ones, far, ["--atol", "5e-3"], 1),
                (large, self.floats(v1=1009), ["--rtol", "1e-2"], 0),
                (large, self.floats(v1=1011), ["--rtol", "1e-2"], 1),
                (large, self.floats(v1=1011), ["--rtol", "1e-2", "--atol", "1"], 0),
                (large, self.floats(v1=1009), ["--atol", "8.5"], 1)):
            with self.subTest(options, code=code):
                self.assertEqual(self.compare(expected, got, *options)[0], code)
        self.assertIn("different (rule: |expected - got| <= 0.005): 1 of 24 values; the bytes of 2 differ\n"
                      "first: batch 0, row 2, column 1: ", self.compare(ones, far, "--atol", "5e-3")[1])
        self.assertEqual(self.compare(ones, ones, "--atol", "0"), (0, "equal: 24 values, 96 bytes\n", ""))

    def test_no_tolerance_lets_nan_or_inf_pass(self):
        for rule in ("--atol", "--rtol"):
            for wrong in (float("nan"), float("inf"), -float("inf")):
                with self.subTest(rule, wrong=wrong):
                    self.assertEqual(self.compare(self.floats(), self.floats(v0=wrong), rule, "1e300")[0], 1)
                    self.assertEqual(self.compare(self.floats(v0=wrong), self.floats(), rule, "1e300")[0], 1)

    def test_sizes(self):
        said = "different sizes: expected has {} bytes, got has {}, and (B, N, d) = (2, 3, 4) needs 96\n"
        for expected, got in ((96, 92), (96, 97), (92, 96), (100, 100), (96, 0)):
            with self.subTest(expected=expected, got=got):
                self.assertEqual(self.compare(bytes(expected), bytes(got)), (1, said.format(expected, got), ""))
        for size, told in ((92, 92), (97, "more than 96"), (10000, "more than 96")):  # through a pipe
            self.assertEqual(self.compare_stream(2, bytes(size)), (1, said.format(96, told), ""))
            self.assertEqual(self.compare_stream(1, bytes(size)), (1, said.format(told, 96), ""))

    @staticmethod
    def npy(values, shape="(2, 3, 4)", room=70):
        """A header as numpy.save() writes it, padded to any length."""
        words = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(room) + "\n"
        return b"\x93NUMPY\1\0" + struct.pack("<H", len(words)) + words.encode() + values

    def compare_named(self, name, content):
        case_input = write(self.path("in"), self.case_of(self.SHAPE))
        expected = write(self.path("expected"), self.floats())
        return self.run_compare(case_input, expected, write(self.path(name), content))

    def test_outputs_in_the_form_that_their_name_says(self):
        good, wrong = self.floats(), self.floats(v18=2.0)
        for name, packed in (("o.gz", gzip.compress), ("o.npy", self.npy), ("o.npy.gz", lambda values: gzip.compress(
                self.npy(values))), ("p.npy", lambda values: self.npy(values, room=500))):
            with self.subTest(name):
                self.assertEqual(self.compare_named(name, packed(good)), (0, "equal: 24 values, 96 bytes\n", ""))
                code, out, _ = self.compare_named(name, packed(wrong))
                self.assertEqual(code, 1)
                self.assertIn("first: batch 1, row 1, column 2: expected 1 (0x3f800000), got 2", out)
                self.assertIn("got has 92, and", self.compare_named(name, packed(good[:-4]))[1])
                self.assertRegex(self.compare_named(name, packed(good + b"more"))[1], "got has (100|more than 96), and")

    def test_outputs_that_are_not_in_that_form(self):
        for name, content, message in (
                ("o.gz", self.floats(), "o.gz: gzip stream corrupt at byte 2 of the file: incorrect header check"),
                ("o.gz", gzip.compress(self.floats())[:-9], "o.gz: gzip stream corrupt at byte"),
                ("o.npy", self.floats(), "o.npy: is no NumPy .npy file"),
                ("o.npy", self.npy(b"")[:30], "o.npy: ends in the header of a NumPy .npy file"),
                ("o.npy", self.npy(self.floats(), "(2, 4, 3)"), "o.npy: is a NumPy .npy file of shape (2, 4, 3), need "
                                                                "(2, 3, 4)\n")):
            with self.subTest(message):
                code, out, errors = self.compare_named(name, content)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(message, errors)

    def compare_stream(self, place, content, *options, redirected=False):
        """With "-" in this place of INPUT, EXPECTED and GOT: a pipe, or a file with an offset past its first byte."""
        files = [write(self.path("in"), self.case_of(self.SHAPE)), write(self.path("expected"), self.floats()),
                 write(self.path("got"), self.floats())]
        files[place] = "-"
        feed = {"input": content}
        with contextlib.ExitStack() as stack:
            if redirected:
                file = stack.enter_context(open(write(self.path("stream"), b"x" + content), "rb", buffering=0))
                file.seek(1)
                feed = {"stdin": file}
            done = subprocess.run([COMPARE, *options, *files], capture_output=True, check=False, **feed)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_standard_input(self):
        equal = (0, "equal: 24 values, 96 bytes\n", "")
        for redirected in (False, True):
            with self.subTest(redirected=redirected):
                case = self.case_of(self.SHAPE)
                for place, content in ((0, case), (0, gzip.compress(case)), (1, self.floats()), (2, self.floats())):
                    self.assertEqual(self.compare_stream(place, content, redirected=redirected), equal)
                code, out, _ = self.compare_stream(2, self.floats(v18=2.0), redirected=redirected)
                self.assertEqual(code, 1)
                self.assertIn("first: batch 1, row 1, column 2: expected 1 (0x3f800000), got 2", out)
                code, _, _ = self.compare_stream(1, self.floats(v18=2.0), "--atol", "1", redirected=redirected)
                self.assertEqual(code, 0)
                self.assertIn("compare: standard input: header truncated: got 3 of 12 bytes",
                              self.compare_stream(0, b"\0\1\2", redirected=redirected)[2])

    def test_cannot_compare(self):
        case_input = write(self.path("in"), self.case_of(self.SHAPE))
        output = write(self.path("out"), self.floats())
        short = write(self.path("short"), b"\0\1\2")
        cut = write(self.path("cut"), self.case_of(self.SHAPE)[:-1])
        negative = write(self.path("negative"), struct.pack("<3i", 2, -3, 4))
        for arguments, message in (
                ([case_input, output], "need INPUT, EXPECTED and GOT"),
                (["--atol", "nan", case_input, output, output], "--atol 'nan'"),
                ([case_input, output, self.path("none")], "none: cannot open: No such file"),
                ([short, output, output], "short: header truncated: got 3 of 12 bytes"),
                ([cut, output, output], "cut: expected 300 bytes for B = 2, N = 3, d = 4, got 299"),
                ([negative, output, output], "negative: header: N = -3, need at least 1")):
            with self.subTest(arguments=arguments):
                code, out, errors = self.run_compare(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(message, errors)


class Update(Workplace):
    def unknown(self, name):
        return row(name, "-")

    def table_text(self):
        return read(self.table).decode()

    def test_writes_its_column_and_rows_and_nothing_else(self):
        parts = ["# first\n", HEADER + "\n", "{a1}\n", "\n# between\n", "{a2}\r\n", "{b1}"]
        before = "".join(parts).format(a1=self.unknown("a1"), a2=self.unknown("a2"), b1=self.unknown("b1"))
        write(self.table, before.encode())
        os.chmod(self.table, 0o640)
        of_b1 = expected_row("b1", crc="00000000")
        write(self.expected, f"# first\n{EXPECTED_HEADER}\tremark\n\n{expected_row('a1', crc='00000000')}\tkept\r\n"
                             f"# between\n{of_b1}\tkept".encode())
        os.chmod(self.expected, 0o640)
        self.assertEqual(self.run_update("a*").returncode, 0)
        after = "".join(parts).format(a1=ROWS["a1"], a2=ROWS["a2"], b1=self.unknown("b1"))
        self.assertEqual(self.table_text(), after)
        new = "\n".join(row for row in expected_rows()[1:] if row.startswith("a"))
        self.assertEqual(self.expected_text(), f"# first\n{EXPECTED_HEADER}\tremark\n\n{expected_row('a1')}\tkept\r\n"
                                               f"{new}\n# between\n{of_b1}\tkept")
        for table in (self.table, self.expected):
            self.assertEqual(os.stat(table).st_mode & 0o777, 0o640)
        self.assertEqual(sorted(os.listdir(self.folder)), ["cases", "expected.tsv", "table.tsv"])


class LongForms(Workplace):
    """Rows with more columns than the course's: heads, keys, a mask, an operation."""

    ROWS = {"b2": ("1\t4\tcausal", "(2, 1, 1, 4, 4, 3, causal)", 64 + 4 * 3 * 2 * 12, 4 * 2 * 10 * 3),
            "b3": ("4,2\t6\tcausal", "(2, 4, 2, 4, 6, 3, causal)", 64 + 4 * 2 * (48 + 2 * 36), 4 * 8 * 18 * 3),
            "b4": ("1\t2\tcausal", "(2, 1, 1, 4, 2, 3, causal)", 64 + 4 * 2 * (12 + 2 * 6), 4 * 2 * 3 * 3),
            "b5": ("2\t4\tnone", "(2, 2, 2, 4, 4, 3)", 64 + 4 * 3 * 2 * 24, 4 * 4 * 16 * 3),
            "b6": ("1\t4\tnone", "(2, 4, 3)", 12 + 4 * 3 * 2 * 12, 4 * 2 * 16 * 3),
            "g1": ("1\t4\tnone\tbackward", "(2, 1, 1, 4, 4, 3, backward)", 64 + 4 * 4 * 2 * 12, 10 * 2 * 16 * 3),
            "g2": ("4,2\t6\tcausal\tbackward", "(2, 4, 2, 4, 6, 3, causal, backward)", 64 + 4 * 2 * 2 * (48 + 36),
                   10 * 8 * 18 * 3)}

    def setUp(self):
        super().setUp()
        self.write_table(ROWS["a1"], *(f"{row(name, '-', shape=(2, 4, 3))}\t{more}"
                                       for name, (more, *_) in self.ROWS.items()), header=LONG_HEADER)
        self.write_expected()
        self.assertEqual(self.run_update().returncode, 0)

    def judge_them(self, *arguments, hw4=HW4, code=0):
        done = self.run_judge("--hw4", hw4, *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def generated(self, name):
        case, = select(read_cases(self.table), [name])
        subprocess.run([GENERATE, *case.recipe(), self.path("made")], check=True)
        return self.path("made")

    def test_real_hw4_passes_under_all(self):
        forward = [line.split("\t")[:4] for line in self.expected_text().splitlines()[2:] if "\tforward\tf32" in line]
        self.write_bounds(*("\t".join([name, operation, contract, mask, BOUNDED[contract], "0.1"])
                            for name, operation, _, mask in forward for contract in BOUNDED),
                          *(gradient_bound_row(name, contract, mask) for name, mask in (("g1", "none"), ("g2", "causal"))
                            for contract in BOUNDED))
        said = self.judge_them("--device", "cpu", "--contract", "all")
        self.assertEqual(said.splitlines()[-1], "36 passed, 0 failed")  # fixed and fixed16 have no backward

    def test_each_gradient_has_a_bound_of_its_own(self):
        made, output = self.generated("g2"), self.path("out")
        subprocess.run([HW4, "--device", "cpu", "--contract", "bf16", made, output], check=True,
                       stdout=subprocess.DEVNULL)
        said = subprocess.run([COMPARE, "--exact", "bf16", "--atol", "1,1,1", made, output], check=True,
                              capture_output=True, text=True).stdout
        found = re.findall(r"^largest absolute difference: (\S+) at batch \d, (\w+), ", said, re.MULTILINE)
        self.assertEqual([name for _, name in found], ["dQ", "dK", "dV"], said)
        for tight in (None, 0, 1, 2):
            bound = ",".join(f"{float(error) * (0.99 if place == tight else 1.01):.9g}"
                             for place, (error, _) in enumerate(found))
            self.write_bounds(gradient_bound_row("g2", "bf16", "causal", bound))
            said = self.judge_them("--device", "cpu", "--contract", "bf16", "g2", code=0 if tight is None else 1)
            if tight is not None:
                self.assertIn(f", {found[tight][1]}, ", said[said.index("first: "):].splitlines()[0])

    def test_what_a_contract_lacks_is_no_case_under_it(self):
        self.assertEqual(self.judge_them("--device", "cpu", "--contract", "fixed", "b6", "g1").splitlines()[-1],
                         "1 passed, 0 failed")
        done = self.run_judge("--hw4", HW4, "--contract", "fixed", "g1", "g2")
        self.assertEqual((done.returncode, done.stderr), (2, "judge: fixed computes none of these cases\n"))


if __name__ == "__main__":
    unittest.main()
