#!/usr/bin/env python3
"""report/torch_cell.py: the rules by which it samples, those of src/bench; and its attention, where PyTorch is."""
import importlib.util
import json
import subprocess
import sys
import types
import unittest
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "report"))

import torch_cell  # noqa: E402 (the path to it is set above)


class SaidSampler:
    """Says how long a launch takes, and counts them."""

    def __init__(self, seconds=0.02):
        self.seconds, self.launches, self.samples = seconds, 0, 0

    def run(self, launches):
        self.launches += launches

    def __call__(self, launches):
        self.run(launches)
        self.samples += 1
        return self.seconds(self.samples) if callable(self.seconds) else self.seconds


CELL = {"impl": "flash2", "dtype": "fp16", "batch_size": 1, "seq_len": 8, "num_heads": 1, "emb_dim": 8, "causal": False,
        "passes": ["forward"], "warmup": None, "repeats": 30, "limit_s": 10, "timing": "event", "cold": False,
        "memory_limit": 0, "device": "cpu"}  # as hw4 bench writes it


def arguments(**more):
    return types.SimpleNamespace(**{**CELL, **more})


class Rules(unittest.TestCase):
    def test_launches_and_samples(self):
        """The rules of src/bench/sampling.h, with the numbers of tests/unit/bench_samples_test.cpp."""
        self.assertEqual([torch_cell.launches_for(seconds) for seconds in (0.039e-3, 0.004, 1e-9, 0.0, 0.01, 0.85)],
                         [257, 3, 1000, 1000, 1, 1])
        asked = ((0.007, 20), (0.05, 20), (0.1, 20), (0.85, 20), (0.85, 2), (0.85, 200))
        self.assertEqual([torch_cell.runs_for(*pair) for pair in asked], [20, 20, 10, 3, 2, 11])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_every_form_is_attention(self):
        torch = torch_cell.torch_in_float32()
        q, k, v = (torch.randn(2, 3, 10, 8, generator=torch.Generator().manual_seed(1)) for _ in range(3))
        for impl, masks in (("naive", (False,)), ("pytorch", (False, True)), ("default", (False, True))):
            for causal in masks:
                hidden = torch.ones(10, 10).triu(1).bool() if causal else torch.zeros(10, 10).bool()
                scores = (q.double() @ k.double().mT / 8 ** 0.5).masked_fill(hidden, -torch.inf)
                error = torch_cell.attention(impl, q, k, v, causal).double() - scores.softmax(-1) @ v.double()
                self.assertLess(error.abs().max().item(), 1e-5, (impl, causal))


class Samples(unittest.TestCase):
    def taken(self, sampler, **more):
        self.flushes = 0
        return torch_cell.take_samples(sampler, lambda: None, self._flush, arguments(**more))

    def _flush(self):
        self.flushes += 1

    def test_after_the_warm_up_as_many_as_asked_for(self):
        sampler = SaidSampler()
        launches, samples = self.taken(sampler, repeats=4)
        self.assertEqual((launches, len(samples), sampler.samples), (1, 4, 1 + 5 + 4))

    def test_a_first_launch_that_takes_long_is_not_the_warm_up(self):
        sampler = SaidSampler(lambda sample: 0.5 if sample == 1 else 0.004)
        self.assertEqual(self.taken(sampler, repeats=2)[0], 3)
        self.assertGreater(sampler.samples, 20)

    def test_ends_when_the_time_is_over(self):
        self.assertEqual(len(self.taken(SaidSampler(), limit_s=0)[1]), 3)

    def test_cold_samples_flush(self):
        self.assertEqual(self.taken(SaidSampler(1e-3), cold=True, repeats=6)[0], 1)
        self.assertEqual(self.flushes, 6)

    def test_of_the_wall_clock_are_fewer_within_the_limit(self):
        for warmup, limit, expected in ((0, 1, 3), (1, 5, 5), (2, 5, 5), (0, 5, 5), (0, 100, 30)):
            sampler = SaidSampler()
            launches, samples = torch_cell.take_samples(
                sampler, lambda: None, self._flush,
                arguments(timing="wall", warmup=warmup, limit_s=limit),
                clock=lambda said=sampler: float(said.launches))  # a second each
            self.assertEqual((launches, samples), (expected, [1.0]), (warmup, limit))
            self.assertEqual(sampler.launches, warmup + expected)


class Serving(unittest.TestCase):
    def test_a_row_for_each_line(self):
        lines = "".join(json.dumps({**CELL, "passes": [name]}) + "\n" for name in ("forward", "backward"))
        done = subprocess.run([sys.executable, "-B", REPO / "report/torch_cell.py"], input=lines,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line)["hw4"] for line in done.stdout.splitlines()]
        self.assertEqual([sorted(row) for row in rows], [["forward", "parameters"], ["backward", "parameters"]])


if __name__ == "__main__":
    unittest.main()
