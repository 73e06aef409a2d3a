"""Shared by tests/run and tests/mutants."""
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import NamedTuple

GRACE = 5  # seconds to report a hang or to clean up
LIVE = set()  # processes that run_limited() has started and not yet seen end
ENDING = threading.Event()  # no more processes may start


def names_of_tests(program, *options, **more):
    listed = subprocess.run([*program, "--gtest_list_tests", *options], check=True, stdin=subprocess.DEVNULL,
                            capture_output=True, encoding="utf-8", **more).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + name)
        else:
            suite = name
    return names


def end_session(process):
    """Ends a process that has its own session, and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Done(NamedTuple):
    """The result of a program that has ended."""
    stdout: str
    ending: str  # in words; empty: with 0
    at_limit: bool = False


def end_after(process, grace):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    end_session(process)


def run_limited(command, seconds, **more):
    """Ends the program and all that it started after this many seconds: first by SIGALRM, on which tests report where
    they are, then by force. The program has its own session, so that nothing remains."""
    with subprocess.Popen(command, start_new_session=True, text=True, errors="replace", **more) as process:
        LIVE.add(process)
        if ENDING.is_set():  # end_all() may have missed it
            end_session(process)
        try:
            stdout = process.communicate(timeout=seconds)[0]
            return Done(stdout or "", f"ended with {process.returncode}" if process.returncode else "")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGALRM)
            end_after(process, GRACE)
            return Done(process.communicate()[0] or "", f"was ended after {seconds:g} s", True)
        finally:
            LIVE.discard(process)
            end_session(process)


def end_all():
    """For Ctrl-C, which does not reach the programs' own sessions."""
    ENDING.set()
    processes = list(LIVE)
    for process in processes:
        process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE
    for process in processes:
        end_after(process, max(0, deadline - time.monotonic()))


def completed(futures):
    """Yields each future when it is done. Wakes up regularly, to handle a signal that another thread received."""
    while futures:
        done, futures = concurrent.futures.wait(futures, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
        yield from done
