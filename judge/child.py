"""Runs a program in its own process group: timed, ended at a limit, with nothing left behind. A program can leave its
group; adopt_orphans() lets the judge find and end such processes too."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import select
import signal
import subprocess
import threading
import time

KILL_GRACE_S = 0.5  # a run slightly over its limit can then show by how much
TERM_GRACE_S = 1.0  # after SIGTERM, which lets a program remove its temporary files, before SIGKILL
LINE_LENGTH = 300
LAST_LINES = 5  # per stream
LAST_BYTES = 4096
READ_STEP = 1 << 16
READS_AT_ONCE = 32  # more than a pipe holds
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
ORPHAN_PATIENCE_S = 5.0  # time for killed processes to end

_live: set[int] = set()  # process groups with a leader that is not reaped: their numbers are still theirs
_earlier_children: set[int] | None = None  # None: orphans are not adopted


class Interrupted(BaseException):
    """A signal asked this program to end. Not an Exception, so that nothing catches it by accident."""

    def __init__(self, number: int):
        super().__init__(number)
        self.exit_code = 128 + number


@dataclasses.dataclass(frozen=True)
class Ended:
    wall_s: float
    exit_code: int | None  # None after a signal
    signal: int | None
    at_limit: bool  # the judge ended it
    last_error_line: str  # its last line before the judge ended it
    last_lines: list[str] = dataclasses.field(default_factory=list)  # from both streams, where kept
    error_lines: list[str] = dataclasses.field(default_factory=list)  # all lines kept from standard error

    @classmethod
    def with_status(cls, status: int, **more) -> Ended:
        """Converts Popen's return code: below 0 it is a signal."""
        return cls(exit_code=status if status >= 0 else None, signal=-status if status < 0 else None, **more)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.at_limit

    def failure(self) -> str:
        """The failure in words, with the program's last output."""
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
    """SIGINT, SIGTERM and SIGHUP unwind the main thread, unless they were ignored before (nohup)."""
    endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number, _frame):
        for ending in endings:  # a second Ctrl-C must not stop the clean-up
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


def _children() -> set[int]:
    """The children of this process, also zombies."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(name))
    return found


def adopt_orphans() -> None:
    """Every descendant that loses its parent becomes this process's child, and reap() ends it. For a program that runs
    one child at a time. Existing children of this process are left alone."""
    global _earlier_children
    _earlier_children = _children()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _end_orphans() -> None:
    """A killed process passes its own children to this process, so the next round finds them."""
    deadline = time.monotonic() + ORPHAN_PATIENCE_S
    while (orphans := _children() - _earlier_children - _live) and time.monotonic() < deadline:
        for orphan in orphans:
            with contextlib.suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, os.WNOHANG)
        time.sleep(0.001)


def start(command: list[str], **streams) -> subprocess.Popen:
    """The caller must reap the process."""
    started = subprocess.Popen(command, bufsize=0, start_new_session=True, **streams)
    _live.add(started.pid)
    return started


def reap(started: subprocess.Popen) -> int:
    """The return code of a process that has ended or is about to; ends everything that it started and left running."""
    _signal_group(started.pid, signal.SIGKILL)
    _live.discard(started.pid)
    status = started.wait()
    if _earlier_children is not None:
        _end_orphans()
    return status


def shown_line(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line.strip())[:LINE_LENGTH]


class _Tail:
    """The end of a pipe's output, however long it is."""

    def __init__(self, file):
        self._file = file
        self._kept = b""
        self.ended = False
        os.set_blocking(file.fileno(), False)

    def fileno(self) -> int:
        return self._file.fileno()

    def take(self) -> None:
        """Reads what is there up to a limit, so that a stream that never stops does not block the others."""
        for _ in range(READS_AT_ONCE):
            try:
                block = os.read(self.fileno(), READ_STEP)
            except BlockingIOError:
                return
            if not block:
                self.ended = True
                return
            self._kept = (self._kept + block)[-LAST_BYTES:]

    def kept_lines(self) -> list[str]:
        lines = self._kept.decode("utf-8", "replace").splitlines()
        return [shown_line(line) for line in lines if line.strip()]

    def lines(self) -> list[str]:
        return self.kept_lines()[-LAST_LINES:]

    def last_line(self) -> str:
        return "".join(self.lines()[-1:])


class End:
    """The end of a process: readable once the process has ended, and its time. The end of a pipe would not show it: a
    process that inherited the pipe can keep it open."""

    def __init__(self, pid: int):
        self.at = 0.0
        reader, writer = os.pipe()
        self._reader = open(reader, "rb", buffering=0)
        self._waiter = threading.Thread(target=self._wait, args=(pid, writer), daemon=True)
        self._waiter.start()

    def _wait(self, pid: int, writer: int) -> None:
        # WNOWAIT: the process stays a zombie, so its number stays its own as long as it may be signalled.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.at = time.monotonic()
        os.close(writer)

    def fileno(self) -> int:
        return self._reader.fileno()

    def wait(self) -> None:
        """Call before the process is reaped: its number must stay its own while this thread waits for it."""
        self._waiter.join()

    def close(self) -> None:
        self.wait()
        self._reader.close()


def _take_until_end(tails: list[_Tail], end: End, deadline: float | None) -> bool:
    """Returns whether the process ended before the time limit."""
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = select.select([*(tail for tail in tails if not tail.ended), end], [], [], left)[0]
        for tail in tails:
            if tail in ready:
                tail.take()
        if end in ready or not ready:
            return bool(ready)
        if deadline is not None and time.monotonic() >= deadline:
            return False


def run(command: list[str], limit_s: float | None = None, keep_streams: bool = False,
        env: dict[str, str] | None = None, cwd: str | None = None) -> Ended:
    """Runs the command to its end, or to slightly over the limit. Drops its standard output, or keeps the last lines if
    asked to."""
    began = time.monotonic()
    child = start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if keep_streams else subprocess.DEVNULL,
                  stderr=subprocess.PIPE, env=env, cwd=cwd)
    with contextlib.ExitStack() as at_end:
        for stream in filter(None, (child.stdout, child.stderr)):
            at_end.callback(stream.close)
        at_end.callback(reap, child)
        try:
            errors = _Tail(child.stderr)
            named = [("stdout", _Tail(child.stdout)), ("stderr", errors)] if keep_streams else [("stderr", errors)]
            tails = [tail for _, tail in named]
            end = End(child.pid)
            at_end.callback(end.close)
            deadline = None if limit_s is None else began + limit_s + KILL_GRACE_S
            at_limit = not _take_until_end(tails, end, deadline) and not has_ended(child.pid)
            said_at_limit = errors.last_line()
            if at_limit:
                stop_group(child.pid)
        except BaseException:
            stop_group(child.pid)
            raise
        end.close()
        for tail in tails:  # its last output
            tail.take()
    return Ended.with_status(child.returncode, wall_s=end.at - began, at_limit=at_limit,
                             last_error_line=said_at_limit if at_limit else errors.last_line(),
                             last_lines=[f"{name}: {line}" for name, tail in named for line in tail.lines()]
                             if keep_streams else [], error_lines=errors.kept_lines())
