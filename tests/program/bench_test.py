#!/usr/bin/env python3
"""hw4 bench from the outside: files, statuses, exit codes, resuming, comparing."""
import csv
import json
import os
import pickle
import signal
import subprocess
import unittest

import cli_test
from cli_test import (CANNOT_CREATE, NO_GPU, OK, OLD_OUTPUT, PATIENCE, USAGE, CliTest, crc_of, generated_by, hw4, run,
                      wait_until)

QUICK = ("--batch_size", "2", "--seq_len", "64", "--num_heads", "2", "--emb_dim", "32", "--warmup", "0", "--repeats",
         "3", "--threads", "1")
PASSES = ("forward", "backward", "forward_backward")


setUpModule = cli_test.setUpModule


def bench(*args, device="cpu", **more):
    return run("hw4", "bench", *(("--device", device) if device else ()), *args, **more)


def lab5_plot(path):
    """Reads a file of lab5.py as plotting code does: (label, TFLOP/s) of each pass, and MB."""
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    bars = [(name, result[name]["FLOPS(TFLOPs/s)"], result[name]["time(s)"]) for name in PASSES]
    return bars, result["peak_memory_usage(MB)"]


class BenchTest(CliTest):
    def setUp(self):
        super().setUp()
        self.json = self.dir / "r.json"

    def rows(self, path=None):
        document = json.loads((path or self.json).read_text())
        return document["results"] if "results" in document else [document]

    def done(self, *args, code=OK, **more):
        done = bench(*args, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done


class FilesTest(BenchTest):
    def test_lab5s_command_and_the_code_that_plots_its_file(self):
        self.done("--batch_size", "2", "--seq_len", "128", "--num_heads", "2", "--emb_dim", "64", "--impl", "hw4",
                  "--causal", "--repeats", "3", "--limit", "0", "--output", self.json)
        bars, megabytes = lab5_plot(self.json)
        flop = 4 * 2 * 128**2 * 64 // 2
        for (name, rate, seconds), factor in zip(bars, (1, 2.5, 3.5)):
            self.assertAlmostEqual(rate * seconds * 1e12, flop * factor, delta=flop * 1e-6, msg=name)
        self.assertGreater(megabytes, 7 * 2 * 128 * 64 * 4 / 2**20)
        self.assertEqual(list(json.loads(self.json.read_text())), [*PASSES, "peak_memory_usage(MB)", "hw4"])

    def test_every_format_has_every_cell(self):
        table = self.done(*QUICK, "--impl", "naive,f32,fixed", "--causal=both", "--output", self.json, "--csv",
                          self.dir / "r.csv")
        self.assertEqual(len(self.rows()), 6)
        with open(self.dir / "r.csv", newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), 18)
        self.assertEqual({line["status"] for line in lines if line["impl"] == "fixed"}, {"ok", "unsupported"})
        self.assertEqual(len(table.stdout.splitlines()), 1 + 6)
        self.assertIn("[6/6] fixed B 2 H 2 N 64 d 16 causal", table.stderr)

    def test_the_crc_is_that_of_hw4_on_the_same_case(self):
        self.done(*QUICK, "--impl", "hw4", "--causal", "--output", self.json)
        row = self.rows()[0]["hw4"]
        for name, option in (("forward", ()), ("backward", ("--backward",))):
            case = generated_by("--shape", "2,64,16", "--heads", "2,2", "--kind", "normal:1", "--seed", "1", "--causal",
                                *option)
            out = self.dir / name
            self.assertEqual(hw4(case, out).returncode, OK)
            self.assertEqual(row[name]["output_crc32"], crc_of(out.read_bytes()))
            self.assertIs(row[name]["as_reference"], True)

    def test_once_is_one_sample_of_a_shape(self):
        self.done("--shape", "2,3,64,16", "--once", "--passes", "forward", "--output", self.json)
        row = self.rows()[0]["hw4"]
        self.assertEqual((row["forward"]["launches"], len(row["forward"]["samples"])), (1, 1))
        self.assertEqual([row["parameters"][name] for name in ("batch_size", "num_heads", "seq_len", "emb_dim")],
                         [2, 3, 64, 48])

    def test_a_decoding_step(self):
        table = self.done("--shape", "2,4,200,64", "--kv_heads", "2", "--decode=3", "--causal", "--impl", "f32,naive",
                          "--device", "cpu", "--repeats", "3", "--limit", "0", "--output", self.json)
        ours, naive = (row["hw4"] for row in self.rows())
        self.assertEqual((ours["status"], naive["status"]), ("ok", "unsupported"))
        self.assertEqual(ours["forward"]["cache_bytes"], 2 * 2 * 2 * 200 * 64 * 4)
        self.assertAlmostEqual(ours["forward"]["GB/s"] * ours["forward"]["median"] * 1e9, 2 * 2 * 2 * 200 * 64 * 4,
                               delta=1)
        self.assertLess(ours["forward"]["error"]["largest"], 1e-5)
        self.assertIs(ours["forward"]["as_reference"], True)
        self.assertRegex(table.stdout, r"(?s)GB/s +of peak.*4/2 +3/200 +64 ")
        case = generated_by("--shape", "2,3,64", "--heads", "4,2", "--keys", "200", "--kind", "normal:1", "--seed", "1",
                            "--causal")
        self.assertEqual(hw4(case, self.dir / "out").returncode, OK)
        self.assertEqual(ours["forward"]["output_crc32"], crc_of((self.dir / "out").read_bytes()))

    def test_a_bad_name_shows_before_anything_is_measured(self):
        done = self.done(*QUICK, "--output", self.dir / "none" / "r.json", code=CANNOT_CREATE)
        self.assertEqual(done.stdout, "")

    def test_wrong_usage_leaves_an_old_file_alone(self):
        self.json.write_bytes(OLD_OUTPUT)
        self.done("--batch_size", "x", "--output", self.json, code=USAGE)
        self.assertEqual(self.json.read_bytes(), OLD_OUTPUT)


class PlainUnpickler(pickle.Unpickler):
    """Tests that need only numbers, text, lists and dictionaries."""

    def find_class(self, module_name, global_name):
        raise pickle.UnpicklingError(f"{module_name}.{global_name}")


class MemoryTest(BenchTest):
    SWEEP = (*QUICK, "--impl", "naive,f32,fixed")

    def peaks(self):
        """The peak memory of each pass that ran, by implementation and pass."""
        return {(row["hw4"]["parameters"]["impl"], name): row["hw4"][name]["peak_bytes"]
                for row in self.rows() for name in PASSES if row["hw4"][name]["status"] == "ok"}

    def entries(self, *more):
        path = self.dir / "m.pickle"
        self.done(*self.SWEEP, *more, "--output", self.json, "--memory", path)
        with path.open("rb") as file:
            snapshot = PlainUnpickler(file).load()
            self.assertEqual(file.read(), b"")
        self.assertEqual(snapshot["segments"], [])
        (entries,) = snapshot["device_traces"]
        return entries

    @staticmethod
    def track(entry):
        _, of_pass, of_cell = (frame["name"] for frame in entry["frames"])
        return of_cell.split()[0], of_pass

    def test_a_snapshot_has_the_peaks_of_the_rows_and_ends_with_nothing(self):
        blocks, segments, peaks = {}, {}, {}
        for entry in self.entries():
            place, size, action = entry["addr"], entry["size"], entry["action"]
            if action == "segment_alloc":
                self.assertNotIn(place, segments)
                segments[place] = size
            elif action == "alloc":
                self.assertEqual(segments[place], size)
                blocks[place] = size
                track = self.track(entry)
                peaks[track] = max(peaks.get(track, 0), sum(blocks.values()))
            elif action == "free_completed":
                self.assertEqual(blocks.pop(place), size)
            elif action == "segment_free":
                self.assertEqual(segments.pop(place), size)
            else:
                self.assertEqual(action, "free_requested")
        self.assertEqual((blocks, segments), ({}, {}))
        self.assertEqual(len(peaks), 3 + 3 + 1)
        self.assertEqual(peaks, self.peaks())


class StatusTest(BenchTest):
    def test_out_of_memory_is_a_row(self):
        self.done(*QUICK, "--impl", "naive,hw4", "--seq_len", "64,256", "--passes", "forward", "--memory_limit",
                  "300000", "--output", self.json)
        statuses = [row["hw4"]["status"] for row in self.rows()]
        self.assertEqual(statuses, ["ok", "ok", "oom", "ok"])
        oom = self.rows()[2]
        self.assertEqual(oom["hw4"]["forward"]["wanted_bytes"], 2 * 2 * 256**2 * 4)
        self.assertIsNone(oom["forward"]["time(s)"])

    def test_where_no_cell_runs(self):
        done = self.done(*QUICK, "--quiet", "--impl", "naive", "--dtype", "fp16", "--output", self.json, code=NO_GPU)
        reason = self.rows()[0]["hw4"]["reason"]
        self.assertEqual(reason, "naive on the CPU takes float32, not fp16")
        self.assertEqual((done.stdout, done.stderr), ("", f"hw4 bench: no cell ran: {reason}\n"))


class EndedTest(BenchTest):
    def test_a_sweep_that_is_ended_has_left_its_rows(self):
        command = [cli_test.PROGRAMS / "hw4", "bench", "--device", "cpu", *QUICK, "--seq_len", "16,8k", "--repeats",
                   "1000", "--limit", "1000", "--output", self.json]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_until(self.json.exists, "the first row")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(PATIENCE), 128 + signal.SIGTERM)
        self.assertEqual(len(self.rows()), 1)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["r.json"])


class NoGpuTest(BenchTest):
    """Without a GPU, any command that needs one says so in one line."""

    def test_exit_codes(self):
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        for words in (("start-up",), ("--device", "gpu", "--once"), ("step", "--device", "gpu"),
                      ("step", "--operations"),
                      ("--device", "cpu", "--kernel-file", "k.so")):
            done = run("hw4", "bench", *words, env=hidden)
            self.assertEqual(done.returncode, NO_GPU, done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], "^hw4: .*(GPU|built without CUDA)")
        self.assertEqual(run("hw4", "bench", "start-up", "now").returncode, USAGE)


class StepTest(BenchTest):
    """A training step by one rank, on each device."""

    def test_phases_operations_and_memory(self):
        for device in "cpu", "gpu":
            with self.subTest(device=device):
                done = run("hw4", "bench", "step", "--device", device, "--model", "tiny", "--seq_len", "32,64",
                           "--warmup", "0,1", "--repeats", "3", "--output", self.json)
                if device == "gpu" and done.returncode == NO_GPU:
                    self.skipTest(done.stderr)
                self.assertEqual(done.returncode, OK, done.stderr)
                rows = self.rows()
                self.assertEqual([(row["seq_len"], row["warmup"]) for row in rows],
                                 [(32, 0), (32, 1), (64, 0), (64, 1)])
                for row in rows:
                    self.assertEqual((row["status"], row["device"]), ("ok", device))
                    phases = [row[phase]["mean"] for phase in ("forward", "backward", "optimizer")]
                    self.assertGreater(min(phases), 0)
                    self.assertLess(sum(phases), row["step"]["mean"])
                    self.assertEqual(row["of_peak"] is not None, device == "gpu")
                    self.assertLessEqual(row["peak_after_init_bytes"], row["peak_before_optimizer_bytes"])
                    self.assertEqual(sum(row["bytes"].values()), row["peak_bytes"])
                    calls = {phase: {name: of["calls"] for name, of in row[phase]["operations"].items() if of["seconds"]}
                             for phase in ("forward", "backward", "optimizer")}
                    self.assertEqual(calls, {
                        "forward": {"embedding": 1, "products": 9, "norms": 5, "rope": 2, "attention": 2, "swiglu": 2,
                                    "loss": 1},
                        "backward": {"embedding": 1, "products": 18, "norms": 10, "rope": 2, "attention": 2,
                                     "swiglu": 2, "sums": 1},
                        "optimizer": {"optimizer": 2}})
                    self.assertLess(row["in_use_in_forward_bytes"], row["in_use_in_step_bytes"])
                    self.assertLessEqual(row["in_use_in_step_bytes"], row["peak_bytes"])

    def test_operations_alone(self):
        done = run("hw4", "bench", "step", "--operations", "--model", "tiny", "--output", self.json)
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, OK, done.stderr)
        operations = self.rows()[0]["operations"]
        products = [of for of in operations if of["terms"]]
        self.assertEqual((len(products), sum(of["calls"] for of in products)), (15, 27))
        self.assertLessEqual({"embed", "norm_back", "swiglu", "cross_entropy", "squares", "adamw"},
                             {of["operation"] for of in operations})
        for of in operations:
            self.assertGreater(min(of["seconds"], of["ratio"], of["calls"]), 0, of)


class AccumulateTest(BenchTest):
    def test_table_and_file(self):
        done = run("hw4", "bench", "accumulate", "--device", "cpu", "--output", self.json)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("9.953125", done.stdout)
        sums = json.loads(self.json.read_text())["sums"]
        self.assertIn({"term": "fp16", "sum": "fp16", "chain": None, "result": 9.953125, "exact": 10.0021362}, sums)


if __name__ == "__main__":
    unittest.main()
