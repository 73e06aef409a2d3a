"""The JSON file of a measurement, including its origin; and the error that ends a run."""
import json
import posixpath
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "judge"))

import provenance  # noqa: E402 (the path to it is set above)

CANNOT_WRITE = 73
PARTIAL = ".partial"  # ends the name of a file of report/measure until it is complete

# An absolute path of two names or more, at the beginning of a word or of an option's value.
_ABSOLUTE = re.compile(r"(?:^|(?<=[\s=,:;'\"(])|(?<=-[IL]))/[^\s=,:;'\")/]+/[^\s=,:;'\")]+")


class Failed(Exception):
    """Ends a run with an exit code."""

    def __init__(self, message, code=70):
        super().__init__(message, code)  # both, so that it can be sent to another process
        self.code = code

    def __str__(self):
        return self.args[0]


def say(text):
    print(text, file=sys.stderr, flush=True)


def without_folders(value):
    """The same value with project paths relative to the project's folder, and of other paths only the last name: a
    committed file must not reveal a user's folders."""
    if isinstance(value, dict):
        return {key: without_folders(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_folders(entry) for entry in value]
    if not isinstance(value, str):
        return value
    if value == str(ROOT):
        return "."
    return _ABSOLUTE.sub(lambda path: posixpath.basename(path[0].rstrip("/")), value.replace(f"{ROOT}/", ""))


def command_line(words):
    """The command without folders, with the files' final names."""
    portable = [without_folders(word.removesuffix(PARTIAL)) for word in words]
    return [posixpath.basename(word) if word.startswith("/") else word for word in portable]


def dense(value, depth=0):
    """JSON with a line for each field, and for each record of a field that does not fit on one."""
    line = json.dumps(value, separators=(",", ":"))
    if depth == 2 or depth + len(line) <= 120 or not isinstance(value, (dict, list, tuple)):
        return line
    items = value.items() if isinstance(value, dict) else (("", part) for part in value)
    lines = [f'{" " * (depth + 1)}{json.dumps(name) + ": " if name else ""}{dense(part, depth + 1)}'
             for name, part in items]
    return f"{line[0]}\n" + ",\n".join(lines) + f"\n{' ' * depth}{line[-1]}"


class Document:
    """The JSON file. It is written after every cell, so that an interrupted run keeps its results.

    program: a measured program; the file records its compilers. build: the folder of make's files."""

    def __init__(self, path, program=ROOT / "hw4", build=ROOT / "build", **fields):
        self.path = path
        self.start = time.monotonic()
        machine = {field: value for field, value in provenance.machine().items() if field != "host"}  # its name
        self.data = {"command": command_line(sys.argv), "complete": False, "wall_seconds": 0, "machine": machine,
                     "git": provenance.git_state(str(ROOT)), "compilers": provenance.compilers_of(str(program)),
                     "build": provenance.compile_commands(str(build)),
                     "cuda_toolkit": provenance.cuda_toolkit(str(build)),
                     "gpu": {"at_start": provenance.gpu_state(), "at_end": None}, **fields}

    def write(self, **fields):
        self.data.update(fields)
        self.data["wall_seconds"] = time.monotonic() - self.start
        if self.data["complete"]:
            self.data["gpu"]["at_end"] = provenance.gpu_state()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(dense(without_folders(self.data)) + "\n")
        except OSError as error:
            raise Failed(f"{error.filename}: {error.strerror}", CANNOT_WRITE) from error
