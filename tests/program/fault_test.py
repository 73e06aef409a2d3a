#!/usr/bin/env python3
"""Faults while hw4 runs: in writing, memory, CUDA calls. Every fault must end in the documented exit code, without a
hang and without an incomplete file. HW4_SOAK=1 makes more CUDA calls fail and the large file ten times as large."""
import errno
import functools
import json
import os
import random
import re
import unittest
from pathlib import Path

import cli_test
from cli_test import (CANNOT_CREATE, INTERNAL, NEEDS_ADDRESS_SPACE, NO_GPU, NO_MEMORY, OK, OLD_OUTPUT, REPO,
                      SANITIZED, by_seq, case_bytes, generated, hw4, mean_of_ramps, ramps, write_zeros)

SHIM = Path(os.environ.get("HW4_BUILD") or REPO / "build").resolve() / "fault_shim.so"
SOAK = os.environ.get("HW4_SOAK") == "1"
PRELOAD_AND_SANITIZER = "a sanitizer must be the first library, so no other can be loaded before the program"


setUpModule = cli_test.setUpModule


@functools.lru_cache(maxsize=None)
def no_gpu():
    """The reason why no GPU can be tested; empty where there is one."""
    case = generated(1, 2, 2)
    done = hw4(case, "/dev/null", device="gpu")
    return done.stderr.splitlines()[-1] if done.returncode == NO_GPU else ""


class FaultTest(cli_test.CliTest):
    def faulty(self, path, *options, **faults):
        """hw4 with faults in its system calls."""
        if not SHIM.exists():
            self.skipTest(f"{SHIM} is not there; make tests builds it")
        env = {"LD_PRELOAD": str(SHIM), **{name: str(value) for name, value in faults.items()}}
        return hw4(*options, path, self.out, env=env)

    def assert_fails(self, done, code, wanted, names):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assert_one_message(done.stderr, names, wanted)
        self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)
        self.assertEqual(self.temporaries(), [])


@unittest.skipIf(SANITIZED, PRELOAD_AND_SANITIZER)
class StepTest(FaultTest):
    """The order of hw4's calls, and the effects of single calls."""

    def setUp(self):
        super().setUp()
        self.case = self.file(cli_test.counting(1, 4, 3))
        self.log = self.dir / "log"

    def calls(self, *names):
        """The calls of the last run, each with the last part of its file's name; TEMPORARY for a temporary file."""
        lines = [line.split(" ", 1) for line in self.log.read_text().splitlines()]
        return [(call, re.sub(r"\.hw4-\d+-\d+\.tmp$", " TEMPORARY", Path(file).name))
                for call, file in lines if call in names]

    def test_sync_flushes_the_file_before_it_gets_its_name_and_the_name_after(self):
        done = self.faulty(self.case, "--sync", FAULT_LOG=self.log)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(self.calls("fsync", "rename"), [("fsync", "case.out TEMPORARY"),
                                                         ("rename", "case.out TEMPORARY"), ("fsync", self.dir.name)])

    def test_both_outputs_are_complete_before_either_gets_its_name(self):
        done = self.faulty(self.case, "--sync", "--lse", self.dir / "case.lse", FAULT_LOG=self.log)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual([" ".join(step) for step in self.calls("fsync", "close", "rename") if "TEMPORARY" in step[1]],
                         ["fsync case.out TEMPORARY", "close case.out TEMPORARY", "fsync case.lse TEMPORARY",
                          "close case.lse TEMPORARY", "rename case.lse TEMPORARY", "rename case.out TEMPORARY"])

    def test_new_file_is_ours_alone_until_it_has_the_old_ones_mode(self):
        """It stays so where the file system has no modes."""
        self.out.write_bytes(OLD_OUTPUT)
        self.out.chmod(0o666)
        done = self.faulty(self.case, FAULT_CALL="fchmod", FAULT_AT=1, FAULT_HOW=errno.EPERM)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(self.out.stat().st_mode & 0o777, 0o600)

    def test_file_that_cannot_be_replaced(self):
        """The output is a mount point or another user's file in a sticky directory: no data is lost."""
        for error in (errno.EBUSY, errno.EPERM):
            with self.subTest(error=error):
                self.out.write_bytes(OLD_OUTPUT)
                done = self.faulty(self.case, FAULT_CALL="rename", FAULT_AT=1, FAULT_HOW=error)
                self.assertEqual((done.returncode, self.out.read_bytes()), (CANNOT_CREATE, OLD_OUTPUT), done.stderr)
                [kept] = self.temporaries()
                self.assertIn(f"case.out: cannot be replaced: {os.strerror(error)}; the complete result is in ", done.stderr)
                self.assertIn(str(kept), done.stderr)
                kept = self.dir / kept
                self.assertEqual(kept.read_bytes(), by_seq(self.case))
                kept.unlink()
        self.out.write_bytes(OLD_OUTPUT)
        done = self.faulty(self.case, FAULT_CALL="rename", FAULT_AT=1, FAULT_HOW=errno.EXDEV)
        self.assert_fails(done, CANNOT_CREATE, rf"cannot rename .*: {os.strerror(errno.EXDEV)}", self.out)


class LargeFileTest(FaultTest):
    device = "cpu"

    @unittest.skipIf(SANITIZED, NEEDS_ADDRESS_SPACE)
    def test_memory_stays_that_of_the_ring(self):
        # 0.4 GB, a dozen rings of 32 MiB, or ten times as much; one token per batch, to compute little.
        path, report = self.dir / "case.in", self.dir / "run.json"
        batches = 1_300_000 if SOAK else 130_000
        write_zeros(path, batches, 1, 256)
        done = hw4("--json", report, path, "/dev/null", device=self.device)
        self.assertEqual(done.returncode, OK, done.stderr)
        told = json.loads(report.read_text())
        self.assertEqual(told["read_bytes"], batches * 3 * 256 * 4)
        self.assertLessEqual(told["staging_bytes"], 64 << 20)
        if self.device == "cpu":
            self.assertLessEqual(told["host_peak_bytes"], 128 << 20)


class NeedsGpu:
    @classmethod
    def setUpClass(cls):
        reason = no_gpu()
        if reason:
            raise unittest.SkipTest(reason)
        super().setUpClass()


class GpuLargeFileTest(NeedsGpu, LargeFileTest):
    device = "gpu"

    def test_batch_larger_than_a_slot(self):
        # Zeros in Q and K weigh every value the same, so a row of the output is the mean of V; where a slice was not
        # computed, the new file still has its zeros.
        path, report = self.dir / "case.in", self.dir / "run.json"
        tokens, dim = 1 << 18, 64
        write_zeros(path, 2, tokens, dim)
        with open(path, "r+b") as file:
            for batch in range(2):
                values = ramps(batch + 1, tokens, dim)
                file.seek(case_bytes(batch + 1, tokens, dim) - len(values))
                file.write(values)
        done = hw4("--json", report, path, self.out, device="gpu")
        self.assertEqual(done.returncode, OK, done.stderr)
        told = json.loads(report.read_text())
        self.assertLess(told["queries_at_once"], tokens)
        self.assertLessEqual(told["staging_bytes"], 64 << 20)
        self.assertTrue(self.out.read_bytes() == b"".join(mean_of_ramps(batch + 1, tokens, dim) for batch in range(2)))


UNKNOWN, OUT_OF_MEMORY, UNAVAILABLE = 999, 2, 46  # cudaErrorUnknown, ...MemoryAllocation, ...DevicesUnavailable
WITHOUT_CONTEXT = ((UNKNOWN, NO_GPU, r"no usable GPU: unknown error"),
                   (OUT_OF_MEMORY, NO_MEMORY, r"no usable GPU: out of memory"),
                   (UNAVAILABLE, NO_MEMORY, r"no usable GPU: .*unavailable: its memory is taken, or "))


FAILING = (UNKNOWN, (INTERNAL,), r"cudaErrorUnknown .* from .* at src/gpu/")
# Where the slots do not fit, hw4 tries smaller ones.
LACKING = (OUT_OF_MEMORY, (OK, NO_MEMORY), r"cudaErrorMemoryAllocation .* from .* at src/gpu/")
FIRST_CALLS = 25  # each of the first calls fails once, a sample of the later ones


def failing_call(number, error):
    return {"HW4_FAIL_CUDA_CALL": f"{number}:{error}"}


class CudaFaultTest(NeedsGpu, FaultTest):
    """The k-th checked CUDA call fails, for every k of a run with several chunks, or for a sample of them. Each run makes
    a context."""

    def setUp(self):
        super().setUp()
        self.case = generated(60, 256, 64)

    def run_with(self, number, error):
        self.out.write_bytes(OLD_OUTPUT)
        done = hw4("--streams", "2", self.case, self.out, device="gpu", env=failing_call(number, error))
        if done.returncode == OK:
            self.assert_same_bytes(self.out.read_bytes(), by_seq(self.case))
        return done

    def fail_call(self, number, error, codes, wanted):
        done = self.run_with(number, error)
        self.assertIn(done.returncode, codes, f"call {number}, error {error}: {done.stderr}")
        if done.returncode != OK:
            self.assert_fails(done, done.returncode, wanted, None)
        return done.returncode

    def test_no_context(self):
        for error, code, wanted in WITHOUT_CONTEXT:
            with self.subTest(error=error):
                self.assert_fails(self.run_with(2, error), code, wanted, None)

    def test_first_calls_fail(self):
        for number in range(3, FIRST_CALLS):  # the first two come before the CUDA context
            self.fail_call(number, *FAILING)

    def test_first_calls_lack_memory(self):
        for number in range(3, FIRST_CALLS, 1 if SOAK else 3):
            self.fail_call(number, *LACKING)

    def test_later_calls_fail_or_lack_memory(self):
        """Until a run is through: it made fewer calls. Waiting threads make a varying few, so ten calls later a run must
        be through too."""
        seed, (error, codes, wanted) = random.randrange(1 << 30), FAILING
        chance, number = random.Random(seed), FIRST_CALLS
        with self.subTest(seed=seed):
            while self.fail_call(number, error, (OK, *codes), wanted) != OK:
                self.fail_call(number, *LACKING)
                number += 1 if SOAK else chance.randrange(1, 20)
            self.assertGreater(number, 30, "too few calls were checked")
            self.assertEqual(self.run_with(number + 10, error).returncode, OK)


class CudaStartTest(FaultTest):
    """The very first call fails: the test needs a build with CUDA, but no GPU."""

    def test_no_driver(self):
        if not cli_test.kernels("gpu"):
            self.skipTest("hw4 was built without CUDA")
        case = generated(2, 128, 32)
        for error, code, wanted in WITHOUT_CONTEXT:
            with self.subTest(error=error):
                self.out.write_bytes(OLD_OUTPUT)
                self.assert_fails(hw4(case, self.out, device="gpu", env=failing_call(1, error)), code, wanted, None)
                done = hw4(case, self.out, device="auto", env=failing_call(1, error))
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assert_same_bytes(self.out.read_bytes(), by_seq(case))


if __name__ == "__main__":
    unittest.main()
