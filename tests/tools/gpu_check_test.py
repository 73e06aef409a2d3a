#!/usr/bin/env python3
"""tests/gpu-check with a sanitizer, a GPU and tests that are made up.

    python3 tests/tools/gpu_check_test.py [-v]
"""
import os
import pty
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from judge_test import is_running, wait_until
from program_module import program_as_module, run_forked

ROOT = Path(__file__).resolve().parents[2]
GPU_CHECK = ROOT / "tests/gpu-check"
NAMES = ("One", "Two", "Three")
# Prints what GoogleTest would. BEHAVIOUR is a shell's cases, of '$tool $test'.
GPU_TESTS = """#!/bin/sh
if [ "$1" = --gtest_list_tests ]; then printf 'Suite.\\n'; printf '  %s\\n' NAMES; exit; fi
echo "$tool $1" >> FOLDER/started
status=0
names=$(echo "${1#--gtest_filter=}" | tr : ' ')
for test in $names; do
    echo "[ RUN      ] $test"
    ends=OK
    case "$tool $test" in
        BEHAVIOUR
    esac
    case $ends in
        OK) echo "[       OK ] $test (7 ms)";;
        SKIPPED) echo "[  SKIPPED ] $test (7 ms)";;
        FAILED) echo "[  FAILED  ] $test, where GetParam() = 8-byte object <01-00> (7 ms)"; status=1;;
    esac
done
echo "[  PASSED  ] some tests."
AT_THE_END
exit $status
"""
SANITIZER = """#!/bin/sh
tool=$2
export tool
echo '========= COMPUTE-SANITIZER'
while [ "${1##*/}" != gpu_tests ]; do shift; done
"$@"
status=$?
[ $status = 1 ] && echo '========= Target application returned an error'
echo '========= ERROR SUMMARY: some errors'
exit $status
"""
HAZARD = "echo '========= Error: Race reported between Write access'; echo '=========     and Read access'; status=99"


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.program("compute-sanitizer", SANITIZER)
        self.program("nvidia-smi", "#!/bin/sh\nexit 0\n")

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def make_tests(self, behaviour="", at_the_end="", names=NAMES):
        text = GPU_TESTS.replace("NAMES", " ".join(names)).replace("FOLDER", str(self.folder))
        self.program("gpu_tests", text.replace("BEHAVIOUR", behaviour).replace("AT_THE_END", at_the_end))

    def command(self, *options):
        return [sys.executable, GPU_CHECK, "--build", self.folder, "--jobs", "1", *options]

    def check(self, *options):
        return run_forked(self.command(*options), env=self.environment)

    def started(self):
        """'tool --gtest_filter=...' for each process."""
        return (self.folder / "started").read_text().splitlines()

    def assert_last_line(self, done, line, code):
        self.assertEqual(done.stdout.splitlines()[-1:], [line], done.stdout + done.stderr)
        self.assertEqual(done.returncode, code)


class Verdicts(GpuCheckTest):
    def test_clean(self):
        self.make_tests()
        done = self.check()
        self.assert_last_line(done, "12 passed, 0 failed", 0)
        self.assertIn("racecheck  3 of 3 clean; the longest 0 s: Suite.One\n", done.stdout)

    def test_some_tools(self):
        self.make_tests()
        self.assert_last_line(self.check("--tools", "memcheck", "initcheck"), "6 passed, 0 failed", 0)
        self.assertEqual(self.check("--tools", "nocheck").returncode, 2)

    def test_initcheck_finds_memory_as_it_is(self):
        self.make_tests('*) case "$tool ${HW4_POISON-unset}" in "initcheck 0"|"memcheck unset") ;; *) ends=FAILED;; '
                        "esac;;")
        self.assert_last_line(self.check("--tools", "initcheck", "memcheck"), "6 passed, 0 failed", 0)

    def test_that_fails(self):
        self.make_tests("*check\\ *Two) echo 'differs by one'; ends=FAILED;;")
        done = self.check("--tools", "racecheck")
        self.assert_last_line(done, "2 passed, 1 failed", 1)
        self.assertIn("racecheck on Suite.Two: exit 1\n[ RUN      ] Suite.Two\ndiffers by one\n", done.stdout)
        self.assertIn("\nfailed: racecheck on Suite.Two\n", done.stdout)

    def test_what_a_tool_finds_fails_what_had_not_passed(self):
        self.make_tests(f"racecheck\\ *Two) {HAZARD};;")
        done = self.check("--tools", "racecheck", "memcheck")
        self.assert_last_line(done, "4 passed, 2 failed", 1)
        self.assertIn("racecheck on Suite.Two, Suite.Three: exit 99\n[ RUN      ] Suite.Two\n========= Error: Race",
                      done.stdout)

    def test_what_a_tool_says_counts_whatever_its_exit_code(self):
        self.make_tests("*Three) echo '========= Internal Sanitizer Error: Errors might go undetected';;")
        self.assert_last_line(self.check("--tools", "synccheck"), "2 passed, 1 failed", 1)

    def test_warning_is_the_exit_codes_to_judge(self):
        self.make_tests("*Three) printf '========= Warning: Race reported\\n========= and Read access\\n';;")
        self.assert_last_line(self.check("--tools", "synccheck"), "3 passed, 0 failed", 0)

    def test_what_is_found_when_all_have_passed_is_any_ones(self):
        self.make_tests(at_the_end="echo '========= Leaked 64 bytes at 0x7f00'; status=99")
        done = self.check("--tools", "memcheck")
        self.assert_last_line(done, "0 passed, 3 failed", 1)
        self.assertIn("memcheck on one of Suite.One, Suite.Two, Suite.Three: exit 99\n========= Leaked 64", done.stdout)

    def test_leak_after_something_else_is_any_ones_too(self):
        self.make_tests(f"*Three) {HAZARD};;", at_the_end="echo '========= Leaked 64 bytes at 0x7f00'")
        self.assert_last_line(self.check("--tools", "memcheck"), "0 passed, 3 failed", 1)

    def test_exit_code_that_nothing_explains_is_any_ones(self):
        for code in (1, 99):
            with self.subTest(code=code):
                self.make_tests(at_the_end=f"status={code}")
                done = self.check("--tools", "memcheck")
                self.assert_last_line(done, "0 passed, 3 failed", 1)
                self.assertIn(f"memcheck on one of Suite.One, Suite.Two, Suite.Three: exit {code}\n", done.stdout)

    def test_finding_of_which_nothing_is_said_is_not_the_failed_tests_alone(self):
        self.make_tests("*Two) ends=FAILED;;", at_the_end="status=99")
        self.assert_last_line(self.check("--tools", "memcheck"), "0 passed, 3 failed", 1)

    def test_that_ends_its_process(self):
        self.make_tests("*Two) exit 3;;")
        done = self.check("--tools", "initcheck")
        self.assert_last_line(done, "1 passed, 2 failed", 1)
        self.assertIn("initcheck on Suite.Two, Suite.Three: exit 3\n[ RUN      ] Suite.Two\n", done.stdout)

    def test_that_did_not_run_has_failed(self):
        self.make_tests()
        self.program("compute-sanitizer", "#!/bin/sh\necho '[  PASSED  ] 0 tests.'\n")
        self.assert_last_line(self.check(), "0 passed, 12 failed", 1)

    def test_card_that_lacks_something(self):
        self.make_tests("*Two) printf 'x.cu:1: Skipped\\nkernel k needs 9.0, this card has 8.0\\n'; ends=SKIPPED;;",
                        at_the_end="printf '[  SKIPPED ] 1 test, listed below:\\n[  SKIPPED ] Suite.Two\\n'")
        done = self.check()
        self.assert_last_line(done, "8 passed, 0 failed, 4 skipped", 0)
        self.assertIn("memcheck   2 of 3 clean, 1 skipped: kernel k needs 9.0, this card has 8.0;", done.stdout)

    def test_skipped_for_any_other_reason_has_failed(self):
        self.make_tests("*Two) printf 'x.cu:1: Skipped\\nno usable GPU\\n'; ends=SKIPPED;;")
        self.assert_last_line(self.check("--tools", "memcheck"), "2 passed, 1 failed", 1)

    def test_nothing_but_skipped_is_no_success(self):
        self.make_tests("*) printf 'x.cu:1: Skipped\\nkernel k needs 9.0, this card has 8.0\\n'; ends=SKIPPED;;")
        self.assert_last_line(self.check("--tools", "memcheck"), "0 passed, 0 failed, 3 skipped", 1)

    def test_without_a_gpu(self):
        self.make_tests()
        self.program("nvidia-smi", "#!/bin/sh\nexit 9\n")
        done = self.check()
        self.assertEqual((done.returncode, done.stderr), (69, "gpu-check: no GPU here\n"))


class Processes(GpuCheckTest):
    def test_small_tests_share_them_by_kernel(self):
        self.make_tests(names=("A/x", "A/y", "B/x", "B/y", "FullCard/x", "Joint/y"))
        self.assert_last_line(self.check("--jobs", "2", "--tools", "memcheck", "racecheck"), "12 passed, 0 failed", 0)
        groups = [("FullCard/x",), ("Joint/y",), ("A/x", "B/x"), ("A/y", "B/y")]
        expected = {f"{tool} --gtest_filter=" + ":".join(f"Suite.{name}" for name in group)
                    for tool in ("memcheck", "racecheck") for group in groups}
        self.assertEqual(sorted(self.started()), sorted(expected))

    def test_order(self):
        in_order = program_as_module(GPU_CHECK).in_order
        self.assertEqual(in_order(["S.A/x", "S.Joint/x"], ["memcheck", "racecheck", "initcheck"], 4), [
            ("racecheck", ["S.Joint/x"]), ("racecheck", ["S.A/x"]), ("memcheck", ["S.Joint/x"]),
            ("initcheck", ["S.Joint/x"]), ("memcheck", ["S.A/x"]), ("initcheck", ["S.A/x"])])

    def test_shares_are_even_and_lose_none(self):
        groups_of = program_as_module(GPU_CHECK).groups_of
        tests = [f"S.T{number}/{kernel}" for number in range(5) for kernel in "abcdefg"]
        for most in (1, 2, 16, 35, 99):
            alone, shares = groups_of(tests, most)
            self.assertEqual((alone, sorted(sum(shares, []))), ([], sorted(tests)))
            self.assertEqual(len(shares), min(most, len(tests)))
            self.assertLessEqual(max(map(len, shares)) - min(map(len, shares)), 1)

    def test_only_long_ones(self):
        self.make_tests(names=("FullCard", "Joint"))
        self.assert_last_line(self.check("--tools", "memcheck"), "2 passed, 0 failed", 0)

    def test_line_for_each(self):
        self.make_tests("*Two) ends=FAILED;;")
        self.assertIn("memcheck   2 clean, 1 failed, 0 s: Suite.One Suite.Two Suite.Three\n",
                      self.check("--tools", "memcheck").stdout)

    def test_line_for_each_on_a_terminal_is_for_those_who_ask(self):
        self.make_tests()
        for options, lines in (([], 0), (["--verbose"], 1)):
            ours, its = pty.openpty()
            with open(ours, "rb", buffering=0) as terminal:
                with subprocess.Popen(self.command("--tools", "memcheck", *options), env=self.environment, stdout=its):
                    os.close(its)
                said = b""
                try:
                    while part := terminal.read(4096):
                        said += part
                except OSError:  # EIO: nobody writes any more
                    pass
            self.assertEqual(said.count(b"3 clean, 0 s: "), lines, said)
            self.assertIn(b"3 passed, 0 failed", said)


class CutShort(GpuCheckTest):
    def test_by_the_limit(self):
        self.make_tests("*Two) sleep 30;;")
        done = self.check("--limit", "1", "--tools", "racecheck")
        self.assert_last_line(done, "1 passed, 1 failed, 1 not reached", 1)
        self.assertIn("racecheck on Suite.Two: not done after 1 s\n[ RUN      ] Suite.Two\n", done.stdout)
        self.assertIn("not reached: racecheck on Suite.Three\n", done.stdout)

    def test_by_the_limit_before_any_test(self):
        self.make_tests()
        self.program("compute-sanitizer", "#!/bin/sh\nsleep 30\n")
        done = self.check("--limit", "0.1", "--tools", "racecheck")
        self.assert_last_line(done, "0 passed, 3 failed", 1)
        self.assertIn("racecheck on one of Suite.One, Suite.Two, Suite.Three: not done after 0.1 s\n", done.stdout)

    def hangs(self):
        """What a test does that says so first, with its process's number."""
        return f"echo $$ > {self.folder}/pid; mv {self.folder}/pid {self.folder}/hangs; sleep 30"

    def cut(self, number, *options):
        """By the signal, when a test hangs."""
        hangs = self.folder / "hangs"
        hangs.unlink(missing_ok=True)
        with subprocess.Popen(self.command(*options), env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as check:
            wait_until(lambda: hangs.exists() or check.poll() is not None)
            check.send_signal(number)
            out, errors = check.communicate(timeout=60)
        return subprocess.CompletedProcess(check.args, check.returncode, out, errors)

    def test_by_a_signal(self):
        self.make_tests(f"racecheck\\ *Two) {self.hangs()};;")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                done = self.cut(number, "--tools", "racecheck", "initcheck")
                self.assert_last_line(done, "1 passed, 0 failed, 5 not reached", 128 + number)
                self.assertIn(f"cut short by {number.name}\nnot reached: racecheck on Suite.Two Suite.Three\n"
                              "not reached: initcheck on Suite.One Suite.Two Suite.Three\n", done.stdout)
                self.assertEqual(done.stderr, "")
                hanging = int((self.folder / "hangs").read_text())
                wait_until(lambda: not is_running(hanging))
        self.assertEqual({line.split()[0] for line in self.started()}, {"racecheck"}, "others were started")

    def test_by_a_signal_keeps_what_was_found(self):
        self.make_tests(f"*Two) {HAZARD}; {self.hangs()};;")
        done = self.cut(signal.SIGTERM, "--tools", "racecheck")
        self.assert_last_line(done, "1 passed, 1 failed, 1 not reached", 143)
        self.assertIn("racecheck on Suite.Two: cut short\n[ RUN      ] Suite.Two\n========= Error: Race", done.stdout)

    def test_by_a_signal_after_something_was_found_between_two_tests(self):
        self.make_tests(f"*Two) echo '[       OK ] Suite.Two (7 ms)'; {HAZARD}; {self.hangs()};;")
        done = self.cut(signal.SIGTERM, "--tools", "racecheck")
        self.assert_last_line(done, "0 passed, 2 failed, 1 not reached", 143)
        self.assertIn("racecheck on one of Suite.One, Suite.Two: cut short\n========= Error: Race", done.stdout)

    def test_leaks_of_a_process_that_was_cut_are_not_known(self):
        self.make_tests(f"*Two) {self.hangs()};;")
        self.assert_last_line(self.cut(signal.SIGTERM, "--tools", "memcheck"), "0 passed, 0 failed, 3 not reached", 143)


if __name__ == "__main__":
    unittest.main()
