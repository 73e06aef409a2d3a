"""Whole runs of the programs: timed, checked, on test cases that are made once and stay in the page cache."""
import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bench_document import ROOT, Failed
from expected_table import read_expectations, table_beside
from files import crc32_of
from listing import NoListing, WrongContract, choose, choose_by_bytes, listing_of
from tsv import TableError

USAGE, NO_GPU, FAILED = 2, 69, 70
PATIENCE = 120  # seconds for one run of a program
LOOK_SECONDS = 1  # between two looks at a file that grows
CASE_FOLDER = ROOT / "build/bench_files"  # of all programs that measure, so that each case is made once


class RunFailed(Failed):
    """A program ended with an exit code other than 0."""

    def __init__(self, message, status):
        super().__init__(message, NO_GPU if status == NO_GPU else FAILED)
        self.status = status


def need(programs, goal):
    """Every one has to be there; the goal is make's."""
    for program in programs:
        if not os.access(program, os.X_OK):
            raise Failed(f"{program} is not there; make {goal} builds it", NO_GPU)


def timed(*command, patience=PATIENCE):
    """Wall seconds of a run that succeeds, and what it printed."""
    start = time.perf_counter()
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=patience)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{command[0]}: no end after {patience} s", FAILED) from expired
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise RunFailed(said[-1] if said else f"{command[0]} ended with {done.returncode}", done.returncode)
    return seconds, done.stdout


def hw4_report(path):
    """What hw4 --json wrote, with the input's name for its path."""
    told = json.loads(path.read_text())
    path.unlink()
    told["input"] = Path(told["input"]).name
    return told


def hw4_bench(hw4, *words):
    """What `hw4 bench` writes; its table and its progress are to be seen."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.json"
        command = [str(hw4), "bench", *map(str, words), "--output", str(path)]
        code = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
        if code != 0:
            raise RunFailed(f"hw4 {' '.join(command[1:-2])} ended with {code}", code)
        return json.loads(path.read_text())


class BenchRun:
    """A run of `hw4 bench` that may be ended early: the file of a sweep is whole after each of its rows."""

    MEASURED = (0, FAILED, NO_GPU)  # where it has written rows: none of them ran, or one failed

    def __init__(self, hw4, path, *words):
        self._path, self._seen = path, None
        self._command = [str(hw4), "bench", *map(str, words), "--output", str(path)]
        path.unlink(missing_ok=True)
        self._running = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)

    def wait(self, seconds, show):
        """Whether it ended by itself within the time; None: whenever that is. show() gets its file as it grows."""
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                try:
                    code = self._running.wait(LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    self._look(show)
                    if end is not None and time.monotonic() >= end:
                        self._running.send_signal(signal.SIGINT)
                        self._running.wait()
                        return False
        except BaseException:
            self._running.kill()
            self._running.wait()
            raise
        if code not in self.MEASURED or not self._path.exists():
            raise RunFailed(f"hw4 {' '.join(self._command[1:-2])} ended with {code}", code)
        return True

    def told(self):
        """What it has written, in the form of several rows; nothing but an empty list where it had none."""
        if not self._path.exists():
            raise Failed(f"hw4 {' '.join(self._command[1:-2])}: no row in the time that it had", FAILED)
        told = json.loads(self._path.read_text())
        if "results" in told:
            return told
        return {"hw4_version": told["hw4"]["hw4_version"], "machine": told["hw4"]["machine"], "results": [told]}

    def _look(self, show):
        if not self._path.exists():
            return
        size = self._path.stat().st_size
        if size != self._seen:
            self._seen = size
            with contextlib.suppress(ValueError, KeyError):  # in the midst of a row
                show(self.told())


# ---- Contracts


def contracts_of(hw4, asked, by_bound=False):
    """Those that a value of --contract means, of the ones that promise bytes, or of all; a default of none: hw4's."""
    try:
        return (choose if by_bound else choose_by_bytes)(listing_of(hw4).contracts, asked)
    except NoListing as error:
        raise Failed(str(error), FAILED) from error
    except WrongContract as error:
        raise Failed(str(error), USAGE) from error


def hw4_under(contract):
    """What hw4 is called in tables and files: its results under a contract are those of a program of their own."""
    return "hw4" if contract.is_default else f"hw4_{contract.name}"


# ---- Cases


def input_of(folder, case):
    return folder / f"{case.name}-{case.crc32_in}.in"


def make_case(generate, folder, case):
    """The case's file, which is then in the page cache."""
    path = input_of(folder, case)
    if not path.exists() or path.stat().st_size != case.input_bytes:
        folder.mkdir(parents=True, exist_ok=True)
        timed(generate, *case.recipe(), path)
    with open(path, "rb", buffering=0) as file:
        block = bytearray(1 << 22)
        while file.readinto(block):
            pass
    return path


def make_cases(generate, folder, cases):
    largest_first = sorted(cases, key=lambda case: -case.input_bytes)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: make_case(generate, folder, case), largest_first))
    os.sync()  # so that nothing of this is still being written while others are timed


def check_bytes(case, output, name):
    """name says whose output it is, under the contract that hw4 takes by itself."""
    try:
        expectations = read_expectations(table_beside(str(ROOT / "testcases/cases.tsv")))
    except TableError as error:
        raise Failed(str(error), FAILED) from error
    if not expectations.contracts:
        raise Failed("testcases/expected.tsv has no rows", FAILED)
    expected = expectations.of(case, expectations.contracts[0])
    if expected and crc32_of(str(output)) != expected.crc32:
        raise Failed(f"{case.name}: {name}: the output has not the CRC-32 of the table", FAILED)
