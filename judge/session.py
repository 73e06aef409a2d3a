"""hw4 with one case after the other in one process (--pairs -), which is told the next when the last is decided."""
from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import time

import child

START_UP_S = 1.0  # a new process may take so much longer before it is ended: a GPU's context is made
END_GRACE_S = 5.0  # for a process that was told of no more cases
READ_STEP = 1 << 16
REMARKS = ("note: ", "using the CPU: ")  # what hw4 says of a case that goes on


def pair_line(case_input: str, output: str) -> bytes:
    return os.fsencode(f"{case_input}\t{output}\n")


def can_be_told(folder: str) -> bool:
    """Whether a line can name its files."""
    return not set("\t\n") & set(folder)


def seconds_in(line: str, case_input: str) -> float | None:
    """What hw4 says when a case has its output: the input, its sizes, last the seconds. None: it is no such line."""
    name = os.path.basename(case_input)
    numbers = re.findall(r"[0-9]+\.[0-9]+", line.rpartition(name)[2])
    return float(numbers[-1]) if name in line and numbers else None


def is_failure(line: str, case_input: str) -> bool:
    """Whether a line on standard error says that the case has failed."""
    return line.startswith("hw4: ") and not any(remark in line.replace(case_input, "") for remark in REMARKS)


class _Lines:
    """The lines that have come from a pipe."""

    def __init__(self, file):
        self.number = file.fileno()
        self.ended = False
        self._rest = b""

    def take(self) -> list[str]:
        """What is there; there has to be something."""
        block = os.read(self.number, READ_STEP)
        self.ended = not block
        *lines, self._rest = (self._rest + block).split(b"\n")
        if self.ended and self._rest:
            lines.append(self._rest)
        return [line.decode("utf-8", "replace") for line in lines]


class _Process:
    def __init__(self, command: list[str]):
        self._started = child.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._out, self._errors = _Lines(self._started.stdout), _Lines(self._started.stderr)
        self._said = ""  # the last line on standard error about the case
        self._over = child.End(self._started.pid)

    @property
    def has_ended(self) -> bool:
        return self._is_reaped or child.has_ended(self._started.pid)

    @property
    def _is_reaped(self) -> bool:
        return self._started.returncode is not None

    def tell(self, line: bytes) -> None:
        self._said = ""
        with contextlib.suppress(BrokenPipeError):  # then it has ended, and that is seen
            self._started.stdin.write(line)

    def wait_for_case(self, case_input: str, deadline: float | None) -> float | None:
        """The seconds that the case took; None when it has failed, the process has ended, or it is too late."""
        while True:
            ready = self._ready(deadline)
            failed = self._errors.number in ready and self._hear(case_input)
            lines = self._out.take() if self._out.number in ready else []
            for seconds in (seconds_in(line, case_input) for line in lines):
                if seconds is not None:
                    while self._errors.number in self._ready(time.monotonic()):  # what it had said before
                        self._hear(case_input)
                    return seconds
            if failed or not ready or self._over.fileno() in ready:
                return None

    def _ready(self, deadline: float | None) -> list[int]:
        """What has something to say, or has ended; nothing at the deadline."""
        pipes = [lines.number for lines in (self._out, self._errors) if not lines.ended]
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return select.select([*pipes, self._over.fileno()], [], [], left)[0]

    def _hear(self, case_input: str) -> bool:
        """Whether it says that the case has failed."""
        lines = [line for line in self._errors.take() if line.strip()]
        self._said = lines[-1] if lines else self._said
        return any(is_failure(line, case_input) for line in lines)

    def end(self, grace_s: float) -> tuple[int, bool]:
        """With no more cases, by force where that does not help in time: its return code, and whether it was so."""
        self._started.stdin.close()
        deadline = time.monotonic() + grace_s
        while (ready := self._ready(deadline)) and self._over.fileno() not in ready:
            self._take(ready)
        forced = not self.has_ended
        return self.kill(), forced

    def kill(self) -> int:
        """Its return code. Once more does no harm, should a signal to the judge break it off."""
        said_before = None if self.has_ended else self._said
        if said_before is not None:
            child.stop_group(self._started.pid)
        if not self._is_reaped:
            self._over.wait()
            child.reap(self._started)
            while self._take(self._ready(time.monotonic())):  # its last words
                pass
        self._said = self._said if said_before is None else said_before
        for file in (self._started.stdin, self._started.stdout, self._started.stderr, self._over):
            file.close()
        return self._started.returncode

    def _take(self, ready: list[int]) -> bool:
        """Whether there was anything."""
        if self._out.number in ready:
            self._out.take()
        if self._errors.number in ready:
            self._hear("")
        return any(lines.number in ready for lines in (self._out, self._errors))

    @property
    def said(self) -> str:
        return child.shown_line(self._said)


class Session:
    """One process at a time. A case that fails takes its process with it, so that the exit code is the case's own."""

    def __init__(self, command: list[str]):
        self._command = command
        self._process: _Process | None = None
        self.troubles: list[str] = []  # how processes ended that were at no case

    def run(self, case_input: str, output: str, limit_s: float | None) -> child.Ended:
        """As child.run(); of a case that was computed the time is its own, as hw4 tells it."""
        if self._process and self._process.has_ended:
            self.close()
        is_new = self._process is None
        if is_new:
            self._process = _Process(self._command)
        start = time.monotonic()
        grace_s = child.KILL_GRACE_S + (START_UP_S if is_new else 0.0)
        deadline = None if limit_s is None else start + limit_s + grace_s
        self._process.tell(pair_line(case_input, output))
        seconds = self._process.wait_for_case(case_input, deadline)
        if seconds is not None:
            return child.Ended.with_status(0, wall_s=seconds, at_limit=False, last_error_line=self._process.said)
        wall_s = time.monotonic() - start
        at_limit = deadline is not None and time.monotonic() >= deadline and not self._process.has_ended
        return self._end_process(0.0 if at_limit else END_GRACE_S, wall_s=wall_s, at_limit=at_limit)[0]

    def _end_process(self, grace_s: float, **ended) -> tuple[child.Ended, bool]:
        status, forced = self._process.end(grace_s)
        said, self._process = self._process.said, None
        return child.Ended.with_status(status, last_error_line=said, **ended), forced

    def close(self) -> None:
        """There are no more cases for the process."""
        if self._process is None:
            return
        ended, forced = self._end_process(END_GRACE_S, wall_s=0.0, at_limit=False)
        if forced:
            self.troubles.append("hw4 did not end after its last case")
        elif not ended.ok:
            self.troubles.append(f"hw4 ended after its last case with {ended.failure()}")

    def stop(self) -> None:
        """At once."""
        if self._process is not None:
            self._process.kill()
            self._process = None
