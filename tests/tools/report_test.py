#!/usr/bin/env python3
"""report/build: the template language, published numbers computed independently from report/data, refused data, and
whether the committed report is up to date."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "report/build"
DATA = ROOT / "report/data"
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

from builder import beside, facts, figures, schema, sources, tables  # noqa: E402 (the path is set above)
from builder.errors import Failed  # noqa: E402
from builder.measured import Measured  # noqa: E402
from builder.spread import Spread, drifts, percentile  # noqa: E402
from builder.template import Renderer, significant  # noqa: E402


class Templates(unittest.TestCase):
    FACTS = {"a": {"ms": 12.3456, "count": 30, "name": "t28", "none": None, "1": {"x": 2.0}}}

    def render(self, text, **options):
        renderer = Renderer(self.FACTS, {"small": lambda: "| a |"},
                            {"one": lambda: ("an alt", "A caption of {{ here.x }}.", {"x": 5}),
                             "two": lambda: ("other", "Other.", {})}, {"rung": lambda: "```cpp\nx;\n```"})
        self.unused = renderer.unused
        return renderer.render(text, "x.md", "figures", **options)

    def test_facts_tables_code_and_figures(self):
        self.assertEqual(self.render("{{ a.ms | .1f }} {{a.ms|3}} {{ a.count }} {{ a.name }}"), "12.3 12.3 30 t28")
        self.assertEqual(self.render("{{ code:rung }} {{ table:small }}"), "```cpp\nx;\n``` | a |")
        text = self.render("{{ figure:two }}\n{{ figure:one }}")
        self.assertIn("\n![an alt](figures/one.svg)\n\n**Figure 2.** A caption of 5.", text)
        self.assertEqual(self.unused(), ["table small", "code rung"])
        for value, shown in ((340.02, "340"), (0.02543, "0.0254"), (9.996, "10.0"), (0.0, "0"), (12345.6, "12300")):
            self.assertEqual(significant(value, 3), shown)

    def test_a_requirement_leaves_nothing_where_it_holds_and_fails_elsewhere(self):
        self.assertEqual(self.render("a\n{{ require: a.ms > 12 }}\nb {{ require: a.count == 30 }}c"), "a\nb c")
        with self.assertRaisesRegex(Failed, "^x.md:2: require: a.ms < 12 does not hold"):
            self.render("first\n{{ require: a.ms < 12 }}\nlast")


class Folder(unittest.TestCase):
    """A copy of the committed data."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="hw4-report-"))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(DATA, self.folder / "data")

    def change(self, name, edit):
        path = self.folder / "data" / name
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))

    def measured(self):
        return Measured(self.folder / "data")


class Data(Folder):
    def test_a_case_that_is_missing_is_named(self):
        self.change("sequential.json", lambda d: d["cases"].pop(-2))
        with self.assertRaisesRegex(Failed, "^sequential.json: cases: no t29$"):
            facts.all_facts(self.measured())

        def lose_a_byte(document):
            for track in document["tracks"]:
                track["bytes"][0] -= 1

        self.change("memory.json", lose_a_byte)
        with self.assertRaisesRegex(Failed, r"^memory.json: .* bytes are not B·N·d·4$"):
            tables.TABLES["cs336_bytes"](self.measured())


def row(ratio, pairs=10, drift=1.0, peer="cudnn", **fields):
    """A comparison as hw4.neighbours writes it: 1 ms for 500 units of work, and a peer."""
    def side(seconds):
        return {"seconds": [seconds] * 5 + [drift * seconds] * 5, "mhz": [1900], "watts": [600]}

    result = {"ratio": ratio, "spread_percent": 0.5, "pairs": pairs, "thrown_away": 0}
    return {"section": "results", "regime": "sustained", "values": "normal", "dtype": "bf16", "passes": "forward",
            "cell": [4, 16, 8192, 64], "contract": "bf16", "causal": False, "rounds": 5, "unit": "tflops",
            "amount": 0.5, "peers": {peer: result},
            "series": {"bf16": side(1e-3), "f32": side(1e-3), peer: side(ratio * 1e-3)}, **fields}


class Compared(Folder):
    """Without the committed comparisons."""

    def add_beside(self, *rows, name="beside"):
        common = {field: json.loads((DATA / "half_ladder.json").read_text())[field] for field in schema.COMMON}
        common |= {"git": {"commit": "f" * 40, "dirty": False}, "torch": "2", "device": "A", "rows": rows}
        (self.folder / "data" / f"{name}.json").write_text(json.dumps(common))

    def setUp(self):
        super().setUp()
        for name in beside.FILES:
            self.add_beside(row(1, regime="other"), name=name)

    def table(self, name):
        return tables.TABLES[name](self.measured())

    def test_only_fair_comparisons_count(self):
        self.add_beside(row(1.25), row(0.5, pairs=4), row(0.5, rounds=4), row(0.6, drift=1.03), row(0.9, peer="fa2", causal=True),
                        row(0.7, peers={"cudnn": {"refused": "no memory"}}, series={}),
                        row(1, peers={"cudnn": {"ratio": None, "spread_percent": None, "pairs": 1}}))
        self.assertEqual([(pair.peer, pair.ratio) for pair in beside.sustained(self.measured())],
                         [("cudnn", 1.25), ("fa2", 0.9)])
        losses = self.table("losses")
        self.assertIn("| FlashAttention-2 | 1 of 1 | 0.90 | 4, 16, 8192, 64, causal |", losses)
        self.assertNotIn("cuDNN", losses)
        self.change("beside.json", lambda d: d["git"].update(dirty=True))
        with self.assertRaisesRegex(Failed, "^beside.json: git.dirty: expected false"):
            self.measured()

    def test_the_best_peer_stands_in_the_results(self):
        def bf16():
            return next(line for line in self.table("results").splitlines() if line.startswith("| `bf16`"))

        fair = row(1.25), row(0.95, peer="fa2"), row(0.5, regime="burst"), row(0.5, values="uniform")
        self.add_beside(*fair)
        self.assertIn("| 500, 51 % | 0.95 × FlashAttention-2 |", bf16())
        self.add_beside(*fair, row(0.8, peer="efficient", drift=1.03))  # the fastest: no other takes its place
        self.assertIn("| 500, 51 % | n/a |", bf16())

    def test_drifting_samples_give_no_figure(self):
        self.change("ablation.json", lambda d: d["cells"][1].update(seconds=[1.0] * 5 + [1.03] * 5))
        self.assertIn("| n/a | n/a |", self.table("ablation").splitlines()[3])
        self.change("lab5.json", lambda d: [row["forward"].update(samples=[1.0] * 5 + [1.03] * 5) for row in d["rows"]])
        self.assertTrue(all("| n/a |" in line for line in self.table("lab5_passes").splitlines()[2:]))


class Published(unittest.TestCase):
    """Numbers of the report, computed independently from the files."""

    @classmethod
    def setUpClass(cls):
        cls.data = Measured(DATA)
        cls.facts = facts.all_facts(cls.data)

    def fact(self, path):
        at = self.facts
        for name in path.split("."):
            at = at[name]
        return at

    @staticmethod
    def document(name):
        return json.loads((DATA / f"{name}.json").read_text())

    def assert_facts(self, **wanted):
        """Two underscores in a path stand for a dot."""
        for path, value in wanted.items():
            self.assertAlmostEqual(self.fact(path.replace("__", ".")), value, delta=1e-9 * abs(value), msg=path)

    @staticmethod
    def only(records, **fields):
        found, = (record for record in records if all(record[name] == value for name, value in fields.items()))
        return found

    def median(self, records, *path, **fields):
        found = self.only(records, **fields)
        for name in path:
            found = found[name]
        return statistics.median(found)

    T28 = {"batches": 4, "tokens": 16384, "dim": 64}
    T28_FLOP = 4 * 4 * 16384 ** 2 * 64

    def test_ladders(self):
        for contract, name in (("f32", "ladder"), ("fixed", "fixed_ladder")):
            lines = [line for line in self.document(name)["ladder"] if all(line[k] == v for k, v in self.T28.items())
                     and line["kernel"] != "split_keys"]  # for few query rows, so no rung
            before, last = (statistics.median(lines[index]["seconds"]) for index in (-2, -1))
            self.assert_facts(**{f"ladder__{contract}__t28__last__ms": 1e3 * last,
                                 f"ladder__{contract}__t28__last__tflops": self.T28_FLOP / last * 1e-12,
                                 f"ladder__{contract}__t28__last__speed_up": before / last})
        gradients = self.median(self.document("backward_ladder")["ladder"], "seconds", kernel="kept_pairs")
        self.assert_facts(ladder__backward__d64__last__tflops=10 * 4 * 4096 ** 2 * 64 / gradients * 1e-12)

    def test_errors(self):
        cases = [case["largest_errors"] for case in self.document("accuracy")["cases"]]
        students = [case["errors"] for case in self.document("half_errors")["cases"]
                    if case["distribution"] == "student"]
        self.assert_facts(
            accuracy__hw4__most__value=max(case["hw4"] for case in cases),
            half_errors__student__fp16__least__value=min(
                errors["flash2 fp16"]["largest"] / errors["hw4_fixed16"]["largest"] for errors in students),
            distributions__normal__d64__hw4_fixed__rms=self.only(
                self.document("distributions")["cases"], distribution="normal", dim=64)["errors"]["hw4_fixed"]["rms"])

    def test_files_and_processors(self):
        runs = [case["seconds"] for case in self.document("files")["cases"] if case["name"].startswith("t")]
        sequential = self.only(self.document("sequential")["cases"], name="t28")
        whole = statistics.median(sequential["seconds"]) * sequential["batches"] / sequential["measured_batches"]
        f32, fixed16 = (self.median(self.document("cpu")["cases"], "seconds", contract=name)
                        for name in ("f32", "fixed16"))
        self.assert_facts(
            files__total__of_plain=(sum(statistics.median(case["hw4"]) for case in runs)
                                    / sum(statistics.median(case["plain"]) for case in runs)),
            seq__t28_gflops=self.T28_FLOP * 1e-9 / whole, cpu__fixed16__over_f32=f32 / fixed16)

    def test_courses_and_counters(self):
        rows = self.document("cs336_attention")["rows"]
        refused = [row for row in rows if row["impl"] == "naive"
                   and "oom" in (row["forward"]["status"], row["backward"]["status"])]
        base = self.document("lab5")["rows"]
        longest = self.only(base, impl="bf16", batch_size=1, seq_len=16384, causal=True)["forward"]
        launch = self.only(self.document("profile_ladder")["launches"], case="t28", kernel="shared_tiles")
        waits = {why: cycles for why, cycles in launch["stalls"].items() if cycles and "selected" not in why}
        self.assert_facts(
            cs336__out_of_memory__naive=len(refused),
            lab5__causal__bf16__n16384__forward__tflops=longest["flop"] * 1e-12 / statistics.median(longest["samples"]),
            profile__f32__t28__shared_tiles__wavefronts_per_load=(launch["metrics"]["shared_load_wavefronts"]
                                                                  / launch["metrics"]["shared_load_instructions"]),
            profile__f32__t28__shared_tiles__stall1__warps=max(waits.values()))

    def test_collectives(self):
        rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"]
                 for row in self.document("collectives")["allreduce"] if row["status"] == "ok" and row["ranks"] > 1}
        long = [rate / rates[(*key[:3], "mpi")] for key, rate in rates.items()
                if key[3] == "ordered" and key[2] >= 100 << 20]
        self.assert_facts(collectives__long__least__value=min(long))

    def test_spreads(self):
        self.assertEqual([percentile([4, 1, 3, 2], share) for share in (0, 0.5, 0.75, 1)], [1, 2.5, 3.25, 4])
        rate = Spread.of([1.0, 2.0, 4.0]).under(8.0)
        self.assertEqual(rate.mid, 4.0)
        self.assertLess(rate.low, rate.high)
        self.assertTrue(drifts([1.0] * 5 + [1.03] * 5) and not drifts([1.0, 1.03] * 6))

    def test_what_comes_from_the_sources(self):
        self.assertEqual(self.fact("code.ring_buffers") * self.fact("code.piece_mib"), self.fact("code.ring_mib"))
        tables = "".join(path.read_text() for path in sorted((ROOT / "src/gpu").glob("*/kernels.cu")))
        listed = re.findall(r'^\s+\{(?:\.name = )?"(\w+)",', tables, re.MULTILINE)
        self.assertIn("plain_rows", listed)
        self.assertEqual(list(sources.ideas()), listed)


def python_with_matplotlib():
    """A Python with the pinned version: this one, or the one that make report has installed; otherwise this one."""
    ask = "import matplotlib; print(matplotlib.__version__)"
    for python in (sys.executable, str(ROOT / "build/report-venv/bin/python")):
        if os.path.exists(python):
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
            if done.stdout.strip() == figures.pinned_version():
                return python
    return sys.executable


class Committed(unittest.TestCase):
    """This repository's report. Figures are compared, but for text positions, where the pinned matplotlib is found."""

    def test_it_is_what_the_data_gives(self):
        done = subprocess.run([python_with_matplotlib(), BUILD, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
