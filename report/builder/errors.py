"""Errors that end a build."""
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

STALE, WRONG_INPUT, NO_MATPLOTLIB, CANNOT_WRITE = 1, 65, 69, 73


def shown(path):
    """The path relative to the project's folder."""
    path = Path(path).resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


class Failed(Exception):
    """Ends the build with one line and an exit code."""

    def __init__(self, message, code=WRONG_INPUT):
        super().__init__(message)
        self.code = code
