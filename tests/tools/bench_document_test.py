#!/usr/bin/env python3
"""What every file of measurements says of its origin: report/bench_document.py and the parts of judge/provenance.py
that are not the judge's."""
import json
import os
import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

import bench_document  # noqa: E402 (the path to them is set above)
import provenance  # noqa: E402
from bench_document import Document, Failed, command_line, without_folders  # noqa: E402


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench_document_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def write(self, name, text, mode=0o644):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def path_first(self):
        """The programs written here are found before the machine's."""
        change = mock.patch.dict(os.environ, PATH=f"{self.dir}{os.pathsep}{os.environ['PATH']}")
        change.start()
        self.addCleanup(change.stop)


class Folders(unittest.TestCase):
    def test_of_the_project(self):
        self.assertEqual(without_folders(f"{ROOT}/build/x.json"), "build/x.json")
        self.assertEqual(without_folders(f"cannot open {ROOT}/hw4: no such file"), "cannot open hw4: no such file")
        self.assertEqual(without_folders(str(ROOT)), ".")

    def test_elsewhere(self):
        for text, wanted in (("/usr/bin/g++ -O3 -ccbin /opt/gcc/bin/g++", "g++ -O3 -ccbin g++"),
                             ("g++ -I/opt/a/include -L/opt/a/lib", "g++ -Iinclude -Llib"),
                             ("--json=/home/me/x.json", "--json=x.json"), ("'/home/me/x.json'", "'x.json'"),
                             ("/home/me/", "me")):
            self.assertEqual(without_folders(text), wanted)

    def test_what_is_no_path(self):
        for value in ("10 GB/s", "a / b", "/s", "and/or, 4*B*N*N*d", 3, 0.5, None, True):
            self.assertEqual(without_folders(value), value)

    def test_everywhere_inside(self):
        self.assertEqual(without_folders({"a": [{"b": f"{ROOT}/x"}, ("/tmp/y/z",)], "n": 1}),
                         {"a": [{"b": "x"}, ["z"]], "n": 1})

    def test_command_lines(self):
        self.assertEqual(command_line([f"{ROOT}/report/x", "--json", f"{ROOT}/report/data/k.json.partial", "--data",
                                       "/out", "--folder", str(ROOT), "t28"]),
                         ["report/x", "--json", "report/data/k.json", "--data", "out", "--folder", ".", "t28"])


class Written(Workplace):
    def document(self, **fields):
        return Document(self.dir / "data/out.json", build=self.dir / "build", **fields)

    def read(self):
        return json.loads((self.dir / "data/out.json").read_text())

    def test_where_it_comes_from(self):
        nvcc = self.write("cuda/bin/nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n", 0o755)
        self.write("build/cpp-command", "g++ -std=c++17  -O3 -ffp-contract=off; g++  -Wl,-z,now\n")
        self.write("build/cu-command", f"{nvcc} -ccbin /opt/gcc/bin/g++ -DHW4_ARCHS='\"90\"'; {nvcc} -O3\n")
        self.write("nvidia-smi", "#!/bin/sh\necho 'Fake 1, 580.1, 1980, 1980, 3201, 45, [N/A], 700.00'\n", 0o755)
        self.path_first()
        with mock.patch.object(sys, "argv", [f"{ROOT}/report/bench", "--json", f"{self.dir}/x.json.partial"]):
            document = self.document(cases=[])
        document.write()
        self.assertEqual(self.read()["gpu"]["at_end"], None)
        document.write(complete=True, cases=[{"why": f"{ROOT}/hw4: it failed"}])
        told = self.read()
        self.assertEqual(told["command"], ["report/bench", "--json", "x.json"])
        self.assertEqual(told["build"], {"cpp": "g++ -std=c++17 -O3 -ffp-contract=off",
                                         "cu": "nvcc -ccbin g++ -DHW4_ARCHS='\"90\"'"})
        self.assertEqual(told["cuda_toolkit"], "13.0")
        self.assertEqual(told["gpu"]["at_start"][0]["power_limit_w"], 700)
        self.assertEqual(told["gpu"]["at_end"], told["gpu"]["at_start"])
        self.assertEqual(told["cases"], [{"why": "hw4: it failed"}])
        self.assertTrue(told["complete"])
        self.assertGreater(told["wall_seconds"], 0)

    def test_nobodys_name_and_nobodys_folder(self):
        with mock.patch.object(platform, "node", return_value="a-telling-name"):
            document = self.document(note=f"{self.dir}/a/b")
            document.write(complete=True)
            self.assertEqual(provenance.machine()["host"], "a-telling-name")  # the judge's has it
        text = (self.dir / "data/out.json").read_text()
        for name in ("a-telling-name", str(ROOT), str(self.dir)):
            self.assertNotIn(name, text)
        self.assertIn("processor", self.read()["machine"])

    def test_without_a_build(self):
        self.document(program=self.dir / "none").write()
        told = self.read()
        self.assertEqual((told["build"], told["cuda_toolkit"], told["compilers"]), ({"cpp": None, "cu": None}, None, []))

    def test_a_build_without_cuda(self):
        self.write("build/cu-command", "g++ -O3 -x c++; g++\n")
        self.document().write()
        self.assertEqual((self.read()["cuda_toolkit"], self.read()["build"]["cu"]), (None, "g++ -O3 -x c++"))

    def test_a_file_that_cannot_be(self):
        self.write("data", "in the way")
        with self.assertRaises(Failed) as failure:
            self.document().write()
        self.assertEqual(failure.exception.code, bench_document.CANNOT_WRITE)


class GitState(Workplace):
    def git(self, *arguments):
        settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", self.dir, *settings, *arguments], check=True, capture_output=True,
                              text=True).stdout.strip()

    def setUp(self):
        super().setUp()
        self.git("init", "-q")
        self.write("hw4.cu", "one\n")
        self.write("report/bench", "one\n")
        self.write("report/data/old.json", "{}\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "one")

    def state(self):
        return provenance.git_state(str(self.dir))

    def test_clean(self):
        self.assertEqual(self.state(), {"commit": self.git("rev-parse", "HEAD"), "dirty": False})

    def test_what_is_generated_does_not_count(self):
        for name in ("report/data/old.json", "report/data/new.json.partial", "report/figures/a.svg",
                     "report/report.md"):
            self.write(name, "changed\n")
        self.assertFalse(self.state()["dirty"])
        self.assertEqual(provenance.changed_files(str(self.dir)), [])

    def test_sources_count(self):
        for name in ("hw4.cu", "report/bench", "report/new_program", "data/x", "report/reporting.md"):
            with self.subTest(name):
                self.write("report/data/old.json", "changed\n")
                self.write(name, "changed\n")
                self.assertTrue(self.state()["dirty"])
                self.assertEqual(len(provenance.changed_files(str(self.dir))), 1)
                self.git("stash", "-q", "--include-untracked")

    def test_no_repository(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(folder)):
                self.assertIsNone(provenance.git_state(folder))


if __name__ == "__main__":
    unittest.main()
