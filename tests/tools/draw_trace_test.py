#!/usr/bin/env python3
"""report/draw_trace: what the picture has of the trace."""
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def track(pid, tid, name):
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def span(pid, tid, stage, ts, dur):
    return {"ph": "X", "name": stage, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": {"bytes": 0}}


EVENTS = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host"}},
          track(1, 0, "main"), track(1, 1, "reader 0"), track(1, 2, "writer <0>"), track(2, 3, "stream 0"),
          span(1, 0, "context", 0, 200000), span(1, 1, "read", 1000, 2000), span(1, 1, "read", 2000, 2000),
          span(2, 3, "kernel", 210000, 5000), span(1, 2, "write", 212000, 8000)]


class DrawTrace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="hw4-trace-")
        self.addCleanup(self.folder.cleanup)
        self.dir = Path(self.folder.name)

    def draw(self, content, svg="a.svg"):
        (self.dir / "a.json").write_text(content)
        return subprocess.run([sys.executable, ROOT / "report/draw_trace", self.dir / "a.json", self.dir / svg,
                               "--title", "t22 & more"], capture_output=True, text=True)

    def test_every_span_on_the_line_of_its_track(self):
        done = self.draw(json.dumps({"traceEvents": EVENTS}))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        picture = ElementTree.parse(self.dir / "a.svg").getroot()
        words = [text.text for text in picture.iter(f"{SVG}text")]
        self.assertIn("t22 & more", words)
        self.assertIn("context 200.0", words)
        self.assertIn("read 3.0", words, "overlapping spans count once")
        lines = {text.text: float(text.get("y")) for text in picture.iter(f"{SVG}text") if text.get("x") == "142.0"}
        self.assertEqual(sorted(lines, key=lines.get), ["reader 0", "main", "writer <0>", "GPU stream 0"])
        boxes = {box[0].text.split()[0]: box for box in picture.iter(f"{SVG}rect") if len(box)}
        self.assertEqual(set(boxes), {"context", "read", "kernel", "write"})
        self.assertLess(abs(float(boxes["kernel"].get("y")) - lines["GPU stream 0"]), 18)
        self.assertAlmostEqual(float(boxes["context"].get("width")), 1030 * 200 / 220, 1)

    def test_a_run_without_spans_is_an_empty_picture(self):
        for events in ([], [track(1, 0, ""), span(1, 0, "read", 0, 0)]):
            self.assertEqual(self.draw(json.dumps({"traceEvents": events})).returncode, 0)

    def test_what_is_no_trace(self):
        nameless = json.dumps({"traceEvents": [span(1, 0, "read", 0, 1)]})
        for content in ("", "{}", "[]", '{"traceEvents": [1]}', nameless):
            with self.subTest(content):
                self.assertEqual(self.draw(content).returncode, 65)
        self.assertEqual(self.draw(json.dumps({"traceEvents": EVENTS}), "none/a.svg").returncode, 73)


if __name__ == "__main__":
    unittest.main()
