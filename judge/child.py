"""Running a program in a process group of its own: timed, ended at a limit, nothing of it left behind."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
import threading
import time

KILL_GRACE_S = 0.5  # a run that ends only a little over its limit shows by how much
TERM_GRACE_S = 1.0  # between SIGTERM, which lets a program remove its temporary files, and SIGKILL
LINE_LENGTH = 300
LAST_LINES = 5  # of each stream
LAST_BYTES = 4096

_live: set[int] = set()  # process groups whose leader is not reaped, so whose number cannot be another's
_live_lock = threading.Lock()
_stopping = False


class Interrupted(BaseException):
    """A signal asked this program to end. Not an Exception, so that nothing catches it by accident."""

    def __init__(self, number: int):
        super().__init__(number)
        self.exit_code = 128 + number


@dataclasses.dataclass(frozen=True)
class Ended:
    wall_s: float
    exit_code: int | None  # None when a signal ended it
    signal: int | None
    at_limit: bool  # ended by us
    last_error_line: str  # before we ended it
    last_lines: list[str] = dataclasses.field(default_factory=list)  # of both streams, where they were kept

    @classmethod
    def with_status(cls, status: int, **more) -> Ended:
        """By what Popen calls a return code: below 0 it is a signal."""
        return cls(exit_code=status if status >= 0 else None, signal=-status if status < 0 else None, **more)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.at_limit

    def failure(self) -> str:
        """How it failed, in words, with what it said last."""
        how = f"exit code {self.exit_code}" if self.signal is None else f"signal {signal_name(self.signal)}"
        if self.signal is None and self.exit_code > 128 and signal_name(self.exit_code - 128).startswith("SIG"):
            how += f" (a launcher's way to say {signal_name(self.exit_code - 128)})"
        return self.with_last_line(how)

    def with_last_line(self, text: str) -> str:
        return f"{text}: {self.last_error_line}" if self.last_error_line else text


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def raise_on_signals() -> None:
    """SIGINT, SIGTERM and SIGHUP unwind the main thread, unless they were being ignored (nohup)."""
    endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number, _frame):
        for ending in endings:  # a second Ctrl-C must not stop the cleaning up
            signal.signal(ending, signal.SIG_IGN)
        raise Interrupted(number)

    for ending in endings:
        if signal.getsignal(ending) != signal.SIG_IGN:
            signal.signal(ending, interrupt)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def stop_group(group: int) -> None:
    _signal_group(group, signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_S
    while time.monotonic() < deadline and not has_ended(group):
        time.sleep(0.01)
    _signal_group(group, signal.SIGKILL)


def stop_all() -> None:
    """Ends what other threads are running, and lets them start nothing more."""
    global _stopping
    with _live_lock:
        _stopping = True
        for group in _live:
            stop_group(group)


def start(command: list[str], **streams) -> subprocess.Popen:
    """What is started has to be reaped."""
    with _live_lock:
        if _stopping:
            raise OSError("stopping")
        started = subprocess.Popen(command, bufsize=0, start_new_session=True, **streams)
        _live.add(started.pid)
        return started


def wait_for(pid: int) -> None:
    """WNOWAIT: the process stays a zombie, so its number stays its own until nobody signals it any more."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def reap(started: subprocess.Popen) -> int:
    """The return code of what has ended, or is about to; nothing of what it started and left running stays."""
    _signal_group(started.pid, signal.SIGKILL)
    with _live_lock:
        _live.discard(started.pid)
    return started.wait()


def shown_line(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line.strip())[:LINE_LENGTH]


def _last_lines(stream) -> list[str]:
    """Without seeking: the program may still be writing, at a position it shares with us."""
    file = stream.fileno()
    start = max(0, os.fstat(file).st_size - LAST_BYTES)
    lines = os.pread(file, LAST_BYTES, start).decode("utf-8", "replace").splitlines()
    return [shown_line(line) for line in lines if line.strip()][-LAST_LINES:]


def _last_line(errors) -> str:
    return "".join(_last_lines(errors)[-1:])


def run(command: list[str], limit_s: float | None = None, keep_streams: bool = False) -> Ended:
    """Runs the command to its end, or to a little over the limit. Its standard output is dropped, unless the last of it
    is to be kept."""
    # Files and not pipes: whoever inherited a pipe could keep it open after the program has ended.
    with tempfile.TemporaryFile() as errors, contextlib.ExitStack() as kept:
        out = kept.enter_context(tempfile.TemporaryFile()) if keep_streams else None
        began = time.monotonic()
        child = start(command, stdin=subprocess.DEVNULL, stdout=out or subprocess.DEVNULL, stderr=errors)
        said_at_limit: list[str] = []

        def end_at_limit():
            if not has_ended(child.pid):
                said_at_limit.append(_last_line(errors))
                stop_group(child.pid)

        limiter = threading.Timer(limit_s + KILL_GRACE_S, end_at_limit) if limit_s is not None else None
        try:
            if limiter:
                limiter.start()
            wait_for(child.pid)
            wall_s = time.monotonic() - began
        except BaseException:
            stop_group(child.pid)
            raise
        finally:
            if limiter and limiter.is_alive():
                limiter.cancel()
                limiter.join()
            status = reap(child)
        streams = (("stdout", out), ("stderr", errors)) if out else ()
        return Ended.with_status(status, wall_s=wall_s, at_limit=bool(said_at_limit),
                                 last_error_line=[*said_at_limit, _last_line(errors)][0],
                                 last_lines=[f"{name}: {line}" for name, stream in streams
                                             for line in _last_lines(stream)])
