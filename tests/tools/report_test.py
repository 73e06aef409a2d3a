#!/usr/bin/env python3
"""report/build: the template language, data that is not as it should be, claims, and whole builds from made-up data."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "report/build"
DATA = ROOT / "tests/tools/report_data"
SVG = "{http://www.w3.org/2000/svg}"
sys.path.insert(0, str(ROOT / "judge"))
sys.path.insert(0, str(ROOT / "report"))

import scaling  # noqa: E402 (the path is set above)
from builder import claims, facts, figures, layout, markers, schema, sources, tables  # noqa: E402 (the path is set above)
from builder.errors import Failed  # noqa: E402
from builder.measured import Measured  # noqa: E402
from builder.spread import Spread, percentile  # noqa: E402
from builder.template import Renderer, renumbered, significant  # noqa: E402
from charts import style  # noqa: E402

README = """# A test
before
<!-- begin results (make report) -->
old
<!-- end results -->
between
<!-- begin figure (make report) -->
<!-- end figure -->
after
"""


def template():
    """Everything that there is, once."""
    parts = ["# Test", "{{ cases.t28.ms | .2f }} ms"]
    parts += [f"{{{{ claim:{name} }}}}" for name in claims.CLAIMS]
    parts += [f"{{{{ table:{name} }}}}" for name in tables.TABLES if name != "results"]
    parts += [f"{{{{ figure:{name} }}}}" for name in figures.NAMES]
    return "\n\n".join(parts) + "\n"


def python_with_matplotlib():
    """One that has the pinned version: this one, or the one that make report has made."""
    ask = "import matplotlib; print(matplotlib.__version__)"
    for python in (sys.executable, str(ROOT / "build/report-venv/bin/python")):
        try:
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
        except OSError:
            continue
        if done.stdout.strip() == figures.pinned_version():
            return python
    return None


class Templates(unittest.TestCase):
    FACTS = {"a": {"ms": 12.3456, "count": 30, "name": "t28", "none": None, "1": {"x": 2.0}}}

    def renderer(self):
        return Renderer(self.FACTS, {"all": lambda: "all 30"}, {"small": lambda: "| a |\n|---|"},
                        {"one": lambda: ("an alt", "A caption."), "two": lambda: ("other", "Other.")})

    def render(self, text, **options):
        return self.renderer().render(text, "x.md", "figures", **options)

    def refused(self, text):
        with self.assertRaises(Failed) as caught:
            self.render(text)
        self.assertEqual(caught.exception.code, 65)
        return str(caught.exception)

    def test_facts_and_their_formats(self):
        self.assertEqual(self.render("{{ a.ms | .1f }} {{a.ms|3}} {{ a.count }} {{ a.name }} {{ a.1.x | .0f }}"),
                         "12.3 12.3 30 t28 2")
        self.assertEqual(self.render("{{ a.count | 5d }}"), "   30")

    def test_claims_and_tables(self):
        self.assertEqual(self.render("on {{ claim:all }} cases\n{{ table:small }}"), "on all 30 cases\n| a |\n|---|")

    def test_figures_are_numbered_in_their_order_and_can_be_named_before(self):
        text = self.render("see {{ see:two }}\n{{ figure:one }}\n{{ figure:two }}")
        self.assertIn("see figure 2\n", text)
        self.assertIn("![an alt](figures/one.svg)\n\n**Figure 1.** A caption.", text)
        self.assertNotIn("Figure", self.render("{{ figure:one }}", numbered=False))

    def test_a_requirement_leaves_nothing_and_no_line(self):
        self.assertEqual(self.render("a\n{{ require: a.ms > 12 }}\nb {{ require: a.count == 30 }}c"), "a\nb c")
        self.assertEqual(self.render("a\n\n{{ require: a.ms > a.1.x }}\n\nb"), "a\n\nb")

    def test_one_that_does_not_hold_names_both_sides(self):
        said = self.refused("a\n{{ require: a.ms < 12 }}")
        self.assertIn("x.md:2: require: a.ms < 12 does not hold: 12.3456 and 12.0", said)

    def test_what_is_wrong_is_said_with_its_line(self):
        for text, words in (("{{ a.mss | .1f }}", "no fact 'a.mss'; 'a' has 1, count, ms"),
                            ("{{ b }}", "no fact 'b'; there are a"),
                            ("{{ a }}", "'a' is not a fact but has some"),
                            ("{{ a.ms.x }}", "no fact 'a.ms.x'"),
                            ("{{ a.ms }}", "needs a format"),
                            ("{{ a.ms | .1q }}", "format '.1q'"),
                            ("{{ a.ms | }}", "no format after the bar"),
                            ("{{ a.name | .1f }}", "is a text and takes no format"),
                            ("{{ a.none | .1f }}", "was not measured"),
                            ("{{ a-b }}", "not the name of a fact"),
                            ("{{ table:large }}", "no table 'large'; there are small"),
                            ("{{ figure:three }}", "no figure 'three'"),
                            ("{{ claim:none }}", "no claim 'none'"),
                            ("{{ see:one }}", "this text has no such figure"),
                            ("{{ sea:one }}", "'sea:' is none of"),
                            ("{{ require: a.ms }}", "is not like"),
                            ("{{ require: a.ms < x-y }}", "neither a fact nor a number"),
                            ("{{ require: a.name < 3 }}", "a text and a number"),
                            ("{{ a.ms | .1f", "do not close"),
                            ("a.ms }}", "do not close")):
            with self.subTest(text):
                said = self.refused(f"first\n{text}\nlast")
                self.assertTrue(said.startswith("x.md:2: "), said)
                self.assertIn(words, said)

    def test_what_is_there_only_with_its_data(self):
        def render(text, *files):
            renderer = Renderer(self.FACTS, {}, {}, {"one": lambda: ("", "One.")}, files, ("a.json", "b.json"))
            return renderer.render(text, "x.md", "figures"), renderer

        text = ("1\n{{ with: a.json b.json }}\n{{ a.count }} {{ figure:one }}\n{{ end }}\n"
                "{{ without: b.json }}\n3\n{{ end }}\n4")
        self.assertTrue(render(text, "a.json", "b.json")[0].startswith("1\n30 ![]("))
        without, renderer = render(text, "a.json")
        self.assertEqual(without, "1\n3\n4")
        self.assertEqual(renderer.unused(), [])  # the text has it
        for wrong, words in (("{{ with: c.json }}\n{{ end }}", "x.md:1: no file 'c.json'"),
                             ("a\n{{ end }}", "x.md:2: 'end' does not fit"),
                             ("{{ with: a.json }}\nb", "x.md:1: a condition without an end"),
                             ("{{ with: }}\n{{ end }}", "x.md:1: 'with' does not fit"),
                             ("{{ with: a.json }}\n{{ with: b.json }}\n{{ end }}", "x.md:2: 'with' does not fit")):
            with self.subTest(wrong), self.assertRaises(Failed) as caught:
                render(wrong, "a.json")
            self.assertTrue(str(caught.exception).startswith(words), str(caught.exception))

    def test_the_chapters(self):
        text = "\n\n## 1. The `x`, again\n### 1.1 No\n## Last"
        self.assertEqual(self.render("{{ contents }}" + text),
                         "- [1. The `x`, again](#1-the-x-again)\n- [Last](#last)" + text)

    def test_what_nobody_used(self):
        renderer = self.renderer()
        renderer.render("{{ figure:one }} {{ table:small }}", "x.md", "figures")
        self.assertEqual(renderer.unused(), ["claim all", "figure two"])

    def test_significant_digits(self):
        for value, text in ((340.02, "340"), (75.58, "75.6"), (5.7805, "5.78"), (0.02543, "0.0254"), (9.996, "10.0"),
                            (0.0, "0"), (12345.6, "12300"), (-0.5, "-0.500"), (999.6, "1000")):
            self.assertEqual(significant(value, 3), text)


class Numbers(unittest.TestCase):
    def test_what_is_left_out_is_not_counted(self):
        text = ("## 1. One\n\n### 1.1 A\n\nSee section 7.2 and appendix C.\n\n## 7. Seven\n\n### 7.2 B\n\n## Last\n\n"
                "## Appendix C: c\n\nOf section 1.1, Section 9.9.\n")
        self.assertEqual(renumbered(text), "## 1. One\n\n### 1.1 A\n\nSee section 2.1 and appendix A.\n\n## 2. Seven\n\n"
                                           "### 2.1 B\n\n## Last\n\n## Appendix A: c\n\nOf section 1.1, Section 9.9.\n")


class Layout(unittest.TestCase):
    def test_paragraphs_are_wrapped_and_nothing_else(self):
        words = " ".join(["word"] * 60)
        wrapped = layout.wrap(f"# {words}\n\na short\nline\n\n{words}\n\n| {words} |\n\n- {words}\n\n    {words}\n")
        self.assertIn("\n\na short line\n\nword", wrapped)
        self.assertEqual(max(map(len, wrapped.split("\n\n")[2].split("\n"))), 119)
        self.assertTrue(wrapped.endswith(f"\n\n| {words} |\n\n- {words}\n\n    {words}\n"))
        self.assertEqual(layout.wrap(wrapped), wrapped)

    def test_code_and_dashes_stay(self):
        for text in ("```\na\n\nb\nc\n```\n", "word " * 23 + "word\n- end"):
            self.assertEqual(layout.wrap(text), text)
        dash = "word " * 23 + "wor - end " + "word " * 9
        self.assertNotRegex(layout.wrap(dash), r"\n- ")


class Markers(unittest.TestCase):
    BLOCKS = {"a": "new\nlines\n", "b": "x"}
    TEXT = "1\n<!-- begin a (make report) -->\nold\n<!-- end a -->\n2\n<!-- begin b (make report) -->\n<!-- end b -->\n"

    def test_blocks_go_between_them_and_the_rest_stays(self):
        once = markers.fill(self.TEXT, self.BLOCKS, "R")
        self.assertEqual(once, self.TEXT.replace("old", "new\nlines").replace("<!-- end b", "x\n<!-- end b"))
        self.assertEqual(markers.fill(once, self.BLOCKS, "R"), once)

    def test_markers_that_do_not_fit(self):
        for text, words in ((self.TEXT.replace("begin a", "begin c"), "R:2: no block 'c'"),
                            (self.TEXT.replace("<!-- end a -->\n", ""), "R:5: 'b' begins inside 'a'"),
                            (self.TEXT.replace("<!-- end b -->\n", ""), "R: 'b' begins but does not end"),
                            (self.TEXT + "<!-- end a -->\n", "R:8: 'a' ends here but did not begin"),
                            (self.TEXT + self.TEXT, "R:9: a second place for 'a'"),
                            (self.TEXT.split("2\n")[0], "R: no place for 'b'")):
            with self.subTest(words), self.assertRaises(Failed) as caught:
                markers.fill(text, self.BLOCKS, "R")
            self.assertTrue(str(caught.exception).startswith(words), str(caught.exception))


class Spreads(unittest.TestCase):
    def test_percentiles_lie_between_samples(self):
        self.assertEqual([percentile([4, 1, 3, 2], share) for share in (0, 0.5, 0.75, 1)], [1, 2.5, 3.25, 4])
        self.assertEqual(percentile([7], 0.2), 7)

    def test_a_rate_turns_the_spread_round(self):
        rate = Spread.of([1.0, 2.0, 4.0]).under(8.0)
        self.assertEqual((rate.mid, rate.best), (4.0, 8.0))
        self.assertLess(rate.low, rate.mid)
        self.assertLess(rate.mid, rate.high)

    def test_labels_are_moved_apart_and_keep_their_order(self):
        places = style.apart([5.0, 5.1, 1.0, 5.2], 1.0)
        self.assertEqual([round(place, 6) for place in places], [4.1, 5.1, 1.0, 6.1])
        self.assertEqual(style.apart([0.1, 0.2], 1.0, low=0.0), [0.0, 1.0])

    def test_the_powers_of_an_axis_are_in_one_notation(self):
        self.assertEqual(style.power_labels([0.1, 1, 10, 100, 1e3]), ["0.1", "1", "10", "100", "1000"])
        self.assertEqual(style.power_labels([0.1, 1, 10, 1e5]), ["10⁻¹", "10⁰", "10¹", "10⁵"])


class Folder(unittest.TestCase):
    """A copy of the data, a template, its blocks and a README."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="hw4-report-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.fill_folder(self.folder)

    @staticmethod
    def fill_folder(folder):
        (folder / "data").mkdir()
        for file in DATA.glob("*.json"):
            shutil.copy(file, folder / "data")
        (folder / "report.template.md").write_text(template())
        (folder / "blocks").mkdir()
        (folder / "blocks/results.md").write_text("{{ table:results }}\n")
        (folder / "blocks/figure.md").write_text("{{ figure:ladder }}\n")
        (folder / "README.md").write_text(README)

    def change(self, name, edit):
        path = self.folder / "data" / name
        document = json.loads(path.read_text())
        edit(document)
        path.write_text(json.dumps(document))

    def measured(self):
        return Measured(self.folder / "data")

    @staticmethod
    def run_build(folder, *options, python=sys.executable, **environment):
        command = [python, BUILD, "--data", folder / "data", "--template", folder / "report.template.md", "--readme",
                   folder / "README.md", *options]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})

    def without_matplotlib(self):
        """Another version shadows whatever there is."""
        (self.folder / "modules").mkdir(exist_ok=True)
        (self.folder / "modules/matplotlib.py").write_text('__version__ = "0.0"\n')
        return {"PYTHONPATH": str(self.folder / "modules")}


class Scaling(unittest.TestCase):
    PARTS = scaling.Parts(start=0.5, read=scaling.bytes_of_operand(1), write=scaling.bytes_of_operand(1),
                          rate={"f32": 4.0 * scaling.TOKENS ** 2 * scaling.DIM}, case="t22", tokens={"f32": 1})

    def run_of(self, heads, cards, one_disk=False):
        run = scaling.run_of(self.PARTS, "f32", heads, cards, one_disk)
        return run.start, run.read, run.kernel, run.write

    def test_a_card_reads_its_queries_and_all_that_they_see(self):
        self.assertEqual(self.run_of(1, 1), (0.5, 3, 1, 1))
        self.assertEqual(self.run_of(1, 4), (0.5, 2.25, 0.25, 0.25))
        self.assertEqual(self.run_of(16, 4), (0.5, 12, 4, 4))  # four heads each
        self.assertEqual(self.run_of(16, 64), (0.5, 2.25, 0.25, 0.25))

    def test_one_disk_gives_each_card_its_share_of_a_rate(self):
        self.assertEqual(self.run_of(1, 4, one_disk=True), (0.5, 9, 0.25, 1))
        self.assertEqual(self.run_of(16, 4, one_disk=True), (0.5, 48, 4, 16))

    def test_speed_up_is_over_one_card(self):
        self.assertEqual(scaling.speed_up(self.PARTS, "f32", 1, 1, True), 1)
        self.assertEqual(scaling.speed_up(self.PARTS, "f32", 1, 4, False), 5.5 / 3.25)


class Data(Folder):
    def refused(self):
        with self.assertRaises(Failed) as caught:
            self.measured()
        self.assertEqual(caught.exception.code, 65)
        return str(caught.exception)

    def test_the_committed_set_says_that_it_is_made_up(self):
        self.assertEqual(self.measured().synthetic, list(schema.DOCUMENTS))

    def test_which_files_are_needed(self):
        for name in schema.DOCUMENTS:
            with self.subTest(name):
                content = (self.folder / "data" / name).read_text()
                (self.folder / "data" / name).unlink()
                if name in schema.OPTIONAL:
                    self.assertFalse(self.measured().has(name))
                else:
                    self.assertIn(f"{name}: missing", self.refused())
                (self.folder / "data" / name).write_text(content)
        self.assertTrue(self.measured().has(*schema.OPTIONAL))

    def test_what_needs_a_file_is_not_there_without_it(self):
        for name in schema.OPTIONAL:
            (self.folder / "data" / name).unlink()
        data = self.measured()
        found = facts.all_facts(data)
        self.assertFalse({"rounds", "half_errors", "half_ladder", "exactness", "lab5", "cs336", "warmups"} & set(found))
        left = figures.names(data)
        self.assertIn("fixed_ladder", left)
        self.assertFalse({"speed_against_error", "half_lengths", "lab5_length", "cs336_memory"} & set(left))

    def test_the_real_template_is_one_without_each_of_them(self):
        """As far as facts go that are not there, and names. What is required of real numbers need not hold here."""
        text = (ROOT / "report/report.template.md").read_text()
        known = set(schema.DOCUMENTS)
        every = {kind: {name: lambda: "" for name in names} for kind, names in
                 (("claim", claims.CLAIMS), ("table", tables.TABLES))}
        pictures = {name: lambda: ("", "") for name in figures.NAMES}
        for missing in (*schema.OPTIONAL, None):
            renderer = Renderer({}, every["claim"], every["table"], pictures, known - {missing}, known)
            kept = "\n".join(line for _, line in renderer.kept_lines(text, "report.template.md"))
            self.assertEqual(kept.count("{{ figure:ladder }}"), 1, missing)
            for file in {missing} & {"rounds.json", "half_errors.json"}:
                self.assertNotRegex(kept, rf"\{{\{{[^}}]* {file.removesuffix('.json')}\.")

    def test_contracts_on_the_cpu_are_beside_pytorch(self):
        self.change("cpu_contracts.json", lambda document: document["cases"][1]["seconds"].update(torch=[]))
        self.assertIn("cpu_contracts.json: cases[1].seconds.torch", self.refused())

    def test_collectives(self):
        text = tables.collectives(self.measured())
        for words in ("Up to 4 ranks share one card here", "with 1, 2, 4 ranks it had the same bytes",
                      "| via | vectors | ranks | 1 MiB | 1024 MiB |", "| `ordered` | gpu | 4 | 4.50 | 12.00 |",
                      "| `nccl` | gpu | 2 | n/a | n/a |", "n/a: `nccl` on 2 ranks: Duplicate GPU.",
                      "| 71m | 2 | `mpi` | overlapped 10 MiB | 20 | 250.0 | 125.0 |"):
            self.assertIn(words, text)
        self.assertIn("collectives.json", tables.measurements(self.measured()))
        self.change("collectives.json", lambda document: document["allreduce"][3].update(crc32="other"))
        self.assertIn("its bytes differed", tables.collectives(self.measured()))
        self.change("collectives.json", lambda document: document["allreduce"].pop(3))
        with self.assertRaisesRegex(Failed, "need sums in order of every size by two numbers"):
            self.change("collectives.json", lambda document: document.update(
                allreduce=[row for row in document["allreduce"] if row["via"] != "ordered" or row["ranks"] == 1]))
            tables.collectives(self.measured())
        self.change("collectives.json", lambda document: document["gradients"][0].pop("way"))
        self.assertIn("collectives.json: gradients[0].way: missing", self.refused())

    def test_what_is_not_as_expected_is_named(self):
        def drop(document):
            del document["shapes"][1]["hw4"]["seconds"]

        for name, edit, words in (
                ("kernels.json", drop, "kernels.json: shapes[1].hw4.seconds: missing"),
                ("kernels.json", lambda d: d.update(complete=False), "complete: expected true, got False"),
                ("kernels.json", lambda d: d.update(runs=2.5), "kernels.json: runs: expected a whole number, got 2.5"),
                ("files.json", lambda d: d["cases"][0].update(stages=None), "cases[0].stages: expected an object"),
                ("files.json", lambda d: d["cases"][2]["seconds"].update(hw4=[]),
                 "cases[2].seconds.hw4: expected a list with something in it"),
                ("steps.json", lambda d: d["steps"][0].update(label=3), "steps[0].label: expected a text, got 3"),
                ("tilings.json", lambda d: d.update(git=True), "tilings.json: git: expected an object, got True")):
            with self.subTest(words):
                content = (self.folder / "data" / name).read_text()
                self.change(name, edit)
                self.assertIn(words, self.refused())
                (self.folder / "data" / name).write_text(content)
        (self.folder / "data/cpu.json").write_text("{")
        self.assertIn("cpu.json: not JSON", self.refused())

    def test_a_case_that_is_nowhere(self):
        self.change("sequential.json", lambda d: d["cases"].pop())
        with self.assertRaises(Failed) as caught:
            facts.all_facts(self.measured())
        self.assertEqual(str(caught.exception), "sequential.json: cases: no t29")
        self.change("profile_ladder.json", lambda d: d["launches"].pop(0))
        with self.assertRaises(Failed) as caught:
            tables.profile(self.measured())
        self.assertEqual(str(caught.exception), "profile_ladder.json: launches: no plain_rows on t28")

    def test_a_counter_that_the_chip_lacks_is_not_a_zero(self):
        table = tables.profile(self.measured())
        self.assertIn(" n/a |", table)
        self.assertIsNone(facts.all_facts(self.measured())["profile"]["drawn_tiles"]["dram_write_gb_per_second"])


class Facts(Folder):
    def test_numbers(self):
        found = facts.all_facts(self.measured())
        self.assertAlmostEqual(found["ladder"]["t28"]["padded_tiles"]["tflops"], 4.0, 4)
        self.assertAlmostEqual(found["ladder"]["t28"]["padded_tiles"]["speed_up"], 4.0 / 1.25, 4)
        self.assertAlmostEqual(found["ladder"]["t28"]["register_rows"]["over_first"], 8.0, 4)
        self.assertAlmostEqual(found["ladder"]["t28"]["register_rows"]["of_peak_pct"], 12.5, 4)
        self.assertEqual(found["ladder"]["t28"]["gain"]["most"]["case"], "drawn_tiles")
        self.assertAlmostEqual(found["cases"]["t28"]["torch"]["naive"]["tflops"], 20.0, 4)
        self.assertAlmostEqual(found["profile"]["shared_tiles"]["wavefronts_per_load"], 8.5)
        self.assertEqual(found["profile"]["shared_tiles"]["stall1"], {"name": "long scoreboard", "warps": 2.0})
        self.assertAlmostEqual(found["files"]["t22"]["of_plain"], 0.5)
        self.assertAlmostEqual(found["files"]["t22"]["outside_ms"], 150.0)
        self.assertAlmostEqual(found["seq"]["t28"]["gflops"], 10.0, 4)
        self.assertAlmostEqual(found["pipeline"]["streams4"]["context_ms"], 200.0)
        self.assertGreater(found["pipeline"]["gain"], 1.0)
        self.assertEqual(found["tilings"]["tflops"]["most"]["case"], "128x64")

    def test_a_kernel_that_was_timed_twice_has_one_time(self):
        """On the ladder, and beside PyTorch."""
        def take(times, beside):
            def change(document):
                part = document.get("fixed", document)
                shape = next(shape for shape in part["shapes"] if shape["name"] == "t28")
                shape["hw4"]["seconds"] = beside
                line = next(line for line in part["ladder"] if line["kernel"] == shape["hw4"]["kernel"] and
                            (line["batches"], line["tokens"], line["dim"]) == (4, 16384, 64))
                line["seconds"] = times
            return change

        self.change("kernels.json", take([0.001, 0.002], [0.003, 0.004, 0.005]))
        self.change("kernels_fixed.json", take([0.0001, 0.0002], [0.0003, 0.0004, 0.0005]))
        found = facts.all_facts(self.measured())
        self.assertAlmostEqual(found["ladder"]["t28"]["drawn_tiles"]["ms"], 3)
        self.assertAlmostEqual(found["cases"]["t28"]["ms"], 3)
        self.assertAlmostEqual(found["fixed"]["ladder"]["t28"]["wgmma_shares"]["ms"], 0.3)
        self.assertAlmostEqual(found["fixed"]["cases"]["t28"]["ms"], 0.3)
        self.assertIn("| t28 | 4, 16384, 64 | 3.00 | 91.6 | 0.300 | 916.3 |", tables.results(self.measured()))

    def test_numbers_of_fixed(self):
        found = facts.all_facts(self.measured())
        fixed = found["fixed"]
        self.assertAlmostEqual(fixed["cases"]["t28"]["tflops"], 182.0, 3)
        self.assertAlmostEqual(fixed["cases"]["t28"]["over_f32"], 182 / 45, 4)
        self.assertAlmostEqual(fixed["ladder"]["4x16384x128"]["wgmma_group"]["speed_up"], 140 / 80, 4)
        self.assertAlmostEqual(fixed["roof"]["tflops"], 1979 / 6)
        self.assertAlmostEqual(fixed["cases"]["t28"]["of_roof_pct"], 100 * 182 * 6 / 1979, 3)
        self.assertAlmostEqual(fixed["profile"]["wgmma_shares"]["instructions_per_score"], 32 * 5e9 / (4 * 16384 ** 2))
        self.assertEqual(found["accuracy"]["hw4_fixed"]["most"]["value"], 4.1e-6)
        self.assertEqual(found["distributions"]["normal"]["d128"]["hw4_fixed"]["largest_of_row"], 4e-7)
        self.assertIsNone(found["distributions"]["normal"]["d64"]["rms_over_naive"])  # the naive one has none here

    def test_other_values(self):
        found = facts.all_facts(self.measured())["values"]
        self.assertEqual((found["kinds"], found["first"]), (4, "normal, σ = 1"))
        self.assertAlmostEqual(found["d64"]["stray_60"]["hw4"]["over_first"], 1.05, 4)
        self.assertEqual(found["d32"]["normal_1"]["hw4_fixed"]["over_first"], 1.0)
        self.assertAlmostEqual(found["hw4"]["over_first"]["most"]["value"], 1.05, 4)
        self.assertTrue(found["hw4"]["over_first"]["most"]["case"].startswith("every 500th query × 60, d = "))
        self.assertAlmostEqual(found["hw4"]["beyond"]["most"]["value"], 1.5, 4)
        self.assertEqual(found["torch"]["over_first"]["most"]["value"], 1.0)
        self.assertAlmostEqual(found["hw4"]["over_torch"]["least"]["value"], 40 / 48, 4)
        self.change("values.json", lambda d: d["kinds"].pop("low"))
        with self.assertRaisesRegex(Failed, "values.json: kinds: no low"):
            facts.all_facts(self.measured())

    def test_rounds(self):
        found = facts.all_facts(self.measured())["rounds"]
        self.assertEqual((found["rounds"], found["shapes"]), (3, 2))
        self.assertAlmostEqual(found["t28"]["none"]["fixed16"]["tflops"], 320.0)
        self.assertAlmostEqual(found["t28"]["none"]["naive_tf32"]["tflops"], 40.0)
        self.assertAlmostEqual(found["t28"]["causal"]["fixed16"]["over_flash2"], 1.28)
        self.assertAlmostEqual(found["t28"]["none"]["fixed16"]["of_roof_pct"], 100 * 320 * 3 / 1979)
        self.assertEqual(found["none"]["fixed16"]["over_cudnn"]["least"]["case"], "512×1024×64")
        self.assertEqual(found["causal"]["fixed16"]["faster_than_flash2"], 1)
        rows = tables.rounds(self.measured()).splitlines()
        self.assertEqual(rows[2],
                         "| t28 | 4, 16384, 64 | none | 160 | 320 | 330 | 250 | 400 | 2.00 | 1.28 | 0.80 | 1.32 |")
        self.assertEqual(rows[5],
                         "|  | 512, 1024, 64 | causal | 160 | 200 | 220 | 250 | 400 | 1.25 | 0.80 | 0.50 | 0.88 |")
        self.assertAlmostEqual(found["none"]["from_bf16"]["over_fixed16"]["most"]["value"], 1.1)
        self.change("rounds.json", lambda d: d["cases"][0]["seconds"].pop("cudnn bf16"))
        with self.assertRaisesRegex(Failed, "^rounds.json: t28, mask none: seconds: no cudnn bf16$"):
            tables.rounds(self.measured())

    def test_a_ratio_is_that_of_the_rounds(self):
        """Not that of two medians."""
        self.change("rounds.json", lambda d: d["cases"][0]["seconds"].update({"fixed16": [1.0, 2.0, 5.0],
                                                                              "flash2 bf16": [2.0, 8.0, 5.0]}))
        self.assertEqual(facts.all_facts(self.measured())["rounds"]["t28"]["none"]["fixed16"]["over_flash2"], 2.0)

    def test_errors_beside_half_precision(self):
        found = facts.all_facts(self.measured())["half_errors"]
        self.assertAlmostEqual(found["uniform"]["n16384"]["d64"]["bf16_over_fixed16"], 40.0)
        self.assertEqual(found["uniform"]["n16384"]["d64"]["flash2_bf16"], 8e-3)
        self.assertAlmostEqual(found["offset"]["fp16"]["most"]["value"], 0.5)
        self.assertEqual((found["count"], found["not_above"]), (8, {"bf16": 8, "fp16": 4, "tf32": 4}))
        rows = tables.half_errors(self.measured()).splitlines()
        self.assertEqual(rows[2], "| uniform in ±3 | 1024 | 64 | 2.0e-04 | 8.0e-03 | 1.0e-03 | 1.0e-03 | 40 |")
        self.assertEqual(len(rows), 2 + 6)  # neither those of N = 4096
        self.change("half_errors.json", lambda d: d["distributions"].pop("offset"))
        with self.assertRaisesRegex(Failed, "^half_errors.json: distributions: no offset$"):
            tables.half_errors(self.measured())

    def test_what_is_said_of_fixed16(self):
        self.assertEqual(claims.fixed16_faster_than_flash2(self.measured()), "1 of 2 shapes (not 512×1024×64)")
        self.assertEqual(claims.fixed16_faster_than_cudnn_causal(self.measured()), "none of 2 shapes")
        self.assertEqual(claims.fixed16_not_above_bf16(self.measured()), "all 8 cases")
        self.assertEqual(claims.fixed16_not_above_tf32(self.measured()), "4 of 8 cases")

        def faster(document):
            document["cases"][0]["seconds"]["fixed16"] = [1e-9] * 3
            document["cases"].append({**document["cases"][1], "name": "t29"})

        self.change("rounds.json", faster)
        self.assertEqual(claims.fixed16_faster_than_cudnn(self.measured()), "1 of 3 shapes (t28)")

    def test_speed_against_error(self):
        module = figures.module_of("speed_against_error")
        points = module.points(self.measured())
        self.assertEqual({who: round(rate) for who, (_, rate) in points.items()},
                         {"f32": 48, "fixed": 160, "fixed16": 320, "bf16": 480, "fp16": 475, "flash2 bf16": 250,
                          "flash2 fp16": 256, "cudnn bf16": 400, "efficient": 32, "naive tf32": 40})
        self.assertEqual(points["fixed16"][0], 2e-4)
        self.assertEqual(module.front(points), ["f32", "fixed", "fixed16", "fp16", "bf16"])

    def test_what_exactness_costs(self):
        found = facts.all_facts(self.measured())["exactness"]
        self.assertAlmostEqual(found["f32"]["over_as_accurate"], 32 / 48)
        self.assertAlmostEqual(found["fixed16"]["over_fastest"], 480 / 320)
        rows = tables.TABLES["exactness"](self.measured()).splitlines()
        self.assertEqual(rows[4], "| `fixed16` | 2.0·10⁻⁴ | 320 | PyTorch efficient, float32: 32.0 | 0.10 | "
                                  "hw4, bf16: 480, 7.0·10⁻³ | 1.50 |")

    def test_half_precision(self):
        found = facts.all_facts(self.measured())
        ladder = found["half_ladder"]["d64"]
        self.assertAlmostEqual(ladder["wgmma_stage"]["speed_up"], 1.6, 4)
        self.assertEqual(ladder["last"]["name"], "wgmma_bf16")
        self.assertAlmostEqual(ladder["last"]["over_second"], 500 / 400, 4)
        self.assertEqual(ladder["last"]["tensor_pipe_pct"], 62.5)
        self.assertAlmostEqual(found["half_rounds"]["bf16"]["over_cudnn"]["least"]["value"], 500 / 450)
        self.assertAlmostEqual(found["half_rounds"]["fp16_over_bf16"]["most"]["value"], 0.99)
        self.assertAlmostEqual(found["fixed16_ladder"]["d128"]["wgmma_pairs"]["speed_up"], 2, 4)
        self.assertIn("| `mma_pairs` |", tables.TABLES["fixed16_ideas"](self.measured()))
        self.assertAlmostEqual(found["half_gradients"]["any_order"]["most"]["value"], 510 / 500)
        self.assertAlmostEqual(found["half_gradients"]["apart"]["least"]["value"], 0.8)
        self.assertIn("| over cuDNN | any order over `bf16` | dQ apart over `bf16` |",
                      tables.TABLES["half_gradient_turns"](self.measured()))
        self.assertAlmostEqual(found["half_own_errors"]["bf16"]["most"]["value"], 7 / 8)
        self.assertIn("| `wgmma_ring` | tiles copied to a ring of stages, ahead of their use | 495 | 55 | 40 |",
                      tables.TABLES["half_ideas"](self.measured()))

    def test_contracts_on_the_cpu(self):
        found = facts.all_facts(self.measured())["cpu_contracts"]
        self.assertAlmostEqual(found["fixed16"]["over_torch"], 3.0)
        self.assertIn("| `fixed` | `fixed_generic` | 15.0 | 0.716 | 2.00 | 1.50 |",
                      tables.TABLES["cpu_contracts"](self.measured()))

    def test_collectives(self):
        found = facts.all_facts(self.measured())["collectives"]
        ordered = found["ordered_over_mpi"]
        self.assertEqual((ordered["long"]["least"]["value"], ordered["short"]["most"]["value"]), (2, 0.75))
        self.assertEqual(ordered["long"]["least"]["case"], "1024 MiB, 2 ranks, gpu")
        self.assertEqual(found["overlapped_over_flat"]["least"]["value"], 2)
        self.assertEqual(found["overlapped_over_flat"]["least"]["case"], "71m, 2 ranks, mpi")

    def test_no_ratio_of_a_single_step(self):
        self.change("collectives.json", lambda document: document["gradients"].extend(
            {**row, "model": "cs336-xl", "step_s": 9.0 if row["way"] == "flat" else 1.0}
            for row in list(document["gradients"])))
        found = facts.all_facts(self.measured())["collectives"]
        self.assertEqual(found["overlapped_over_flat"]["most"]["value"], 2)

    def test_lab5(self):
        found = facts.all_facts(self.measured())["lab5"]
        self.assertEqual((found["length"]["none"]["first"]["tokens"], found["length"]["none"]["last"]["tokens"]),
                         (512, 16384))
        self.assertAlmostEqual(found["gain"]["pytorch_fp16"]["last"], 1.0, 4)
        self.assertGreater(found["gain"]["f32"]["last"], 1.7)
        self.assertEqual(found["base"]["fixed16"]["backward"], {"status": "unsupported"})
        self.assertEqual(found["length"]["none"]["n16384"]["f32"]["forward"]["peak_mib"], 512)
        self.assertAlmostEqual(found["length"]["none"]["n16384"]["f32"]["backward_over_forward"], 2.5, 2)

    def test_a_sweep_that_was_cut_short_says_so(self):
        self.assertNotIn("was not measured", tables.TABLES["lab5_sweep"](self.measured()))
        self.change("lab5_sweep.json", lambda d: d.update(cut_short=True))
        self.assertIn("was not measured.\n\n| B | N |", tables.TABLES["lab5_sweep"](self.measured()))

    def test_a_size_of_two_runs_has_the_row_with_more_passes(self):
        def rows(data):
            from builder.measured_courses import BASE, Lab5
            return [row for row in Lab5(data).sweep.where(**BASE) if row.impl == "f32"]

        [row] = rows(self.measured())
        self.assertTrue(row.forward.ok and row.backward.ok)

    def test_a_sweep_that_ended_early(self):
        self.change("lab5.json", lambda d: d.update(cut_short=True, rows=d["rows"][:-8]))
        found = facts.all_facts(self.measured())["lab5"]["length"]
        self.assertEqual((found["none"]["last"]["tokens"], found["causal"]["last"]["tokens"]), (1024, 1024))
        self.assertIn("n/a", (self.change("lab5_sweep.json", lambda d: d["rows"].pop()),
                              tables.TABLES["lab5_sweep"](self.measured()))[1])

    def test_rows_that_lack_memory(self):
        found = facts.all_facts(self.measured())["cs336"]
        self.assertEqual((found["naive"]["out_of_memory"], found["pytorch_float32"]["out_of_memory"],
                          found["f32"]["out_of_memory"]), (2, 4, 0))
        self.assertRegex(tables.TABLES["cs336_attention"](self.measured()),
                         r"\n\| 64 \| 16384 \| OOM \| OOM \| OOM \| \d")

    def test_memory_is_accounted_for_byte_by_byte(self):
        table = tables.TABLES["cs336_bytes"](self.measured())
        self.assertIn("| scores, refused | B·N²·4 | 8589934592 | 8724152320 |", table)
        self.assertEqual(facts.all_facts(self.measured())["cs336_memory"]["refused"]["held_mib"], 128)

        def lose_a_byte(document):
            for track in document["tracks"]:
                track["events"][0]["bytes"] -= 1

        self.change("memory.json", lose_a_byte)
        with self.assertRaisesRegex(Failed, "^memory.json: Q of naive at N = 16384: 33554431 bytes are not B·N·d·4$"):
            tables.TABLES["cs336_bytes"](self.measured())

    def test_sums_and_first_samples(self):
        found = facts.all_facts(self.measured())
        self.assertAlmostEqual(found["accumulate"]["gpu"]["float32_in_float32"]["plain"]["error"], 0.000134)
        self.assertGreater(found["warmups"]["f32"]["w0"]["first_over_rest"], 30)
        self.assertIn("| bf16 | bf16 | one by one | 4 | 4 | 10.0097656 | -6.0e+00 |",
                      tables.TABLES["accumulate"](self.measured()))

    def test_labels_of_points_cover_nothing(self):
        module = figures.module_of("speed_against_error")
        labels = {who: ("a name", "and numbers, 3.1") for who in "abcd"}
        for places in ((1, 1), (1.5, 1), (1, 1.5), (1.5, 1.5)), ((0.2, 3.6), (7.8, 3.6), (0.2, 0.2), (7.8, 0.2)):
            corners = module.label_corners(dict(zip(labels, places)), labels, places)
            boxes = [(x, y, x + module.LETTER * 16, y + 2 * module.LINE) for x, y in corners.values()]
            marks = [(x - module.MARK, y - module.MARK, x + module.MARK, y + module.MARK) for x, y in places]
            for box in boxes:
                self.assertTrue(module.is_free(box, [*marks, *(other for other in boxes if other is not box)]), places)

    def test_the_causal_mask(self):
        found = facts.all_facts(self.measured())["causal"]
        shape = found["4x16384x64"]
        self.assertAlmostEqual(shape["hw4"]["gain"], 1 / (0.5 + 64 / 16384), 4)
        self.assertAlmostEqual(shape["hw4"]["full_ms"], 4 * 4 * 16384 ** 2 * 64 / 48e12 * 1e3, 4)
        self.assertAlmostEqual(shape["hw4"]["tflops"], 24.0 / (0.5 + 64 / 16384), 3)  # of half the work
        self.assertAlmostEqual(shape["torch"]["tflops"], 30.0, 3)
        self.assertAlmostEqual(shape["hw4_fixed"]["speed_up"], 160 / 60 / (0.5 + 64 / 16384), 3)
        self.assertEqual(found["hw4"]["gain"]["least"]["case"], "128×512×64")
        self.assertAlmostEqual(found["hw4"]["gain"]["least"]["value"], 1.6, 4)
        self.assertEqual(found["hw4"]["gain"]["most"]["case"], "4×32768×32")
        self.assertEqual([[case.tokens for case in cases] for cases in self.measured().masked_lengths.values()],
                         [[512, 4096, 16384]] * 2)  # not the shapes of another number of rows
        rows = tables.causal(self.measured()).splitlines()
        self.assertEqual(rows[2], "| 4, 16384, 64 | 5.73 | 2.89 | 47.6 | 1.72 | 0.866 | 158.8 | 4.58 | 30.0 |")
        self.assertEqual(len(rows), 2 + 4)
        self.change("causal.json", lambda d: d["cases"].pop(-1))
        with self.assertRaisesRegex(Failed, "causal.json: cases: no 512,1024,64"):
            tables.causal(self.measured())

    def test_backward(self):
        found = facts.all_facts(self.measured())["backward"]
        self.assertAlmostEqual(found["ladder"]["kept_pairs"]["tflops"], 40.0, 3)
        self.assertAlmostEqual(found["ladder"]["kept_pairs"]["speed_up"], 8.0, 3)
        self.assertEqual(found["ladder"]["kept_pairs"]["scratch_mb"], 2 ** 29 * 1e-6)
        shape = found["shapes"]["4x32768x32"]
        self.assertAlmostEqual(shape["none"]["speed_up"], 2.5, 3)
        self.assertAlmostEqual(shape["causal"]["hw4"]["tflops"], 45 * 0.9, 3)  # of half the work
        self.assertAlmostEqual(shape["pairs_tb_per_second"], 20 * 45 / 320, 3)
        self.assertEqual(found["speed_up"]["none"]["least"]["case"], "4×16384×64")
        self.assertAlmostEqual(found["causal_over_full"]["most"]["value"], 0.9, 4)
        self.assertAlmostEqual(found["memory"]["64"]["of_all_pct"], 60.0, 3)
        self.assertEqual(found["memory"]["all"]["taken_mib"], 2200)
        self.assertAlmostEqual(found["cpu"]["over_torch"], 2.0)  # the faster of the two
        rows = tables.backward(self.measured()).splitlines()
        self.assertEqual(rows[2], "| 4, 16384, 64 | 15.3 | 45.0 | 19.1 | 36.0 | 8.48 | 40.5 | 10.6 | 32.4 |")
        self.change("backward.json", lambda d: d["bars"].pop())
        with self.assertRaisesRegex(Failed, "backward.json: bars: no 4,32768,32 with the mask causal"):
            tables.backward(self.measured())

    def test_errors_of_gradients(self):
        found = facts.all_facts(self.measured())["backward"]
        self.assertEqual((found["errors"]["cases"], found["errors"]["compared"]), (4, 3))
        # One of ours is above; PyTorch's NaN and infinity are above everything, and no ratios.
        self.assertEqual(claims.gradients_not_above_efficient(self.measured()), "8 of 9 gradients")
        self.assertEqual(found["errors"]["dK"]["not_above"], 2)
        self.assertEqual(tables.gradient_errors(self.measured()).splitlines()[2:],
                         ["| dQ | 3 of 3 | 0.62 | 0.50 (g01) | 0.75 (g02) |",
                          "| dK | 2 of 3 | 2.00 | 2.00 (g01) | 2.00 (g01) |",
                          "| dV | 3 of 3 | 0.50 | 0.50 (g01) | 0.50 (g01) |"])
        self.assertAlmostEqual(found["lengths"]["dV"]["ratio"]["most"]["value"], 2 / 3)
        self.change("backward.json", lambda d: d["errors"][0]["hw4"].update(dQ=float("nan")))  # ours counts as above
        self.assertEqual(claims.gradients_not_above_efficient(self.measured()), "7 of 9 gradients")

    def test_what_is_said_of_fixed(self):
        self.assertEqual(claims.fixed_below_naive(self.measured()), "all 7 cases")
        self.assertEqual(claims.fixed_over_f32(self.measured()), "from 3.54 times (4×16384×128) to 4.04 times (t28)")
        self.assertEqual(claims.fixed_bars(self.measured()), "5 of 6 are met (not 4×16384×128)")
        lines = tables.fixed_kernels(self.measured()).splitlines()
        self.assertEqual(lines[0], "| case | B, N, d | `mma_groups` | `wgmma_group` | `wgmma_groups` | `wgmma_shares` "
                                   "| over `f32` | over PyTorch |")
        self.assertEqual(lines[2], "| t28 | 4, 16384, 64 | 80 | 140 | 150 | 182 | 4.04 | 6.07 |")
        self.change("kernels_fixed.json", lambda d: d["fixed"]["ladder"].pop(5))  # a kernel that did not take the shape
        self.assertEqual(tables.fixed_kernels(self.measured()).splitlines()[3],
                         "| t22 | 500, 2048, 64 | 80 | n/a | 150 | 177 | 3.94 | 5.71 |")
        self.change("accuracy.json", lambda d: [case["largest_errors"].update(hw4_fixed=1.0) for case in d["cases"]])
        self.assertEqual(claims.fixed_not_above_efficient(self.measured()), "none of 7 cases")

    def test_seq_is_scaled_to_all_batches(self):
        before = self.measured().sequential_seconds("t28").mid
        self.change("sequential.json", lambda d: [case.update(measured_batches=1) for case in d["cases"]])
        self.assertAlmostEqual(self.measured().sequential_seconds("t28").mid, 2 * before)

    def test_paths_are_what_templates_can_name(self):
        for path, value in facts.listed(facts.all_facts(self.measured())):
            self.assertRegex(path, r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$")
            self.assertIsInstance(value, (int, float, str, type(None)), path)

    def test_claims_follow_the_data(self):
        self.assertEqual(claims.faster_than_torch(self.measured()), "all 7 cases")
        self.assertEqual(claims.speed_up_over_torch(self.measured()), "from 1.51 times (t29) to 1.60 times (t01)")
        self.assertEqual(claims.not_above_efficient(self.measured()), "3 of 7 cases")
        self.assertIn("at one commit, 0123456789, with nothing", claims.measured_at(self.measured()))

        def slower(document):
            seconds = document["shapes"][2]["torch"]["efficient"]["seconds"]
            seconds[:] = [second / 4 for second in seconds]

        self.change("kernels.json", slower)
        self.change("accuracy.json", lambda d: [case["largest_errors"].update(naive=0.0) for case in d["cases"]])
        self.change("cpu.json", lambda d: d["git"].update(commit="f" * 40, dirty=True))
        self.assertEqual(claims.faster_than_torch(self.measured()), "6 of 7 cases")
        self.assertIn("(t11) to 1.60 times", claims.speed_up_over_torch(self.measured()))
        self.assertEqual(claims.below_naive(self.measured()), "none of 7 cases")
        self.assertIn("at 2 commits, 0123456789, ffffffffff, with changes", claims.measured_at(self.measured()))

    def test_bars_follow_the_data(self):
        self.assertEqual(claims.bars_met({"a": True, "b": True}), "all 2 are met")
        self.assertEqual(claims.bars_met({"a": None, "b": True, "c": False}), "1 of 3 are met (not a, c)")
        self.assertEqual(claims.kernel_bars(self.measured()), "5 of 7 are met (not t22, t28)")
        # hw4 is 1.33 times the context and 0.5 times the plain program; the total needs all 30 cases.
        self.assertEqual(claims.file_bars_met(self.measured()), "3 of 7 are met (not t01, t10, t28, total)")

        def faster(document):
            for case in document["cases"]:
                case["seconds"]["hw4"] = [second / 2 for second in case["seconds"]["hw4"]]
            document["memory"].update(hw4_bytes=10**9)

        def faster_kernels(document):
            for shape in document["shapes"]:
                shape["hw4"]["seconds"] = [second / 2 for second in shape["hw4"]["seconds"]]

        self.change("files.json", faster)
        self.change("kernels.json", faster_kernels)
        self.assertEqual(claims.file_bars_met(self.measured()), "5 of 7 are met (not total, memory)")
        self.assertEqual(claims.kernel_bars(self.measured()), "all 7 are met")

    def test_short_tables(self):
        lines = tables.files_short(self.measured()).splitlines()
        self.assertEqual(lines[2], "| t01 to t10, the worst: t01 | 16, 5 MB | 1.33 × context | ≤ 1.10: missed |")
        self.assertIn("| t12 | 944, 315 MB | 0.50 × plain | ≤ 0.50 |", lines)
        self.assertEqual(lines[-1].split(" | ")[-1], "≤ 0.60: not judged |")

    def test_results_name_what_was_not_measured(self):
        rows = tables.results(self.measured()).splitlines()
        self.assertEqual(rows[2], "| t28 | 4, 16384, 64 | 5.94 | 46.3 | 1.51 | 182.0 | 9.16 | 30.0 | 400 |")
        self.assertIn("| t01 | 320, 128, 32 | 0.0168 | 40.0 | n/a | n/a | 0.0268 | 25.0 | 400 |", rows)
        self.assertIn("|  | 4, 16384, 128 | 11.7 | 47.0 | 3.45 | 159.2 | 12.5 | 44.0 | n/a |", rows)

    def test_captions_follow_the_data(self):
        module = figures.module_of("roofline")
        self.assertIn("all 9 kernels", module.caption(self.measured()))
        self.change("profile_ladder.json", lambda d: d["launches"][0]["metrics"].update(dram_bytes=1e12))
        self.assertIn("8 of 9 kernels", module.caption(self.measured()))

    def test_the_roof_of_l2_is_that_of_the_launch_that_asks_most_of_it(self):
        self.change("profile_fixed.json", lambda d: d["launches"][2]["metrics"].update(l2_throughput_pct=5.0))
        kernel, share, peak = figures.module_of("roofline").l2_roof(self.measured())
        self.assertEqual((kernel, share, round(peak, 6)), ("wgmma_groups", 5.0, 8.0))  # 4 GB in 10 ms

    def test_shares_need_something_that_is_waited_for(self):
        self.change("profile_ladder.json", lambda d: d["launches"][0].update(stalls={"wait": None, "selected": 1.0}))
        with self.assertRaisesRegex(Failed, "^profile_ladder.json: plain_rows on t28: stalls: none above 0$"):
            figures.module_of("stalls").parts(self.measured().launch("plain_rows"))

    def test_what_comes_from_the_sources(self):
        code = sources.constants()
        self.assertEqual((code["rows"], code["keys"], code["threads"], code["ring_buffers"]), (128, 64, 128, 16))
        listed = re.findall(r'^\s+\{(?:\.name = )?"(\w+)",', (ROOT / "src/gpu/kernels.cu").read_text(), re.MULTILINE)
        self.assertIn("plain_rows", listed)
        self.assertEqual(list(sources.ideas()), listed)
        with self.assertRaises(Failed):
            sources.idea("no_such_kernel")


    def test_rows_of_the_table_of_kernels(self):
        text = '''
            {.name = "plain_rows",
             .idea = "the baseline: a warp for each query row",
             .does = &kForward, .under = &kF32},
            {.name = "of_two_lines", .idea = "first, "
                                             "second", .does = &kForward}
            Other{.name = "no_idea"}'''
        self.assertEqual(sources.kernels_in(text), {"plain_rows": "the baseline: a warp for each query row",
                                                    "of_two_lines": "first, second"})

    def test_measurements_name_the_revisions_that_the_data_name(self):
        self.assertEqual(tables.measurements(self.measured()).splitlines()[0], "| data | command | commit | took |")
        self.change("files.json", lambda d: [case["stages"].update(revision="f32.forward/1") for case in d["cases"]])
        self.change("accuracy.json", lambda d: d.update(revisions={"hw4": "f32.forward/1", "hw4_fixed": "fixed.forward/2"}))
        lines = tables.measurements(self.measured()).splitlines()
        self.assertEqual(lines[0], "| data | command | contract | commit | took |")
        named = {line.split(" | ")[0].partition("]")[0].strip("|[ "): line.split(" | ")[2] for line in lines[2:]}
        self.assertEqual(named["files.json"], "`f32.forward/1`")
        self.assertEqual(named["accuracy.json"], "`f32.forward/1`, `fixed.forward/2`")
        self.assertEqual(named["cpu.json"], "")

    def test_what_hw4_says_of_a_run_may_be_of_any_age(self):
        """It wrote `tokens` once; it writes `queries` and `keys`."""
        def rename(document):
            for case in document["cases"]:
                case["stages"].update(queries=case["stages"]["tokens"], keys=case["stages"].pop("tokens"))
        self.change("files.json", rename)
        self.assertTrue(self.measured().file_cases)


class WithoutMatplotlib(Folder):
    def test_nothing_is_built(self):
        done = self.run_build(self.folder, "--out", self.folder / "out", **self.without_matplotlib())
        self.assertEqual(done.returncode, 69)
        self.assertEqual(done.stderr, f"build: needs matplotlib {figures.pinned_version()} (report/requirements.txt), "
                                      "found 0.0\n")
        self.assertFalse((self.folder / "out").exists())

    def test_the_check_leaves_figures_out_and_says_so(self):
        done = self.run_build(self.folder, "--out", self.folder / "out", "--check", **self.without_matplotlib())
        self.assertEqual(done.returncode, 1)
        self.assertIn("build: figures were not compared: needs matplotlib", done.stderr)
        for name in ("report.md", "README.md", "figures/ladder.svg"):
            self.assertIn(f"{name}: missing", done.stderr)

    def test_data_that_is_missing(self):
        (self.folder / "data/files.json").unlink()
        done = self.run_build(self.folder, "--out", self.folder / "out")
        self.assertEqual(done.returncode, 65)
        self.assertEqual(done.stderr, f"build: {self.folder}/data/files.json: missing; make measure writes it\n")

    def test_templates_that_are_wrong(self):
        for text, words in (("{{ cases.t99.ms | .1f }}\n", "report.template.md:1: no fact 'cases.t99.ms'"),
                            ("nothing\n", "nothing has the claim faster_than_torch, nor"),
                            (template().replace("{{ figure:cpu }}", ""), "nothing has the figure cpu"),
                            (template().replace("{{ table:files_short }}", ""), "nothing has the table files_short")):
            with self.subTest(words):
                (self.folder / "report.template.md").write_text(text)
                done = self.run_build(self.folder, "--out", self.folder / "out")
                self.assertEqual(done.returncode, 65)
                self.assertIn(words, done.stderr)

    def test_a_readme_without_a_place(self):
        (self.folder / "README.md").write_text("# none\n")
        done = self.run_build(self.folder, "--out", self.folder / "out")
        self.assertEqual(done.returncode, 65)
        self.assertIn("README.md: no place for 'figure': add the line <!-- begin figure (make report) -->", done.stderr)

    def test_made_up_data_never_becomes_the_report(self):
        done = self.run_build(self.folder)
        self.assertEqual(done.returncode, 65)
        self.assertIn("made up for a test", done.stderr)

    def test_usage(self):
        self.assertEqual(self.run_build(self.folder, "--colour").returncode, 2)

    def test_facts_are_listed(self):
        done = self.run_build(self.folder, "--facts")
        self.assertEqual(done.returncode, 0)
        self.assertIn("\nladder.t28.padded_tiles.idea = tile rows 33 floats apart", done.stdout)


class Tidy(unittest.TestCase):
    def test_numbers_in_tags_are_rounded_and_text_is_not(self):
        self.assertEqual(figures.tidy('<path d="M 1.23456 -0.001\nL 7.125 9"/>\n<text x="0.005">0.0254</text>'),
                         '<path d="M 1.23 0 L 7.12 9"/>\n<text x="0">0.0254</text>')

    def test_made_up_names_are_numbered(self):
        text = '<g clip-path="url(#p0123456789)"/><path id="mabcdef0123"/><use xlink:href="#mabcdef0123"/>'
        self.assertEqual(figures.tidy(text), '<g clip-path="url(#p1)"/><path id="m2"/><use xlink:href="#m2"/>')


def width_of(letter):
    """In DejaVu Sans or Verdana, as a share of the size; about."""
    return 0.34 if letter in " ijlft.,:;'|!()[]r" else 0.95 if letter in "mwMW%" else 0.61


def text_outside(path):
    """Texts of an SVG picture that seem to leave it."""
    picture = ElementTree.parse(path).getroot()
    _, _, width, height = map(float, picture.get("viewBox").split())
    found = []
    for text in picture.iter(f"{SVG}text"):
        look = text.get("style")
        size = float(re.search(r"([\d.]+)px", look)[1])
        if "rotate" in (text.get("transform") or ""):
            continue
        anchor = (re.search(r"text-anchor: (\w+)", look) or [None, "start"])[1]
        place = text.get("x"), text.get("y")
        if None in place:
            place = re.search(r"translate\(([-\d.]+) ([-\d.]+)\)", text.get("transform") or "").groups()
        x, y = map(float, place)
        length = size * sum(width_of(letter) for letter in text.text or "")
        left = x - {"start": 0.0, "middle": length / 2, "end": length}[anchor]
        if left < -4 or left + length > width + 4 or not 0 <= y <= height:
            found.append(text.text)
    return found


class Whole(unittest.TestCase):
    """A report with all figures, built once."""

    @classmethod
    def setUpClass(cls):
        cls.python = python_with_matplotlib()
        if cls.python is None:
            raise unittest.SkipTest(f"figures need matplotlib {figures.pinned_version()} (make report installs it)")
        cls.folder = Path(tempfile.mkdtemp(prefix="hw4-report-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        Folder.fill_folder(cls.folder)
        cls.built = Folder.run_build(cls.folder, "--out", cls.folder / "out", python=cls.python)

    def check(self, out):
        return Folder.run_build(self.folder, "--out", out, "--check", python=self.python)

    def test_it_is_built(self):
        self.assertEqual((self.built.returncode, self.built.stderr), (0, ""))
        report = (self.folder / "out/report.md").read_text()
        self.assertTrue("\n5.94 ms\n" in report, report[:400])
        self.assertFalse("{{" in report)
        for number, name in enumerate(figures.NAMES, 1):
            self.assertTrue(f"](figures/{name}.svg)\n\n**Figure {number}.** " in report, name)
        readme = (self.folder / "out/README.md").read_text()
        self.assertTrue(readme.startswith("# A test\nbefore\n<!-- begin results (make report) -->\n| case |"))
        self.assertIn("](report/figures/ladder.svg)", readme)
        self.assertIn("\nbetween\n", readme)
        self.assertNotIn("\nold\n", readme)

    def test_figures_keep_their_text_have_no_date_and_nothing_outside(self):
        for name in figures.NAMES:
            path = self.folder / f"out/figures/{name}.svg"
            text = path.read_text()
            with self.subTest(name):
                self.assertTrue("font-family: 'DejaVu Sans', 'Verdana', sans-serif" in text)
                self.assertIsNone(re.search(r"<metadata|<dc:date|[ \"]-?\d+\.\d{3,}[ \"]", text))
                self.assertEqual(text_outside(path), [])

    def test_a_second_build_gives_the_same_bytes(self):
        done = self.check(self.folder / "out")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_whatever_was_changed_is_found(self):
        out = self.folder / "damaged"
        shutil.copytree(self.folder / "out", out)
        for name, old, new in (("report.md", "5.94 ms", "5.95 ms"), ("README.md", "| t22 |", "| t23 |"),
                               ("figures/ladder.svg", ">46.3<", ">46.4<")):
            text = (out / name).read_text()
            self.assertTrue(old in text, name)
            (out / name).write_text(text.replace(old, new, 1))
        (out / "figures/cpu.svg").unlink()
        done = self.check(out)
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], r"report\.md: line \d+ is '5\.95 ms', should be '5\.94 ms'$")
        self.assertRegex(lines[1], r"README\.md: line \d+ is '\| t23 .*', should be '\| t22 ")
        self.assertRegex(lines[2], r"ladder\.svg: line \d+ is '.*>46\.4<.*', should be '.*>46\.3<")
        self.assertRegex(lines[3], r"cpu\.svg: missing$")
        self.assertEqual(len(lines), 5)


class Committed(unittest.TestCase):
    """The report of this repository."""

    def setUp(self):
        if not (ROOT / "report/data/kernels.json").exists():
            self.skipTest("report/data has no measurements (make measure)")

    def test_it_is_what_the_data_gives(self):
        python = python_with_matplotlib() or sys.executable
        done = subprocess.run([python, BUILD, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_text_leaves_its_figure(self):
        for name in figures.names(Measured(ROOT / "report/data")):
            self.assertEqual(text_outside(ROOT / f"report/figures/{name}.svg"), [], name)


class Targets(unittest.TestCase):
    def test_make_report_and_report_check(self):
        for goal, command in (("report", "report/with-matplotlib report/build"),
                              ("report-check", "report/with-matplotlib --or-without report/build --check")):
            done = subprocess.run(["make", "-n", "CUDA=no", "PYTHON=py", goal], cwd=ROOT, capture_output=True,
                                  text=True)
            self.assertIn(f'PYTHON="py" {command}\n', done.stdout)


class Installing(unittest.TestCase):
    """report/with-matplotlib, with Pythons that are scripts."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="hw4-report-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def python(self, version, installs=False):
        """Answers with the version of matplotlib, makes a venv that has the pinned one, or "runs" a program."""
        made = f'mkdir -p "$3/bin" && cp {self.folder}/good "$3/bin/python"' if installs else "echo no venv >&2; exit 1"
        for name, answer in (("python", version), ("good", figures.pinned_version())):
            path = self.folder / name
            path.write_text(f'#!/bin/sh\ncase "$1 $2" in\n"-c "*) echo {answer};;\n"-m venv") {made};;\n'
                            f'"-m pip") exit 0;;\n*) echo "{name} $*";;\nesac\n')
            path.chmod(0o755)
        return str(self.folder / "python")

    def run_with(self, python, *words):
        return subprocess.run([ROOT / "report/with-matplotlib", *words], capture_output=True, text=True,
                              env={**os.environ, "PYTHON": python, "REPORT_VENV": str(self.folder / "venv")})

    def test_the_python_that_has_it(self):
        done = self.run_with(self.python(figures.pinned_version()), "x", "1 2")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "python x 1 2\n", ""))

    def test_a_venv_where_it_has_not(self):
        python = self.python("3.6.3", installs=True)
        for said in (f"with-matplotlib: installing matplotlib {figures.pinned_version()} into build/report-venv\n", ""):
            done = self.run_with(python, "x")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "good x\n", said))

    def test_neither(self):
        done = self.run_with(self.python("none"), "x")
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn("could not be installed: no venv\n", done.stderr)
        done = self.run_with(self.python("none"), "--or-without", "x")
        self.assertEqual((done.returncode, done.stdout), (0, "python x\n"))


if __name__ == "__main__":
    unittest.main()
