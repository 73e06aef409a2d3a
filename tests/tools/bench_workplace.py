"""A folder for tests of a program that measures the GPU kernels: a fake time_kernels, a fake PyTorch and others."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from program_module import run_forked

ROOT = Path(__file__).resolve().parents[2]


class BenchWorkplace(unittest.TestCase):
    PROGRAM = None  # in report/

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix=f"{self.PROGRAM}_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name).resolve()
        self.write("nvidia-smi", "#!/bin/sh\necho 'Fake 1, 580.1, 1980, 1980, 3201, 45, 100, 700'\n")

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def program(self, name, body):
        """A Python script, which knows CALLS, a file to leave its arguments in."""
        self.write(name, f"#!{sys.executable} -IS\nCALLS = {str(self.dir / 'calls')!r}\n{body}")

    def options(self):
        """More that it always needs."""
        return ()

    def bench(self, *arguments, exit_code=0):
        environment = {**os.environ, "PYTHONPATH": str(self.dir), "PYTHONDONTWRITEBYTECODE": "1",
                       "PATH": f"{self.dir}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, ROOT / "report" / self.PROGRAM, "--time-kernels", self.dir / "time_kernels",
                   "--json", self.dir / "out.json", *self.options(), *arguments]
        done = run_forked(command, env=environment)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def document(self):
        return json.loads((self.dir / "out.json").read_text())

    def calls(self):
        return [json.loads(line) for line in (self.dir / "calls").read_text().splitlines()]
