"""build/time_kernels as the programs that measure use it: brought up to date, and asked for its kernels and times."""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "report"))

from bench_document import Failed, say  # noqa: E402 (the path to it is set above)

USAGE, NO_GPU, INTERNAL = 2, 69, 70
WRONG_USAGE = 64  # time_kernels'
TIME_KERNELS = ROOT / "build/time_kernels"


def need_time_kernels(program, who):
    """The default program is brought up to date: the commit named is the one measured. Another has to be there."""
    if program == TIME_KERNELS:
        say(f"{who}: make time-kernels")
        # What make says is not the table.
        done = subprocess.run(["make", f"-j{os.cpu_count()}", "time-kernels"], cwd=ROOT, stdout=sys.stderr)
        if done.returncode != 0:
            raise Failed("make time-kernels failed", NO_GPU)
    if not os.access(program, os.X_OK):
        raise Failed(f"{program} is not there; make time-kernels builds it", NO_GPU)


def kernel_names(program, contract, *more):
    """The kernels of the program's table under a contract, in ladder order. Which contracts there are it knows."""
    command = [program, "--contract", contract, *more, "--list"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise Failed(f"{program} --list: {said[-1] if said else f'ended with {done.returncode}'}",
                     USAGE if done.returncode == WRONG_USAGE else INTERNAL)
    return done.stdout.split()


def lines_of(program, *arguments):
    """The lines that it prints, one at least."""
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()
    if done.returncode != 0:
        code = done.returncode if done.returncode > 0 else INTERNAL  # a signal's number is no exit code
        raise Failed(said[-1] if said else f"{program} ended with {done.returncode}", code)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if not lines:
        raise Failed(said[-1] if said else "no kernel was measured", INTERNAL)
    return lines
