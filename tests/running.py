"""What tests/run, tests/gpu-check and tests/mutants share."""
import concurrent.futures
import contextlib
import os
import signal
import subprocess


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


def completed(futures):
    """Each when it is done. Wakes up in between, since a signal that another thread was given is heeded only then."""
    while futures:
        done, futures = concurrent.futures.wait(futures, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
        yield from done
