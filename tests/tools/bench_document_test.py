#!/usr/bin/env python3
"""What every file of measurements says of its origin (report/bench_document.py, judge/provenance.py); and the picture
that report/draw_trace makes of a trace."""
import json
import platform
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

import bench_document  # noqa: E402 (the path to them is set above)
import provenance  # noqa: E402
from bench_document import Document, Failed, command_line, without_folders  # noqa: E402


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench_document_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Documents(Workplace):
    def test_no_name_of_a_folder(self):
        for text, wanted in ((f"cannot open {ROOT}/hw4: none", "cannot open hw4: none"), (str(ROOT), "."),
                             ("g++ -I/opt/a/include -ccbin /opt/gcc/bin/g++", "g++ -Iinclude -ccbin g++"),
                             ("--json=/home/me/x.json", "--json=x.json"), ("10 GB/s, a / b", "10 GB/s, a / b"),
                             ({"a": [{"b": f"{ROOT}/x"}, ("/tmp/y/z",)], "n": 1}, {"a": [{"b": "x"}, ["z"]], "n": 1})):
            self.assertEqual(without_folders(text), wanted)
        self.assertEqual(command_line([f"{ROOT}/report/x", "--json", f"{ROOT}/report/data/k.json.partial", "t28"]),
                         ["report/x", "--json", "report/data/k.json", "t28"])

    def test_where_it_comes_from(self):
        self.write("build/cpp-command", "g++ -std=c++17  -O3 -ffp-contract=off; g++  -Wl,-z,now\n")
        with mock.patch.object(platform, "node", return_value="a-telling-name"):
            document = Document(self.dir / "data/out.json", build=self.dir / "build", note=f"{self.dir}/a/b")
            document.write(complete=True, cases=[{"why": f"{ROOT}/hw4: it failed"}])
        text = (self.dir / "data/out.json").read_text()
        for name in ("a-telling-name", str(ROOT), str(self.dir)):
            self.assertNotIn(name, text)
        told = json.loads(text)
        self.assertEqual((told["complete"], told["cases"]), (True, [{"why": "hw4: it failed"}]))
        self.assertEqual(told["build"], {"cpp": "g++ -std=c++17 -O3 -ffp-contract=off", "cu": None})
        self.assertGreater(told["wall_seconds"], 0)
        self.assertIn("git", told)

    def test_a_file_that_cannot_be(self):
        self.write("data", "in the way")
        with self.assertRaises(Failed) as failure:
            Document(self.dir / "data/out.json").write()
        self.assertEqual(failure.exception.code, bench_document.CANNOT_WRITE)

    def test_generated_files_do_not_make_the_sources_dirty(self):
        def git(*arguments):
            settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
            subprocess.run(["git", "-C", self.dir, *settings, *arguments], check=True, capture_output=True)
        git("init", "-q")
        self.write("hw4.cu", "one\n")
        git("add", ".")
        git("commit", "-q", "-m", "one")
        for name in ("report/data/new.json.partial", "report/figures/a.svg", "report/report.md"):
            self.write(name, "changed\n")
        self.assertFalse(provenance.git_state(str(self.dir))["dirty"])
        self.write("hw4.cu", "two\n")
        self.assertTrue(provenance.git_state(str(self.dir))["dirty"])
        self.assertEqual(len(provenance.changed_files(str(self.dir))), 1)


class DrawTrace(Workplace):
    def draw(self, path, svg="a.svg"):
        command = [sys.executable, ROOT / "report/draw_trace", path, self.dir / svg, "--title", "t22 & more"]
        return subprocess.run(command, capture_output=True, text=True)

    def test_every_stage_of_a_committed_trace(self):
        path = ROOT / "report/data/t22_streams4.trace.json"
        done = self.draw(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        picture = ElementTree.parse(self.dir / "a.svg").getroot()
        self.assertIn("t22 & more", [text.text for text in picture.iter(f"{SVG}text")])
        spans = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X" and event["dur"]]
        boxes = [box[0].text.split()[0] for box in picture.iter(f"{SVG}rect") if len(box)]
        self.assertEqual(set(boxes), {span["name"] for span in spans})

    def test_what_is_no_trace(self):
        for content in ("", "{}", '{"traceEvents": [1]}'):
            self.write("a.json", content)
            self.assertEqual(self.draw(self.dir / "a.json").returncode, 65)


if __name__ == "__main__":
    unittest.main()
