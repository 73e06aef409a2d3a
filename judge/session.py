"""One hw4 process for many cases (--pairs -); it gets the next case after the judge has decided the last one."""
from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import time

import child

START_UP_S = 1.0  # a new process may take this much longer, to create a GPU's context
END_GRACE_S = 5.0  # for a process without further cases
READ_STEP = 1 << 16
MESSAGE = "hw4: "
RESULT = re.compile(rf"^(?!{MESSAGE}).*\b([0-9]+\.[0-9]+) s")  # of a case, or the total; ends with the seconds
REMARKS = ("note: ", "using the CPU: ")  # hw4's remarks on a case that continues


def can_be_told(folder: str) -> bool:
    """Whether a line can contain its file names."""
    return not set("\t\n") & set(folder)


def seconds_in(line: str, case_input: str) -> float | None:
    """hw4's line about a finished case: the input, its sizes, last the seconds. None for another line."""
    found = RESULT.search(line)
    return float(found[1]) if found and os.path.basename(case_input) in line else None


def is_failure(line: str, case_input: str) -> bool:
    """Whether the line reports the case's failure."""
    return line.startswith(MESSAGE) and not any(remark in line.replace(case_input, "") for remark in REMARKS)


class _Process:
    """hw4 with both its streams in one pipe, to keep messages and results in order."""

    def __init__(self, command: list[str]):
        self._started = child.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._over = child.End(self._started.pid)
        self._rest = b""  # an incomplete line
        self._said = ""  # the last message about the case

    @property
    def has_ended(self) -> bool:
        return self._started.returncode is not None or child.has_ended(self._started.pid)

    @property
    def said(self) -> str:
        return child.shown_line(self._said)

    def tell(self, line: bytes) -> None:
        self._said = ""
        with contextlib.suppress(BrokenPipeError):  # the process has ended, which is noticed later
            self._started.stdin.write(line)

    def wait_for_case(self, case_input: str, deadline: float | None) -> float | None:
        """The seconds of the case; None where it failed, the process ended, or the time is over."""
        while (lines := self._lines(deadline)) is not None:
            for line in lines:
                seconds = seconds_in(line, case_input)
                if seconds is not None or is_failure(line, case_input):
                    return seconds
        return None

    def _lines(self, deadline: float | None) -> list[str] | None:
        """The next lines; None at the end, or where the time is over."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        pipe = self._started.stdout.fileno()
        ready = select.select([pipe, self._over], [], [], left)[0]
        block = os.read(pipe, READ_STEP) if pipe in ready else b""
        *lines, self._rest = (self._rest + block).split(b"\n")
        if not block:
            lines, self._rest = [self._rest], b""
        texts = [line.decode("utf-8", "replace") for line in lines if line.strip()]
        self._said = ([self._said] + [text for text in texts if not RESULT.search(text)])[-1]
        return texts if block else None

    def end(self, grace_s: float) -> tuple[int, bool]:
        """Closes the process's input, and kills it where it does not end in time: its return code, whether killed."""
        self._started.stdin.close()
        deadline = time.monotonic() + grace_s
        while self._lines(deadline) is not None:
            pass
        forced = not select.select([self._over], [], [], max(0.0, deadline - time.monotonic()))[0]
        return self.kill(), forced

    def kill(self) -> int:
        """Ends the process; its return code. A second call does no harm, should a signal interrupt the first one."""
        said, is_forced = self._said, not self.has_ended
        if is_forced:
            child.stop_group(self._started.pid)
        if self._started.returncode is None:
            self._over.wait()
            child.reap(self._started)
            while self._lines(None) is not None:  # its last output
                pass
        self._said = said if is_forced else self._said
        for file in (self._started.stdin, self._started.stdout, self._over):
            file.close()
        return self._started.returncode


class Session:
    """One process at a time. A case that fails ends its process, so that the exit code is the case's own."""

    def __init__(self, command: list[str]):
        self._command = command
        self._process: _Process | None = None
        self.troubles: list[str] = []  # unexpected exits of processes without a case

    def run(self, case_input: str, output: str, limit_s: float | None) -> child.Ended:
        """Like child.run(); the time of a computed case is the one that hw4 reports for it."""
        if self._process and self._process.has_ended:
            self.close()
        is_new = self._process is None
        if is_new:
            self._process = _Process(self._command)
        start = time.monotonic()
        grace_s = child.KILL_GRACE_S + (START_UP_S if is_new else 0.0)
        deadline = None if limit_s is None else start + limit_s + grace_s
        self._process.tell(os.fsencode(f"{case_input}\t{output}\n"))
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
        """The process gets no more cases."""
        if self._process is None:
            return
        ended, forced = self._end_process(END_GRACE_S, wall_s=0.0, at_limit=False)
        if forced:
            self.troubles.append("hw4 did not end after its last case")
        elif not ended.ok:
            self.troubles.append(f"hw4 ended after its last case with {ended.failure()}")

    def stop(self) -> None:
        """Ends the process immediately."""
        if self._process is not None:
            self._process.kill()
            self._process = None
