#!/usr/bin/env python3
"""hw4 train, hw4 bench allreduce and hw4 bench step as several processes, started by the mpirun of Open MPI: the files
of one process, and a common end."""
import errno
import functools
import json
import tempfile
import unittest
from pathlib import Path

import ranks_test
from cli_test import BAD_DATA, IO_ERROR, NO_GPU, OK, USAGE, CliTest, run
from ranks_test import said, started

QUICK = ("--device", "cpu", "--warmup", "1", "--repeats", "3")
SIZES = [4, 400004, 4 << 20]
MODEL = ("--width", "12", "--hidden", "20", "--layers", "2", "--heads", "3", "--vocabulary", "256", "--batch", "5",
         "--context", "7", "--steps", "4")


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


class TrainTest(CliTest):
    def setUp(self):
        super().setUp()
        self.tokens = self.dir / "tokens"
        self.checkpoint = self.dir / "checkpoint"
        self.log = self.dir / "log"
        self.assertEqual(run("generate", "--tokens", "5000", self.tokens).returncode, OK)

    @staticmethod
    def train(ranks, *args, **more):
        return started(ranks, "train", *args, **more)

    def files(self):
        return self.checkpoint.read_bytes(), self.log.read_bytes()

    def by_seq(self):
        done = run("seq", "train", *MODEL, "--log", self.log, self.tokens, self.checkpoint)
        self.assertEqual(done.returncode, OK, done.stderr)
        return self.files(), done.stdout

    def test_files_of_any_number_of_ranks_are_those_of_seq(self):
        wanted, lines = self.by_seq()
        for ranks in (1, 2, 3, 7):
            for options in ((), ("--shard", "--micro-batch", "1")):
                with self.subTest(ranks=ranks, options=options):
                    self.checkpoint.unlink()
                    self.log.unlink()
                    done = self.train(ranks, *MODEL, *options, "--log", self.log, self.tokens, self.checkpoint)
                    self.assertEqual((done.returncode, done.stdout), (OK, lines), done.stderr)
                    self.assertTrue(self.files() == wanted)
                    self.assertEqual(self.temporaries(), [])

    def test_under_bf16_the_micro_batch_decides(self):
        bf16 = (*MODEL, "--contract", "bf16", "--micro-batch")
        names = ("--log", self.log, self.tokens, self.checkpoint)
        for size, ranks in (("1", (1, 2, 3)), ("2", (2,))):  # two ranks have sequences 0 and 1, and 2 to 4
            self.assertEqual(run("seq", "train", *bf16, size, *names).returncode, OK)
            wanted = self.files()
            for count in ranks:
                self.checkpoint.unlink()
                done = self.train(count, *bf16, size, *names)
                self.assertEqual((done.returncode, self.files() == wanted), (OK, True), done.stderr)
        done = self.train(3, "--resume", *names)  # their share is one sequence
        self.assert_all_fail(done, BAD_DATA, r"has micro_batch 2, and these options and ranks have 1")

    def test_under_bf16_ranks_share_a_gpu(self):
        names = (*MODEL, "--contract", "bf16", "--micro-batch", "1", "--device", "gpu", "--log", self.log, self.tokens,
                 self.checkpoint)
        wanted = None
        for ranks in (1, 2):
            done = self.train(ranks, *names)
            if done.returncode == NO_GPU:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, OK, done.stderr)
            wanted = wanted or self.files()
            self.assertTrue(self.files() == wanted)

    def test_ranks_on_gpus_which_they_may_share(self):
        wanted, lines = self.by_seq()
        for options in ((), ("--shard", "--micro-batch", "1")):
            names = ("--device", "gpu", "--log", self.log, self.tokens, self.checkpoint)
            done = self.train(3, *MODEL, *options, *names)
            if done.returncode == NO_GPU:
                self.assert_one_message(said(done), None, r"no usable GPU: \S+")
                self.skipTest("no usable GPU")
            self.assertEqual((done.returncode, done.stdout), (OK, lines), done.stderr)
            self.assertTrue(self.files() == wanted)

    def test_stopped_and_resumed_by_other_ranks(self):
        wanted, _ = self.by_seq()
        for options in ((), ("--shard",)):
            with self.subTest(options):
                names = (*options, "--log", self.log, self.tokens, self.checkpoint)
                for ranks, more in ((3, (*MODEL, "--until", "2")), (2, ("--resume",))):
                    done = self.train(ranks, *more, *names)
                    self.assertEqual(done.returncode, OK, done.stderr)
                self.assertTrue(self.files() == wanted)

    def assert_all_fail(self, done, code, wanted):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assert_one_message(said(done), None, wanted)
        self.assertEqual(self.temporaries(), [])

    def test_refusals_are_one_line(self):
        names = (self.tokens, self.checkpoint)
        self.assert_all_fail(self.train(3, *MODEL, *names, of_rank={1: ("--shard",)}), USAGE, "the first rank")
        self.assert_all_fail(self.train(2, *MODEL, "--vocabulary", "9", *names), BAD_DATA, "less than the vocabulary")
        self.assert_all_fail(self.train(2, *MODEL, "-", self.checkpoint), USAGE, "several ranks read it at once")
        self.assertFalse(self.checkpoint.exists())

    def test_ranks_that_see_other_tokens(self):
        for folder, seed in (("0", "1"), ("1", "2")):
            (self.dir / folder).mkdir()
            run("generate", "--tokens", "5000", "--seed", seed, self.dir / folder / "tokens")
        done = self.train(2, *MODEL, "tokens", "checkpoint", folders=[self.dir / "0", self.dir / "1"])
        self.assert_all_fail(done, BAD_DATA, r"tokens: has CRC-32 \w+ of 5000 tokens here and \w+ of 5000 tokens for")

    def test_a_checkpoint_that_cannot_be_written_stays_as_it_was(self):
        self.by_seq()
        before = self.files()
        full = {0: dict(FAULT_CALL="write", FAULT_AT=5, FAULT_HOW=errno.ENOSPC, FAULT_STAYS=1)}
        for options in ((), ("--shard",)):
            done = self.train(3, *MODEL, *options, "--seed", "2", self.tokens, self.checkpoint, faults=full)
            self.assert_all_fail(done, IO_ERROR, "No space left")
            self.assertTrue(self.files() == before)


if __name__ == "__main__":
    unittest.main()
