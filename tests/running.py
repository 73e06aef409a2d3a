"""What tests/run, tests/gpu-check and tests/mutants share."""
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import NamedTuple

GRACE = 5  # seconds to report a hang or to clean up
LIVE = set()  # processes that run_limited() has started and whose end it has not seen
ENDING = threading.Event()  # no more processes may start


def names_of_tests(program, *options, **more):
    """The full names of a GoogleTest program's tests."""
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
    """Ends a process that has a session of its own, with whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Done(NamedTuple):
    """A program that has ended."""
    stdout: str
    ending: str  # in words; empty: with 0
    at_limit: bool = False


def end_after(process, grace):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    end_session(process)


def run_limited(command, seconds, **more):
    """Ends it after so many seconds, with all that it has started: by SIGALRM first, on which tests say where they are,
    then by force. In a session of its own, so that nothing is left behind."""
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
    """On Ctrl-C, which is not theirs too."""
    ENDING.set()
    processes = list(LIVE)
    for process in processes:
        process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE
    for process in processes:
        end_after(process, max(0, deadline - time.monotonic()))


def completed(futures):
    """Each when it is done. Wakes up in between, since a signal that another thread was given is heeded only then."""
    while futures:
        done, futures = concurrent.futures.wait(futures, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
        yield from done
