#!/usr/bin/env python3
""""-" as a file name: standard input or output of hw4, seq and generate, as pipes and as redirected files."""
import gzip
import os
import subprocess
import unittest

import cli_test
from cli_test import (BAD_DATA, CANNOT_CREATE, IO_ERROR, NO_INPUT, OK, OLD_OUTPUT, PATIENCE, USAGE, CliTest,
                      by_seq, counting, generated)

HW4, SEQ = ("hw4", "--device", "cpu"), ("seq",)
GENERATE = ("generate", "--shape", "40,512,64")  # more than a pipe holds
STDIN, STDOUT = "standard input", "standard output"


setUpModule = cli_test.setUpModule


def run(*command, **more):
    """Like cli_test's run, but with the bytes of standard output."""
    more.setdefault("stdout", subprocess.PIPE)
    done = subprocess.run([cli_test.PROGRAMS / command[0], *command[1:]], stderr=subprocess.PIPE, timeout=PATIENCE,
                          **more)
    done.stderr = done.stderr.decode()
    return done


def closing(stream):
    return {"preexec_fn": lambda: os.close(stream)}


class StreamTest(CliTest):
    def assert_fails(self, done, code, stream, wanted, program="hw4"):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assert_one_message(done.stderr, None, rf"\A{program}: {stream}: {wanted}", program)

    def assert_only_these(self, *names):
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(names))


class InputTest(StreamTest):
    def test_pipes_and_files_plain_and_gzip(self):
        path = generated(5, 100, 33)
        for program in (HW4, SEQ):
            for form in (bytes, gzip.compress):
                content = form(path.read_bytes())
                with self.subTest(program=program, form=form.__name__), open(self.file(content), "rb") as file:
                    for feed in ({"input": content}, {"stdin": file}):
                        done = run(*program, "-", self.out, **feed)
                        self.assertEqual(done.returncode, OK, done.stderr)
                        self.assert_same_bytes(self.out.read_bytes(), by_seq(path))
                        self.out.unlink()

    def test_a_file_is_read_from_where_it_stands(self):
        path = generated(5, 100, 33)
        for program in (HW4, SEQ):
            for form in (bytes, gzip.compress):
                with self.subTest(program=program, form=form.__name__):
                    with open(self.file(b"before" + form(path.read_bytes())), "rb", buffering=0) as file:
                        file.seek(6)
                        done = run(*program, "-", self.out, stdin=file)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assert_same_bytes(self.out.read_bytes(), by_seq(path))
        with open(path, "rb", buffering=0) as file:
            for place in (0, 1 << 40):
                file.seek(place, os.SEEK_END if place == 0 else os.SEEK_SET)
                self.assert_fails(run(*HW4, "-", self.out, stdin=file), BAD_DATA, STDIN, "is empty")

    def test_closed_or_a_folder(self):
        for program in (HW4, SEQ):
            with self.subTest(program=program):
                self.assert_fails(run(*program, "-", self.out, **closing(0)), NO_INPUT, STDIN,
                                  "is closed, or a directory", program[0])
                folder = os.open(self.dir, os.O_RDONLY)
                self.addCleanup(os.close, folder)
                self.assert_fails(run(*program, "-", self.out, stdin=folder), NO_INPUT, STDIN,
                                  "is closed, or a directory", program[0])
        self.assert_only_these()

    def test_is_never_the_output(self):
        content = counting(1, 4, 3)
        path = self.file(content)
        for program in (HW4, SEQ):
            with self.subTest(program=program), open(path, "rb", buffering=0) as source, open(path, "ab") as end:
                for args in (("-", path), ("-", "-"), (path, "-")):
                    source.seek(0)
                    done = run(*program, *args, stdin=source, stdout=end)
                    self.assert_fails(done, USAGE, f"({STDOUT}|{path})", "output is the same file as input", program[0])
                    self.assertEqual(path.read_bytes(), content)

    def test_a_file_of_that_name(self):
        path = generated(2, 33, 7)
        for program in (HW4, SEQ):
            with self.subTest(program=program):
                self.file(path.read_bytes(), "-")
                self.assertEqual(run(*program, "./-", "case.out", cwd=self.dir).returncode, OK)
                self.assert_same_bytes(self.out.read_bytes(), by_seq(path))
                self.assertEqual(run(*program, path, "./-", cwd=self.dir).returncode, OK)
                self.assert_same_bytes((self.dir / "-").read_bytes(), by_seq(path))
        (self.dir / "link").symlink_to("-")
        (self.dir / "-").write_bytes(OLD_OUTPUT)
        self.assertEqual(run(*HW4, path, "link", cwd=self.dir).returncode, OK)
        self.assert_same_bytes((self.dir / "-").read_bytes(), by_seq(path))


class OutputTest(StreamTest):
    def test_pipe(self):
        path = generated(40, 512, 64)
        for program, lines in ((HW4, r"\(B, N, d\): \(40, 512, 64\)\nTime: .* seconds\n"),
                               (SEQ, r"\(B, N, d\): \(40, 512, 64\)\n")):
            with self.subTest(program=program):
                done = run(*program, path, "-", cwd=self.dir)
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assert_same_bytes(done.stdout, by_seq(path))
                self.assertRegex(done.stderr, rf"\A{lines}\Z")
        self.assert_only_these()

    def test_a_file_is_written_from_where_it_stands(self):
        path = generated(5, 100, 33)
        for program in (HW4, (*HW4, "--sync"), SEQ):
            for mode, place, before in (("wb", 0, b""), ("ab", 0, OLD_OUTPUT), ("r+b", 4, OLD_OUTPUT[:4])):
                with self.subTest(program=program, mode=mode):
                    self.out.write_bytes(OLD_OUTPUT)
                    inode = self.out.stat().st_ino
                    with open(self.out, mode, buffering=0) as file:
                        file.seek(place)
                        done = run(*program, path, "-", stdout=file)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assert_same_bytes(self.out.read_bytes(), before + by_seq(path))
                    self.assertEqual(self.out.stat().st_ino, inode)
        self.assert_only_these("case.out")

    def programs(self):
        path = generated(40, 512, 64)
        return (*HW4, path, "-"), (*SEQ, path, "-"), (*GENERATE, "-")

    def test_reader_goes_away_or_no_space_is_left(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "wb") as pipe, open("/dev/full", "wb") as full:
            for command in self.programs():
                for stdout, wanted in ((pipe, "Broken pipe"), (full, "No space left on device")):
                    with self.subTest(command[0], wanted=wanted):
                        done = run(*command, stdout=stdout)
                        done.stderr = "".join(line for line in done.stderr.splitlines(True) if line.startswith(command[0]))
                        self.assert_fails(done, IO_ERROR, STDOUT, f"cannot write: {wanted}", command[0])

    def test_closed_or_not_open_for_writing(self):
        path = self.file(counting(1, 4, 3))
        reports = ((*HW4, option, "-", path, self.out) for option in ("--json", "--trace"))
        for command in (*self.programs(), *reports):
            with self.subTest(command):
                wanted = "is closed, or not open for writing"
                self.assert_fails(run(*command, **closing(1)), CANNOT_CREATE, STDOUT, wanted, command[0])
                with open("/dev/null", "rb") as file:
                    self.assert_fails(run(*command, stdout=file), CANNOT_CREATE, STDOUT, wanted, command[0])
        self.assert_only_these("case.in")


class ManyCasesTest(StreamTest):
    """Among many cases, one can use each of the streams."""

    def test_one_case_from_and_one_to_them(self):
        path, other = generated(5, 100, 33), generated(2, 33, 7)
        done = run(*HW4, path, "-", "-", self.out, input=other.read_bytes())
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assert_same_bytes(done.stdout, by_seq(path))
        self.assert_same_bytes(self.out.read_bytes(), by_seq(other))

    def test_nothing_else_is_there_whatever_came_before(self):
        """More cases than hw4 opens ahead; /dev/stdout is standard output too."""
        path, other = generated(2, 33, 7), generated(5, 100, 33)
        before = [name for i in range(20) for name in (path, self.dir / f"{i}.out")]
        for name in ("-", "/dev/stdout"):
            with self.subTest(name):
                done = run(*HW4, *before, other, name)
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assert_same_bytes(done.stdout, by_seq(other))

    def test_a_list_has_them_itself(self):
        path = generated(2, 33, 7)
        done = run(*HW4, "--pairs", "-", input=f"- {self.dir}/a\n{path} -\n{path} /dev/stdout\n{path} {self.out}\n".encode())
        self.assertEqual(done.returncode, USAGE)
        self.assertIn(f"hw4: {STDIN}: can be read only once, and is an input already\n", done.stderr)
        self.assertEqual(done.stderr.count(f"{STDOUT}: is for the lines about the cases\n"), 2)
        self.assert_same_bytes(self.out.read_bytes(), by_seq(path))
        self.assert_only_these("case.out")


class ReportTest(StreamTest):
    def test_only_one_can_have_it(self):
        path = self.file(counting(1, 4, 3))
        for name, wanted in (("-", r"only one output can be '-'"), ("/dev/stdout", r"would overwrite the output ")):
            for args in (("--json", name, path, "-"), ("--trace", "-", path, name),
                         ("--json", "-", "--trace", name, path, self.out)):
                with self.subTest(args):
                    done = run(*HW4, *args)
                    self.assertEqual((done.returncode, done.stdout), (USAGE, b""), done.stderr)
                    self.assert_one_message(done.stderr, None, wanted)
        self.assert_only_these("case.in")

    def test_replaces_no_file_that_standard_output_leads_to(self):
        path = self.file(counting(1, 4, 3))
        for args in (("--json", self.out, path, "-"), ("--trace", self.out, path, "-"), ("--json", "-", path, self.out),
                     ("--json", "-", "--trace", self.out, path, self.dir / "other")):
            with self.subTest(args):
                self.out.write_bytes(OLD_OUTPUT)
                with open(self.out, "ab") as file:
                    done = run(*HW4, *args, stdout=file)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assert_one_message(done.stderr, STDOUT, r"would overwrite the output")
                self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)


if __name__ == "__main__":
    unittest.main()
