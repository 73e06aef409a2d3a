#!/usr/bin/env python3
"""report/measure: every step of its list runs and gives a file that the builder reads. Without a GPU `hw4 bench` parses
each command, made-up times replace its own, and hw4 computes on the CPU."""
import contextlib
import importlib.util
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HW4_BIN") or ROOT).resolve()
BUILD = Path(os.environ.get("HW4_BUILD") or ROOT / "build").resolve()
LIBRARY = str((BUILD if BIN == ROOT else BIN) / "libhw4.so")
NO_GPU, WRONG_USAGE = 69, 64
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge"), str(ROOT / "profile")]

import exact  # noqa: E402 (the path to them is set above)
import runners  # noqa: E402
import variants  # noqa: E402
from builder import schema  # noqa: E402
from given_cases import case_of  # noqa: E402
from cells import STEPS  # noqa: E402
from document import Failed  # noqa: E402
from program_module import program_as_module  # noqa: E402

needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
HIDDEN = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # nothing is measured


class Workplace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="measure_test-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name).resolve()
        shown = io.StringIO()
        self.enter(contextlib.redirect_stdout(shown))
        self.enter(contextlib.redirect_stderr(shown))

    def enter(self, context):
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def measured(self, name, bin_folder=BIN, build_folder=None, **cells):
        """The document of a step with some cells changed."""
        path, step = self.dir / f"{name}.json", STEPS[name]
        bench = runners.Bench(path, step.goals, bin_folder, build_folder or self.dir)
        runners.RUNNERS[step.runner](bench, **{**step.cells, **cells})
        text = path.read_text()
        for folder in (ROOT, self.dir):
            self.assertNotIn(str(folder), text)
        return json.loads(text)

    def check(self, name, document):
        """Checks it as the builder does, except for fields that need a GPU."""
        known = {field: of for field, of in schema.DOCUMENTS[f"{name}.json"].items()
                 if field not in ("complete", "gpu")}
        schema.check(document, known, name)


class Cells(unittest.TestCase):
    def test_the_committed_files_are_those_of_the_steps(self):
        files = {path.name for path in (ROOT / "report/data").glob("*.json")}
        traces = {trace for step in STEPS.values() for trace in step.traces}
        measured = {f"{name}.json" for name in STEPS} | traces
        self.assertEqual(files, {*measured, "published.json"})
        self.assertEqual(set(schema.DOCUMENTS), files)

    def test_what_is_taken_out_of_a_kernel_stands_in_the_sources(self):
        for edits in variants.VARIANTS.values():
            for file, text in variants.edited(edits).items():
                self.assertNotEqual(text, (ROOT / file).read_text())
        with self.assertRaisesRegex(Failed, "occurs 0 times, not once"):
            variants.edited({("Makefile", "no such text"): ""})


# ---- Every command and every file, without a GPU


class EveryCommand(Workplace):
    """The programs accept each command; made-up rows give a file that the builder reads."""

    def made_up_rows(self, *words):
        words = [str(word) for word in words]
        done = subprocess.run([BIN / "hw4", "bench", *words], env=HIDDEN, capture_output=True, text=True)
        self.assertEqual(done.returncode, NO_GPU, f"{words}: {done.stderr}")
        measured = {"kernel": "k", "flop": 1, "scratch_bytes": 1, "launches": 1, "samples": [0.001]}
        rows = [{"hw4": {"status": "ok", "reason": None, "forward": measured, "backward": measured}} for _ in range(2)]
        rows.append({"hw4": {"status": "unsupported", "reason": "computes backward"}})
        return {"machine": {"name": "A", "cuda": "13.0"}, "results": rows}

    def test_ladders(self):
        self.enter(mock.patch.object(runners.Bench, "bench_rows", self.made_up_rows))
        for name, step in STEPS.items():
            if step.runner == "ladder":
                document = self.measured(name, build_folder=BUILD)
                self.assertEqual(len(document["ladder"]), 2 * len(step.cells["shapes"]))
                self.check(name, document)


class OtherCommands(unittest.TestCase):
    def test_the_list_ends_quietly_with_its_reader(self):
        with subprocess.Popen([ROOT / "report/measure", "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            run.stdout.close()
            self.assertEqual((run.stderr.read(), run.wait()), (b"", -signal.SIGPIPE))

    def test_sweeps_memory_and_training_steps(self):
        for words in (STEPS["memory"].cells["words"], *(words for step in STEPS.values() if step.runner == "sweep"
                                                        for words in step.cells["runs"]),
                      *(("step", *words) for _, words in STEPS["training"].cells["runs"])):
            done = subprocess.run([BIN / "hw4", "bench", *words, "--device", "gpu"], env=HIDDEN, capture_output=True)
            self.assertNotEqual(done.returncode, WRONG_USAGE, done.stderr)

    @needs_torch
    def test_beside(self):
        sys.path.insert(0, str(ROOT / "python"))
        with mock.patch.dict(os.environ, HW4_LIBRARY=LIBRARY):
            from hw4 import neighbours
        for step in STEPS.values():
            if step.runner == "beside":
                for run in " ".join(step.cells["words"]).split(" --and "):
                    neighbours.parse(run.split())

    def test_profiles(self):
        profile = program_as_module(ROOT / "profile/profile")
        for step in STEPS.values():
            if step.runner == "profile":
                with mock.patch.object(sys, "argv", ["profile", *step.cells["words"], "--json", "x"]):
                    self.assertEqual(profile.parse_arguments().json.name, "x")


# ---- Small runs on the CPU


class OnTheCpu(Workplace):
    SMALL = ("--batch_size", "1", "--seq_len", "8,16", "--num_heads", "2", "--emb_dim", "8", "--warmup", "0",
             "--repeats", "2", "--threads", "1")

    def test_seq(self):
        document = self.measured("sequential", shapes=("e03", "e05"))
        self.check("sequential", document)
        self.assertEqual([(case["name"], case["measured_batches"], len(case["seconds"])) for case in document["cases"]],
                         [("e03", 3, 3), ("e05", document["cases"][1]["batches"], 3)])

    def test_sweep_and_cpu(self):
        document = self.measured("lab5", device="cpu", runs=((*self.SMALL, "--impl", "f32"), (*self.SMALL, "--causal")))
        self.check("lab5", document)
        self.assertEqual([(row["seq_len"], row["causal"]) for row in document["rows"]],
                         [(8, False), (16, False), (8, True), (16, True)])
        document = self.measured("cpu", case="2,64,16", runs=3)
        self.check("cpu", document)
        self.assertLess({"f32", "fixed", "fixed16"}, {case["contract"] for case in document["cases"]})


@needs_torch
class Errors(Workplace):
    def test_gradients(self):
        """Compares the formula with autograd, in float64."""
        import torch
        path = self.dir / "in"
        subprocess.run([BIN / "testcases/generate", "--shape", "2,9,8", "--seed", "1", "--kind", "uniform", "--heads",
                        "4,2", "--keys", "12", "--causal", "--backward", path], check=True)
        q, k, v, dout = (m.double() for m in exact.operands(path, case_of("g", str(path)), "cpu"))
        k, v = (m.repeat_interleave(2, 1) for m in (k, v))
        leaves = [m.clone().requires_grad_() for m in (q, k, v)]
        hidden = torch.ones(9, 12).triu(4).bool()
        weights = (leaves[0] @ leaves[1].mT / math.sqrt(8)).masked_fill(hidden, -math.inf).softmax(-1)
        (weights @ leaves[2]).backward(dout)
        for at_once in (1, 1 << 27):
            with mock.patch.object(exact, "SCORES_AT_ONCE", at_once):
                parts = next(exact.chunks_by_batches(2, 4, 9, 12, True))
            for found, leaf in zip(exact.exact_gradients(q, k, v, dout, parts).exact, leaves):
                self.assertLess((found - leaf.grad[parts[0].batches]).abs().max().item(), 1e-12)


if __name__ == "__main__":
    unittest.main()
