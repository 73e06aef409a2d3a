#!/usr/bin/env python3
"""report/build: the template language, published numbers computed a second time from report/data, data that is refused,
and whether the committed report is what the data gives."""
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

import scaling  # noqa: E402 (the path is set above)
from builder import claims, facts, figures, sources, tables  # noqa: E402
from builder.errors import Failed  # noqa: E402
from builder.measured import Measured  # noqa: E402
from builder.spread import Spread, percentile  # noqa: E402
from builder.template import Renderer, significant  # noqa: E402
from program_module import program_as_module  # noqa: E402


class Templates(unittest.TestCase):
    FACTS = {"a": {"ms": 12.3456, "count": 30, "name": "t28", "none": None, "1": {"x": 2.0}}}

    def render(self, text, **options):
        renderer = Renderer(self.FACTS, {"all": lambda: "all 30"}, {"small": lambda: "| a |"},
                            {"one": lambda: ("an alt", "A caption of {{ here.x }}.", {"x": 5}),
                             "two": lambda: ("other", "Other.", {})})
        self.unused = renderer.unused
        return renderer.render(text, "x.md", "figures", **options)

    def test_facts_claims_tables_and_figures(self):
        self.assertEqual(self.render("{{ a.ms | .1f }} {{a.ms|3}} {{ a.count }} {{ a.name }}"), "12.3 12.3 30 t28")
        self.assertEqual(self.render("{{ claim:all }} {{ table:small }}"), "all 30 | a |")
        text = self.render("see {{ see:two }}\n{{ figure:one }}\n{{ figure:two }}")
        self.assertIn("see figure 2\n![an alt](figures/one.svg)\n\n**Figure 1.** A caption of 5.", text)
        self.assertEqual(self.unused(), ["claim all", "table small"])
        for value, shown in ((340.02, "340"), (0.02543, "0.0254"), (9.996, "10.0"), (0.0, "0"), (12345.6, "12300")):
            self.assertEqual(significant(value, 3), shown)

    def test_a_requirement_leaves_nothing_where_it_holds(self):
        self.assertEqual(self.render("a\n{{ require: a.ms > 12 }}\nb {{ require: a.count == 30 }}c"), "a\nb c")

    def test_what_is_wrong_is_named_with_its_line(self):
        for text, words in (("{{ require: a.ms < 12 }}", "require: a.ms < 12 does not hold: 12.3456 and 12.0"),
                            ("{{ a.mss | .1f }}", "no fact 'a.mss'; 'a' has 1, count, ms"),
                            ("{{ a.ms }}", "needs a format"), ("{{ a.none | .1f }}", "was not measured"),
                            ("{{ table:large }}", "no table 'large'"), ("{{ see:one }}", "no such figure"),
                            ("{{ require: a.name < 3 }}", "a text and a number"), ("{{ a.ms | .1f", "do not close")):
            with self.subTest(text), self.assertRaises(Failed) as caught:
                self.render(f"first\n{text}\nlast")
            self.assertRegex(str(caught.exception), "^x.md:2: ")
            self.assertIn(words, str(caught.exception))


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
    def refused(self):
        with self.assertRaises(Failed) as caught:
            self.measured()
        self.assertEqual(caught.exception.code, 65)
        return str(caught.exception)

    def test_what_is_not_as_expected_is_named(self):
        def drop(document):
            del document["cases"][1]["stages"]["copies"]

        for name, edit, words in (
                ("files.json", drop, "files.json: cases[1].stages.copies: missing"),
                ("kernels.json", lambda d: d.update(complete=False), "complete: expected true, got False"),
                ("files.json", lambda d: d.update(runs=2.5), "files.json: runs: expected a whole number, got 2.5"),
                ("files.json", lambda d: d["cases"][2]["seconds"].update(hw4=[]),
                 "cases[2].seconds.hw4: expected a list with something in it"),
                ("steps.json", lambda d: d["steps"][0].update(label=3), "steps[0].label: expected a text, got 3")):
            with self.subTest(words):
                self.change(name, edit)
                self.assertIn(words, self.refused())
                shutil.copy(DATA / name, self.folder / "data")
        (self.folder / "data/cpu.json").write_text("{")
        self.assertIn("cpu.json: not JSON", self.refused())
        (self.folder / "data/cpu.json").unlink()
        self.assertIn("cpu.json: missing; make measure writes it", self.refused())

    def test_a_case_that_is_missing_is_named(self):
        self.change("sequential.json", lambda d: d["cases"].pop(-2))
        with self.assertRaisesRegex(Failed, "^sequential.json: cases: no t29$"):
            facts.all_facts(self.measured())

        def lose_a_byte(document):
            for track in document["tracks"]:
                track["events"][0]["bytes"] -= 1

        self.change("memory.json", lose_a_byte)
        with self.assertRaisesRegex(Failed, r"^memory.json: .* bytes are not B·N·d·4$"):
            tables.TABLES["cs336_bytes"](self.measured())

    def test_claims_follow_the_data(self):
        count = len(json.loads((DATA / "accuracy.json").read_text())["cases"])
        self.change("accuracy.json", lambda d: [case["largest_errors"].update(naive=0.0) for case in d["cases"]])
        self.change("cpu.json", lambda d: d["git"].update(commit="f" * 40, dirty=True))
        self.assertEqual(claims.below_naive(self.measured()), f"none of {count} cases")
        self.assertIn("ffffffffff, with changes", claims.measured_at(self.measured()))
        self.assertEqual(claims.bars_met({"a": None, "b": True, "c": False}), "1 of 3 are met (not a, c)")


class Published(unittest.TestCase):
    """Numbers of the report, computed a second time from the files."""

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
        """Paths with two underscores in the place of a dot."""
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

    def test_kernels(self):
        """A kernel of the ladder is timed beside PyTorch too: its time is the median of both."""
        for name, facts_of in (("kernels", ""), ("kernels_fixed", "fixed__")):
            document = self.document(name)
            document = document.get("fixed", document)
            shape = self.only(document["shapes"], name="t28")
            kernel = shape["hw4"]["kernel"]
            again = self.only(document["ladder"], kernel=kernel, **self.T28)["seconds"]
            seconds = statistics.median([*shape["hw4"]["seconds"], *again])
            torch = statistics.median(shape["torch"][shape["torch_best"]]["seconds"])
            rungs = [line["kernel"] for line in document["ladder"] if all(line[k] == v for k, v in self.T28.items())]
            first = self.median(document["ladder"], "seconds", kernel=rungs[0], **self.T28)
            self.assert_facts(**{f"{facts_of}cases__t28__ms": 1e3 * seconds,
                                 f"{facts_of}cases__t28__tflops": self.T28_FLOP / seconds * 1e-12,
                                 f"{facts_of}cases__t28__speed_up": torch / seconds,
                                 f"{facts_of}ladder__t28__{kernel}__ms": 1e3 * seconds,
                                 f"{facts_of}ladder__t28__{rungs[0]}__ms": 1e3 * first})

    def test_rounds_beside_half_precision(self):
        """A ratio is the median of the rounds' ratios, not that of two medians."""
        case = self.only(self.document("rounds")["cases"], name="t28", mask="none")
        ratios = [b / a for a, b in zip(case["seconds"]["fixed16"], case["seconds"]["flash2 bf16"])]
        error = self.only(self.document("half_errors")["cases"], distribution="normal", tokens=1024, dim=64)["errors"]
        ladder = [line for line in self.document("half_ladder")["ladder"] if line["dim"] == 64]
        rates = [statistics.median(b / a for a, b in zip(one["seconds"]["bf16"], one["seconds"]["cudnn bf16"]))
                 for one in self.document("half_rounds")["cases"]]
        self.assert_facts(
            rounds__t28__none__fixed16__tflops=case["flop"] / statistics.median(case["seconds"]["fixed16"]) * 1e-12,
            rounds__t28__none__fixed16__over_flash2=statistics.median(ratios),
            half_errors__normal__n1024__d64__bf16_over_fixed16=(
                error["flash2 bf16"]["largest"] / error["hw4_fixed16"]["largest"]),
            half_ladder__d64__last__over_first=(statistics.median(ladder[0]["seconds"])
                                                / statistics.median(ladder[-1]["seconds"])),
            half_rounds__bf16__over_cudnn__least__value=min(rates))

    def test_errors(self):
        cases = [case["largest_errors"] for case in self.document("accuracy")["cases"]]
        gradients = [case for case in self.document("backward")["errors"] if case["efficient"]]
        self.assert_facts(
            accuracy__hw4__most__value=max(case["hw4"] for case in cases),
            backward__errors__compared=len(gradients),
            distributions__normal__d64__hw4_fixed__rms=self.only(
                self.document("distributions")["cases"], distribution="normal", dim=64)["errors"]["hw4_fixed"]["rms"])

    def test_causal_values_and_backward(self):
        gains = [statistics.median(case["hw4"]["none"]["seconds"]) / statistics.median(case["hw4"]["causal"]["seconds"])
                 for case in self.document("causal")["cases"]]
        beyond = [self.median(self.document("values")["cases"], "hw4", "seconds", dim=dim, kind="stray:1000000")
                  / self.median(self.document("values")["cases"], "hw4", "seconds", dim=dim, kind="normal:1")
                  for dim in (32, 64, 128)]
        bars = [bar for bar in self.document("backward")["bars"] if bar["mask"] == "causal"]
        seconds = statistics.median(self.only(bars, shape=[4, 16384, 64])["hw4"]["seconds"])
        self.assert_facts(
            causal__hw4__gain__most__value=max(gains), values__hw4__beyond__most__value=max(beyond),
            backward__shapes__4x16384x64__causal__hw4__tflops=2.5 * self.T28_FLOP / 2 / seconds * 1e-12,
            backward__speed_up__causal__least__value=min(
                statistics.median(bar["torch"]["seconds"]) / statistics.median(bar["hw4"]["seconds"]) for bar in bars))

    def test_files_and_processors(self):
        runs = [case["seconds"] for case in self.document("files")["cases"] if case["name"].startswith("t")]
        steps = self.document("steps")["steps"]
        sequential = self.only(self.document("sequential")["cases"], name="t28")
        whole = statistics.median(sequential["seconds"]) * sequential["batches"] / sequential["measured_batches"]
        cpu = self.only(self.document("cpu_contracts")["cases"], contract="fixed16")["seconds"]
        self.assert_facts(
            files__total__of_plain=(sum(statistics.median(case["hw4"]) for case in runs)
                                    / sum(statistics.median(case["plain"]) for case in runs)),
            steps__last__ms=1e3 * statistics.median(steps[-1]["seconds"]),
            seq__t28__gflops=self.T28_FLOP * 1e-9 / whole,
            cpu_contracts__fixed16__over_torch=statistics.median(cpu["torch"]) / statistics.median(cpu["hw4"]))

    def test_courses_and_counters(self):
        refused = [row for row in self.document("cs336_attention")["rows"] if row["impl"] == "naive"
                   and "oom" in (row["forward"]["status"], row["backward"]["status"])]
        launch = self.only(self.document("profile_ladder")["launches"], case="t28", kernel="shared_tiles")
        waits = {why: cycles for why, cycles in launch["stalls"].items() if cycles and "selected" not in why}
        self.assert_facts(
            cs336__naive__out_of_memory=len(refused),
            profile__shared_tiles__wavefronts_per_load=(launch["metrics"]["shared_load_wavefronts"]
                                                        / launch["metrics"]["shared_load_instructions"]),
            profile__shared_tiles__stall1__warps=max(waits.values()))
        self.assertEqual(self.fact("profile.shared_tiles.stall1.name"), max(waits, key=waits.get).replace("_", " "))

    def test_collectives(self):
        rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"]
                 for row in self.document("collectives")["allreduce"] if row["status"] == "ok" and row["ranks"] > 1}
        long = [rate / rates[(*key[:3], "mpi")] for key, rate in rates.items()
                if key[3] == "ordered" and key[2] >= 100 << 20]
        self.assert_facts(collectives__ordered_over_mpi__long__least__value=min(long))

    def test_many_cards_on_paper(self):
        """A card reads its queries and all keys and values that they see; one disk divides its rate."""
        parts = scaling.Parts(start=0.5, read=scaling.bytes_of_operand(1), write=scaling.bytes_of_operand(1),
                              rate={"f32": 4.0 * scaling.TOKENS ** 2 * scaling.DIM}, case="t22", tokens={"f32": 1})
        for heads, cards, one_disk, wanted in ((1, 1, False, (0.5, 3, 1, 1)), (1, 4, False, (0.5, 2.25, 0.25, 0.25)),
                                               (16, 4, False, (0.5, 12, 4, 4)), (1, 4, True, (0.5, 9, 0.25, 1))):
            run = scaling.run_of(parts, "f32", heads, cards, one_disk)
            self.assertEqual((run.start, run.read, run.kernel, run.write), wanted)

    def test_spreads(self):
        self.assertEqual([percentile([4, 1, 3, 2], share) for share in (0, 0.5, 0.75, 1)], [1, 2.5, 3.25, 4])
        rate = Spread.of([1.0, 2.0, 4.0]).under(8.0)
        self.assertEqual((rate.mid, rate.best), (4.0, 8.0))
        self.assertLess(rate.low, rate.high)

    def test_what_comes_from_the_sources(self):
        self.assertEqual(self.fact("code.ring_buffers") * self.fact("code.piece_mib"), self.fact("code.ring_mib"))
        listed = re.findall(r'^\s+\{(?:\.name = )?"(\w+)",', (ROOT / "src/gpu/kernels.cu").read_text(), re.MULTILINE)
        self.assertIn("plain_rows", listed)
        self.assertEqual(list(sources.ideas()), listed)


def python_with_matplotlib():
    """One that has the pinned version: this one, or the one that make report has made; else this one."""
    ask = "import matplotlib; print(matplotlib.__version__)"
    for python in (sys.executable, str(ROOT / "build/report-venv/bin/python")):
        if os.path.exists(python):
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
            if done.stdout.strip() == figures.pinned_version():
                return python
    return sys.executable


class Committed(unittest.TestCase):
    """The report of this repository. Figures are compared where the pinned matplotlib is, but for places of texts."""

    def test_it_is_what_the_data_gives(self):
        done = subprocess.run([python_with_matplotlib(), BUILD, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_changed_number_is_found(self):
        build = program_as_module(BUILD)
        texts = build.build_texts(Measured(DATA))
        with tempfile.TemporaryDirectory(prefix="hw4-report-") as folder:
            for name, text in texts.items():
                number = re.search(r"\| t28 \| 4, 16384, 64 \| ([\d.]+) ", text)
                Path(folder, name).write_text(text[:number.start(1)] + "9" + text[number.start(1):])
            found = build.differences(texts, Path(folder).joinpath)
        self.assertEqual(len(found), 2)
        for line in found:
            self.assertRegex(line, r"\.md: line \d+ is .* should be ")


if __name__ == "__main__":
    unittest.main()
