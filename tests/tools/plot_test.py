#!/usr/bin/env python3
"""hw4.plot: its drawings of a file from hw4 bench."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("HW4_BIN") or ROOT)
sys.path.insert(0, str(ROOT / "python" / "hw4"))  # a standalone file, which needs no library
import plot  # noqa: E402: after its path

try:
    import matplotlib
except ImportError:
    matplotlib = None


@unittest.skipUnless(matplotlib, "needs matplotlib")
class PlotTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.bench = cls.folder / "bench.json"
        subprocess.run([BIN / "hw4", "bench", "--device", "cpu", "--impl", "f32,bf16,fixed", "--relative-to", "naive",
                        "--batch_size", "2", "--num_heads", "2", "--emb_dim", "32", "--seq_len", "64,256", "--passes",
                        "forward,backward", "--memory_limit", "900000", "--once", "--quiet", "--output", cls.bench],
                       check=True)

    def drawn(self, *words):
        """{(title, axis label): panel}"""
        args = plot.parse([*map(str, words), "-o", "x.svg"])
        machine, cells = plot.cells_asked_for(args)
        panels, titles = plot.figure_of(cells, machine, args).axes, []
        for panel in panels:
            titles.append(panel.get_title() or titles[len(titles) % len(args.passes)])
        return {(title, panel.get_ylabel()): panel for title, panel in zip(titles, panels)}

    @staticmethod
    def lines(panel):
        """{colour: the points of its lines}, without markers; and the sizes that have markers."""
        marks = [line for line in panel.lines if line.get_linestyle() == "None"]
        points = {line.get_color(): list(zip(*line.get_data())) for line in panel.lines if line not in marks}
        return points, sorted({x for mark in marks for x in mark.get_xdata()})

    def test_times_memory_ratios_and_what_ran_out_of_memory(self):
        rows = {(row["hw4"]["parameters"]["impl"], row["hw4"]["parameters"]["seq_len"]): row["hw4"]
                for row in json.loads(self.bench.read_text())["results"]}
        panels = self.drawn(self.bench, "--relative-to", "naive", "--passes", "forward", "backward")
        self.assertEqual(len(panels), 8)
        naive, f32 = rows["naive", 64]["forward"], rows["f32", 64]["forward"]
        points, lost = self.lines(panels["forward", "time (ms)"])
        self.assertEqual(lost, [256])
        self.assertEqual(points[plot.COLORS[0]], [(64, naive["median"] * 1e3)])
        self.assertEqual(len(points[plot.COLORS[2]]), 2)  # naive, f32, bf16
        points, _ = self.lines(panels["forward", "peak memory (MiB)"])
        self.assertEqual(points[plot.COLORS[1]][0], (64, f32["peak_bytes"] / 2**20))
        points, _ = self.lines(panels["forward", "rate (TFLOP/s)"])
        self.assertAlmostEqual(points[plot.COLORS[1]][0][1], f32["flop"] / f32["median"] / 1e12, places=9)
        points, _ = self.lines(panels["forward", "times as fast as naive"])
        self.assertAlmostEqual(points[plot.COLORS[1]][0][1], f32["ratio"], delta=1e-6 * f32["ratio"])
        self.assertAlmostEqual(points[plot.COLORS[2]][0][1], rows["bf16", 64]["forward"]["ratio"], delta=1e-3)
        self.assertEqual(len(self.lines(panels["backward", "time (ms)"])[0]), 3)  # fixed has no backward

    def test_decoding_by_both_programs(self):
        bench = self.folder / "decode.json"
        subprocess.run([BIN / "hw4", "bench", "--device", "cpu", "--decode", "--impl", "f32", "--batch_size", "2",
                        "--num_heads", "2", "--emb_dim", "32", "--seq_len", "64,256", "--once", "--quiet", "--output",
                        bench], check=True)
        row = {"passes": "decode", "cell": [2, 2, 2, 64, 16], "causal": False, "dtype": "float32", "values": "normal",
               "regime": "sustained", "contract": "f32", "amount": 4e-3, "peers": {"cudnn": {"ratio": 0.5}},
               "series": {"f32": {"seconds": [1e-3]}, "cudnn": {"seconds": [5e-4]}}}
        turns = self.folder / "turns.json"
        turns.write_text(json.dumps({"device": "GPU", "rows": [row]}))
        first = json.loads(bench.read_text())["results"][0]["hw4"]["forward"]
        points, _ = self.lines(self.drawn(bench)["forward", "K and V (GB/s)"])
        self.assertAlmostEqual(points[plot.COLORS[0]][0][1], first["cache_bytes"] / first["median"] / 1e9, places=9)
        panels = self.drawn(turns, "--relative-to", "cudnn")
        self.assertEqual(len(panels), 3)
        self.assertEqual(self.lines(panels["forward", "K and V (GB/s)"])[0],
                         {plot.COLORS[0]: [(64, 4)], plot.COLORS[1]: [(64, 8)]})

    def test_svg_and_png(self):
        for ending, start in (("svg", b"<?xml"), ("png", b"\x89PNG")):
            path = self.folder / f"r.{ending}"
            plot.main([str(self.bench), "-o", str(path)])
            self.assertTrue(path.read_bytes().startswith(start))


if __name__ == "__main__":
    unittest.main()
