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


class Estimate:
    """Of what is done of a list of works, whose weights are as their times should be to each other."""

    def __init__(self, weights: list[float]):
        self._weights = weights
        self._done = 0  # works
        self._seconds = 0.0  # that they took

    def work_done(self, seconds: float) -> None:
        self._done += 1
        self._seconds += seconds

    def _scale(self) -> float | None:
        weight = sum(self._weights[:self._done])
        return self._seconds / weight if weight else None

    def fraction(self, seconds: float) -> float:
        """With the work that has been going on for so long, which counts as not quite done until it is."""
        scale = self._scale()
        weight = self._weights[self._done]
        going = min(0.95, seconds / (weight * scale)) if scale else 0.0
        return (sum(self._weights[:self._done]) + weight * going) / sum(self._weights)

    def seconds_left(self, seconds: float) -> float | None:
        """None: nothing is done yet by which to tell."""
        scale = self._scale()
        if scale is None:
            return None
        rest = sum(self._weights[self._done + 1:]) * scale
        return rest + max(0.0, self._weights[self._done] * scale - seconds)

    def line(self, text: str, seconds: float) -> str:
        fraction, left = self.fraction(seconds), self.seconds_left(seconds)
        filled = int(fraction * CELLS)
        ahead = "" if left is None else f", about {duration(left)} left"
        return (f"[{'#' * filled}{'.' * (CELLS - filled)}] {int(100 * fraction):3} %  {self._done + 1} of "
                f"{len(self._weights)}: {text}, {duration(seconds)}{ahead}")


class Bar:
    """Drawn by a thread of its own. Where the stream is no terminal, nothing is."""

    def __init__(self, stream, weights: list[float]):
        self._stream = stream
        self._estimate = Estimate(weights)
        self._spent_s = 0.0  # on parts of the work that are done
        self._wanted = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"

    @contextlib.contextmanager
    def over(self, text: str, is_last: bool = True) -> Iterator[None]:
        """While a work is done, or one of its parts; nothing of the bar is left when the next line is printed."""
        began = time.monotonic() - self._spent_s
        over = threading.Event()
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
                self._estimate.work_done(self._spent_s)
                self._spent_s = 0.0

    def _draw(self, text: str, began: float, over: threading.Event) -> None:
        pause = FIRST_AFTER_S
        while not over.wait(pause):
            width = shutil.get_terminal_size().columns
            self._put(ERASE + self._estimate.line(text, time.monotonic() - began)[:width - 1])
            pause = STEP_S
        if pause == STEP_S:
            self._put(ERASE)

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone keeps nobody from judging
            self._stream.write(text)
            self._stream.flush()
