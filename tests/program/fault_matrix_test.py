#!/usr/bin/env python3
"""Lets every call that can fail do so, one at a time: the first open() of a run, in the next run the second, and so on
until a run ends without a fault; the same for reading, writing, flushing, renaming and the other calls. After any fault
the run must end with the documented exit code and one line, keep an old output as it was and leave no incomplete file.
HW4_SOAK=1 tests every way of running hw4 and seq, not only the first."""
import contextlib
import errno
import gzip
import itertools
import json
import os
import subprocess
import unittest
from typing import Dict, NamedTuple, Tuple, Union

import cli_test
from cli_test import (BAD_DATA, CANNOT_CREATE, IO_ERROR, NO_INPUT, NO_MEMORY, NOTE, OK, OLD_OUTPUT, SANITIZED, USAGE,
                      by_seq, generated)
from fault_test import NeedsGpu, PRELOAD_AND_SANITIZER, SHIM, SOAK
from lse_test import lse_by_seq

HANGING = 20  # seconds; a run takes hundredths of one
INPUT, OUTPUT, TEMPORARY, DIRECTORY = "input", "output", "temporary", "directory"  # what a call acts on


class Row(NamedTuple):
    """A kind of fault and its effect on a run: the exit code, or several where the call alone does not determine it;
    then each of them must occur. A dictionary by what the call acts on, where that decides."""
    call: str
    how: Union[int, str]  # errno, or a word of fault_shim.cpp
    ends: Union[Tuple[int, ...], Dict[str, Tuple[int, ...]]]
    says: str = "never said"
    stays: bool = False  # every later call fails too

    def ends_about(self, file):
        return self.ends[file] if isinstance(self.ends, dict) else self.ends

    def all_ends(self):
        return {code for codes in self.ends.values() for code in codes} if isinstance(self.ends, dict) else {*self.ends}


class Way(NamedTuple):
    name: str
    program: str = "hw4"
    options: Tuple[str, ...] = ()
    form: str = "plain"  # the input's form: plain, gzip or pipe
    output: str = "case.out"
    contract: str = "f32"


UNREADABLE = r"case\.in(\.gz)?: cannot (read|stat): |/dev/stdin: cannot (read|stat): "
UNWRITABLE = r"(case\.out|link|run\.lse|run\.json|run\.trace): cannot write: "
# The program opens the directory to create the new file and to flush its name.
OPENING = {INPUT: (NO_INPUT,), OUTPUT: (CANNOT_CREATE,), TEMPORARY: (CANNOT_CREATE,),
           DIRECTORY: (CANNOT_CREATE, IO_ERROR)}
# Only written data can be lost.
CLOSING = {INPUT: (OK,), OUTPUT: (OK,), TEMPORARY: (IO_ERROR,), DIRECTORY: (OK,)}
ASKING = {INPUT: (NO_INPUT,), OUTPUT: (CANNOT_CREATE,), DIRECTORY: (NO_INPUT, CANNOT_CREATE)}
# Reads that find the end of the data by returning nothing: the last reads of a run.
AT_THE_END = {("read", "plain"): 0, ("pread", "plain"): 1, ("read", "pipe"): 1, ("read", "gzip"): 2}
FILE_ROWS = (
    Row("open", errno.EMFILE, OPENING,
        r": cannot (open|stat): Too many|: cannot create a file in .*: Too many|is written, but its directory cannot be"),
    Row("open", errno.EROFS, OPENING,
        r": cannot (open|stat): Read-only|: cannot create a file in .*: Read-only|is written, but its directory cannot be"),
    Row("read", errno.EIO, (IO_ERROR,), UNREADABLE),
    Row("read", errno.EINTR, (OK,)),
    Row("read", "short", (OK,)),
    Row("read", "none", (OK, BAD_DATA), r"is empty|gzip stream corrupt|ends in batch"),
    Row("pread", errno.EIO, (IO_ERROR,), UNREADABLE),
    Row("pread", errno.EINTR, (OK,)),
    Row("pread", "short", (OK,)),
    Row("pread", "short", (OK,), stays=True),
    Row("pread", "none", (OK, IO_ERROR), r"file changed during read: .*ends in batch"),
    Row("pwrite", errno.ENOSPC, (IO_ERROR,), UNWRITABLE + "No space left"),
    Row("pwrite", errno.EDQUOT, (IO_ERROR,), UNWRITABLE + "Disk quota exceeded"),
    Row("pwrite", errno.EINTR, (OK,)),
    Row("pwrite", "short", (OK,)),
    Row("pwrite", "short", (OK,), stays=True),  # the first may only prepare pages
    Row("pwrite", "none", (IO_ERROR,), UNWRITABLE + "No space left", stays=True),
    Row("write", errno.EIO, (IO_ERROR,), UNWRITABLE + "Input/output error"),
    Row("write", errno.EINTR, (OK,)),
    Row("write", "short", (OK,)),
    Row("write", "none", (IO_ERROR,), UNWRITABLE + "No space left", stays=True),
    Row("fallocate", errno.ENOSPC, (IO_ERROR,), UNWRITABLE + "No space left"),
    Row("fallocate", errno.EOPNOTSUPP, (OK,)),
    Row("fallocate", errno.EINTR, (OK,)),
    Row("fsync", errno.EIO, (IO_ERROR,), r": cannot flush to disk|is written, but its directory cannot be flushed"),
    Row("close", errno.EIO, CLOSING, r": cannot close: Input/output error"),
    Row("rename", errno.EACCES, (CANNOT_CREATE,), r": cannot rename .*: Permission denied"),
    Row("stat", errno.EIO, ASKING, r": cannot stat: Input/output error"),
    Row("fstat", errno.EIO, (IO_ERROR, CANNOT_CREATE), UNREADABLE + r"|standard output: cannot stat: Input/output error"),
    Row("fchmod", errno.EPERM, (OK,)),
    Row("poll", errno.EINTR, (OK,)),
    Row("poll", errno.EINVAL, (OK,)),
    Row("sched_getaffinity", errno.EINVAL, (OK,)),  # there are more processors than the mask has room for
)
# A fault of each call that may fail.
FIRST_FAULTS = {row.call: row for row in reversed(FILE_ROWS) if row.ends != (OK,) and isinstance(row.how, int)}

MEMORY_ROWS = (
    # A run continues without helper threads, which ask for memory too, in an order that varies.
    Row("malloc", errno.ENOMEM, (OK, NO_MEMORY), r"memory|no thread can be started"),
    Row("malloc", errno.ENOMEM, (NO_MEMORY,), r"memory|no thread can be started", stays=True),
    Row("mmap", errno.ENOMEM, (NO_MEMORY,), r"out of host memory"),
)
THREAD_ROW = Row("pthread_create", errno.EAGAIN, (OK, NO_MEMORY), r"no thread can be started")

# The reports and --sync add their calls.
FIRST_WAY = Way("everything", options=("--sync", "--json", "run.json", "--trace", "run.trace"))
FIXED_WAY = Way("fixed", options=("--contract", "fixed"), contract="fixed")
PIPE_WAY = Way("a pipe", form="pipe")
GZIP_WAY = Way("gzip", form="gzip")
SEQ_GZIP_WAY = Way("seq, gzip", "seq", form="gzip")  # few calls ask for memory before zlib does
LINK_WAY = Way("through a link", output="link")
LSE_WAY = Way("logsumexps", options=("--sync", "--lse", "run.lse"))
OTHER_WAYS = (LINK_WAY, LSE_WAY, Way("one thread", options=("--threads", "1")), Way("seq", program="seq"),
              Way("seq, fixed", "seq", ("--contract", "fixed"), contract="fixed"),
              Way("seq, logsumexps", "seq", ("--lse", "run.lse")))

setUpModule = cli_test.setUpModule


@unittest.skipIf(SANITIZED, PRELOAD_AND_SANITIZER)
class Matrix(cli_test.CliTest):
    """The procedure; the classes below have the tests."""
    device = "cpu"
    shape = (20, 64, 32)
    rows = (*FILE_ROWS, *MEMORY_ROWS)

    def setUp(self):
        super().setUp()
        if not SHIM.exists():
            self.skipTest(f"{SHIM} is not there; make tests builds it")
        # File names as in the messages; the gzip or pipe input takes several reads.
        case = generated(*self.shape)
        self.content = case.read_bytes()
        self.want = {contract: by_seq(case, contract) for contract in cli_test.contracts()}
        self.file(self.content)
        self.file(gzip.compress(self.content, 1), "case.in.gz")
        self.inputs = {"plain": self.dir / "case.in", "gzip": self.dir / "case.in.gz", "pipe": "/dev/stdin"}
        self.fired = cli_test.WORK / "fired"

    def sweep_calls(self, row, start, check, step=1, **names):
        """Runs start(k) with the k-th call failing, for k = 1, 2 and so on until a run has no fault, however it ended;
        the shim creates a file at a fault. check(done, fired) examines each run. Returns the exit codes of the runs
        with a fault."""
        codes = []
        for number in itertools.count(1, step):
            self.fired.unlink(missing_ok=True)
            with self.subTest(call=row.call, how=row.how, stays=row.stays, number=number, **names):
                done = start(number)
                fired = self.fired.exists()
                codes += [done.returncode] if fired else []
                check(done, fired)
            if not self.fired.exists():
                return codes

    def run_with(self, way, row, number):
        for path in self.dir.iterdir():
            if path.name not in ("case.in", "case.in.gz"):
                path.unlink()
        self.out.write_bytes(OLD_OUTPUT)
        (self.dir / "link").symlink_to(self.out)
        # Full paths, which are too long to be stored without an allocation; the reports have short ones.
        with self.standard_input(way) as stdin:
            return self.start_shim(way.program, row, number, *way.options, self.inputs[way.form], self.dir / way.output,
                                   stdin=stdin)

    @contextlib.contextmanager
    def standard_input(self, way):
        if way.form != "pipe":
            yield subprocess.DEVNULL
            return
        # Python's input= fills a pipe in pieces of 4096 bytes, which would only add thousands of equal reads.
        with subprocess.Popen(["cat", self.dir / "case.in"], stdout=subprocess.PIPE) as cat:
            yield cat.stdout

    def start_shim(self, program, row, number, *args, **more):
        env = {"LD_PRELOAD": str(SHIM), "FAULT_CALL": row.call, "FAULT_AT": str(number), "FAULT_HOW": str(row.how),
               "FAULT_STAYS": str(int(row.stays)), "FAULT_FIRED": str(self.fired)}
        device = ("--device", self.device) if program == "hw4" else ()
        return subprocess.run([cli_test.PROGRAMS / program, *device, *args], cwd=self.dir, env={**os.environ, **env},
                              capture_output=True, timeout=HANGING, **more)

    def check(self, way, row, done):
        messages = [line for line in done.stderr.decode().splitlines() if NOTE not in line]
        self.assertIn(done.returncode, row.ends, messages)
        output = self.out.read_bytes()
        if done.returncode == OK:
            self.assertEqual(messages, [])
            self.assert_same_bytes(output, self.want[way.contract])
        else:
            self.assertEqual(len(messages), 1, messages)
            self.assertTrue(messages[0].startswith(f"{way.program}: "), messages[0])
            self.assertRegex(messages[0], row.says)
            self.assertNotIn(": : ", messages[0], "a file without a name")
            # Once the output has its name, only the reports or the flushing of names can fail.
            whole = output == self.want[way.contract]
            late = whole and ("is written, but" in messages[0] or f"{way.output}:" not in messages[0])
            self.assertTrue(output == OLD_OUTPUT or late, "the output is neither the old one nor whole")
        self.assertTrue((self.dir / "link").is_symlink())
        self.assertEqual(self.temporaries(), [])
        allowed = {"case.in", "case.in.gz", "case.out", "link", "run.lse", "run.json", "run.trace"}
        self.assertLessEqual({path.name for path in self.dir.iterdir()}, allowed)
        if "--lse" in way.options:
            self.check_lse(way, output)

    def check_lse(self, way, output):
        """The file with the logsumexps must be complete if it exists, and exist beside a new output."""
        lse = self.dir / "run.lse"
        if lse.exists():
            self.assert_same_bytes(lse.read_bytes(), lse_by_seq(generated(*self.shape), way.contract))
        else:
            self.assertEqual(output, OLD_OUTPUT)

    def sweep(self, way, row):
        """Tries every k until no call is left; returns the exit codes that occurred."""
        if row.call == "malloc" and "--json" not in way.options:
            # Without a report the compute threads are the last to ask for memory, and there may be fewer of them.
            row = row._replace(ends=(OK, NO_MEMORY))
        codes = self.sweep_calls(
            row, lambda number: self.run_with(way, row, number),
            lambda done, fired: self.check(way, row._replace(ends=row.ends_about(self.what_failed()) if fired else (OK,)),
                                           done), way=way.name)
        if row.how == "none" and OK in row.ends and codes:
            last = AT_THE_END[row.call, way.form]
            self.assertEqual([code == OK for code in codes], [False] * (len(codes) - last) + [True] * last, way.name)
        return codes

    def what_failed(self):
        """What the failed call acted on."""
        text = self.fired.read_text()
        path = self.dir / text
        if text.startswith("pipe:") or path.name in ("case.in", "case.in.gz", "stdin"):
            return INPUT
        return DIRECTORY if path.is_dir() else TEMPORARY if path.suffix == ".tmp" else OUTPUT

    def sweep_all(self, way, calls=None, least=1):
        for row in self.rows:
            if calls is None or row.call in calls:
                codes = self.sweep(way, row)
                self.assertGreaterEqual(len(codes), least, f"{way.name}: no {row.call} was met; does the shim see it?")


# The calls of a run by purpose; poll() is for pipes.
CALLS = {
    "opening": {"open", "close"},
    "reading": {"read", "pread"},
    "writing": {"write", "pwrite", "fallocate", "fsync", "rename"},
    "looking": {"stat", "fstat", "fchmod", "sched_getaffinity"},
    "memory": {"malloc", "mmap"},
}


class Sweeps:
    """The calls of the first way, and of the ways that read a pipe or gzip."""

    def sweep_first_way(self, calls, stays=(False, True)):
        for row in self.rows:
            if row.call not in CALLS[calls] or row.stays not in stays:
                continue
            codes = self.sweep(FIRST_WAY, row)
            finds_no_end = row.how == "none" and AT_THE_END.get((row.call, FIRST_WAY.form)) == 0
            self.assertEqual(row.all_ends() - ({OK} if finds_no_end else set()), set(codes),
                             f"{row.call}, {row.how}: some fault was passed over, or the shim does not see the call")

    def test_opening(self):
        self.sweep_first_way("opening")

    def test_reading(self):
        self.sweep_first_way("reading")

    def test_writing(self):
        self.sweep_first_way("writing")

    def test_looking(self):
        self.sweep_first_way("looking")

    def test_pipe(self):
        self.sweep_all(PIPE_WAY, {"read", "poll"}, least=2)

    def test_gzip(self):
        self.sweep_all(GZIP_WAY, {"read"}, least=2)


class MemorySweeps:
    def test_memory(self):
        self.sweep_first_way("memory", stays=(False,))

    def test_memory_that_stays_away(self):
        self.sweep_first_way("memory", stays=(True,))

    def test_memory_under_fixed(self):
        self.sweep_all(FIXED_WAY, CALLS["memory"])


class Names:
    """Files that have several names."""

    def test_link(self):
        self.sweep_all(LINK_WAY, {"open", "stat", "fstat"})

    def test_output_is_the_input(self):
        """After any fault the input is unchanged under each of its names."""
        for output in ("case.in", "symlink", "hardlink"):
            self.sweep_onto(output)

    def sweep_onto(self, output):
        """Every such run is refused."""
        def start(row, number):
            for path in self.dir.iterdir():
                path.unlink()
            self.file(self.content)
            self.out.write_bytes(OLD_OUTPUT)
            os.link(self.dir / "case.in", self.dir / "hardlink")
            (self.dir / "symlink").symlink_to("case.in")
            self.there = sorted(os.listdir(self.dir))
            return self.start_shim("hw4", row, number, "case.in", output)

        def check(done, fired):
            ends = (USAGE, NO_INPUT, CANNOT_CREATE, IO_ERROR) if fired else (USAGE,)
            self.assertIn(done.returncode, ends, done.stderr)
            self.assertEqual(sorted(os.listdir(self.dir)), self.there)
            self.assertTrue((self.dir / "case.in").read_bytes() == self.content, "the input was overwritten")
            self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)

        for row in self.rows:
            if row.call in ("open", "stat", "fstat", "fchmod"):
                self.sweep_calls(row, lambda number, row=row: start(row, number), check, output=output)


class MatrixTest(Sweeps, MemorySweeps, Names, Matrix):
    def test_memory_for_gzip(self):
        """zlib asks for memory at its start and in the middle of the stream: neither failure is the data's fault."""
        row, asked = MEMORY_ROWS[0], []
        case = generated(2, 64, 32)  # little to compute
        self.file(gzip.compress(case.read_bytes(), 1), "case.in.gz")
        self.want["f32"] = by_seq(case)

        def check(done, _):
            self.check(SEQ_GZIP_WAY, row, done)
            asked.append(b"case.in.gz: no memory for gzip" in done.stderr)
        self.sweep_calls(row, lambda number: self.run_with(SEQ_GZIP_WAY, row, number), check)
        self.assertGreaterEqual(sum(asked), 2, "does the shim see zlib ask?")

    def test_threads(self):
        """There may be fewer readers, writers and compute threads than asked for, but at least one of each kind, and
        the thread that waits for signals."""
        case = generated(40, 128, 32)  # enough for several threads of each kind
        self.file(case.read_bytes())
        for contract in cli_test.contracts():
            self.want[contract] = by_seq(case, contract)
            way = Way("threads", options=("--threads", "3", "--contract", contract), contract=contract)
            report = self.dir / "run.json"
            done = cli_test.hw4("--json", report, *way.options, case, self.out)
            self.assertEqual(done.returncode, OK, done.stderr)
            told = json.loads(report.read_text())
            self.assertGreater(min(told["readers"], told["writers"]), 1, "too few to do without one")
            readers, writers, computing = ([OK] * (told[kind] - 1) for kind in ("readers", "writers", "threads"))
            self.assertEqual(self.sweep(way, THREAD_ROW),
                             [NO_MEMORY, NO_MEMORY, *readers, NO_MEMORY, *writers, *computing])
            self.assertEqual(self.sweep(way, THREAD_ROW._replace(stays=True)),
                             [NO_MEMORY, NO_MEMORY, *(NO_MEMORY for _ in readers), NO_MEMORY, *writers, *computing])

    def test_logsumexps(self):
        for row in self.rows:
            if row.call in ("pwrite", "fallocate", "fsync", "close", "rename") and row.how in errno.errorcode:
                self.assertGreaterEqual(len(self.sweep(LSE_WAY, row)), 2, f"{row.call} was not met for both files")

    @unittest.skipUnless(SOAK, "takes minutes: make soak")
    def test_other_ways(self):
        for way in (PIPE_WAY, GZIP_WAY, FIXED_WAY, *OTHER_WAYS):
            self.sweep_all(way, least=0)


class ManyCasesMatrixTest(Matrix):
    """Three cases in one run. One fault fails one case; only a lack of memory or threads may fail all."""

    def setUp(self):
        super().setUp()
        self.names = ("a", "b", "c")
        for name in self.names:
            self.file(self.content, f"{name}.in")

    def outputs(self):
        return [self.dir / f"{name}.out" for name in self.names]

    def sweep_cases(self, row, check, *options, step=1):
        """check(code, messages, whole): which outputs are complete; the others are unchanged."""
        def start(number):
            for out in self.outputs():
                out.write_bytes(OLD_OUTPUT)
            pairs = [self.dir / f"{name}.{end}" for name in self.names for end in ("in", "out")]
            return self.start_shim("hw4", row, number, *options, *pairs, stdin=subprocess.DEVNULL)

        def check_all(done, _):
            messages = [line for line in done.stderr.decode().splitlines() if NOTE not in line]
            whole = [out.read_bytes() == self.want["f32"] for out in self.outputs()]
            for out, is_whole in zip(self.outputs(), whole):
                self.assertTrue(is_whole or out.read_bytes() == OLD_OUTPUT, f"{out} is neither the old one nor whole")
            self.assertEqual(self.temporaries(), [])
            self.assertEqual(done.returncode == OK, messages == [], messages)
            check(done.returncode, messages, whole)
        return self.sweep_calls(row, start, check_all, step)

    def test_one_fault_is_one_cases(self):
        for call in ("open", "pread", "pwrite", "fallocate", "rename", "fstat"):
            failed = set()

            def check(code, messages, whole, call=call, failed=failed):
                if code != OK:
                    self.assertEqual(len(messages), 1)
                    self.assertRegex(messages[0], FIRST_FAULTS[call].says.replace("case", "[abc]"))
                    self.assertEqual(whole.count(False), 1)
                    failed.add(whole.index(False))
            self.sweep_cases(FIRST_FAULTS[call], check)
            # Reading and writing run side by side; the other calls follow the order of the list.
            self.assertTrue(failed == {0, 1, 2} if call in ("open", "rename") else failed, call)

    def test_memory(self):
        for row in MEMORY_ROWS:
            codes = self.sweep_cases(row, lambda code, said, _: self.assertIn(code, (OK, NO_MEMORY), said),
                                     step=1 if SOAK or row.call == "mmap" else 41)
            self.assertIn(NO_MEMORY, codes)

    def test_threads(self):
        def check(code, messages, whole):
            self.assertIn(code, (OK, NO_MEMORY), messages)
            self.assertEqual(code == OK, all(whole))
        for stays in (False, True):
            self.sweep_cases(THREAD_ROW._replace(stays=stays), check, "--threads", "2")


class StandardStreamsTest(Matrix):
    """hw4 - -: written output cannot be taken back, so it is complete or a beginning of the output."""

    def sweep_streams(self, row, form):
        def start(number):
            with open(self.dir / "case.in", "rb") if form == "plain" else self.standard_input(PIPE_WAY) as stdin:
                return self.start_shim("hw4", row, number, "-", "-", stdin=stdin)
        codes = self.sweep_calls(row, start, lambda done, fired: self.check_streams(row, done,
                                                                                    row.ends if fired else (OK,)))
        self.assertEqual(set(codes), set(row.ends), f"{row.call}: some fault was passed over, or the shim does not see it")

    def check_streams(self, row, done, ends):
        messages = [line for line in done.stderr.decode().splitlines() if line.startswith("hw4:") and NOTE not in line]
        self.assertIn(done.returncode, ends, messages)
        self.assertTrue(self.want["f32"].startswith(done.stdout), "other bytes on standard output")
        self.assertEqual(len(messages), done.returncode != OK, messages)
        if done.returncode == OK:
            self.assert_same_bytes(done.stdout, self.want["f32"])
        else:
            self.assertRegex(messages[0], rf"hw4: standard ((in|out)put): .*({row.says})")

    def test_opening(self):
        for row in (Row("fcntl", errno.EMFILE, (OK, NO_INPUT, CANNOT_CREATE), "cannot open: Too many|is closed, or not"),
                    Row("lseek", errno.EIO, (IO_ERROR,), "cannot tell its place: Input/output error"),
                    Row("fstat", errno.EIO, (NO_INPUT, CANNOT_CREATE, IO_ERROR), "cannot stat: Input/output error")):
            self.sweep_streams(row, "plain")

    def test_reading(self):
        for row in (Row("read", errno.EIO, (IO_ERROR,), "cannot read: Input/output error"),
                    Row("read", errno.EINTR, (OK,)), Row("read", "short", (OK,)), Row("poll", errno.EINTR, (OK,))):
            self.sweep_streams(row, "pipe")
        self.sweep_streams(Row("pread", errno.EIO, (IO_ERROR,), "cannot read: Input/output error"), "plain")

    def test_writing(self):
        for row in (Row("write", errno.EIO, (IO_ERROR,), "cannot write: Input/output error"),
                    Row("write", errno.EINTR, (OK,)), Row("write", "short", (OK,)),
                    Row("write", "none", (IO_ERROR,), "cannot write: No space left", stays=True),
                    Row("close", errno.EIO, (OK, IO_ERROR), "cannot close: Input/output error")):
            self.sweep_streams(row, "plain")


class GpuMatrixTest(NeedsGpu, Sweeps, Names, Matrix):
    device = "gpu"
    rows = FILE_ROWS  # most memory there is the driver's, which does not report in one line what it lacks
    test_other_ways = MatrixTest.test_other_ways
    if not SOAK:  # each run makes a context: one fault of each call, and no faults of calls without an engine
        rows = tuple(FIRST_FAULTS.values())
        test_gzip = test_link = test_looking = test_output_is_the_input = test_pipe = None


if __name__ == "__main__":
    unittest.main()
