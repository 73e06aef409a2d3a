"""Nsight Compute: finds it, checks whether it may count, runs it over hw4 bench --once or over any other program.

Clocks are not locked (--clock-control none); caches are flushed before every pass, which is ncu's default.
"""
from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "report"))

import gpu_peaks  # noqa: E402 (the path for the others is set above)
import metrics  # noqa: E402
from document import Failed, say  # noqa: E402
from ncu_csv import Malformed, is_remark, parse  # noqa: E402

USAGE, NO_COUNTERS, INTERNAL = 2, 69, 70
WRONG_USAGE = 64  # hw4's exit code
CUDA_BIN = "/usr/local/cuda/bin"
# Launches before kernels of fixed, and before and after kernels of half precision. They get no rows.
PASSES_BESIDE = ("compare_powers", "prepare_kernel", "prepare_beside_kernel", "round_rows", "widen_rows")

CLOSED = ("the GPU's counters are closed to you on this node: run as root, start the container with "
          "--cap-add=SYS_ADMIN, ask the administrator for 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in "
          "/etc/modprobe.d, or take another node; hw4 bench needs no counters")
OTHER_TOOL = ("another tool, such as DCGM, holds the GPU's counters: pause it (dcgmi profile --pause) or take another "
              "node")
UNFIT = "ncu {version} does not fit this GPU or its driver ({said}): take the one of a newer CUDA toolkit"
# ncu's messages when it cannot count; its exit code does not tell, because the program under it ends well.
REFUSALS = (("ERR_NVGPUCTRPERM", CLOSED), ("driver resource was unavailable", OTHER_TOOL),
            ("is not supported on device", UNFIT), ("driver is not compatible", UNFIT), ("unrecognised option", UNFIT))


def options_of(contract):
    """ncu's options before the name of its log file."""
    return ["--clock-control", "none", "--metrics", ",".join([*metrics.columns(contract), *gpu_peaks.COLUMNS]), "--csv",
            "--page", "raw", "--print-units", "base", "--log-file"]


class Ncu:
    """The program `name`, if it exists and prints its version."""

    def __init__(self, name, contract=""):
        self.options = options_of(contract)
        self.program = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), CUDA_BIN]))
        if self.program is None:
            raise Failed(f"{name} (Nsight Compute) is not on PATH: install the CUDA toolkit's nsight-compute package, "
                         "or name it with --ncu", NO_COUNTERS)
        done = subprocess.run([self.program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        version = re.search(r"^Version (\S+)", done.stdout, re.MULTILINE)
        if done.returncode != 0 or not version:
            raise Failed(f"{self.program} --version: {last_line(done.stderr + done.stdout) or 'it says nothing'}",
                         NO_COUNTERS)
        self.version = version[1]

    def run(self, hw4, arguments):
        """[(row of hw4 bench, row of ncu)] of the launches, one per cell."""
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            told = Path(folder) / "bench.json"
            table, said = self._run([], [hw4, "bench", "--once", *arguments, "--output", told])
            if not told.exists():
                raise Failed(last_line(said) or "hw4 bench wrote no file", INTERNAL)
            document = json.loads(told.read_text())
        rows = [row["hw4"] for row in document.get("results", [document])]
        return pair([row for row in rows if "samples" in row["forward"]], table, rows)

    def run_any(self, command, most, functions):
        """The rows of the first `most` launches of another program, of the named functions or of all."""
        named = ["--kernel-name", "regex:" + "|".join(functions)] if functions else []
        table, said = self._run([*named, "--launch-count", str(most)], command)
        rows = rows_of(table)
        if not rows:
            raise Failed(last_line(said) or "no kernel was launched" + (" of that name" if functions else ""), INTERNAL)
        return rows

    def _run(self, more, program):
        """(ncu's table, standard error of the program)"""
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            log, errors = Path(folder) / "log.csv", Path(folder) / "stderr"
            command = [self.program, *more, *self.options, log, *program]
            with open(errors, "w", encoding="utf-8") as stderr:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                                      text=True, errors="replace", env={**os.environ, "LC_ALL": "C"})
            table = log.read_text(errors="replace") if log.exists() else ""
            said = errors.read_text(errors="replace")
        self.check(done.returncode, table + done.stdout + said, said)
        return table, said

    def check(self, code, text, said_by_program):
        """Raises where ncu, or the program under it, failed. The exit code may show neither."""
        for sign, message in REFUSALS:
            if sign in text:
                raise Failed(message.format(version=self.version, said=errors_of(text)), NO_COUNTERS)
        ended = re.search(r"application returned an error code \((\d+)\)", text)
        words = last_line("\n".join(line for line in said_by_program.splitlines() if not is_remark(line)))
        if ended and int(ended[1]) == NO_COUNTERS:
            raise Failed(f"no usable GPU here, take a GPU node ({words})", NO_COUNTERS)
        if ended and words:
            raise Failed(words, USAGE if int(ended[1]) == WRONG_USAGE else INTERNAL)
        if code != 0 or errors_of(text):
            raise Failed(f"ncu ended with {code}: {errors_of(text) or last_line(text) or 'it said nothing'}", INTERNAL)


def errors_of(text):
    """ncu's error lines as one line."""
    prefix = "==ERROR=="
    return "; ".join(line[len(prefix):].strip() for line in text.splitlines() if line.startswith(prefix))


def need_open_counters():
    """Raises where the driver reserves the counters for the administrator and we are not: ncu would report it only
    after it has started the program. (In tests HW4_PROC replaces /proc.)"""
    proc = Path(os.environ.get("HW4_PROC", "/proc"))
    try:
        admin_only = re.search(r"^RmProfilingAdminOnly: 1$", (proc / "driver/nvidia/params").read_text(), re.MULTILINE)
        capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", (proc / "self/status").read_text(), re.MULTILINE)
    except OSError:
        return
    cap_sys_admin = 1 << 21
    if admin_only and capabilities and not int(capabilities[1], 16) & cap_sys_admin:
        raise Failed(f"{CLOSED} (RmProfilingAdminOnly is 1)", NO_COUNTERS)


def rows_of(table):
    try:
        return parse(table)
    except Malformed as error:
        raise Failed(f"ncu's table: {error}", INTERNAL) from error


def pair(measured, table, cells):
    """The n-th launch that ncu saw belongs to the n-th cell that ran, if the counts agree. Otherwise equal neighbours
    are one cell's: a kernel that takes few rows at a time, which no launch stands for, so it gets no row."""
    rows = [row for row in rows_of(table) if not any(name in (row.text("Kernel Name") or "") for name in PASSES_BESIDE)]
    groups = [[row] for row in rows]
    if len(rows) != len(measured):
        groups = [list(group) for _, group in itertools.groupby(rows, lambda row: row.text("Kernel Name"))]
    if len(groups) != len(measured):
        raise Failed(f"ncu profiled {len(rows)} launches, hw4 bench made {len(measured)}: they cannot be matched",
                     INTERNAL)
    for cell, group in zip(measured, groups):
        if len(group) > 1:
            say(f"profile: {cell['forward']['kernel']} left out: it makes {len(group)} launches of this case")
    pairs = [(cell, group[0]) for cell, group in zip(measured, groups) if len(group) == 1]
    if not pairs:
        raise Failed(cells[0]["reason"] or "no kernel was launched once", INTERNAL)
    return pairs


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
