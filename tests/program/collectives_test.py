#!/usr/bin/env python3
"""hw4 bench allreduce and gradients as several processes, started by the mpirun of Open MPI, and as one.

    python3 tests/program/collectives_test.py [-v] [TestClass[.test_name]]

HW4_BUILD names the folder with hw4_mpi (default: build in the repository), HW4_BIN that with the other programs.
"""
import functools
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import ranks_test
from cli_test import NO_GPU, OK, PATIENCE, USAGE, CliTest, run
from ranks_test import HW4_MPI, said

QUICK = ("--device", "cpu", "--warmup", "1", "--repeats", "3")
SIZES = [4, 400004, 4 << 20]


def setUpModule():
    ranks_test.setUpModule()
    rows.cache_clear()


def bench(ranks, *args):
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
             "-np", str(ranks), HW4_MPI, "bench", *args]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, errors="replace", timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, check=False)


@functools.lru_cache(maxsize=None)
def rows(ranks):
    """Of allreduce, by library and size."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "r.json"
        done = bench(ranks, "allreduce", *QUICK, "--via", "mpi,ordered", "--sizes", ",".join(map(str, SIZES)), "--output",
                     out)
        if done.returncode != OK:
            raise AssertionError(done.stderr)
        return {(row["via"], row["size"]): row for row in json.loads(out.read_text())["results"]}


class AllreduceTest(CliTest):
    def test_nothing_is_wrong(self):
        for ranks in (1, 2, 3):
            for (via, size), row in rows(ranks).items():
                with self.subTest(ranks=ranks, via=via, size=size):
                    self.assertEqual((row["status"], row["wrong"], row["ranks"]), ("ok", 0, ranks))
                    self.assertEqual(row["count"] * 4, size)
                    self.assertEqual(len(row["samples"]), 3)
                    if ranks == 1:
                        self.assertEqual((row["algbw_gb_s"], row["busbw_gb_s"]), (None, None))
                    else:
                        self.assertAlmostEqual(row["busbw_gb_s"] / row["algbw_gb_s"], 2 * (ranks - 1) / ranks, places=6)

    def test_in_order_bytes_do_not_depend_on_the_ranks(self):
        for size in SIZES:
            found = {ranks: rows(ranks)["ordered", size]["crc32"] for ranks in (1, 2, 3, 4)}
            self.assertEqual(len(set(found.values())), 1, found)

    def test_nothing_could_run(self):
        self.assertEqual(bench(2, "allreduce", *QUICK, "--sizes", "4", "--via", "nccl").returncode, NO_GPU)
        done = bench(3, "allreduce", *QUICK, "--sizes", "4", "--contributions", "2")
        self.assertEqual(done.returncode, NO_GPU)
        self.assertIn("2 contributions for 3 ranks", done.stdout)

    def test_refusals_are_one_line(self):
        cases = (("allreduce", "--via", "gloo"), ("allreduce", "--device", "cpu", "--output", "r.txt"),
                 ("--device", "cpu"), ("gradients", "--model", "gpt"))
        for words in cases:
            with self.subTest(words=words):
                done = bench(2, *words)
                self.assertEqual(done.returncode, USAGE)
                self.assertEqual(len(said(done).splitlines()), 1, done.stderr)

    def test_tasks_of_a_build_without_mpi(self):
        done = run("hw4", "bench", "allreduce", *QUICK, env={"OMPI_COMM_WORLD_SIZE": "2"})
        self.assertEqual(done.returncode, USAGE)
        self.assert_one_message(done.stderr, None, r"this build is without MPI \(make MPI=yes has it\)")


class GradientsTest(CliTest):
    def test_every_way(self):
        out = self.dir / "g.json"
        sizes = ("--model", "tiny", "--batch_size", "1", "--seq_len", "32", "--buckets", "64k,1m")
        for ranks in (1, 3):
            done = bench(ranks, "gradients", *QUICK, *sizes, "--via", "mpi,ordered", "--output", out)
            self.assertEqual(done.returncode, OK, done.stderr)
            document = json.loads(out.read_text())
            found = [(row["way"], row["bucket_bytes"], row["via"]) for row in document["results"]]
            each = [("naive", None), ("flat", None), ("overlapped", 1 << 16), ("overlapped", 1 << 20)]
            self.assertEqual(found, [("none", None, None), *((*way, via) for via in ("mpi", "ordered") for way in each)])
            for row in document["results"]:
                self.assertEqual((row["status"], row["ranks"], row["bytes"]), ("ok", ranks, 134912 * 4))
                self.assertEqual(len(row["in_calls"]), 3)
            self.assertEqual([row["calls"] for row in document["results"]][:3], [0, 29, 1])


if __name__ == "__main__":
    unittest.main()
