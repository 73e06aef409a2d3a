#!/usr/bin/env python3
"""hw4 as several processes, started by Open MPI's mpirun: the bytes of one process, and a common end."""
import contextlib
import errno
import functools
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest
import uuid
from pathlib import Path

import cli_test
from cli_test import (BAD_DATA, CANNOT_CREATE, IO_ERROR, NO_INPUT, OK, OLD_OUTPUT, PATIENCE, SANITIZED, USAGE, by_seq,
                      contracts, crc_of, generated, generated_by, hw4, run, wait_until)
from fault_test import SHIM
from output_form_test import npy_header

HW4_MPI = SHIM.with_name("hw4_mpi")
KILLED = 137


def setUpModule():
    if SANITIZED:
        raise unittest.SkipTest("a sanitizer would look at MPI's own code too")
    if not shutil.which("mpirun") or not HW4_MPI.exists():
        raise unittest.SkipTest("needs mpirun and a build with MPI, which make tests has where mpicc is found "
                                "(Debian: openmpi-bin, libopenmpi-dev)")
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version:
        raise unittest.SkipTest(f"needs the mpirun of Open MPI, found {version.splitlines()[:1]}")
    cli_test.setUpModule()
    bytes_of_one.cache_clear()


@functools.lru_cache(maxsize=None)
def bytes_of_one(path):
    out = path.with_suffix(".one")
    done = hw4(path, out)
    if done.returncode != OK:
        raise AssertionError(done.stderr)
    return out.read_bytes()


def command(ranks, *args, faults=None, folders=None, of_rank=None):
    """The ranks' command. `faults`: rank -> environment that makes its calls fail; `folders`: rank -> its own;
    `of_rank`: rank -> more arguments."""
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    for rank in range(ranks):
        settings = {"LD_PRELOAD": SHIM, **faults[rank]} if faults and rank in faults else {}
        words += [":"] if rank else []
        words += ["-np", "1", *(["-wdir", folders[rank]] if folders else [])]
        for name, value in settings.items():
            words += ["-x", f"{name}={value}"]
        words += [HW4_MPI, *args, *(of_rank or {}).get(rank, ())]
    return [str(word) for word in words]


def started(ranks, *args, **more):
    words = command(ranks, *args, **more)
    return subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, check=False)


def together(ranks, *args, **more):
    return started(ranks, "--device", "cpu", *args, **more)


def said(done):
    """hw4's own lines; mpirun adds some where a program fails."""
    return "".join(f"{line}\n" for line in done.stderr.splitlines() if line.startswith("hw4: "))


class RanksTest(cli_test.CliTest):
    def assert_same_as_one(self, path, wanted, *options, ranks):
        for count in ranks:
            with self.subTest(path=path.name, options=options, ranks=count):
                with contextlib.suppress(FileNotFoundError):
                    self.out.unlink()
                done = together(count, *options, path, self.out)
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assert_same_bytes(self.out.read_bytes(), wanted)
                self.assertEqual(self.temporaries(), [])

    def assert_all_fail(self, done, code, wanted, names=None):
        """The run fails with one message and changes nothing."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assert_one_message(said(done), names, wanted)
        self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)
        self.assertEqual(self.temporaries(), [])


class BytesTest(RanksTest):
    def test_fewer_and_more_batches_than_ranks(self):
        for path in (generated(1, 300, 33), generated(7, 100, 16)):
            self.assert_same_as_one(path, by_seq(path), ranks=(1, 2, 5))

    def test_every_contract_causal_with_heads_and_two_lengths(self):
        path = generated_by("--shape", "2,300,24", "--heads", "4,2", "--keys", "410", "--causal", "--seed", "5")
        for contract in contracts():
            self.assert_same_as_one(path, by_seq(path, contract), "--contract", contract, ranks=(3,))

    def test_backward(self):
        for heads, ranks in (("4,2", 3), ("1,1", 5)):
            path = generated_by("--shape", "2,70,8", "--heads", heads, "--backward", "--causal", "--seed", "5")
            self.assert_same_as_one(path, bytes_of_one(path), ranks=(ranks,))

    def test_numbers_of_two_bytes(self):
        for element, more in (("bf16", ()), ("fp16", ("--backward",))):
            path = generated_by("--shape", "2,300,8", "--heads", "2,1", "--seed", "5", "--element", element, *more)
            self.assert_same_as_one(path, bytes_of_one(path), ranks=(3,))

    def test_lengths(self):
        """Batches that end at different keys: several heads, one head, a window with another d_v, more ranks than heads."""
        for case, contracts_of in ((("--shape", "3,40,16", "--heads", "4,2", "--keys", "300", "--lengths", "300,40,129"),
                                    ("f32", "bf16", "fp16")),
                                   (("--shape", "5,130,8", "--keys", "130", "--lengths", "1,130,64,7"), ("f32",)),
                                   (("--shape", "2,3,24", "--heads", "2,1", "--keys", "200", "--lengths", "200,70", "--window",
                                     "50", "--value-dim", "8"), ("f32",))):
            path = generated_by(*case, "--causal", "--seed", "5")
            for contract in contracts_of:
                lse = self.dir / "one.lse"
                done = hw4("--contract", contract, "--lse", lse, path, self.out)
                self.assertEqual(done.returncode, OK, done.stderr)
                wanted = self.out.read_bytes()
                self.assertEqual(wanted, by_seq(path) if contract == "f32" else wanted)
                self.assert_same_as_one(path, wanted, "--contract", contract, "--lse", self.dir / "lse", ranks=(3, 7))
                self.assert_same_bytes((self.dir / "lse").read_bytes(), lse.read_bytes())

    def test_only_the_first_sees_what_is_gathered(self):
        """The other ranks run in a folder without the output's directory, and may open nothing but the input."""
        (self.dir / "elsewhere").mkdir()
        (self.dir / "here").mkdir()
        folders = [self.dir, self.dir / "elsewhere", self.dir / "elsewhere"]
        faults = {rank: dict(FAULT_CALL="open", FAULT_AT=2, FAULT_HOW=errno.EACCES, FAULT_STAYS=1) for rank in (1, 2)}
        for options in (("--shape", "3,300,8"), ("--shape", "1,300,8", "--backward", "--causal")):
            path = generated_by(*options, "--seed", "5")
            with self.subTest(options):
                done = together(3, "--gather", path, "here/out", faults=faults, folders=folders)
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assert_same_bytes((self.dir / "here/out").read_bytes(), bytes_of_one(path))
                self.assertEqual(os.listdir(self.dir / "elsewhere"), [])
        self.assertNotEqual(together(3, path, "here/out", folders=folders).returncode, OK)  # without --gather

    def test_a_process_by_itself_is_one(self):
        path = generated(3, 64, 8)
        done = subprocess.run([HW4_MPI, "--device", "cpu", path, self.out], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, self.out.read_bytes()), (OK, by_seq(path)), done.stderr)

    def test_reports_are_of_all(self):
        path = generated(3, 300, 8)
        lse, trace = self.dir / "lse", self.dir / "trace"
        done = together(3, "--json", "-", "--trace", trace, "--lse", lse, path, self.out)
        report = json.loads(done.stdout)
        self.assertEqual(report["output_crc32"], crc_of(by_seq(path)))
        self.assertEqual(report["lse_crc32"], crc_of(lse.read_bytes()))
        self.assertEqual([rank["device"] for rank in report["ranks"]], ["cpu"] * 3)
        self.assertEqual(sum(rank["flop"] for rank in report["ranks"]), report["flop"])
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual({event["pid"] for event in events if event["name"] == "kernel"}, {1, 3, 5})


class RefusalTest(RanksTest):
    def setUp(self):
        super().setUp()
        self.case = generated(2, 300, 8)
        self.out.write_bytes(OLD_OUTPUT)

    def test_tasks_that_do_not_know_of_one_another(self):
        for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
            with self.subTest(variable):
                done = hw4(self.case, self.out, env={variable: "2"})
                self.assert_all_fail(done, USAGE, rf"started as 2 tasks \({variable}\), which would race for the "
                                                  r"output: this build is without MPI \(make MPI=yes has it\); by "
                                                  rf"itself: env -u {variable} hw4 \.\.\.$")
        done = hw4(self.case, self.out, env={"OMPI_COMM_WORLD_SIZE": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_a_task_that_computes_no_case_is_not_refused(self):
        for arguments in (("--help",), ("--version",), ("--list-kernels",), ("bench", "--help")):
            with self.subTest(arguments=arguments):
                done = run("hw4", *arguments, env={"OMPI_COMM_WORLD_SIZE": "2"})
                self.assertEqual((done.returncode, done.stderr), (OK, ""))

    def test_slurm_without_a_way_for_mpi(self):
        done = subprocess.run([HW4_MPI, "--device", "cpu", self.case, self.out], capture_output=True, text=True,
                              check=False, env={**os.environ, "SLURM_STEP_NUM_TASKS": "2"}, timeout=PATIENCE)
        self.assert_all_fail(done, USAGE, r"MPI knows of one \(with Slurm: srun --mpi=pmix\); by itself: env -u SLURM")

    def test_what_they_cannot_share(self):
        packed = self.file(gzip.compress(self.case.read_bytes(), 1), "case.in.gz")
        fifo = self.dir / "fifo"
        os.mkfifo(fifo)  # it has no writer: opening it would hang
        for name, shown in ((packed, packed), (fifo, fifo), ("-", "standard input")):
            self.assert_all_fail(together(2, name, self.out), USAGE, r"several ranks read it at once, need a plain file",
                                 shown)
        self.assert_all_fail(together(2, self.case, "/dev/null"), USAGE, r"several ranks write it at once", "/dev/null")
        self.assert_all_fail(together(2, self.case, self.out, self.case, self.dir / "b.out"), USAGE,
                             r"several ranks take one case")
        self.assert_all_fail(together(2, "--gpus", "2", "--device", "gpu", self.case, self.out), USAGE,
                             r"--gpus is for one process")

    def test_ranks_started_with_other_arguments(self):
        other = generated(2, 300, 8, seed=2)
        for arguments in ((other, self.out), (self.case, self.dir / "b.out")):
            words = [*command(2, "--device", "cpu", self.case, self.out), ":", "-np", "1", HW4_MPI, "--device", "cpu", *arguments]
            text = re.escape(" ".join(map(str, arguments)))
            with self.subTest(arguments=text):
                done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE,
                                      check=False)
                self.assert_all_fail(done, USAGE, rf"started as 'hw4 --device cpu {text}', need the arguments of the "
                                                  r"first rank \(rank 2\)$")

    def see(self, *contents):
        """Two ranks, each with an a.in of its own."""
        folders = [self.dir / "one", self.dir / "other"]
        for folder, content in zip(folders, contents):
            folder.mkdir(exist_ok=True)
            (folder / "a.in").write_bytes(content)
        return together(len(folders), "a.in", self.out, folders=folders)

    def test_ranks_that_see_another_input(self):
        mine, header = self.case.read_bytes(), lambda mask: struct.pack("<16i", -2, 0, mask, 0, 2, 1, 1, 300, 300, 8, 8,
                                                                        *[0] * 5)
        for other, wanted in (((mine, generated(2, 299, 8).read_bytes()), r"is \(2, 299, 8\) here and \(2, 300, 8\)"),
                              ((header(0) + mine[12:], header(1) + mine[12:]),
                               r"is \(2, 1, 1, 300, 300, 8, causal\) here and \(2, 300, 8\)")):
            self.assert_all_fail(self.see(*other), BAD_DATA, wanted + r" for the first rank, need the same file "
                                                                      r"\(rank 1\)$", "a.in")

    def test_ranks_that_see_other_numbers(self):
        mine = generated(3, 1000, 16).read_bytes()
        other = bytearray(mine)
        other[-1] ^= 1
        start = bytearray(mine)
        start[12] ^= 1
        third = len(mine) // 3
        cut = mine[:third] + generated(3, 1000, 16, seed=2).read_bytes()[third:2 * third] + mine[2 * third:]
        for numbers, byte in ((other, len(mine) - 12 - 4096), (start, 0), (cut, r"\d+")):
            self.assert_all_fail(self.see(mine, numbers), BAD_DATA,
                                 rf"has other numbers here, in the 4096 bytes from byte {byte} of the data on, than for "
                                 r"the first rank, need the same file \(rank 1\)$", "a.in")
        done = self.see(mine, mine)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.out.write_bytes(OLD_OUTPUT)
        lengths = [generated_by("--shape", "2,3,8", "--keys", "9", "--seed", "5", "--lengths", some).read_bytes()
                   for some in ("9,4", "9,5")]
        self.assert_all_fail(self.see(*lengths), BAD_DATA, r"has other lengths here than for the first rank, need the same "
                                                           r"file \(rank 1\)$", "a.in")

    def test_arrays(self):
        path = generated_by("--shape", "2,300,8", "--backward", "--seed", "5", "--long")
        data = path.read_bytes()[64:]
        size = len(data) // 8
        arrays = []
        for number, name in enumerate(("q", "k", "v", "do")):
            rows = data[number * size:(number + 1) * size] + data[(number + 4) * size:(number + 5) * size]
            arrays += [f"--{name}", self.file(npy_header((2, 1, 300, 8)) + rows, f"{name}.npy")]
        out = self.dir / "o.npy"
        done = together(3, *arrays, out)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assert_same_bytes(out.read_bytes(), npy_header((2, 3, 1, 300, 8)) + by_seq(path))
        three = [word for name in ("dq", "dk", "dv") for word in (f"--{name}", self.dir / name)]
        self.assert_all_fail(together(2, *arrays, *three), USAGE, r"--dq, --dk and --dv: several ranks write one OUTPUT")

    def test_wrong_usage_is_said_once(self):
        self.assert_all_fail(together(2, "--streams", "0", self.case, self.out), USAGE, r"--streams '0'")
        self.assertEqual(together(3, "--version").stdout.count("hw4 "), 1)


class FailureTest(RanksTest):
    def setUp(self):
        super().setUp()
        self.case = generated(3, 300, 16)  # a batch per rank, so that each reads and writes
        self.out.write_bytes(OLD_OUTPUT)

    def test_a_call_of_any_rank_fails(self):
        """A call fails at every stage, from the opening of the input on. The opening order: the input; then on the
        first rank the directory, on the others the output under its temporary name."""
        stages = (
            (dict(FAULT_CALL="open", FAULT_AT=1, FAULT_HOW=errno.EACCES), NO_INPUT, "cannot open: Permission", (2,)),
            (dict(FAULT_CALL="open", FAULT_AT=2, FAULT_HOW=errno.ENOENT), CANNOT_CREATE, "which the first rank", (1,)),
            (dict(FAULT_CALL="pread", FAULT_AT=1, FAULT_HOW=errno.EIO), IO_ERROR, "cannot read: Input/output", (1,)),
            (dict(FAULT_CALL="pwrite", FAULT_AT=1, FAULT_HOW=errno.ENOSPC, FAULT_STAYS=1), IO_ERROR,
             "cannot write: No space left", (0, 2)),
            (dict(FAULT_CALL="fsync", FAULT_AT=1, FAULT_HOW=errno.EIO), IO_ERROR, "cannot flush to disk", (1,)),
            (dict(FAULT_CALL="rename", FAULT_AT=1, FAULT_HOW=errno.EIO), CANNOT_CREATE, "cannot rename", (0,)),
        )
        for fault, code, wanted, ranks in stages:
            for rank in ranks:
                with self.subTest(fault=fault, rank=rank):
                    done = together(3, "--sync", self.case, self.out, faults={rank: fault})
                    self.assert_all_fail(done, code, wanted + (rf".*\(rank {rank}\)$" if rank else ""))

    def test_gathering_fails_where_the_first_cannot_write(self):
        fault = dict(FAULT_CALL="pwrite", FAULT_AT=1, FAULT_HOW=errno.ENOSPC, FAULT_STAYS=1)
        done = together(3, "--gather", self.case, self.out, faults={0: fault})
        self.assert_all_fail(done, IO_ERROR, "cannot write: No space left")
        done = together(3, "--gather", self.case, self.out, faults={1: {**fault, "FAULT_CALL": "pread"}})
        self.assert_all_fail(done, IO_ERROR, r"cannot read: No space left.*\(rank 1\)$")

    def hold_rank(self, rank, environment=None):
        """Starts ranks and stops one just before it writes; returns mpirun's process and the id of the stopped one."""
        mark, fired = uuid.uuid4().hex, self.dir / "fired"
        hold = {"FAULT_CALL": "pwrite", "FAULT_AT": 1, "FAULT_HOW": "wait", "FAULT_FIRED": fired, "HW4_TEST_MARK": mark}
        process = subprocess.Popen(command(3, "--device", "cpu", self.case, self.out, faults={rank: hold}),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment)
        self.addCleanup(process.kill)
        wait_until(lambda: fired.exists() or process.poll() is not None, "the rank to write")
        return process, self.marked(mark)

    @staticmethod
    def marked(mark):
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"HW4_TEST_MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
        raise AssertionError("no such process")

    def test_a_rank_is_killed(self):
        for rank in (2, 0):
            with self.subTest(rank=rank):
                process, held = self.hold_rank(rank)
                os.kill(held, signal.SIGKILL)
                process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, KILLED)
                self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)
                (self.dir / "fired").unlink()
        done = together(2, self.case, self.out)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(self.out.read_bytes(), by_seq(self.case))

    def test_an_interrupt_reaches_all(self):
        # mpirun kills this many seconds after SIGTERM, which ends the held rank. After one second, the default, other
        # ranks may not have cleaned up yet on a busy machine.
        process, held = self.hold_rank(1, {**os.environ, "OMPI_MCA_odls_base_sigkill_timeout": "3"})
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
        self.assertNotEqual(process.returncode, OK)
        self.assertEqual(len(re.findall(r"^hw4: ended by SIG", stderr, re.MULTILINE)), 1, stderr)
        self.assertEqual((self.out.read_bytes(), self.temporaries()), (OLD_OUTPUT, []))
        wait_until(lambda: not Path(f"/proc/{held}").exists(), "the rank that was held to end")


if __name__ == "__main__":
    unittest.main()
