"""The origin of a measurement: the machine, a program's compiler, the state of the sources."""
from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess


def _first_answer(command: list[str]) -> str | None:
    """A program's output, where it exists and succeeds."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                              errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
            names = re.findall(r"^model name\s*:\s*(.+)$", info.read(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> dict:
    gpus = _first_answer(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    return {"host": platform.node(), "system": platform.platform(), "architecture": platform.machine(),
            "processor": _processor(), "processors": os.cpu_count(), "python": platform.python_version(),
            "gpus": gpus.splitlines() if gpus is not None else []}


_GPU_NAMES = {"name": "name", "driver": "driver_version"}
_GPU_NUMBERS = {"sm_clock_mhz": "clocks.sm", "sm_clock_max_mhz": "clocks.max.sm", "memory_clock_mhz": "clocks.mem",
                "temperature_c": "temperature.gpu", "power_w": "power.draw", "power_limit_w": "power.limit"}


def _number_or_none(text: str) -> float | None:
    """None for nvidia-smi's unknown values: [N/A], [Not Supported]."""
    try:
        return float(text)
    except ValueError:
        return None


def gpu_state() -> list[dict]:
    """The clocks, temperature and power of each GPU at this moment."""
    fields = {**_GPU_NAMES, **_GPU_NUMBERS}
    answer = _first_answer(["nvidia-smi", f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits"])
    rows = [dict(zip(fields, (text.strip() for text in line.split(",")))) for line in (answer or "").splitlines()]
    return [{field: text if field in _GPU_NAMES else _number_or_none(text) for field, text in row.items()}
            for row in rows]


def compilers_of(program: str) -> list[str]:
    """The compilers' notes in the program itself: another compiler may be installed by now."""
    comment = _first_answer(["readelf", "-p", ".comment", program])
    return re.findall(r"^\s*\[\s*[0-9a-f]+\]\s+(.+?)\s*$", comment or "", re.MULTILINE)


def compile_commands(build: str) -> dict:
    """The commands that compile a C++ and a CUDA source, as make recorded them in its folder; None where it has no
    record."""
    return {kind: _compile_command(os.path.join(build, f"{kind}-command")) for kind in ("cpp", "cu")}


def _compile_command(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            compiling = file.read().partition("; ")[0]  # followed by the link command
    except OSError:
        return None
    return " ".join(compiling.split())


def cuda_toolkit(build: str) -> str | None:
    """The release of make's nvcc, like 13.0."""
    words = (_compile_command(os.path.join(build, "cu-command")) or "").split()
    if not words or not os.path.basename(words[0]).startswith("nvcc"):  # built without CUDA
        return None
    release = re.search(r"release (\d+(?:\.\d+)*)", _first_answer([words[0], "--version"]) or "")
    return release[1] if release else None


# Files generated from measurements do not affect new measurements.
_GENERATED = ("report/data", "report/figures", "report/report.md", "report/contracts.md", "report/lab5.md",
              "report/cs336.md", "README.md")


def changed_files(root: str) -> list[str] | None:
    """The files that differ from the commit, except generated ones; None without git."""
    # Optional locks could block a commit elsewhere.
    status = _first_answer(["git", "--no-optional-locks", "-C", root, "status", "--porcelain", "--", ".",
                            *(f":(exclude){path}" for path in _GENERATED)])
    return None if status is None else [line[3:] for line in status.splitlines()]


def git_state(root: str) -> dict | None:
    commit = _first_answer(["git", "-C", root, "rev-parse", "HEAD"])
    changed = changed_files(root)
    if commit is None or changed is None:
        return None
    return {"commit": commit.strip(), "dirty": bool(changed)}
