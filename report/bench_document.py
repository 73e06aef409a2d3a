"""What report/bench_gpu and report/bench_files share: the JSON file of everything measured, and how a run ends early."""
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "judge"))

import provenance  # noqa: E402 (the path to it is set above)

CANNOT_WRITE = 73


class Failed(Exception):
    """Ends the run with an exit code."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


def say(text):
    print(text, file=sys.stderr, flush=True)


class Document:
    """The JSON file. Written after every step, so that a run that is cut short leaves what it has measured."""

    def __init__(self, path, **fields):
        self.path = path
        self.start = time.monotonic()
        self.data = {"command": sys.argv, "complete": False, "wall_seconds": 0, "machine": provenance.machine(),
                     "git": provenance.git_state(str(ROOT)), **fields}

    def write(self, **fields):
        self.data.update(fields)
        self.data["wall_seconds"] = time.monotonic() - self.start
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.data, indent=2) + "\n")
        except OSError as error:
            raise Failed(f"{error.filename}: {error.strerror}", CANNOT_WRITE) from error
