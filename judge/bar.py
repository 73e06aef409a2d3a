"""A bar on a terminal while cases run: how much is done, and how long the rest may take."""
from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator

FIRST_AFTER_S = 0.5  # what takes no longer shows no bar
STEP_S = 0.2
CELLS = 24
ERASE = "\r\033[K"


def duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


class Bar:
    """Over works whose weights are as their times should be to each other. Drawn by a thread of its own; where the
    stream is no terminal, nothing is."""

    def __init__(self, stream, weights: list[float]):
        self._stream, self._weights = stream, weights
        self._done, self._seconds = 0, 0.0  # works, and what they took
        self._spent_s = 0.0  # on parts of the work that are done
        self._wanted = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"

    @contextlib.contextmanager
    def over(self, text: str, is_last: bool = True) -> Iterator[None]:
        """While a work is done, or one of its parts; nothing of the bar is left when the next line is printed."""
        began, over = time.monotonic() - self._spent_s, threading.Event()
        drawer = threading.Thread(target=self._draw, args=(text, began, over), daemon=True)
        if self._wanted:
            drawer.start()
        try:
            yield
        finally:
            over.set()
            if self._wanted:
                drawer.join()
            self._spent_s = time.monotonic() - began
            if is_last:
                self._done, self._seconds, self._spent_s = self._done + 1, self._seconds + self._spent_s, 0.0

    def _line(self, text: str, seconds: float) -> str:
        """The work that has been going on for so long counts as not quite done until it is."""
        done, weight, whole = sum(self._weights[:self._done]), self._weights[self._done], sum(self._weights)
        scale = self._seconds / done if done else None  # seconds of a weight
        going = min(0.95, seconds / (weight * scale)) if scale else 0.0
        fraction = (done + weight * going) / whole
        left = "" if scale is None else f", about {duration((whole - done - weight * going) * scale)} left"
        filled = int(fraction * CELLS)
        return (f"[{'#' * filled}{'.' * (CELLS - filled)}] {int(100 * fraction):3} %  {self._done + 1} of "
                f"{len(self._weights)}: {text}, {duration(seconds)}{left}")

    def _draw(self, text: str, began: float, over: threading.Event) -> None:
        pause = FIRST_AFTER_S
        while not over.wait(pause):
            width = shutil.get_terminal_size().columns
            self._put(ERASE + self._line(text, time.monotonic() - began)[:width - 1])
            pause = STEP_S
        if pause == STEP_S:
            self._put(ERASE)

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone keeps nobody from judging
            self._stream.write(text)
            self._stream.flush()
