#!/usr/bin/env python3
"""report/bench_gpu without a GPU: its rules, and whole runs with a fake time_kernels and a fake PyTorch."""
import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
BENCH = os.path.join(ROOT, "report", "bench_gpu")
sys.path[:0] = [os.path.join(ROOT, "report"), os.path.join(ROOT, "judge")]

import gpu_bars  # noqa: E402 (the path to them is set above)
import provenance  # noqa: E402
import sampling_rules  # noqa: E402
import torch_timing  # noqa: E402
from case_table import TableError, read_cases  # noqa: E402
from fake_torch import SGEMM_50, fake_torch  # noqa: E402
from program_module import run_forked  # noqa: E402

CASES = read_cases(os.path.join(ROOT, "testcases", "cases.tsv"))

FIXED_NAMES = ["t28", "t30", "t22", "t24", "t29", "4,16384,128", "t11", "t12"]
FIXED16_NAMES = ["t28", "t30", "t22", "512,1024,64", "t29", "4,16384,128"]

# Leaves its arguments in the file `calls`; KERNELS are (name, TFLOP/s), the last one is chosen. Those of the contract
# fixed are FIXED, and of fixed16 FIXED16.
FAKE_TIME_KERNELS = """
import json
shape = sys.argv[-1]
b, n, d = map(int, shape.split(","))
flop = 4.0 * b * n * n * d
with open(CALLS, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
kernels = FIXED if "fixed" in sys.argv else FIXED16 if "fixed16" in sys.argv else KERNELS
for kernel, tflops in kernels:
    chosen = kernel == kernels[-1][0]
    if chosen or "--chosen" not in sys.argv:
        seconds = flop * 1e-12 / tflops
        print(json.dumps({"kernel": kernel, "chosen": chosen, "batches": b, "tokens": n, "dim": d, "flop": flop,
                          "launches": 7, "seconds": [2 * seconds, seconds, seconds / 2], "device": "Fake 1",
                          "cuda": "13.0"}))
"""


def problem(word):
    return gpu_bars.problems_of([word], CASES)[0]


def timing(seconds):
    return {"seconds": [seconds], "median_seconds": seconds, "launches": 1}


class Shapes(unittest.TestCase):
    def names(self, *words):
        return [problem.name for problem in gpu_bars.problems_of(list(words), CASES)]

    def test_names_globs_and_sizes_in_the_order_given(self):
        self.assertEqual(self.names("t28,t01", "4,16384,128", "t1[12] e01"),
                         ["t28", "t01", "4,16384,128", "t11", "t12", "e01"])

    def test_sizes_of_a_test_case_have_its_name_and_each_counts_once(self):
        self.assertEqual(self.names("4,16384,64", "t28", "t2[89]"), ["t28", "t29"])

    def test_what_is_no_shape(self):
        for word in ("t99", "4,16384", "0,1,1", "t28;t29"):
            with self.assertRaises(TableError):
                self.names(word)

    def test_flop(self):
        self.assertEqual(problem("t28").flop, 4 * 4 * 16384 ** 2 * 64)


class Bars(unittest.TestCase):
    def record(self, word, seconds, sgemm=50.0, **torch):
        line = {"kernel": "k", "seconds": [seconds * 3, seconds, seconds / 2]} if seconds else {"why": "it failed"}
        return gpu_bars.evaluate(problem(word), line, {name: timing(t) for name, t in torch.items()}, sgemm)

    def seconds_at(self, word, tflops):
        return problem(word).flop / tflops * 1e-12

    def test_every_bar_belongs_to_a_shape(self):
        names = {case.name for case in CASES} | {gpu_bars.LONG_HEADS}
        self.assertLessEqual(set(gpu_bars.BARS), names)
        self.assertEqual(len(gpu_bars.BARS), 20)
        self.assertEqual(list(gpu_bars.FIXED_BARS), FIXED_NAMES)
        self.assertLessEqual(set(FIXED_NAMES), names)

    def test_figures(self):
        result = self.record("t28", self.seconds_at("t28", 40.0), efficient=0.008)
        self.assertAlmostEqual(result["tflops"], 40.0)
        self.assertAlmostEqual(result["of_sgemm"], 0.8)
        self.assertAlmostEqual(result["speed_up"], 0.008 / result["median_seconds"])
        self.assertAlmostEqual(result["torch_tflops"], problem("t28").flop / 0.008e12)

    def test_both_of_two_conditions_are_needed(self):
        for tflops, sgemm, met in ((47.1, 50.0, True), (46.9, 50.0, False), (47.1, 52.0, False), (47.1, None, None),
                                   (46.9, None, False)):
            self.assertIs(self.record("t30", self.seconds_at("t30", tflops), sgemm)["met"], met, (tflops, sgemm))

    def test_rates(self):
        for word, bar in (("t21", 42), ("t27", 42), ("t29", 42), ("t11", 34), ("t13", 34), ("4,16384,128", 46)):
            self.assertIs(self.record(word, self.seconds_at(word, bar + 0.1), None)["met"], True, word)
            self.assertIs(self.record(word, self.seconds_at(word, bar - 0.1), None)["met"], False, word)

    def test_small_cases_are_measured_by_pytorchs_faster_backend(self):
        self.assertIs(self.record("t01", 40e-6, efficient=46e-6, default=41e-6)["met"], True)
        slower = self.record("t01", 40e-6, efficient=46e-6, default=39e-6)
        self.assertEqual((slower["met"], slower["torch_best"]), (False, "default"))
        self.assertIs(self.record("t10", 40e-6, efficient=40e-6)["met"], True)
        self.assertIs(self.record("t10", 40e-6)["met"], None)

    def test_what_was_not_measured_is_not_met(self):
        results = [self.record("t28", None), self.record("t29", self.seconds_at("t29", 50)),
                   self.record("t29", self.seconds_at("t29", 30)), self.record("t20", 1.0)]
        self.assertEqual([result["met"] for result in results], [None, True, False, None])
        self.assertEqual(gpu_bars.not_met(results), ["t28", "t29"])
        self.assertEqual(gpu_bars.summary(results), "1 bars met, 1 missed, 1 not judged")

    def test_the_table_has_a_row_for_each(self):
        results = [self.record("t28", self.seconds_at("t28", 48), efficient=0.008), self.record("t29", None),
                   self.record("3,500,7", 1e-5)]
        header, *rows = gpu_bars.table(results).splitlines()
        self.assertEqual(len({header.index("bar"), rows[0].index(">= 47"), rows[1].index(">= 42")}), 1)
        self.assertRegex(rows[0], r"^t28 +4,16384,64 +k +5\.7266 +48\.00 +8\.0000 +34\.36 +1\.397 +0\.960 +"
                                  r">= 47 TFLOP/s, >= 0\.92 SGEMM +met$")
        self.assertRegex(rows[1], r"^t29 +4,32768,32 +- +- +- +- +- +- +- +>= 42 TFLOP/s +\?$")
        self.assertRegex(rows[2], r"^ +3,500,7 +k +0\.0100 +2\.10 +- +- +- +0\.042$")


class Sampling(unittest.TestCase):
    """The rules of src/bench/sampling.h, with the numbers of tests/unit/sampling_test.cpp."""

    def test_launches(self):
        self.assertEqual([sampling_rules.launches_for(seconds) for seconds in (0.039e-3, 0.004, 1e-9, 0.0, 0.01, 0.85)],
                         [257, 3, 1000, 1000, 1, 1])

    def test_runs(self):
        asked = ((0.007, 20), (0.05, 20), (0.1, 20), (0.85, 20), (0.85, 2), (0.85, 200))
        self.assertEqual([sampling_rules.runs_for(*pair) for pair in asked], [20, 20, 10, 3, 2, 11])


class Runs(unittest.TestCase):
    """The whole program."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="bench_gpu_test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.kernels([("plain", 0.7), ("fast", 48.0)])
        self.fake_torch()
        self.write("nvidia-smi", "#!/bin/sh\necho 'Fake 1, 580.1, 1980, 1980, 3201, 45, [N/A], 700.00'\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def program(self, body):
        self.write("time_kernels", f"#!{sys.executable} -IS\nimport sys\nCALLS = {self.path('calls')!r}\n{body}")

    def kernels(self, kernels, fixed=(("mma", 80.0), ("wgmma", 200.0)), fixed16=(("pairs", 378.0),)):
        self.program(f"KERNELS = {kernels!r}\nFIXED = {fixed!r}\nFIXED16 = {fixed16!r}\n{FAKE_TIME_KERNELS}")

    def fake_torch(self, **behaviour):
        self.write("torch.py", fake_torch(**behaviour))

    def bench(self, *arguments, exit_code=0, contract="f32"):
        command = [sys.executable, BENCH, "--time-kernels", self.path("time_kernels"), "--json", self.path("out.json"),
                   *(["--contract", contract] if contract else []), *arguments]
        environment = {**os.environ, "PYTHONPATH": self.folder, "PYTHONDONTWRITEBYTECODE": "1",
                       "PATH": self.folder + os.pathsep + os.environ["PATH"]}
        done = run_forked(command, env=environment)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def document(self):
        with open(self.path("out.json"), encoding="utf-8") as file:
            return json.load(file)

    def calls(self):
        with open(self.path("calls"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_everything_by_default(self):
        self.fake_torch(efficient=0.02)
        done = self.bench()
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual([shape["name"] for shape in document["shapes"]],
                         [f"t{number:02}" for number in range(1, 31)] + ["4,16384,128"])
        self.assertEqual([(line["tokens"], line["kernel"]) for line in document["ladder"]],
                         [(16384, "plain"), (16384, "fast"), (32768, "plain"), (32768, "fast")])
        self.assertIn("git", document)
        self.assertNotIn(self.folder, json.dumps(document))
        self.assertNotIn(ROOT, json.dumps(document))
        self.assertEqual(document["torch"], {"torch": "9.9", "cuda": "13.9", "device": "Fake 1"})
        self.assertIn("20 bars met, 0 missed, 0 not judged\n", done.stdout)
        self.assertIn("cuBLAS SGEMM 8192^3: 50.00 at the begin, 50.00 at the end TFLOP/s\n", done.stdout)
        self.assertRegex(done.stdout, r"t28 +fast +5\.7266 +48\.00 +3  chosen\n")

    def test_all_contracts_by_default(self):
        done = self.bench(contract=None)
        document = self.document()
        self.assertEqual((len(document["shapes"]), len(document["ladder"])), (31, 4))
        fixed = document["fixed"]
        self.assertEqual([shape["name"] for shape in fixed["shapes"]], FIXED_NAMES)
        self.assertEqual([line["kernel"] for line in fixed["ladder"]], ["mma", "wgmma"] * 8)
        self.assertEqual({shape["hw4"]["kernel"] for shape in document["shapes"]}, {"fast"})
        fixed16 = document["fixed16"]
        self.assertEqual([shape["name"] for shape in fixed16["shapes"]], FIXED16_NAMES)
        self.assertEqual([line["kernel"] for line in fixed16["ladder"]], ["pairs"] * 6)
        self.assertEqual([shape["name"] for shape in fixed16["shapes"] if not shape["met"]], ["t30", "4,16384,128"])
        # f32 once on each shape, of which one is no case
        self.assertEqual(sum("f32" in call for call in self.calls()), 31 + 1 + 2)
        self.assertIn("8 bars met, 0 missed, 0 not judged\n", done.stdout)
        self.assertIn("4 bars met, 2 missed, 0 not judged\n", done.stdout)
        self.assertRegex(done.stdout, r"t28 +4,16384,64 +wgmma .* 4\.167 >= 180 TFLOP/s +met\n")
        self.assertRegex(done.stdout, r"4,16384,128 +wgmma +2\.7488 +200\.00 +3  chosen\n")

    def test_fixed_alone_has_f32_beside_it(self):
        self.bench("--shapes", "t12", "--runs", "33", contract="fixed")
        shape = "9600,128,64"
        self.assertEqual(self.calls(), [
            ["--contract", "fixed", "--chosen", "--runs", "33", "--launches", "auto", shape],
            ["--contract", "f32", "--chosen", "--runs", "33", "--launches", "auto", shape],
            ["--contract", "fixed", "--runs", "33", "--launches", "auto", shape]])
        document = self.document()
        self.assertEqual((document["shapes"], document["ladder"], document["complete"]), ([], [], True))
        record, = document["fixed"]["shapes"]
        self.assertEqual((record["hw4"]["kernel"], record["f32"]["kernel"], record["torch_best"]),
                         ("wgmma", "fast", "efficient"))
        self.assertAlmostEqual(record["f32_tflops"], 48.0)
        self.assertAlmostEqual(record["over_f32"], 200 / 48)
        self.assertAlmostEqual(record["of_sgemm"], 4.0)

    def test_the_bars_of_fixed(self):
        self.kernels([("fast", 48.0)], fixed=[("wgmma", 170.0)])
        done = self.bench("--no-ladder", "--require-bars", exit_code=1, contract="fixed")
        records = self.document()["fixed"]["shapes"]
        self.assertEqual([record["name"] for record in records if record["met"]], ["t22", "t24", "t29", "t11", "t12"])
        self.assertIn("5 bars met, 3 missed, 0 not judged\n", done.stdout)
        self.kernels([("fast", 48.0)], fixed=[("wgmma", 47.0)])
        self.bench("--shapes", "t11", "t12", "--no-ladder", contract="fixed")
        self.assertEqual([record["met"] for record in self.document()["fixed"]["shapes"]], [False, False])

    def test_one_contract_that_fails_leaves_the_other(self):
        self.program("if 'f32' in sys.argv:\n    sys.stderr.write('time_kernels: out of memory\\n')\n"
                     f"    sys.exit(71)\nFIXED = [('wgmma', 200.0)]\n{FAKE_TIME_KERNELS}")
        done = self.bench("--shapes", "t11", "t28", contract="fixed")
        self.assertIn("t11: hw4 under f32: time_kernels: out of memory\n", done.stdout)
        self.assertEqual([record["met"] for record in self.document()["fixed"]["shapes"]], [None, True])
        for everything in ("all", "both"):
            self.bench("--shapes", "t28", "--no-ladder", contract=everything, exit_code=70)

    def test_how_time_kernels_is_asked(self):
        self.bench("--shapes", "t01", "t28", "--runs", "33")
        self.assertEqual(self.calls(), [
            ["--contract", "f32", "--chosen", "--runs", "33", "--launches", "auto", "320,128,32"],
            ["--contract", "f32", "--chosen", "--runs", "33", "--launches", "auto", "4,16384,64"],
            ["--contract", "f32", "--runs", "33", "--launches", "auto", "4,16384,64"]])

    def test_no_ladder(self):
        self.bench("--shapes", "t28", "--no-ladder")
        self.assertEqual((len(self.calls()), self.document()["ladder"]), (1, []))

    def test_the_state_of_the_gpu(self):
        self.bench("--shapes", "t01")
        states = self.document()["gpu"]
        self.assertEqual(set(states), {"at_start", "under_sgemm", "at_end"})
        self.assertEqual(states["under_sgemm"], [
            {"name": "Fake 1", "driver": "580.1", "sm_clock_mhz": 1980, "sm_clock_max_mhz": 1980,
             "memory_clock_mhz": 3201, "temperature_c": 45, "power_w": None, "power_limit_w": 700}])

    def test_short_calls_of_pytorch_come_from_a_graph(self):
        self.bench("--shapes", "t01")
        timings = self.document()["shapes"][0]["torch"]
        for backend, launches, seconds in (("efficient", 10, 0.0011), ("default", 5, 0.0023)):
            self.assertEqual((timings[backend]["graph"], timings[backend]["launches"]), (True, launches))
            self.assertEqual(len(timings[backend]["seconds"]), 20)
            self.assertAlmostEqual(timings[backend]["median_seconds"], seconds)

    def test_without_graphs_the_calls_follow_one_another(self):
        self.fake_torch(graphs=False)
        self.bench("--shapes", "t01")
        efficient = self.document()["shapes"][0]["torch"]["efficient"]
        self.assertEqual((efficient["graph"], efficient["launches"]), (False, 10))
        self.assertIn("not permitted when stream is capturing", efficient["why_no_graph"])
        self.assertAlmostEqual(efficient["median_seconds"], 0.0011)

    def test_slow_calls_of_pytorch_are_fewer(self):
        self.fake_torch(efficient=0.19)
        self.bench("--shapes", "t28", "--no-ladder")
        self.assertEqual(len(self.document()["shapes"][0]["torch"]["efficient"]["seconds"]), 5)

    def test_a_backend_that_refuses(self):
        self.fake_torch(efficient=None)
        done = self.bench("--shapes", "t01", "t28", "--no-ladder")
        small, large = self.document()["shapes"]
        self.assertIsNone(small["torch"]["efficient"]["seconds"])
        self.assertEqual(small["torch"]["efficient"]["why"], "RuntimeError: No available kernel. Aborting.")
        self.assertEqual((small["torch_best"], large["torch_best"]), ("default", None))
        self.assertIn("t28: PyTorch efficient: RuntimeError: No available kernel. Aborting.\n", done.stdout)

    def test_the_naive_form_is_timed_on_t28_and_never_counts(self):
        self.fake_torch(efficient=0.03, naive=0.02)
        self.bench("--shapes", "t28", "t29", "t30", "t08", "--no-ladder")
        shapes = {shape["name"]: shape for shape in self.document()["shapes"]}
        self.assertEqual({name: sorted(shape["torch"]) for name, shape in shapes.items()},
                         {"t28": ["efficient", "naive"], "t29": ["efficient"], "t30": ["efficient"],
                          "t08": ["default", "efficient"]})
        self.assertAlmostEqual(shapes["t28"]["torch"]["naive"]["median_seconds"], 0.02)
        self.assertEqual(shapes["t28"]["torch_best"], "efficient")
        self.assertAlmostEqual(shapes["t28"]["torch_seconds"], 0.03)

    def test_no_room_for_the_scores(self):
        self.fake_torch(naive=None)
        self.assertIn("t28: PyTorch naive: RuntimeError: CUDA out of memory.\n",
                      self.bench("--shapes", "t28", "--no-ladder").stdout)
        self.assertEqual(self.document()["shapes"][0]["torch_best"], "efficient")

    def test_without_pytorch(self):
        self.write("torch.py", "raise ImportError('not here')\n")
        done = self.bench("--shapes", "t01", "t28", "t29")
        self.assertIn("without PyTorch and SGEMM: PyTorch is not installed: not here\n", done.stderr)
        document = self.document()
        self.assertEqual((document["torch"], document["torch_missing"]), (None, "PyTorch is not installed: not here"))
        self.assertIn("\n1 bars met, 0 missed, 2 not judged\n", done.stdout)
        self.assertIn("\ncuBLAS SGEMM 8192^3: not measured\n", done.stdout)

    def test_pytorch_without_a_gpu(self):
        self.fake_torch(gpu=False)
        self.assertIn("PyTorch 9.9 sees no GPU\n", self.bench("--shapes", "t29").stderr)

    def test_no_torch(self):
        self.bench("--shapes", "t29", "--no-torch")
        self.assertEqual(self.document()["torch_missing"], "--no-torch was given")

    def test_required_bars(self):
        self.bench("--shapes", "t28", "t20", "--no-ladder", "--require-bars")
        self.bench("--shapes", "t28", "--no-ladder", "--no-torch", "--require-bars", exit_code=1)  # not judged
        self.kernels([("fast", 46.0)])
        self.assertIn("0 bars met, 1 missed", self.bench("--shapes", "t28", "--no-ladder").stdout)
        self.bench("--shapes", "t28", "--no-ladder", "--require-bars", exit_code=1)

    def test_the_larger_sgemm_counts(self):
        with open(self.path("torch.py"), "a", encoding="utf-8") as file:  # twice as fast once attention was called
            file.write("def attend(q, k, v, is_causal):\n    global SGEMM_SECONDS\n"
                       f"    SGEMM_SECONDS = {SGEMM_50 / 2!r}\n    work(0.01)\n"
                       "nn.functional.scaled_dot_product_attention = attend\n")
        self.bench("--shapes", "t28", "--no-ladder")
        document = self.document()
        self.assertAlmostEqual(document["sgemm"]["begin"]["tflops"], 50.0)
        self.assertAlmostEqual(document["sgemm"]["end"]["tflops"], 100.0)
        self.assertAlmostEqual(document["sgemm"]["tflops"], 100.0)
        self.assertAlmostEqual(document["shapes"][0]["of_sgemm"], 0.48)

    def test_no_gpu_ends_the_run(self):
        self.program("sys.stderr.write('time_kernels: no CUDA device\\n'); sys.exit(69)")
        done = self.bench("--no-torch", exit_code=69)
        self.assertEqual(done.stderr.splitlines()[-1], "bench_gpu: time_kernels: no CUDA device")

    def test_one_shape_that_fails_leaves_the_others(self):
        self.program("if sys.argv[-1].startswith('500,'):\n    sys.stderr.write('time_kernels: out of memory\\n')\n"
                     f"    sys.exit(71)\nKERNELS = [('fast', 48.0)]\n{FAKE_TIME_KERNELS}")
        done = self.bench("--shapes", "t22", "t29", "--no-ladder", exit_code=70)
        self.assertIn("t22: hw4: time_kernels: out of memory\n", done.stdout)
        self.assertEqual([shape["tflops"] is None for shape in self.document()["shapes"]], [True, False])

    def test_a_shape_that_no_kernel_takes(self):
        self.program("sys.stderr.write('time_kernels: left out: d is 300\\n')")
        self.assertIn("1,1,300: hw4: time_kernels: left out: d is 300\n",
                      self.bench("--shapes", "1,1,300", exit_code=70).stdout)

    def test_usage(self):
        for arguments in (["--shapes", "t99"], ["--shapes", "c01"], ["--contract", "f64"], ["--runs", "0"],
                          ["--shapes"], ["--fast"]):
            self.bench(*arguments, exit_code=2)

    def test_files_that_cannot_be(self):
        self.write("file", "")
        self.assertIn("/file: File exists\n", self.bench("--json", self.path("file/x"), exit_code=73).stderr)
        os.remove(self.path("time_kernels"))
        self.assertIn("time_kernels is not there; make time-kernels builds it\n", self.bench(exit_code=69).stderr)


class GpuState(unittest.TestCase):
    def test_there_is_none_without_nvidia_smi(self):
        path, os.environ["PATH"] = os.environ["PATH"], "/nonexistent"
        try:
            self.assertEqual(provenance.gpu_state(), [])
        finally:
            os.environ["PATH"] = path


if __name__ == "__main__":
    unittest.main()
