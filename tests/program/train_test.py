#!/usr/bin/env python3
"""hw4 train and seq train from the outside: bytes, stopping and resuming, checkpoints, bad input, a comparison with
PyTorch."""
import array
import itertools
import json
import signal
import struct
import subprocess
import sys
import unittest
import zlib

import cli_test
from cli_test import (BAD_DATA, CANNOT_CREATE, NO_GPU, NO_INPUT, OK, USAGE, limited, run, wait_until)

sys.path.insert(0, str(cli_test.REPO / "python/hw4"))
try:
    import torch
    import step as pytorch
except ImportError:
    torch = None

STEPS = 20
# The CRC after 20 steps of tiny on the text below, a constant: every machine must produce it.
CHECKPOINT_CRC = "bb34810a"
BF16_CRC = "a48a41db"  # the same under bf16, on CPUs
TEXT_CRC = "5a34eb9f"
SMALLER = ("--model", "tiny", "--width", "16", "--hidden", "24", "--layers", "1", "--heads", "2", "--context", "8")


def setUpModule():
    global WORK, TEXT
    cli_test.setUpModule()
    WORK = cli_test.WORK
    TEXT = WORK / "text.bin"
    made = run("generate", "--tokens", "20000", "--seed", "3", TEXT)
    assert made.returncode == OK, made.stderr


def crc_of(path):
    return f"{zlib.crc32(path.read_bytes()):08x}"


def parts_of(path):
    """The metadata, each tensor as (shape, floats) by its name, and the raw header."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    numbers = data[8 + length:]
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, tensor in header.items():
        assert tensor["dtype"] == "F32"
        begin, end = tensor["data_offsets"]
        tensors[name] = (tensor["shape"], array.array("f", numbers[begin:end]))
    return metadata, tensors, header


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = WORK / self.id().rsplit(".", 1)[-1]
        self.folder.mkdir()

    def train(self, *options, program="hw4", checkpoint="c", text=None, **more):
        """The finished run and its checkpoint."""
        path = self.folder / checkpoint
        return run(program, "train", *options, text or TEXT, path, **more), path

    def trained(self, *options, **more):
        done, path = self.train(*options, **more)
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        return path

    def tiny(self, *options, steps=STEPS, **more):
        return self.trained("--model", "tiny", "--steps", str(steps), *options, **more)

    def smaller(self, *options, **more):
        return self.trained(*SMALLER, "--steps", "6", *options, **more)

    def refused(self, code, *options, **more):
        done, _ = self.train(*options, **more)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (code, 1), done.stderr)
        return done.stderr


class BytesTest(TrainTest):
    def test_seq_and_hw4_come_to_the_bytes_that_were_written_down(self):
        self.assertEqual(crc_of(TEXT), TEXT_CRC)
        logs = [self.folder / "seq.log", self.folder / "hw4.log"]
        by_seq = self.tiny("--log", logs[0], program="seq", checkpoint="seq")
        by_hw4 = self.tiny("--log", logs[1])
        self.assertEqual(by_seq.read_bytes(), by_hw4.read_bytes())
        self.assertEqual(logs[0].read_bytes(), logs[1].read_bytes())
        self.assertEqual(crc_of(by_hw4), CHECKPOINT_CRC)

    def test_a_gpu_comes_to_the_bytes_that_were_written_down(self):
        for micro_batch in "124":
            done, path = self.train("--model", "tiny", "--steps", str(STEPS), "--device", "gpu", "--micro-batch",
                                    micro_batch)
            if done.returncode == NO_GPU:
                self.skipTest(done.stderr)
            self.assertEqual((done.returncode, done.stderr), (OK, ""))
            self.assertEqual(crc_of(path), CHECKPOINT_CRC, micro_batch)

    def test_threads_and_micro_batches_leave_no_trace(self):
        expected = self.smaller(checkpoint="expected").read_bytes()
        for threads, micro_batch in itertools.product("123", "124"):
            with self.subTest(threads=threads, micro_batch=micro_batch):
                got = self.smaller("--threads", threads, "--micro-batch", micro_batch)
                self.assertEqual(got.read_bytes(), expected)

    def test_loss_falls_on_a_text_with_structure(self):
        log = self.folder / "log"
        self.tiny("--learning-rate", "0.01", "--log", log, steps=150)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], list(range(1, 151)))
        self.assertGreater(lines[0]["loss"], 5)
        self.assertLess(lines[-1]["loss"], 3)

    def test_a_log_on_standard_output_is_alone_there(self):
        log = self.folder / "log"
        self.smaller("--log", log)
        done, _ = self.train(*SMALLER, "--steps", "6", "--log", "-")
        self.assertEqual(done.stdout, log.read_text())

    def test_tokens_of_32_bits_and_standard_input(self):
        expected = self.smaller(checkpoint="expected").read_bytes()
        wide = self.folder / "wide"
        wide.write_bytes(array.array("I", array.array("H", TEXT.read_bytes())).tobytes())
        self.assertEqual(self.smaller("--token-bits", "32", text=wide).read_bytes(), expected)
        with open(TEXT, "rb") as text:
            self.assertEqual(self.smaller(text="-", stdin=text).read_bytes(), expected)


class Bf16Test(TrainTest):
    """The contract bf16 on a CPU; see arithmetic.h."""

    def losses(self, *options, **more):
        log = self.folder / "log"
        path = self.tiny("--log", log, *options, **more)
        return path.read_bytes(), [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def test_seq_and_hw4_have_the_bytes_of_bf16(self):
        expected, losses = self.losses("--contract", "bf16", program="seq")
        self.assertEqual(f"{zlib.crc32(expected):08x}", BF16_CRC)
        for threads in "123":
            self.assertEqual(self.losses("--contract", "bf16", "--threads", threads), (expected, losses))
        _, exact = self.losses()
        self.assertNotEqual(losses[1:], exact[1:])
        for loss, wanted in zip(losses, exact):
            self.assertAlmostEqual(loss, wanted, delta=2e-3 * wanted)

    def test_resumed_under_bf16(self):
        straight = self.smaller("--contract", "bf16", checkpoint="straight").read_bytes()
        for again in ((), ("--contract", "bf16", "--micro-batch", "8")):  # a step has 4 sequences
            path = self.smaller("--contract", "bf16", "--until", "3")
            self.trained("--resume", *again)
            self.assertEqual(path.read_bytes(), straight)

    def test_another_contract_or_micro_batch_is_refused(self):
        path = self.smaller("--contract", "bf16", "--micro-batch", "2", "--until", "3")
        good = path.read_bytes()
        for options, says in ((("--contract", "f32"), "has contract bf16.step/1, and the options ask for f32.step/1"),
                              (("--micro-batch", "1"), "has micro_batch 2, and these options and ranks have 1"),
                              (("--micro-batch", "4"), "has micro_batch 2, and these options and ranks have 4")):
            self.assertIn(says, self.refused(BAD_DATA, "--resume", *options))
            self.assertEqual(path.read_bytes(), good)
        self.smaller("--until", "3")
        self.assertIn("has contract f32.step/1", self.refused(BAD_DATA, "--resume", "--contract", "bf16"))
        self.assertIn("--contract 'fixed': need f32 or bf16", self.refused(USAGE, "--contract", "fixed"))
        self.assertIn("is not a finite number", self.refused(BAD_DATA, *SMALLER, "--contract", "bf16", "--steps", "6",
                                                             "--learning-rate", "1e30", "--clip", "1e30"))

    def test_a_gpu_gives_the_same_bytes_on_every_run(self):
        words = ("--contract", "bf16", "--device", "gpu", "--micro-batch", "2")
        done, _ = self.train(*SMALLER, "--steps", "1", *words)
        if done.returncode == NO_GPU:
            self.assertEqual(done.stderr.count("\n"), 1)
            self.skipTest(done.stderr)
        expected, losses = self.losses(*words)
        self.assertEqual(self.losses(*words), (expected, losses))
        _, of_cpu = self.losses("--contract", "bf16")
        for loss, wanted in zip(losses, of_cpu):
            self.assertAlmostEqual(loss, wanted, delta=1e-2 * wanted)


class ResumeTest(TrainTest):
    def test_stopped_and_resumed_is_as_straight(self):
        logs = [self.folder / "straight.log", self.folder / "log"]
        straight = self.smaller("--log", logs[0], checkpoint="straight")
        for until in range(7):
            with self.subTest(until=until):
                path = self.smaller("--until", str(until), "--log", logs[1])
                metadata, _, _ = parts_of(path)
                self.assertEqual(metadata["step"], str(until))
                self.trained("--resume", "--log", logs[1])  # settings come from the checkpoint
                self.assertEqual(path.read_bytes(), straight.read_bytes())
                self.assertEqual(logs[1].read_bytes(), logs[0].read_bytes())
        logs[1].write_text("".join(logs[0].read_text().splitlines(True)[:2]))
        done, _ = self.train("--resume", "--log", logs[1])
        self.assertIn(f"{logs[1]}: has no lines of steps 3 to 6\n", done.stdout)
        self.assertIn(f"{path}: is at step 6 already\n", done.stdout)
        self.trained("--resume")  # nothing is left to do
        self.assertEqual(path.read_bytes(), straight.read_bytes())

    def test_killed_at_any_moment_a_run_leaves_a_whole_checkpoint(self):
        straight = self.smaller("--steps", "2000", "--until", "60", checkpoint="straight")
        path = self.folder / "c"
        words = (*SMALLER, "--steps", "2000", "--save-every", "1")
        for kills in range(3):
            resume = ("--resume",) if kills else ()
            before = path.stat().st_ino if kills else None
            with subprocess.Popen([cli_test.PROGRAMS / "hw4", "train", *words, *resume, TEXT, path],
                                  stdout=subprocess.DEVNULL) as process:
                wait_until(lambda: path.exists() and path.stat().st_ino != before, "a checkpoint")
                process.send_signal(signal.SIGKILL)
            metadata, _, _ = parts_of(path)
            self.assertGreaterEqual(int(metadata["step"]), kills + 1)
        step = int(metadata["step"])
        until = str(max(60, step))
        if step > 60:  # on a fast machine
            straight = self.smaller("--steps", "2000", "--until", until, checkpoint="straight")
        self.trained("--resume", "--until", until)
        self.assertEqual(path.read_bytes(), straight.read_bytes())

    def test_saves_in_between_change_nothing(self):
        expected = self.smaller(checkpoint="expected").read_bytes()
        self.assertEqual(self.smaller("--save-every", "2").read_bytes(), expected)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("c.")], [])


class CheckpointTest(TrainTest):
    def test_is_a_safetensors_file(self):
        path = self.tiny(steps=3)
        data = path.read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        self.assertEqual(length % 8, 0)
        metadata, tensors, header = parts_of(path)
        self.assertTrue(all(isinstance(value, str) for value in metadata.values()))
        self.assertEqual((metadata["contract"], metadata["step"], metadata["width"]), ("f32.step/1", "3", "64"))
        self.assertEqual(metadata["crc32"], f"{zlib.crc32(data[8 + length:]):08x}")
        self.assertEqual(tensors["layers.1.gate_up.weight"][0], [512, 64])
        end = 0
        for tensor in header.values():  # no gap, in the header's order
            count = 4
            for size in tensor["shape"]:
                count *= size
            self.assertEqual(tensor["data_offsets"], [end, end + count])
            end += count
        self.assertEqual(end, len(data) - 8 - length)


class BadInputTest(TrainTest):
    def test_wrong_usage(self):
        for options, says in (
                (("--model", "tin"), "--model 'tin': need one of small, medium, large, xl, 2.7B, 71m, tiny"),
                (("--micro-batch", "3"), "--micro-batch '3': need a power of two"),
                (("--learning-rate", "nan"), "--learning-rate 'nan': need a number from 0 to 1e+30"),
                (("--heads", "7"), "width 768 in 7 heads: need heads of equal and even width"),
                (("--treads", "2"), "unknown or ambiguous option '--treads' (did you mean --threads?)"),
                (("more",), "need TOKENS and CHECKPOINT, got 3 names")):
            with self.subTest(options=options):
                self.assertEqual(self.refused(USAGE, *options), f"hw4: {says}; see hw4 train --help\n")
        self.assertIn("(did you mean train?)", run("hw4", "trian", TEXT, "c").stderr)
        self.assertIn("'--threads'", self.refused(USAGE, "--threads", "2", program="seq"))

    def test_files_that_are_one(self):
        text = self.folder / "c"
        text.write_bytes(TEXT.read_bytes())
        self.assertIn("output is the same file as input", self.refused(USAGE, *SMALLER, text=text))
        self.assertEqual(text.read_bytes(), TEXT.read_bytes())
        self.assertIn("would overwrite", self.refused(USAGE, *SMALLER, "--log", self.folder / "new", checkpoint="new"))
        self.assertIn("need a plain file", self.refused(USAGE, *SMALLER, checkpoint="/dev/null"))
        done = run("hw4", "train", *SMALLER, TEXT, "-")
        self.assertEqual(done.stderr, "hw4: CHECKPOINT '-': a checkpoint is replaced as a whole, need a plain file; "
                                      "see hw4 train --help\n")

    def test_gpu_gives_the_bytes_of_the_cpu_or_is_refused(self):
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"}
        says = self.refused(NO_GPU, *SMALLER, "--device", "gpu", checkpoint="none", env=hidden)
        self.assertRegex(says, r"^hw4: no usable GPU: \S+")
        self.assertFalse((self.folder / "none").exists())
        done, path = self.train(*SMALLER, "--steps", "6", "--device", "gpu", checkpoint="gpu")
        if done.returncode == NO_GPU:
            self.assertRegex(done.stderr, r"^hw4: no usable GPU: \S+")
        else:
            self.assertEqual((done.returncode, done.stderr), (OK, ""))
            self.assertEqual(path.read_bytes(), self.smaller("--device", "cpu").read_bytes())

    def test_bad_texts_and_checkpoints_leave_the_old_checkpoint(self):
        path = self.smaller("--until", "3")
        good = path.read_bytes()
        beyond = self.folder / "beyond"
        tokens = bytearray(TEXT.read_bytes())
        struct.pack_into("<H", tokens, 2 * 777, 256)
        beyond.write_bytes(tokens)
        other = self.folder / "other"
        other.write_bytes(TEXT.read_bytes()[:-2])
        six = (*SMALLER, "--steps", "6")
        log = self.folder / "log"
        log.write_text("old")
        for code, options, text, says in (
                (BAD_DATA, six, beyond, "token 777 is 256, need less than the vocabulary, 256"),
                (NO_INPUT, six, self.folder / "none", "cannot open"),
                (BAD_DATA, ("--resume", "--model", "tiny"), TEXT, "has width 16, and the options ask for 64"),
                (BAD_DATA, ("--resume", "--steps", "7"), TEXT, "has steps 6, and the options ask for 7"),
                (BAD_DATA, ("--resume", "--seed", "2"), TEXT, "has seed 1, and the options ask for 2"),
                (BAD_DATA, ("--resume",), other, "is of a text of 20000 tokens with CRC-32 "),
                (BAD_DATA, (*six, "--learning-rate", "1e30", "--clip", "1e30"), TEXT, "is not a finite number"),
                (BAD_DATA, (*six, "--learning-rate", "1e30", "--beta1", "0.9999999999999999"), TEXT,
                 "step 1: the learning rate / (1 - beta1^t) is not a finite number")):
            with self.subTest(says=says):
                self.assertIn(says, self.refused(code, *options, "--log", log, text=text))
                self.assertEqual(path.read_bytes(), good)
                self.assertEqual(log.read_text(), "old")
        self.assertEqual(sorted(file.name for file in self.folder.iterdir() if ".hw4-" in file.name), [])

    def test_a_disk_that_is_full_leaves_the_old_checkpoint(self):
        path = self.smaller("--until", "3")
        good = path.read_bytes()
        limits = limited(cli_test.resource.RLIMIT_FSIZE, len(good) // 2)
        done, _ = self.train(*SMALLER, "--steps", "6", **limits)
        self.assertIn(done.returncode, (cli_test.IO_ERROR, -signal.SIGXFSZ))
        self.assertEqual(path.read_bytes(), good)

    def test_a_folder_that_is_not_there_shows_before_any_work(self):
        self.assertIn("cannot create", self.refused(CANNOT_CREATE, *SMALLER, checkpoint="none/c"))


class GenerateTest(TrainTest):
    def test_makes_a_text_with_structure(self):
        tokens = array.array("H", TEXT.read_bytes())
        self.assertEqual(len(tokens), 20000)
        self.assertLess(max(tokens), 256)
        repeated = sum(a == b for a, b in zip(tokens, tokens[61:])) / (len(tokens) - 61)
        self.assertAlmostEqual(repeated, (7 / 8) ** 2, delta=0.02)


def philox(counter, key):
    """Philox 4x32-10, an independent implementation."""
    low, high = key & 0xffffffff, key >> 32
    for _ in range(10):
        a, b = 0xd2511f53 * counter[0], 0xcd9e8d57 * counter[2]
        counter = ((b >> 32) ^ counter[1] ^ low, b & 0xffffffff, (a >> 32) ^ counter[3] ^ high, a & 0xffffffff)
        low, high = (low + 0x9e3779b9) & 0xffffffff, (high + 0xbb67ae85) & 0xffffffff
    return counter


def start_of(sequence, tokens, context, seed=1):
    drawn = philox((sequence, 0, 0xffffffff, 0), seed)
    return (tokens - context) * (drawn[1] << 32 | drawn[0]) >> 64


def learning_rate_of(step, steps):
    warm_up = steps // 10
    if step <= warm_up:
        return 1e-3 * step / warm_up
    angle = cli_test.math.pi * (step - warm_up) / (steps - warm_up)
    return 1e-4 + 0.5 * (1 + cli_test.math.cos(angle)) * 9e-4


@unittest.skipIf(torch is None, "PyTorch is missing")
class TorchTest(TrainTest):
    def test_losses_are_those_of_pytorch_from_the_same_weights(self):
        self.compare("tiny", "cpu", context=64)

    def test_losses_of_small_on_a_gpu(self):
        if not torch.cuda.is_available():
            self.skipTest("PyTorch finds no GPU")
        self.compare("small", "gpu", context=512)

    def test_losses_under_bf16_are_near_those_in_float32(self):
        self.compare("tiny", "cpu", context=64, contract="bf16", loss=2e-3, norm=2e-2)

    def compare(self, model, device, context, contract="f32", loss=1e-4, norm=1e-3):
        """`loss` and `norm`: the largest relative differences."""
        log = self.folder / "log"
        words = ("--model", model, "--steps", str(STEPS), "--device", device, "--contract", contract)
        done, start = self.train(*words, "--until", "0", checkpoint="start")
        if done.returncode == NO_GPU:
            self.skipTest(done.stderr)
        self.trained(*words, "--log", log)
        _, tensors, _ = parts_of(start)
        on = "cuda" if device == "gpu" else "cpu"
        module = pytorch.Model(*pytorch.MODELS[model], context).to(on)
        parameters = {name.replace(".", "_"): parameter for name, parameter in module.named_parameters()}
        for name, (shape, values) in tensors.items():
            if name[:2] not in ("m.", "v."):
                parameter = parameters.pop(name.removesuffix(".weight").replace(".", "_"))
                parameter.data.copy_(torch.frombuffer(values, dtype=torch.float32).reshape(shape))
        self.assertEqual(parameters, {})
        weights = list(module.parameters())
        optimizer = torch.optim.AdamW(weights, lr=0, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
        text = torch.tensor(array.array("H", TEXT.read_bytes()), dtype=torch.long, device=on)
        for step, line in enumerate(map(json.loads, log.read_text().splitlines())):
            starts = [start_of(4 * step + i, len(text), context) for i in range(4)]
            batch = torch.stack([text[at:at + context + 1] for at in starts])
            mean = module(batch[:, :-1], batch[:, 1:])
            optimizer.zero_grad()
            mean.backward()
            length = torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.param_groups[0]["lr"] = learning_rate_of(step + 1, STEPS)
            optimizer.step()
            self.assertAlmostEqual(mean.item(), line["loss"], delta=loss * line["loss"])
            self.assertAlmostEqual(length.item(), line["norm"], delta=norm * line["norm"])


if __name__ == "__main__":
    unittest.main()
