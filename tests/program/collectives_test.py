#!/usr/bin/env python3
"""hw4 bench allreduce and step as several processes, started by the mpirun of Open MPI, and as one."""
import functools
import json
import tempfile
import unittest
from pathlib import Path

import ranks_test
from cli_test import NO_GPU, OK, USAGE, CliTest, run
from ranks_test import said, started

QUICK = ("--device", "cpu", "--warmup", "1", "--repeats", "3")
SIZES = [4, 400004, 4 << 20]


def setUpModule():
    ranks_test.setUpModule()
    rows.cache_clear()


def bench(ranks, *args):
    return started(ranks, "bench", *args)


@functools.lru_cache(maxsize=None)
def rows(ranks):
    """The rows of allreduce, by library and size."""
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

    def test_in_order_bytes_do_not_depend_on_the_ranks(self):
        for size in SIZES:
            found = {ranks: rows(ranks)["ordered", size]["crc32"] for ranks in (1, 2, 3, 4)}
            self.assertEqual(len(set(found.values())), 1, found)

    def test_nothing_could_run(self):
        self.assertEqual(bench(2, "allreduce", *QUICK, "--sizes", "4", "--via", "nccl").returncode, NO_GPU)

    def test_tasks_of_a_build_without_mpi(self):
        done = run("hw4", "bench", "allreduce", *QUICK, env={"OMPI_COMM_WORLD_SIZE": "2"})
        self.assertEqual(done.returncode, USAGE)
        self.assert_one_message(done.stderr, None, r"this build is without MPI \(make MPI=yes has it\)")


class StepTest(CliTest):
    def rows(self, ranks, *args):
        out = self.dir / "s.json"
        done = bench(ranks, "step", *QUICK, "--model", "tiny", "--seq_len", "32", *args, "--output", out)
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(out.read_text())["results"]

    def test_every_way(self):
        buckets = ("--buckets", "64k,1m")
        crcs = set()  # of the parameters, the same for every way, number of ranks and shard
        for ranks, ways in ((1, [(None, None)]),
                            (3, [("naive", None), ("flat", None), ("bucketed", 1 << 16), ("bucketed", 1 << 20),
                                 ("overlapped", 1 << 16), ("overlapped", 1 << 20)])):
            found = self.rows(ranks, *buckets, "--one_rank", "--shard=both")
            self.assertEqual(len({row["parameters_crc32"] for row in found} | crcs), 1)
            crcs.add(found[0]["parameters_crc32"])
            if ranks > 1:
                alone, *found = found
                self.assertEqual((alone["ranks"], alone["way"]), (1, None))
            self.assertEqual([row["shard"] for row in found], [False] * len(ways) + [True] * len(ways))
            found = found[:len(ways)]
            self.assertEqual([(row["way"], row["bucket_bytes"]) for row in found], ways)
            for row in found:
                self.assertEqual((row["status"], row["ranks"], row["parameters"]), ("ok", ranks, 164160))
            self.assertEqual([row["calls"] for row in found][:2], [15, 1] if ranks > 1 else [0])

    def test_ranks_on_gpus_which_they_may_share(self):
        out = self.dir / "s.json"
        for more in (), ("--shard",):
            done = bench(3, "step", *QUICK, "--model", "tiny", "--seq_len", "32", "--buckets", "64k", *more, "--device",
                         "gpu", "--output", out)
            if done.returncode == NO_GPU:
                self.assert_one_message(said(done), None, r"no usable GPU: \S+")
                self.skipTest("no usable GPU")
            self.assertEqual(done.returncode, OK, done.stderr)
            found = json.loads(out.read_text())["results"]
            self.assertEqual([(row["status"], row["device"]) for row in found], [("ok", "gpu")] * 4)
            for row in found:
                self.assertTrue(row["backward"]["operations"]["products"]["seconds"])
                self.assertGreater(row["step"]["mean"], row["in_calls"]["mean"])

    def test_a_sharded_optimizer_takes_less_memory(self):
        whole, sharded = (self.rows(4, "--ways", "flat", *more)[0] for more in ((), ("--shard",)))
        spared = whole["peak_after_init_bytes"] - sharded["peak_after_init_bytes"]
        self.assertGreater(spared, 164160 * 4 * 2 * 0.7)  # three quarters of m and v
        self.assertEqual(whole["bytes"]["optimizer"] - sharded["bytes"]["optimizer"], spared)
        for row in whole, sharded:
            self.assertEqual(sum(row["bytes"].values()), row["peak_bytes"])
        self.assertGreaterEqual(sharded["peak_bytes"], sharded["peak_before_optimizer_bytes"])


if __name__ == "__main__":
    unittest.main()
