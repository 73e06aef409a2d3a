#!/usr/bin/env python3
"""hw4 train as several processes, started by Open MPI's mpirun: the files of one process, and a common end."""
import errno
import unittest

import ranks_test
from cli_test import BAD_DATA, IO_ERROR, NO_GPU, OK, USAGE, CliTest, run
from ranks_test import said, started

MODEL = ("--width", "12", "--hidden", "20", "--layers", "2", "--heads", "3", "--vocabulary", "256", "--batch", "5",
         "--context", "7", "--steps", "4")


setUpModule = ranks_test.setUpModule


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
