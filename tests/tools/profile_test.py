#!/usr/bin/env python3
"""profile/profile and profile/roofline without a GPU: what ncu wrote on an H200 (tests/tools/ncu), and whole runs with
a fake ncu that gives it out again."""
import json
import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
SAMPLES = os.path.join(ROOT, "tests", "tools", "ncu")
sys.path[:0] = [os.path.join(ROOT, "profile")]

import gpu_peaks  # noqa: E402 (the path to them is set above)
import metrics  # noqa: E402
import ncu_csv  # noqa: E402
import profile_table  # noqa: E402
import roofline_points  # noqa: E402
from function_name import function_name  # noqa: E402
from program_module import run_forked  # noqa: E402

# As the report knows them.
KEYS = """duration_seconds achieved_occupancy_pct theoretical_occupancy_pct sm_efficiency_pct
    shared_load_bytes_per_second shared_store_bytes_per_second shared_load_wavefronts shared_load_instructions
    shared_load_conflicts shared_store_conflicts global_load_bytes_per_second global_store_bytes_per_second
    dram_read_bytes_per_second dram_write_bytes_per_second dram_bytes l2_bytes warp_execution_efficiency_pct
    issue_slots_busy_pct fma_pipe_pct fma_share_pct ipc instructions flop registers shared_bytes_per_block block_threads
    grid_blocks waves bytes_per_sector_load_pct local_load_instructions""".split()

KERNELS = ("plain_rows", "shared_tiles", "async_tiles", "drawn_tiles")  # of the sample t28; t08 has no async_tiles

# Leaves its arguments in `calls`, runs no program, and gives out the samples' launches of the shapes
# and kernels that time_kernels is asked for. DROP of the rows are lost.
FAKE_NCU = """
import json
SHAPES = {"4,16384,64": "t28", "20,1024,64": "t08"}
if sys.argv[1:] == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1) (public-release)")
    sys.exit()
with open(CALLS, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
asked = sys.argv[sys.argv.index("--once") + 1:]
rows = []
for case in (SHAPES[word] for word in asked if word in SHAPES):
    table = open(f"{SAMPLES}/{case}.csv").read().splitlines()
    for line, row in zip(open(f"{SAMPLES}/{case}.jsonl"), table[5:]):
        launch = json.loads(line)
        if launch["chosen"] if "--chosen" in asked else "--kernel" not in asked or launch["kernel"] in asked:
            print(line, end="")
            rows.append(row)
with open(sys.argv[sys.argv.index("--log-file") + 1], "w") as log:
    log.write("\\n".join(table[:5] + rows[DROP:]) + "\\n")
"""


def sample(name):
    with open(os.path.join(SAMPLES, name), encoding="utf-8") as file:
        return file.read()


def rows_of(case):
    """{kernel: row}"""
    kernels = [json.loads(line)["kernel"] for line in sample(f"{case}.jsonl").splitlines()]
    return dict(zip(kernels, ncu_csv.parse(sample(f"{case}.csv"))))


def row(units=None, **fields):
    return ncu_csv.Row(fields, units or {})


class Parser(unittest.TestCase):
    def test_the_launches_of_a_sample(self):
        rows = ncu_csv.parse(sample("t28.csv"))
        self.assertEqual(len(rows), 4)
        self.assertEqual([row.text("Kernel Name") for row in rows][:2],
                         ["unnamed>::plain_rows(KernelArgs)",
                          "void row_tiles<RowTiling<unnamed>::SharedTiles, 2>>(KernelArgs)"])
        self.assertEqual(rows[1].number("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"), 66572333314)
        self.assertEqual(rows[0].number("launch__waves_per_multiprocessor"), 17.73)

    def test_numbers(self):
        for text, value in (("1,234,567", 1234567), ("7,602,505,333,300.81", 7602505333300.81), ("0", 0), ("0.00", 0.0),
                            ("-3", -3), ("1e3", 1000.0), ("", None), (None, None), ("n/a", None), ("(!) n/a", None),
                            ("nan", None), ("inf", None), ("all", None), ("(128, 1, 1)", None)):
            self.assertEqual(ncu_csv.number_of(text), value, text)
        self.assertIsInstance(ncu_csv.number_of("1,234"), int)

    def test_times_are_in_seconds_and_nothing_else_is_converted(self):
        for unit, value in (("ns", 1.5e-6), ("nsecond", 1.5e-6), ("us", 1.5e-3), ("ms", 1.5), ("s", 1500), ("", 1500),
                            ("byte", 1500), ("%", 1500)):
            self.assertEqual(row({"x": unit}, x="1,500").number("x"), value, unit)

    def test_what_is_not_there(self):
        empty = row(a="", b="n/a")
        self.assertEqual([empty.text("a"), empty.text("b"), empty.text("c")], [None, "n/a", None])
        self.assertEqual([empty.number("a"), empty.number("b"), empty.number("c")], [None, None, None])

    def test_remarks_before_and_after_and_quotes_in_a_name(self):
        text = ('==PROF== Connected to process 7 (x)\n==WARNING== a, "b"\n\n"ID","Kernel Name","m"\n"","","ns"\n'
                '"0","void f<""x"", 2>(int)","5"\n==PROF== Disconnected\n"1","g","6"\n==WARNING== the end\n')
        rows = ncu_csv.parse(text)
        self.assertEqual([(row.text("Kernel Name"), row.number("m")) for row in rows],
                         [('void f<"x", 2>(int)', 5e-9), ("g", 6e-9)])

    def test_no_table(self):
        for text in ("", "==ERROR== nothing\n", "some words\nand more\n", '"ID","m"\n"","ns"\n'):
            self.assertEqual(ncu_csv.parse(text), [], text)

    def test_what_is_no_table(self):
        for text in ('"ID","m"\n', '"ID","m"\n"0","5"\n', '"ID","m"\n"","ns"\n"0","5","6"\n', '"ID","m"\n"",""\n"0"\n'):
            with self.assertRaises(ncu_csv.Malformed, msg=text):
                ncu_csv.parse(text)


class FunctionNames(unittest.TestCase):
    """As ncu shows them."""

    def test_the_last_name_before_template_and_arguments(self):
        for signature, name in (
                ("flash(const float *, int)", "flash"),
                ("void ns::flash<64>(float *)", "flash"),
                ("void f<(int)3, float>(const float *, int)", "f"),
                ("void pick<(bool)(3 < 4), float>(float *)", "pick"),
                ("(anonymous namespace)::rows(float *, int)", "rows"),
                ("void hw4::<unnamed>::tiles<hw4::<unnamed>::Tiling<128, 64>, (bool)1>(hw4::ForwardArgs)", "tiles"),
                ("std::enable_if<(bool)1, void>::type ns::scale<int>(T1 *)", "scale"),
                ("void f<&ns::g>(void (*)(int))", "f"),
                ("void run<main::{lambda(int)#1}>(main::{lambda(int)#1}, int)", "run"),
                ("void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl<at::native::"
                 "BinaryFunctor<float, float, float>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>"
                 "(int, T3)", "elementwise_kernel"),
                ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(T1::Params)", "Kernel2"),
                ("k(float *) [clone .part.0]", "k"),
                ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"), ("", "?"), ("(", "(")):
            with self.subTest(signature):
                self.assertEqual(function_name(signature), name)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = rows_of("t28")
        cls.values = {kernel: metrics.metric_values(row.number) for kernel, row in cls.rows.items()}

    def test_the_keys(self):
        self.assertEqual([metric.key for metric in metrics.METRICS], KEYS)

    def test_every_metric_can_be_described(self):
        for metric in metrics.METRICS:
            description = metric.description()
            self.assertEqual(set(description), {"key", "label", "unit", "ncu", "note"})
            self.assertTrue(description["label"] and description["ncu"], metric.key)

    def test_the_h200_has_every_column(self):
        asked = metrics.columns()
        self.assertEqual(len(asked), len(set(asked)))
        not_asked_then = {metrics.stall_column(reason) for reason in ("branch_resolving", "gmma")}
        self.assertEqual(set(asked) - set(self.rows["plain_rows"].fields), not_asked_then)
        self.assertLessEqual(set(gpu_peaks.COLUMNS), set(self.rows["plain_rows"].fields))

    def test_every_value_of_a_launch(self):
        """drawn_tiles on t28, by hand from the sample's columns."""
        expected = {
            "duration_seconds": 0.005782976, "achieved_occupancy_pct": 12.50, "theoretical_occupancy_pct": 12.50,
            "sm_efficiency_pct": 99.47, "shared_load_bytes_per_second": 128 * 545777436 / 0.005782976,
            "shared_store_bytes_per_second": 128 * 37850167 / 0.005782976, "shared_load_wavefronts": 545777436,
            "shared_load_instructions": 288448640, "shared_load_conflicts": 77404, "shared_store_conflicts": 13519,
            "global_load_bytes_per_second": 4491473312 / 0.005782976,
            "global_store_bytes_per_second": 93388800 / 0.005782976,
            "dram_read_bytes_per_second": 104301312 / 0.005782976,
            "dram_write_bytes_per_second": 31912448 / 0.005782976, "dram_bytes": 136213760, "l2_bytes": 3532811040,
            "warp_execution_efficiency_pct": 100.0, "issue_slots_busy_pct": 85.73, "fma_pipe_pct": 77.85,
            "fma_share_pct": 100 * 4671522144 / 5143983899, "ipc": 3.43, "instructions": 5143983899,
            "flop": 294217973760, "registers": 255, "shared_bytes_per_block": 108144, "block_threads": 128,
            "grid_blocks": 264, "waves": 1, "bytes_per_sector_load_pct": 99.75, "local_load_instructions": 0}
        self.assertEqual(list(expected), KEYS)
        for key, value in expected.items():
            self.assertAlmostEqual(self.values["drawn_tiles"][key], value, msg=key, delta=1e-9 * abs(value))

    def test_rates_are_those_of_ncu(self):
        for kernel, row in self.rows.items():
            for key, column in (("dram_read_bytes_per_second", "dram__bytes_read.sum.per_second"),
                                ("global_load_bytes_per_second",
                                 "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second")):
                expected = row.number(column)
                self.assertAlmostEqual(self.values[kernel][key], expected, delta=1e-6 * expected)

    def test_a_wavefront_is_128_bytes(self):
        # ncu's own rate of that launch is 212,958,241,978.72 wavefronts a second.
        self.assertAlmostEqual(self.values["shared_tiles"]["shared_load_bytes_per_second"] * 1e-9, 27258.655, places=3)

    def test_loads_by_cp_async_count_as_global_loads_but_say_nothing_of_coalescing(self):
        self.assertGreater(self.values["async_tiles"]["global_load_bytes_per_second"] * 0.006307456, 4.3e9)
        self.assertIsNone(self.values["async_tiles"]["bytes_per_sector_load_pct"])
        self.assertEqual(self.values["plain_rows"]["bytes_per_sector_load_pct"], 21.91)

    def test_a_count_of_zero_stays_zero(self):
        for key in ("shared_load_wavefronts", "shared_load_conflicts", "shared_load_bytes_per_second",
                    "shared_bytes_per_block"):
            self.assertEqual(self.values["plain_rows"][key], 0, key)

    def test_what_the_chip_lacks_is_none(self):
        self.assertEqual(set(metrics.metric_values(row().number).values()), {None})
        self.assertEqual(metrics.stall_values(row().number), {})
        fields = {**self.rows["drawn_tiles"].fields, "dram__bytes_write.sum": "n/a"}
        del fields["smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"]
        values = metrics.metric_values(ncu_csv.Row(fields, self.rows["drawn_tiles"].units).number)
        self.assertEqual({key for key, value in values.items() if value is None},
                         {"dram_write_bytes_per_second", "dram_bytes", "flop"})

    def test_half_filled_warps(self):
        column = "smsp__thread_inst_executed_per_inst_executed.ratio"
        values = metrics.metric_values(row(**{column: "16.00"}).number)
        self.assertEqual(values["warp_execution_efficiency_pct"], 50)

    def test_nothing_is_divided_by_zero(self):
        zeros = row(**dict.fromkeys(metrics.columns(), "0"))
        self.assertIsNone(metrics.metric_values(zeros.number)["dram_read_bytes_per_second"])
        self.assertIsNone(metrics.metric_values(zeros.number)["fma_share_pct"])

    def test_stalls(self):
        stalls = metrics.stall_values(self.rows["shared_tiles"].number)
        self.assertEqual(stalls["short_scoreboard"], 47.08)
        self.assertEqual(stalls["not_selected"], 1.35)
        self.assertNotIn("selected", stalls)
        self.assertNotIn("gmma", stalls)  # was not asked for when the sample was made
        self.assertEqual(metrics.top_stalls(stalls, 3),
                         [("short_scoreboard", 47.08), ("long_scoreboard", 3.70), ("barrier", 3.50)])
        self.assertEqual(metrics.top_stalls({"not_selected": 9.0, "wait": 0.0, "drain": 0.5, "misc": 1.0}, 3),
                         [("misc", 1.0), ("drain", 0.5)])


class Peaks(unittest.TestCase):
    def test_an_h200(self):
        rows = ncu_csv.parse(sample("t28.csv"))
        device = gpu_peaks.describe(rows, [metrics.metric_values(row.number)["duration_seconds"] for row in rows])
        self.assertEqual((device["name"], device["multiprocessors"]), ("NVIDIA H200", 132))
        self.assertAlmostEqual(device["peak_dram_bytes_per_second"], 4.814304e12)
        self.assertAlmostEqual(device["clock_hz"] * 1e-9, 1.979, places=3)
        self.assertAlmostEqual(device["peak_flop_per_second"], 132 * 128 * 2 * device["clock_hz"])
        self.assertEqual(device["clock_from"], "sm__cycles_elapsed.avg.per_second of the launches")

    def test_long_launches_count_for_more(self):
        rows = [row(**{gpu_peaks.CLOCK: "2,000,000,000"}), row(**{gpu_peaks.CLOCK: "1,000,000,000"}), row()]
        self.assertEqual(gpu_peaks.describe(rows, [3, 1, 5])["clock_hz"], 1.75e9)

    def test_without_a_measured_clock(self):
        device = gpu_peaks.describe([row(**{gpu_peaks.LARGEST_CLOCK: "1,500,000"})], [1])
        self.assertEqual((device["clock_hz"], device["clock_from"]), (1.5e9, "device__attribute_clock_rate"))

    def test_lanes(self):
        for capability, lanes in (("7.5", 64), ("8.0", 64), ("8.6", 128), ("9.0", 128), ("12.0", 128)):
            fields = {gpu_peaks.CLOCK: "1000", gpu_peaks.MULTIPROCESSORS: "10", "CC": capability}
            self.assertEqual(gpu_peaks.describe([row(**fields)], [1])["peak_flop_per_second"], 20000 * lanes)

    def test_nothing_known(self):
        self.assertEqual(set(gpu_peaks.describe([row()], [None]).values()), {None})


def launch(case="t28", kernel="k", stalls=None, **values):
    return {"case": case, "kernel": kernel, "metrics": {**dict.fromkeys(KEYS), **values}, "stalls": stalls or {}}


DEVICE = {"name": "Fake 1", "multiprocessors": 10, "clock_hz": 1e9, "peak_flop_per_second": 4e12,
          "peak_dram_bytes_per_second": 1e12}


class Table(unittest.TestCase):
    def test_a_launch_of_which_nothing_is_known(self):
        text = profile_table.tables([launch()], dict.fromkeys([*DEVICE]))
        self.assertNotRegex(text, r"t28 .*\b0")
        self.assertRegex(text, r"(?m)^t28   k +(n/a +){8}n/a$")
        self.assertRegex(text, r"(?m)^t28   k +n/a$")  # stalls
        self.assertIn("GPU: n/a multiprocessors at n/a GHz", text)

    def test_numbers_stand_under_their_titles(self):
        known = launch(kernel="long_name", duration_seconds=0.012, flop=36e9, ipc=1.5,
                       stalls={"wait": 0.25, "not_selected": 3.0})
        text = profile_table.tables([known, launch("t01")], DEVICE)
        titles, units, first, second = text.split("time and instructions\n")[1].splitlines()[:4]
        self.assertEqual(len({titles.index("time") + 4, units.index("ms") + 2, first.index("12.000") + 6,
                              second.index("n/a") + 3}), 1)
        self.assertRegex(first, r"^t28   long_name  12\.000 +3\.00 +36\.0 +n/a +n/a +1\.50 ")
        self.assertRegex(text, r"(?m)^t28   long_name +wait 0\.25$")
        self.assertIn("Fake 1: 10 multiprocessors at 1.000 GHz, at most 4.0 TFLOP/s (float32 fma) and 1000 GB/s", text)

    def test_it_fits_a_wide_terminal(self):
        rows = rows_of("t28")
        text = profile_table.tables([{"case": "t28", "kernel": kernel, "metrics": metrics.metric_values(row.number),
                                      "stalls": metrics.stall_values(row.number)} for kernel, row in rows.items()],
                                    DEVICE)
        self.assertLessEqual(max(map(len, text.splitlines())), 120)
        for words in (r"t28   plain_rows +339\.815 +0\.91 +307\.7 +99\.3 +18\.0 +0\.72 +6\.3 +35\.2 +63585",
                      r"t28   shared_tiles +27259 +2358 +8724\.3 +8\.63 +66572\.333 +4164\.828",
                      r"t28   plain_rows +0 +0 +0\.0 +n/a +0\.000 +0\.000",
                      r"t28   async_tiles +683\.9 +2\.7 +n/a +3\.864 +8\.82 +1\.11 +62\.7 +0\.000",
                      r"t28   shared_tiles +short_scoreboard 47\.08 +long_scoreboard 3\.70 +barrier 3\.50"):
            self.assertRegex(text, f"(?m)^{words}$")


class Roofline(unittest.TestCase):
    def test_points(self):
        document = {"device": DEVICE, "launches": [
            launch(kernel="slow", flop=8e12, duration_seconds=4, dram_bytes=4e12, l2_bytes=8e12),
            launch(kernel="fast", flop=8e12, duration_seconds=2.5, dram_bytes=1e11, l2_bytes=2e12),
            launch(kernel="unknown", duration_seconds=1)]}
        slow, fast, unknown = roofline_points.points(document)
        self.assertEqual(slow, {"case": "t28", "kernel": "slow", "flop": 8e12, "seconds": 4, "dram_bytes": 4e12,
                                "l2_bytes": 8e12, "dram_intensity": 2, "l2_intensity": 1, "flop_per_second": 2e12,
                                "roof_flop_per_second": 2e12})  # of the memory
        self.assertEqual((fast["dram_intensity"], fast["roof_flop_per_second"]), (80, 4e12))  # of the arithmetic
        self.assertEqual((unknown["flop_per_second"], unknown["roof_flop_per_second"]), (None, None))
        self.assertEqual(roofline_points.ridge(DEVICE), 4)

    def test_no_peaks(self):
        known = launch(flop=1.0, duration_seconds=1.0, dram_bytes=1.0)
        document = {"device": {**DEVICE, "peak_dram_bytes_per_second": None}, "launches": [known]}
        self.assertIsNone(roofline_points.points(document)[0]["roof_flop_per_second"])
        self.assertIsNone(roofline_points.ridge(document["device"]))


class Runs(unittest.TestCase):
    """The whole programs."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="profile_test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.fake_ncu()
        self.program("time_kernels", "print('\\n'.join(KERNELS) if sys.argv[-1] == '--list' else sys.argv)")
        self.proc(admin_only=0, capabilities="0")

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, name, body):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable} -IS\nimport sys\nCALLS = {self.path('calls')!r}\nKERNELS = {KERNELS!r}\n"
                       f"SAMPLES = {SAMPLES!r}\n{body}\n")
        os.chmod(self.path(name), 0o755)

    def fake_ncu(self, drop=0):
        self.program("ncu", f"DROP = {drop}\n{FAKE_NCU}")

    def ncu_saying(self, log, code=0, err="", out=""):
        """An ncu that writes its words into the log file, and what the program under it says to the other two."""
        self.program("ncu", f"if sys.argv[1:] == ['--version']:\n    sys.exit(print('Version 2020.1.2.0'))\n"
                            f"open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write({log!r})\n"
                            f"sys.stderr.write({err!r})\nsys.stdout.write({out!r})\nsys.exit({code})")

    def proc(self, admin_only, capabilities):
        """/proc as far as profile reads it."""
        for name, text in (("driver/nvidia/params", f"ResmanDebugLevel: 1\nRmProfilingAdminOnly: {admin_only}\nX: 1\n"),
                           ("self/status", f"Name:\tx\nCapEff:\t{capabilities:0>16}\n")):
            path = self.path(os.path.join("proc", name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def run_program(self, *command, exit_code=0):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HW4_PROC": self.path("proc"),
                       "PATH": self.folder + os.pathsep + os.environ["PATH"]}
        done = run_forked([sys.executable, *command], env=environment)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done

    def profile(self, *arguments, exit_code=0):
        return self.run_program(os.path.join(ROOT, "profile", "profile"), "--time-kernels", self.path("time_kernels"),
                                *arguments, exit_code=exit_code)

    def refusal(self, *arguments, exit_code):
        """The last line of a run that fails; there is no table."""
        done = self.profile(*arguments, exit_code=exit_code)
        self.assertEqual(done.stdout, "")
        return done.stderr.splitlines()[-1]

    def document(self):
        with open(self.path("out.json"), encoding="utf-8") as file:
            return json.load(file)

    def calls(self, contract="f32"):
        """What time_kernels was asked for under the contract, in each run of ncu."""
        with open(self.path("calls"), encoding="utf-8") as file:
            calls = [json.loads(line) for line in file]
        asked = [call[call.index("--once") + 1:] for call in calls]
        self.assertEqual([words[:2] for words in asked], [["--contract", contract]] * len(asked))
        return [words[2:] for words in asked]

    def test_every_kernel_on_t28_by_default(self):
        done = self.profile()
        self.assertEqual(self.calls(), [["4,16384,64"]])
        for kernel in KERNELS:
            self.assertEqual(done.stdout.count(f"\nt28   {kernel} "), 5, kernel)
        self.assertIn("NVIDIA H200: 132 multiprocessors at 1.979 GHz, at most 66.9 TFLOP/s", done.stdout)
        self.assertIn("  t28 shared_tiles\n", done.stderr)  # while it runs

    def other(self, *arguments, exit_code=0):
        return self.run_program(os.path.join(ROOT, "profile", "profile"), *arguments, exit_code=exit_code)

    def test_another_program(self):
        """Whatever it prints, the launches that ncu saw are told by their functions."""
        table = sample("t28.csv").splitlines()
        names = ["void mine<64>(float *)", "other(int)", "void ns::mine<32>(float *)"]
        rows = [re.sub(r'^("[^"]*",){4}"[^"]*"', lambda found: found[0].rsplit('"', 2)[0] + f'"{name}"', row)
                for name, row in zip(names, table[5:])]
        log = "\n".join(table[:5] + rows)
        self.program("ncu", f"import json\nif sys.argv[1:] == ['--version']:\n    sys.exit(print('Version 2025.3.1.0'))\n"
                            f"open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write({log!r})\n"
                            "open(CALLS, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\nprint('Time: 3 seconds')")
        self.program("mine", "")
        done = self.other("--program", self.path("mine"), "--json", self.path("out.json"), "--launches", "3", "--kernel",
                          "mine", "other", "--", "in", "--fast", "out")
        for kernel in ("mine", "other", "mine #2"):
            self.assertEqual(len(re.findall(rf"^mine  {kernel}  ", done.stdout, re.MULTILINE)), 5, done.stdout)
        self.assertNotIn("Time: 3 seconds", done.stdout)
        with open(self.path("calls"), encoding="utf-8") as file:
            call = json.loads(file.read())
        self.assertEqual(call[-4:], [self.path("mine"), "in", "--fast", "out"])
        self.assertEqual(call[:4], ["--kernel-name", "regex:mine|other", "--launch-count", "3"])
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual([launch["kernel"] for launch in document["launches"]], ["mine", "other", "mine #2"])
        self.assertEqual(document["launches"][0]["metrics"].keys(), set(KEYS))
        self.assertEqual(document["ncu"]["runs"], [["in", "--fast", "out"]])

    def test_another_program_that_does_not_launch(self):
        self.ncu_saying("==PROF== Connected to process 1\n")
        self.program("mine", "")
        done = self.other("--program", self.path("mine"), exit_code=70)
        self.assertEqual(done.stderr.splitlines()[-1], "profile: no kernel was launched")

    def test_another_program_that_is_not_there(self):
        done = self.other("--program", self.path("none"), exit_code=69)
        self.assertIn("none: cannot be run", done.stderr)
        self.assertIn("--case is for our own kernels", self.other("--program", "x", "--case", "t28", exit_code=2).stderr)
        self.assertIn("'in': arguments go with --program", self.other("in", exit_code=2).stderr)

    def test_how_ncu_is_asked(self):
        self.profile()
        with open(self.path("calls"), encoding="utf-8") as file:
            call = json.loads(file.readline())
        self.assertEqual(call[:3], ["--clock-control", "none", "--metrics"])
        self.assertEqual(call[3].split(","), [*metrics.columns(), *gpu_peaks.COLUMNS])
        self.assertEqual(call[4:10], ["--csv", "--page", "raw", "--print-units", "base", "--log-file"])
        self.assertEqual(call[11:], [self.path("time_kernels"), "--once", "--contract", "f32", "4,16384,64"])

    def test_the_contract_fixed(self):
        """The samples know nothing of it, so they stand in: a column more, and other passes beside each launch."""
        names, units, *rows = sample("t28.csv").splitlines()[3:]
        column = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
        beside = [rows[0].replace("plain_rows(KernelArgs)", name)
                  for name in ("prepare_kernel<64>(PrepareArgs)", "prepare_beside_kernel<64>(PrepareArgs)",
                               "round_rows<Bf16>(RoundArgs)", "widen_rows<Bf16>(WidenArgs)")]
        table = [f'{names},"{column}"', f'{units},"%"']
        for row in rows:
            table += [*(f'{other},"1.00"' for other in beside[:3]), f'{row},"57.25"', f'{beside[3]},"1.00"']
        self.ncu_saying("\n".join(table) + "\n", out=sample("t28.jsonl"))
        done = self.profile("--contract", "fixed", "--json", self.path("out.json"))
        document = self.document()
        self.assertEqual((document["contract"], document["ncu"]["runs"]),
                         ("fixed", [["--contract", "fixed", "4,16384,64"]]))
        self.assertIn(column, document["ncu"]["command"][4])
        self.assertEqual([launch["kernel"] for launch in document["launches"]], list(KERNELS))
        metrics_there = document["launches"][0]["metrics"]
        self.assertEqual((metrics_there["tensor_pipe_pct"], metrics_there["gmma_instructions"]), (57.25, None))
        self.assertEqual([metric["key"] for metric in document["metrics"]], list(metrics_there))
        self.assertRegex(done.stdout, r"tensor cores\n.*\n.*\nt28   plain_rows +57\.2 +18\.0 +n/a ")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)
        self.profile("--arith", "fixed", "--json", self.path("out.json"))
        self.assertEqual(self.document()["contract"], "fixed")

    def test_one_process_for_each_kernel_and_all_cases(self):
        self.profile("--case", "t28", "t08", "--kernel", "shared_tiles", "chosen", "--json", self.path("out.json"))
        shapes = ["4,16384,64", "20,1024,64"]
        self.assertEqual(self.calls(), [["--kernel", "shared_tiles", *shapes], ["--chosen", *shapes]])
        document = self.document()
        self.assertEqual([(launch["case"], launch["kernel"], launch["chosen"]) for launch in document["launches"]],
                         [("t28", "shared_tiles", False), ("t28", "drawn_tiles", True),
                          ("t08", "shared_tiles", False), ("t08", "drawn_tiles", True)])

    def test_a_kernel_in_a_file_of_its_own(self):
        self.program("time_kernels", "print('\\n'.join([*KERNELS, *['mine'] * ('mine.so' in sys.argv)]))")
        file = ["--kernel-file", "mine.so"]
        self.profile(*file, "--kernel", "shared_tiles", "drawn_tiles")
        self.assertEqual(self.calls(), [[*file, "--kernel", "shared_tiles", "4,16384,64"],
                                        [*file, "--kernel", "drawn_tiles", "4,16384,64"]])
        self.assertIn("no kernel 'mine'", self.refusal("--kernel", "mine", exit_code=2))
        self.assertEqual(self.refusal(*file, "--kernel", "mine", exit_code=70), "profile: no kernel was launched")
        self.assertIn("--kernel-file is for our own kernels", self.other("--program", "x", *file, exit_code=2).stderr)

    def test_each_kernel_once(self):
        self.profile("--kernel", "drawn_tiles", "chosen", "drawn_tiles", "--json", self.path("out.json"))
        self.assertEqual(len(self.calls()), 2)
        self.assertEqual([launch["kernel"] for launch in self.document()["launches"]], ["drawn_tiles"])
        os.remove(self.path("calls"))
        self.profile("--kernel", "chosen", "--kernel", "all")
        self.assertEqual(self.calls(), [["4,16384,64"]])

    def test_the_document(self):
        self.profile("--json", self.path("out.json"))
        document = self.document()
        self.assertTrue(document["complete"])
        self.assertEqual([metric["key"] for metric in document["metrics"]], KEYS)
        self.assertEqual((document["ncu"]["version"], document["ncu"]["runs"]), ("2025.3.1.0", [["--contract", "f32", "4,16384,64"]]))
        self.assertEqual((document["ncu"]["command"][0], document["ncu"]["command"][-3:]),
                         ("ncu", ["FILE", "time_kernels", "--once"]))
        self.assertNotIn(self.folder, json.dumps(document["ncu"]))
        self.assertEqual(document["device"]["peak_dram_bytes_per_second"], 4.814304e12)
        self.assertIn("git", document)
        shared = document["launches"][1]
        self.assertEqual({key: value for key, value in shared.items() if key not in ("metrics", "stalls")},
                         {"case": "t28", "batches": 4, "tokens": 16384, "dim": 64, "chosen": False,
                          "kernel": "shared_tiles",
                          "function": "void row_tiles<RowTiling<unnamed>::SharedTiles, 2>>(KernelArgs)"})
        self.assertEqual(list(shared["metrics"]), KEYS)
        self.assertEqual(shared["metrics"]["shared_load_conflicts"], 66572333314)
        self.assertEqual(shared["stalls"]["barrier"], 3.5)
        self.assertIsNone(document["launches"][2]["metrics"]["bytes_per_sector_load_pct"])

    def test_a_run_that_ends_early_leaves_what_it_has(self):
        self.program("ncu", f"DROP = 'drawn_tiles' in sys.argv\n{FAKE_NCU}")
        self.profile("--kernel", "plain_rows", "drawn_tiles", "--json", self.path("out.json"), exit_code=70)
        document = self.document()
        self.assertFalse(document["complete"])
        self.assertEqual([launch["kernel"] for launch in document["launches"]], ["plain_rows"])

    def test_wrong_names_get_the_list(self):
        self.assertRegex(self.refusal("--case", "t99", exit_code=2), "no case 't99' .*; the cases are t01 t02 .* t30 ")
        self.assertEqual(self.refusal("--kernel", "drawn_tiles", "fast", exit_code=2),
                         "profile: no kernel 'fast'; there are all, chosen, plain_rows, shared_tiles, async_tiles, "
                         "drawn_tiles")
        self.refusal("--case", exit_code=2)
        self.assertFalse(os.path.exists(self.path("calls")))

    def test_no_ncu(self):
        self.assertRegex(self.refusal("--ncu", "no-such-ncu", exit_code=69),
                         r"^profile: no-such-ncu \(Nsight Compute\) is not on PATH: install ")

    def test_an_ncu_that_is_only_a_signpost(self):
        self.program("ncu", "sys.exit('ERROR : Nsight Compute is not installed on your system.')")
        self.assertRegex(self.refusal(exit_code=69), r"ncu --version: ERROR : Nsight Compute is not installed")

    def test_closed_counters(self):
        error = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access GPU Performance Counters."
        for code in (0, 1):
            self.ncu_saying(f"==PROF== Connected to process 7 (x)\n{error}\n", code,
                            out=sample("t28.jsonl"))
            self.assertRegex(self.refusal(exit_code=69), "^profile: the GPU's counters are closed to you on this node: "
                                                         "run as root, .*NVreg_RestrictProfilingToAdminUsers=0")

    def test_counters_that_the_driver_keeps_to_the_administrator(self):
        self.proc(admin_only=1, capabilities="00000000a80425fb")  # root's in a container
        self.assertRegex(self.refusal(exit_code=69), r"closed to you .*--cap-add=SYS_ADMIN.*RmProfilingAdminOnly is 1")
        self.assertFalse(os.path.exists(self.path("calls")))
        self.proc(admin_only=1, capabilities="000001ffffffffff")  # root's
        self.profile()
        os.remove(self.path("proc/driver/nvidia/params"))  # another kind of driver
        self.profile()

    def test_an_ncu_that_does_not_know_the_gpu(self):
        # Nothing is profiled, and the program under it ends well.
        error = "Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option."
        self.ncu_saying(f"==ERROR== {error}\n==WARNING== No kernels were profiled.\n", out=sample("t28.jsonl"))
        self.assertEqual(self.refusal(exit_code=69), "profile: ncu 2020.1.2.0 does not fit this GPU or its driver "
                                                     f"({error}): take the one of a newer CUDA toolkit")

    def test_an_ncu_that_does_not_know_an_option(self):
        self.ncu_saying("", 1, out="==ERROR== unrecognised option '--print-units'. Use --help for further details.\n")
        self.assertIn("take the one of a newer CUDA toolkit", self.refusal(exit_code=69))

    def test_an_ncu_that_does_not_fit_the_driver(self):
        self.ncu_saying("==ERROR== An error was reported by the driver:\n==ERROR== Cuda driver is not compatible with "
                        "Nsight Compute.\n==ERROR== The application returned an error code (11).\n", 11)
        self.assertIn("does not fit this GPU or its driver (An error was reported by the driver:; Cuda driver is not",
                      self.refusal(exit_code=69))

    def test_another_tool_holds_the_counters(self):
        self.ncu_saying("==ERROR== Profiling failed because a driver resource was unavailable.\n", 1)
        self.assertIn("another tool, such as DCGM, holds the GPU's counters", self.refusal(exit_code=69))

    def test_no_gpu(self):
        self.ncu_saying("==ERROR== The application returned an error code (69).\n==WARNING== No kernels were profiled."
                        "\n", 69, err="time_kernels: cudaErrorNoDevice (no CUDA-capable device is detected) from x\n")
        self.assertEqual(self.refusal(exit_code=69),
                         "profile: no usable GPU here, take a GPU node (time_kernels: cudaErrorNoDevice (no "
                         "CUDA-capable device is detected) from x)")

    def test_a_program_that_fails(self):
        self.ncu_saying("==ERROR== The application returned an error code (71).\n", 0,
                        err="time_kernels: left out: x\ntime_kernels: out of memory\n")
        self.assertEqual(self.refusal(exit_code=70), "profile: time_kernels: out of memory")

    def test_an_ncu_that_dies(self):
        self.ncu_saying("==PROF== Connected\n==ERROR== Failed to profile \"k\" in process 7\n==ERROR== The application "
                        "returned an error code (9).\n==WARNING== No kernels were profiled.\n", 9,
                        err="time_kernels: left out: x\n")
        self.assertEqual(self.refusal(exit_code=70), "profile: ncu ended with 9: Failed to profile \"k\" in process 7; "
                                                     "The application returned an error code (9).")
        self.ncu_saying(f"{sample('t28.csv')}==ERROR== Something else.\n", 0, out=sample("t28.jsonl"))
        self.assertEqual(self.refusal(exit_code=70), "profile: ncu ended with 0: Something else.")
        self.ncu_saying("", 3, err="Segmentation fault\n")
        self.assertEqual(self.refusal(exit_code=70), "profile: ncu ended with 3: Segmentation fault")
        self.ncu_saying("", 3)
        self.assertEqual(self.refusal(exit_code=70), "profile: ncu ended with 3: it said nothing")
        self.program("ncu", f"import os, signal\nDROP = 0\nif '--once' in sys.argv:\n"
                            f"    os.kill(os.getpid(), signal.SIGKILL)\n{FAKE_NCU}")
        self.assertEqual(self.refusal(exit_code=70), "profile: ncu ended with -9: it said nothing")

    def test_launches_that_cannot_be_told_apart(self):
        self.fake_ncu(drop=1)
        self.assertEqual(self.refusal(exit_code=70),
                         "profile: ncu profiled 3 launches, time_kernels made 4: no telling which is which")
        self.ncu_saying(sample("t28.csv"), out="".join(sample("t28.jsonl").splitlines(keepends=True)[:3]))
        self.assertIn("ncu profiled 4 launches, time_kernels made 3", self.refusal(exit_code=70))

    def test_a_table_that_is_cut_off(self):
        self.ncu_saying(sample("t28.csv")[:-40], out=sample("t28.jsonl"))
        self.assertRegex(self.refusal(exit_code=70), r"^profile: ncu's table: a row of \d+ fields under \d+ names$")

    def test_what_time_kernels_leaves_out(self):
        left_out = "time_kernels: left out: async_tiles needs compute capability 8.0\n"
        self.ncu_saying(sample("t28.csv"), err=left_out, out=sample("t28.jsonl"))
        self.assertIn(left_out, self.profile().stderr)
        self.ncu_saying("==WARNING== No kernels were profiled.\n", err=left_out)
        self.assertEqual(self.refusal(exit_code=70), f"profile: {left_out.strip()}")

    def test_no_time_kernels(self):
        os.remove(self.path("time_kernels"))
        self.assertRegex(self.refusal(exit_code=69), r"time_kernels is not there; make time-kernels builds it$")
        self.program("time_kernels", "sys.exit('time_kernels: usage: ...')")
        self.assertRegex(self.refusal(exit_code=70), r"time_kernels --list: time_kernels: usage: \.\.\.$")

    def test_a_contract_that_time_kernels_does_not_know(self):
        self.program("time_kernels", "sys.stderr.write(' '.join(sys.argv[1:]) + ': need f32 or fixed\\n'); sys.exit(64)")
        self.assertRegex(self.refusal("--contract", "f64", exit_code=2), r" --contract f64 --list: need f32 or fixed$")

    def test_json_that_cannot_be(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.assertRegex(self.refusal("--json", self.path("file/x"), exit_code=73), "/file: File exists$")
        self.assertFalse(os.path.exists(self.path("calls")))

    def roofline(self, *arguments, exit_code=0):
        return self.run_program(os.path.join(ROOT, "profile", "roofline"), *arguments, exit_code=exit_code)

    def test_the_roofline(self):
        self.profile("--json", self.path("out.json"))
        text = self.roofline(self.path("out.json")).stdout
        self.assertIn("NVIDIA H200: 66.9 TFLOP/s and 4814 GB/s of DRAM meet at 13.9 FLOP/byte\n", text)
        self.assertRegex(text, r"(?m)^t28   drawn_tiles +294\.2 +136\.2 +3532\.8 +2160\.0 +83\.3 +50\.88 +66\.88 "
                               r"+76\.1$")

    def test_a_roofline_of_nothing(self):
        self.assertRegex(self.roofline(self.path("none"), exit_code=66).stderr, "none: No such file or directory$")
        for text in ("", "[]", "{}", '{"device": null, "launches": []}', '{"device": {}, "launches": [{}]}'):
            with open(self.path("bad.json"), "w", encoding="utf-8") as file:
                file.write(text)
            said = self.roofline(self.path("bad.json"), exit_code=65).stderr
            self.assertIn("bad.json: not a file that profile/profile --json wrote", said)
        self.roofline(exit_code=2)


if __name__ == "__main__":
    unittest.main()
