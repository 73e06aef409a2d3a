#!/usr/bin/env python3
"""hw4, seq and testcases/generate from the outside: arguments, exit codes, messages, effects on files. test_bad_NN_* are
the 30 bad inputs of the project's reliability table, in its order."""
import array
import contextlib
import functools
import gzip
import itertools
import json
import math
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests"))

import child_signals  # noqa: E402 (the path to it is set above)

BIN = Path(os.environ.get("HW4_BIN") or REPO).resolve()
ADDRESS_SANITIZED = b"__asan_init" in (BIN / "hw4").read_bytes()
THREAD_SANITIZED = b"__tsan_init" in (BIN / "hw4").read_bytes()
SANITIZED = ADDRESS_SANITIZED or THREAD_SANITIZED
NEEDS_ADDRESS_SPACE = "sanitizers reserve terabytes of address space, so RLIMIT_AS cannot be lowered"
PATIENCE = 60  # seconds after which a test takes something for hanging

OK, USAGE, BAD_DATA, NO_INPUT, NO_GPU, INTERNAL, NO_MEMORY, CANNOT_CREATE, IO_ERROR = 0, 64, 65, 66, 69, 70, 71, 73, 74
NOTE = "note: outside the course's range"
OLD_OUTPUT = b"the output of an earlier run"
STAGES = ("driver", "context", "pin", "allocate", "load", "prepare", "read", "check", "copy_in", "kernel", "copy_out",
          "write", "release")
BYTE_STAGES = ("read", "check", "copy_in", "copy_out", "write")
LARGEST = (2**31 - 1,) * 3  # the largest shape that a header can claim


def setUpModule():
    # Copies in a folder that all users may read: some tests run hw4 as another user, and generate looks for cases.tsv
    # beside itself.
    global WORK, PROGRAMS
    child_signals.heed()
    for made in (generated_by, by_seq, listed):
        made.cache_clear()  # another module's generated cases are gone with their folder
    WORK = Path(tempfile.mkdtemp(prefix="hw4-cli-"))
    WORK.chmod(0o755)
    unittest.addModuleCleanup(shutil.rmtree, WORK)
    PROGRAMS = WORK / "bin"
    PROGRAMS.mkdir(mode=0o755)
    (WORK / "cases").mkdir()
    for program in ("hw4", "seq", "testcases/generate", "judge/compare"):
        shutil.copy(BIN / program, PROGRAMS / Path(program).name)
    shutil.copy(REPO / "testcases" / "cases.tsv", PROGRAMS)
    # Checking for leaks takes seconds per process on some machines; test_leaks does it for all.
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")


# ---- Running programs


def run(program, *args, env=None, patience=PATIENCE, **more):
    """The finished process, with text in stdout and stderr."""
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([PROGRAMS / program, *args], env={**os.environ, **(env or {})}, timeout=patience,
                          text=True, errors="replace", **more)


def hw4(*args, device="cpu", **more):
    return run("hw4", *(("--device", device) if device else ()), *args, **more)


def limited(limit, amount):
    """Keyword arguments that start a program under a resource limit."""
    return {"preexec_fn": lambda: resource.setrlimit(limit, (amount, resource.getrlimit(limit)[1]))}


@functools.lru_cache(maxsize=None)
def other_user():
    """Keyword arguments that start a program without root's right to open everything."""
    if os.geteuid() != 0:
        return {}
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        run("hw4", "--version", **nobody).check_returncode()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise unittest.SkipTest(f"is root and cannot run hw4 as another user: {error}") from error
    return nobody


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s in vain: {what}")
        time.sleep(0.002)


def bytes_written(process):
    """The number of bytes that a running process has passed to write() and similar calls so far."""
    return int(re.search(r"^wchar: (\d+)$", Path(f"/proc/{process.pid}/io").read_text(), re.MULTILINE)[1])


@functools.lru_cache(maxsize=None)
def listed():
    """hw4's list of its contracts and kernels."""
    return json.loads(run("hw4", "--list-kernels", "--json").stdout)


def contract_names():
    return [contract["name"] for contract in listed()["contracts"]]


def computes_like_seq(kernel):
    """Whether a CPU kernel of a contract compared by a bound computes f32 on widened numbers, not by instructions of
    its own."""
    return " on numbers rounded to " in next(one["idea"] for one in listed()["kernels"] if one["name"] == kernel)


def contracts(device="cpu"):
    """The contracts with seq's bytes: all that promise bytes; on the CPU also where all kernels compute as seq does."""
    return [contract["name"] for contract in listed()["contracts"] if contract["compared"] == "bytes" or
            device == "cpu" and all(computes_like_seq(kernel) for kernel in kernels(device, contract["name"]))]


def revisions():
    """The revision of each contract's forward."""
    return {contract["name"]: next(computed["revision"] for computed in contract["computes"]
                                   if computed["operation"] == "forward") for contract in listed()["contracts"]}


def kernels(device, contract="f32", operation="forward"):
    """The kernels that can be used here. What a GPU kernel needs of the GPU is unknown before there is a case."""
    wanted = (device, operation, contract, None)
    return [kernel["name"] for kernel in listed()["kernels"]
            if (kernel["device"], kernel["operation"], kernel["contract"], kernel["why_not_here"]) == wanted]


# ---- Cases


def header(B, N, d, order="<"):
    return struct.pack(order + "3i", B, N, d)


def case_bytes(B, N, d):
    return 12 + 12 * B * N * d


def crc_of(data):
    return f"{zlib.crc32(data):08x}"


def floats(values):
    return array.array("f", values).tobytes()


def counting(B, N, d):
    """A small valid case: different, harmless numbers everywhere."""
    return header(B, N, d) + floats((i * 37 % 101) / 50 - 1 for i in range(3 * B * N * d))


def spoiled(B, N, d, batch, matrix, row, column, value):
    """counting() with one number replaced."""
    data = bytearray(counting(B, N, d))
    index = ((batch * 3 + "QKV".index(matrix)) * N + row) * d + column
    struct.pack_into("<f", data, 12 + 4 * index, value)
    return bytes(data)


def ramps(number, N, d):
    """V of a batch, every element the sum of the batch's number, its row and its column, both modulo 8."""
    return b"".join(floats([number + row + column % 8 for column in range(d)]) for row in range(8)) * (N // 8)


def mean_of_ramps(number, N, d):
    """The output for ramps() where Q and K are zero and weigh every value the same: all sums are exact."""
    return floats([number + 3.5 + column % 8 for column in range(d)]) * N


def write_zeros(path, B, N, d):
    """A valid case of any size that takes no disk space: a hole reads as zeros."""
    with open(path, "wb") as file:
        file.write(header(B, N, d))
        file.truncate(case_bytes(B, N, d))


@functools.lru_cache(maxsize=None)
def generated_by(*arguments):
    path = WORK / "cases" / ("-".join(arguments).replace("--", "") + ".in")
    made = run("generate", *arguments, path)
    if made.returncode != OK:
        raise AssertionError(made.stderr)
    return path


def generated(B, N, d, kind="uniform", seed=1):
    return generated_by("--shape", f"{B},{N},{d}", "--seed", str(seed), "--kind", kind)


@functools.lru_cache(maxsize=None)
def by_seq(path, contract="f32"):
    out = path.with_suffix(f".seq-{contract}")
    made = run("seq", "--contract", contract, path, out)
    if made.returncode != OK:
        raise AssertionError(made.stderr)
    return out.read_bytes()


def bad_files():
    """name -> (content, pattern of the message); all are refused with BAD_DATA."""
    good = counting(2, 4, 3)
    zipped = gzip.compress(good, mtime=0)
    wrong_crc = bytearray(zipped)
    wrong_crc[-5] ^= 1
    wrong_data = bytearray(zipped)
    wrong_data[10] = 0xff  # the first byte after gzip's header: a kind of block that does not exist
    wrong_length = bytearray(zipped)
    wrong_length[-1] ^= 1
    return {
        "empty": (b"", r"empty, need a 12-byte header"),
        "header only": (good[:12], r"expected 300 bytes for B = 2, N = 4, d = 3, got 12: ends in batch 0, Q, row 0"),
        "one byte short": (good[:-1], r"expected 300 bytes.* got 299: ends in batch 1, V, row 3"),
        "ends in K": (good[:12 + 4 * (36 + 12 + 2 * 3 + 1)], r"got 232: ends in batch 1, K, row 2"),
        "one byte more": (good + b"x", r"expected 300 bytes.* got 301$"),
        "twice": (good + good, r"expected 300 bytes.* got 600$"),
        "big-endian": (header(2, 4, 3, ">") + good[12:], r"is big-endian.*B = 2, N = 4, d = 3.*need little-endian"),
        "float64": (good[:12] + 2 * good[12:], r"has float64 numbers .*B = 2, N = 4, d = 3.*need float32$"),
        "int64": (struct.pack("<3q", 2, 4, 3) + good[12:], r"N = 0.*; int64\? .* B = 2, N = 4; need int32$"),
        "text": (b"batch,tokens,dim\n1,2,3\n", r"is a text file; need int32 B, N, d, then float32 Q, K, V"),
        "npy": (b"\x93NUMPY\x01\x00" + bytes(120), r"NumPy .npy file whose header is not \{'descr'"),
        "zip": (b"PK\x03\x04" + bytes(200), r"zip archive .*\.pt.*; need int32 B, N, d"),
        "needs 2^97 bytes": (header(*LARGEST) + bytes(88), rf"needs {case_bytes(*LARGEST)} bytes, file has 100$"),
        # The size seems right in 32 or 64 bits: 12 * B * N * d is 2^32 * 12 + 786432 and 2^64 * 3 + 12.
        "as long as 32 bits say": (header(65536, 65537, 1) + bytes(786432), r"expected 51540393996 bytes .* got 786444"),
        "as long as 64 bits say": (header(2147418113, 429509837, 5) + bytes(12),
                                   r"B = 2147418113, N = 429509837, d = 5 needs 55340232221128654872 bytes, file has 24"),
        "gzip bad CRC": (bytes(wrong_crc), r"gzip stream corrupt at byte \d+"),
        "gzip bad data": (bytes(wrong_data), r"gzip stream corrupt at byte \d+"),
        "gzip bad length": (bytes(wrong_length), r"gzip stream corrupt at byte \d+"),
        "gzip without its trailer": (zipped[:-8], rf"gzip stream corrupt at byte {len(zipped) - 8} of the file: unexpected"),
        "gzip of too little": (gzip.compress(good[:-4]), r"expected 300 bytes, got 296: ends in batch 1, V, row 3"),
        "gzip of too much": (gzip.compress(good + b"x"), r"data goes on after the last batch, expected 300 bytes"),
        "gzip with an extra member": (zipped + zipped, r"data goes on after the last batch, expected 300 bytes"),
        "gzip with other data behind": (zipped + b"garbage", r"gzip stream corrupt at byte \d+ .*other data follows"),
        "gzip of nothing": (gzip.compress(b""), r"empty, need a 12-byte header"),
        "gzip that cannot hold it": (gzip.compress(header(4096, 4096, 64)), r"needs \d+ bytes, a gzip file of \d+"),
        "NaN": (spoiled(2, 4, 3, 1, "K", 3, 2, math.nan), r"batch 1, K, row 3, column 2: .*nan, need a finite"),
        "inf": (spoiled(2, 4, 3, 0, "Q", 0, 0, math.inf), r"batch 0, Q, row 0, column 0: inf, need a finite"),
        "-inf": (spoiled(2, 4, 3, 1, "V", 3, 2, -math.inf), r"batch 1, V, row 3, column 2: -inf, need a finite"),
        "huge Q": (spoiled(2, 4, 3, 1, "Q", 2, 1, 3e38), r"batch 1, Q, row 2: scores up to .*, need at most"),
        "huge K": (spoiled(2, 4, 3, 1, "K", 3, 0, -3e38), r"batch 1, Q, row \d: scores up to .*need at most"),
        "huge V": (spoiled(2, 4, 3, 1, "V", 2, 1, 3e38), r"batch 1, V: N \* max\|V\| = .*need at most"),
        **{f"{size} bytes": (good[:size], rf"header truncated.* {size} of 12") for size in range(1, 12)},
        **{f"{name} = {value}": (header(*{**dict(B=2, N=4, d=3), name: value}.values()) + bytes(288),
                                 rf"\b{name} = {value}, need at least 1") for name in "BNd" for value in (0, -1, -2**31)},
    }


class CliTest(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(dir=WORK))
        self.dir.chmod(0o777)
        self.addCleanup(shutil.rmtree, self.dir)
        self.out = self.dir / "case.out"

    def file(self, content, name="case.in"):
        path = self.dir / name
        path.write_bytes(content)
        return path

    def folder(self):
        """Everything in the folder by name; for cases only the size."""
        return {path.name: path.read_bytes() if path.is_file() and path.suffix == ".out" else path.lstat().st_size
                for path in self.dir.iterdir() if not path.is_dir()}

    def assert_same_bytes(self, got, want):
        if got == want:
            return
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        self.fail(f"{len(got)} bytes, wanted {len(want)}; the first difference is at byte {at} (float {at // 4})")

    def assert_one_message(self, stderr, names, wanted=": ", program="hw4"):
        messages = [line for line in stderr.splitlines() if NOTE not in line]
        self.assertEqual(len(messages), 1, f"need one line on stderr, got: {stderr!r}")
        self.assertTrue(messages[0].startswith(f"{program}: "), messages[0])
        if names is not None:
            self.assertIn(str(names), messages[0])
        self.assertRegex(messages[0], wanted)

    def assert_refused(self, code, wanted, *args, names=None, **more):
        """hw4 fails in one line and changes nothing in the folder, with and without an earlier output."""
        for earlier_output in (True, False):
            with self.subTest(args=[str(a) for a in args], earlier_output=earlier_output):
                with contextlib.suppress(FileNotFoundError):
                    self.out.unlink()
                if earlier_output:
                    self.out.write_bytes(OLD_OUTPUT)
                before = self.folder()
                done = hw4(*args, **more)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assert_one_message(done.stderr, names, wanted)
                self.assertEqual(self.folder(), before)

    def assert_computes(self, path, *options, note=None, contract=None, **more):
        """hw4 gives seq's bytes; note: whether the remark on the shape must appear (None: either way)."""
        done = hw4(*(("--contract", contract) if contract else ()), *options, path, self.out, **more)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assert_same_bytes(self.out.read_bytes(), by_seq(path, contract or "f32"))
        if note is not None:
            self.assertEqual([NOTE in line for line in done.stderr.splitlines()], [True] if note else [])
        return done

    def assert_computes_in_one_run(self, paths, wanted, *options):
        """hw4 computes several cases, whose files are named by arguments or by a list."""
        outputs = [self.dir / f"{number}.out" for number in range(len(paths))]
        listed = self.file("".join(f"{path}\t{out}\n" for path, out in zip(paths, outputs)).encode(), "pairs")
        for names in (itertools.chain(*zip(paths, outputs)), ("--pairs", listed)):
            done = hw4(*options, *names)
            self.assertEqual(done.returncode, OK, done.stderr)
            for out, want in zip(outputs, wanted):
                self.assert_same_bytes(out.read_bytes(), want)
                out.unlink()

    def start(self, *args, **more):
        """A running hw4, which is ended when the test ends, in any case."""
        more.setdefault("stdout", subprocess.DEVNULL)
        process = subprocess.Popen([PROGRAMS / "hw4", "--device", "cpu", *args], **more)

        def stop():
            process.kill()
            process.wait()
        self.addCleanup(stop)
        return process

    def temporaries(self):
        return list(self.dir.glob("*.hw4-*.tmp"))

    def start_and_hold(self, path, *options, **more):
        """Stops hw4 between comparing the file's size with the header and reading the data: its remark on the shape
        meets a full stderr pipe. Returns the process and a function that lets it continue and returns its output."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        filled = 0
        for step in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    filled += os.write(writer, b"." * step)
        os.set_blocking(writer, True)
        process = self.start(*options, path, self.out, stderr=writer, **more)
        os.close(writer)
        wait_until(lambda: self.temporaries() or process.poll() is not None, "hw4 makes its temporary file")
        self.assertIsNone(process.poll())

        def release():
            printed = b"".join(iter(lambda: os.read(reader, 65536), b""))
            process.wait(PATIENCE)
            return printed[filled:].decode()
        return process, release

    def fifo(self, name="fifo"):
        path = self.dir / name
        os.mkfifo(path)
        return path

    def feed(self, path, chunks):
        """Writes chunks to a FIFO from another thread; sets .cut when the reader closes before the end."""
        def write():
            try:
                with open(path, "wb", buffering=0) as file:
                    for chunk in chunks:
                        while chunk:
                            chunk = chunk[file.write(chunk):]
            except BrokenPipeError:
                thread.cut = True
        thread = threading.Thread(target=write, daemon=True)
        thread.cut = False
        thread.start()
        return thread


class BadInputTest(CliTest):
    """One test for each row of the reliability table."""

    def test_bad_01_missing_arguments(self):
        self.assert_refused(USAGE, r"need INPUT and OUTPUT, got 0 names")
        self.assert_refused(USAGE, r"need INPUT and OUTPUT, got 1 name\b", self.dir / "case.in")
        self.assert_refused(USAGE, r"need INPUT and OUTPUT, got 3 names", self.dir / "case.in", self.out, "more")

    def test_bad_02_missing_input(self):
        missing = self.dir / "missing.in"
        self.assert_refused(NO_INPUT, r"cannot open: No such file", missing, self.out, names=missing)
        dangling = self.dir / "dangling.in"
        dangling.symlink_to("nowhere")
        self.assert_refused(NO_INPUT, r"cannot open: No such file", dangling, self.out, names=dangling)

    def test_bad_03_input_is_a_directory(self):
        self.assert_refused(NO_INPUT, r"is a directory", self.dir, self.out, names=self.dir)

    def test_bad_04_no_read_permission(self):
        user = other_user()
        path = self.file(counting(1, 2, 2))
        path.chmod(0)
        self.assert_refused(NO_INPUT, r"cannot open: Permission denied", path, self.out, names=path, **user)

    def test_bad_05_to_15_files(self):
        for name, (content, wanted) in bad_files().items():
            with self.subTest(name):
                path = self.file(content)
                self.assert_refused(BAD_DATA, wanted, path, self.out, names=path)
                done = run("seq", path, self.out)
                self.assertEqual(done.returncode, BAD_DATA)
                self.assert_one_message(done.stderr, path, wanted, program="seq")
                self.assertEqual(sorted(self.folder()), ["case.in"])

    def test_bad_10_product_overflows(self):
        # The limit shows that nothing of the header's claimed size is allocated.
        limit = {} if SANITIZED else limited(resource.RLIMIT_AS, 512 << 20)
        for fields in (LARGEST, (1, 2**31 - 1, 2**31 - 1), (2**21, 2**21, 2**20), (65536, 65536, 1),
                       (2, 2**15, 2**15), (2**31 - 1, 1, 1)):
            path = self.file(header(*fields))
            self.assert_refused(BAD_DATA, rf"(needs|expected) {case_bytes(*fields)} bytes.*(file has|got) 12\b",
                                path, self.out, names=path, **limit)

    def test_bad_15_gzip_bomb(self):
        # Endless streams: hw4 must stop by itself.
        block = gzip.compress(bytes(1 << 20))
        for name, first, rest in (("gzip", gzip.compress(counting(1, 2, 2)), block),
                                  ("plain", counting(1, 2, 2), bytes(1 << 16))):
            with self.subTest(name):
                def endless(first=first, rest=rest):
                    yield first
                    while True:
                        yield rest
                path = self.fifo(f"{name}.in")
                feeder = self.feed(path, endless())
                done = hw4(path, self.out)
                self.assertEqual(done.returncode, BAD_DATA, done.stderr)
                self.assert_one_message(done.stderr, path, r"data goes on after the last batch, expected 60 bytes")
                feeder.join(PATIENCE)
                self.assertTrue(feeder.cut)
                self.assertFalse(self.out.exists() or self.temporaries())

    def test_bad_16_outside_the_course_range(self):
        for shape in ((1, 128, 32), (2, 64, 32), (2, 130, 64), (2, 128, 48), (14001, 1, 1)):
            with self.subTest(shape):
                self.assert_computes(generated(*shape), note=True)
        for shape in ((2, 128, 32), (3, 256, 64)):
            with self.subTest(shape):
                self.assert_computes(generated(*shape), note=False)

    def test_bad_17_ragged_tokens(self):
        for N in (1, 2, 31, 32, 33, 63, 127, 129, 1023, 1025):
            for d in (32, 64):
                with self.subTest(N=N, d=d):
                    self.assert_computes(generated(2, N, d))

    def test_bad_18_dim_above_kernel_limit(self):
        for d in (257, 300, 1000):
            path = generated(2, 40, d)
            for device in ("cpu", "auto"):
                with self.subTest(d=d, device=device):
                    self.assert_computes(path, device=device)

    def test_bad_18_dim_above_gpu_limit(self):
        path = generated(2, 40, 257)
        for options in ((), ("--kernel", "plain_rows")):  # without --kernel no other kernel takes it either
            done = hw4(*options, path, self.out, device="gpu")
            if done.returncode == NO_GPU:
                self.skipTest(done.stderr.splitlines()[-1])
            self.assertEqual(done.returncode, BAD_DATA, done.stderr)
            self.assert_one_message(done.stderr, path, r"takes d up to 256, this case has 257; --device cpu can$")
            self.assertFalse(self.out.exists())

    def test_bad_19_large_values(self):
        for shape in ((2, 100, 32), (1, 300, 64)):
            for kind in ("huge", "climb"):
                with self.subTest(shape=shape, kind=kind):
                    self.assert_computes(generated(*shape, kind))
        # Query i selects key i alone, with a score of 1e8 against 0: its output is row i of V.
        size = 40
        unit = [1e4 if i == j else 0 for i in range(size) for j in range(size)]
        values = floats(i % 89 - 44.5 for i in range(size * size))
        path = self.file(header(1, size, size) + floats(unit) + floats(unit) + values)
        self.assertEqual(hw4(path, self.out).returncode, OK)
        self.assert_same_bytes(self.out.read_bytes(), values)

    def test_bad_20_nan(self):
        # The last number of a file of several chunks is bad, so output has already been written.
        path = self.dir / "case.in"
        write_zeros(path, 400, 128, 64)
        with open(path, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(floats([math.nan]))
        self.assert_refused(BAD_DATA, r"batch 399, V, row 127, column 63: -?nan", path, self.out, names=path)

    def test_bad_22_denormals_and_negative_zero(self):
        for kind in ("denormal", "vzero"):
            for shape in ((2, 100, 64), (5, 33, 7)):
                with self.subTest(kind=kind, shape=shape):
                    self.assert_computes(generated(*shape, kind))
        # The mean of equal denormals is that denormal; a flush to zero would give 0.
        denormals = struct.pack("<4I", 1, 0x80000001, 0x007fffff, 0x00000100)
        path = self.file(header(1, 2, 4) + bytes(2 * 2 * 4 * 4) + denormals * 2)
        self.assertEqual(hw4(path, self.out).returncode, OK)
        self.assert_same_bytes(self.out.read_bytes(), denormals * 2)

    def test_bad_23_score_overflow(self):
        # Large numbers with a small product are fine.
        data = header(1, 2, 1) + floats([2e30, 1e30, 1e-30, 2e-30, 1, 2])
        self.assert_computes(self.file(data))

    def test_bad_24_output_cannot_be_created(self):
        # The input is bad too: exit code 73 shows that hw4 tries the output before it computes anything.
        path = self.file(spoiled(1, 2, 2, 0, "Q", 0, 0, math.nan))
        (self.dir / "a file").touch()
        for out in (self.dir / "missing" / "case.out", self.dir / "a file" / "case.out", f"{self.dir}/missing/"):
            self.assert_refused(CANNOT_CREATE, r"cannot create a file in", path, out, names=out)
        self.assert_refused(CANNOT_CREATE, r"is a directory, need a file name", path, self.dir, names=self.dir)
        self.assert_refused(CANNOT_CREATE, r"needs a name", path, "", cwd=self.dir)
        out = self.dir / ("x" * (os.pathconf(self.dir, "PC_NAME_MAX") + 1))
        self.assert_refused(CANNOT_CREATE, r"cannot stat: File name too long", path, out, names=out)

    def test_bad_24_output_not_writable(self):
        user = other_user()
        path = self.file(spoiled(1, 2, 2, 0, "Q", 0, 0, math.nan))
        self.out.write_bytes(OLD_OUTPUT)
        self.out.chmod(0o444)
        done = hw4(path, self.out, **user)
        self.assertEqual(done.returncode, CANNOT_CREATE, done.stderr)
        self.assert_one_message(done.stderr, self.out, r"cannot write: Permission denied")
        self.out.chmod(0o666)
        self.dir.chmod(0o555)
        self.addCleanup(self.dir.chmod, 0o777)
        done = hw4(path, self.out, **user)
        self.assertEqual(done.returncode, CANNOT_CREATE, done.stderr)
        self.assert_one_message(done.stderr, self.out, r"cannot create a file in .*: Permission denied")
        self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)

    def test_bad_25_disk_full(self):
        self.assert_refused(IO_ERROR, r"cannot write: No space left", generated(2, 512, 64), "/dev/full",
                            names="/dev/full")

    def test_bad_26_output_is_the_input(self):
        content = counting(1, 2, 2)
        path = self.file(content)
        (self.dir / "symlink").symlink_to(path.name)
        os.link(path, self.dir / "hardlink")
        names = [path, self.dir / "symlink", self.dir / "hardlink", f"{self.dir}/./case.in"]
        for source in names:
            for out in names:
                self.assert_refused(USAGE, r"same file as input", source, out, names=out)
        self.assertEqual(path.read_bytes(), content)
        self.assertTrue((self.dir / "symlink").is_symlink())

    def test_bad_27_input_changes_while_read(self):
        content = counting(1, 4, 3)
        for name, change in (("empty", lambda path: os.truncate(path, 0)), ("short", lambda path: os.truncate(path, 13)),
                             ("longer", lambda path: os.truncate(path, len(content) + 1)),
                             ("written again", lambda path: path.write_bytes(content))):
            with self.subTest(name):
                path = self.file(content)
                os.utime(path, (1, 1))
                self.out.write_bytes(OLD_OUTPUT)
                process, release = self.start_and_hold(path)
                change(path)
                stderr = release()
                self.assertEqual(process.returncode, IO_ERROR, stderr)
                self.assert_one_message(stderr, path, r"file changed during read")
                self.assertEqual(self.temporaries(), [])
                self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)

    def test_bad_28_no_gpu(self):
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"}
        path = generated(2, 128, 32)
        self.assert_refused(NO_GPU, r"no usable GPU: \S+", path, self.out, device="gpu", env=hidden)
        self.assert_refused(NO_GPU, r"no usable GPU: \S+", "--gpus", "2", path, self.out, device=None, env=hidden)
        for kernel in kernels("gpu"):
            self.assert_refused(NO_GPU, r"no usable GPU: \S+", "--kernel", kernel, path, self.out, device=None,
                                env=hidden)
        for device in ("auto", None):
            done = self.assert_computes(path, device=device, env=hidden)
            self.assert_one_message(done.stderr, None, r"using the CPU: \S+")
            self.assertNotRegex(done.stderr, r"sm_|compute_")
        self.assertEqual(self.assert_computes(path, device="cpu", env=hidden).stderr, "")

    @unittest.skipIf(SANITIZED, NEEDS_ADDRESS_SPACE)
    def test_bad_29_out_of_memory(self):
        path = self.dir / "case.in"
        write_zeros(path, 1, 1 << 20, 256)
        self.assert_refused(NO_MEMORY, r"needs? (about )?\d+ .*memory", path, self.out, "--threads", "1", names=path,
                            **limited(resource.RLIMIT_AS, 1 << 30))

    @unittest.skipIf(SANITIZED, NEEDS_ADDRESS_SPACE)
    def test_long_row_takes_no_memory_for_rows_that_are_not_there(self):
        self.assert_computes(generated(1, 1, 1_000_000), **limited(resource.RLIMIT_AS, 1 << 30))

    def test_bad_30_interrupted(self):
        path = self.dir / "case.in"
        # 200 chunks of 8 MiB: written bytes show that computing is under way.
        write_zeros(path, *((17000, 128, 64) if SANITIZED else (4200, 512, 64)))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for earlier_output in (True, False):
                with self.subTest(number.name, earlier_output=earlier_output):
                    with contextlib.suppress(FileNotFoundError):
                        self.out.unlink()
                    if earlier_output:
                        self.out.write_bytes(OLD_OUTPUT)
                    before = self.folder()
                    process = self.start("--threads", "1", path, self.out, stderr=subprocess.PIPE, text=True)
                    wait_until(lambda: bytes_written(process) > 1 << 20 or process.poll() is not None,
                               "hw4 writes its first chunk")
                    process.send_signal(number)
                    said = process.communicate(timeout=PATIENCE)[1]
                    self.assertEqual(process.returncode, 128 + number)
                    self.assertEqual(said.splitlines()[-1],
                                     f"hw4: ended by {number.name}; a file that was not complete is as it was")
                    self.assertEqual(self.folder(), before)

    def test_bad_30_killed(self):
        path = self.file(counting(1, 4, 3))
        self.out.write_bytes(OLD_OUTPUT)
        process, _ = self.start_and_hold(path)
        process.kill()
        self.assertEqual(process.wait(PATIENCE), -signal.SIGKILL)
        self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)


class InputTest(CliTest):
    @unittest.skipIf(SANITIZED, "AddressSanitizer takes memory for untouched pages too")
    def test_what_a_pipe_only_claims_takes_no_memory_and_no_disk(self):
        self.out.write_bytes(OLD_OUTPUT)
        for program, options in (("hw4", ("--device", "cpu")), ("seq", ())):
            for shape in ((1, 1, 2**26), (1, 2**26, 1), (2**26, 1, 1)):
                with self.subTest(program=program, shape=shape):
                    reader, writer = os.pipe()
                    os.write(writer, header(*shape))
                    os.close(writer)
                    with open(self.dir / "stderr", "w+") as stderr, open(reader, "rb") as stdin:
                        process = subprocess.Popen([PROGRAMS / program, *options, "/dev/stdin", self.out], stdin=stdin,
                                                   stdout=subprocess.DEVNULL, stderr=stderr,
                                                   **limited(resource.RLIMIT_FSIZE, 1 << 20))
                        _, status, usage = os.wait4(process.pid, 0)
                        process.returncode = os.waitstatus_to_exitcode(status)
                        stderr.seek(0)
                        self.assertEqual(process.returncode, BAD_DATA, stderr.read())
                    self.assertLess(usage.ru_maxrss, 100 << 10, "KiB")
                    self.assertEqual(self.out.read_bytes(), OLD_OUTPUT)

    def test_messages_are_one_line_whatever_is_in_the_names(self):
        name = os.fsdecode(b"red\x1b[31m\nline\x7f 8-bit\x9b31m \xc2\x9b31m \xe2\x80\xae \xc3\xa9\xe6\xbc\xa2")
        shown = r"red\x1b[31m\x0aline\x7f 8-bit\x9b31m \xc2\x9b31m \xe2\x80\xae" + " \u00e9\u6f22"
        self.file(b"", name)
        for command in (("hw4", name, "out"), ("seq", name, "out"), ("compare", name, name + "\n", name),
                        *((program, f"--{name}", "in", "out") for program in ("hw4", "seq", "generate", "compare"))):
            with self.subTest(command):
                done = run(*command, cwd=self.dir)
                self.assertNotEqual(done.returncode, OK)
                self.assert_one_message(done.stderr, shown, program=command[0])

    @unittest.skipUnless(ADDRESS_SANITIZED, "not a build with AddressSanitizer")
    def test_leaks(self):
        report = self.dir / "run.json"
        bad = bad_files()
        for name, content, options, code in (("good", gzip.compress(counting(2, 4, 3)), ("--json", report), OK),
                                             ("bad data", bad["NaN"][0], (), BAD_DATA),
                                             ("bad gzip", bad["gzip bad CRC"][0], (), BAD_DATA)):
            with self.subTest(name):
                done = hw4(*options, self.file(content), self.out, env={"ASAN_OPTIONS": "detect_leaks=1"})
                self.assertEqual(done.returncode, code, done.stderr)


class OutputTest(CliTest):
    def test_full_standard_output_is_an_error_but_the_result_is_kept(self):
        path = generated(2, 33, 7)
        self.out.write_bytes(OLD_OUTPUT)
        with open("/dev/full", "w") as full:
            process = self.start(path, self.out, stdout=full, stderr=subprocess.DEVNULL)
            self.assertEqual(process.wait(PATIENCE), IO_ERROR)
        self.assert_same_bytes(self.out.read_bytes(), by_seq(path))
        self.assertEqual(self.temporaries(), [])

    def test_closed_standard_descriptors(self):
         # The first opened files get the descriptors 0, 1 and 2; no message may end up in the output.
        path = self.file(counting(1, 1, 1))  # an output shorter than any message
        want = by_seq(path)
        for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            for options in ((), ("--time", "--json", self.dir / "run.json")):
                with self.subTest(closed=closed, options=options):
                    done = hw4(*options, path, self.out, preexec_fn=lambda: [os.close(fd) for fd in closed])
                    self.assertEqual(done.returncode, IO_ERROR if 1 in closed else OK, done.stderr)
                    self.assert_same_bytes(self.out.read_bytes(), want)
            self.assertEqual(json.loads((self.dir / "run.json").read_text())["queries"], 1)

    def test_a_report_on_standard_output_is_alone_there(self):
        path = generated(2, 33, 7)
        for (option, field), name in itertools.product((("--json", "queries"), ("--trace", "traceEvents")),
                                                       ("/dev/stdout", "-")):
            with self.subTest(option, name=name):
                process = self.start(option, name, path, self.out, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.assertIn(field, json.loads(process.communicate(timeout=PATIENCE)[0]))


class ReportTest(CliTest):
    def test_standard_output(self):
        done = self.assert_computes(generated(3, 256, 64))
        self.assertRegex(done.stdout, r"\A\(B, N, d\): \(3, 256, 64\)\nTime: \d+\.\d{3} seconds\n\Z")
        self.assertEqual(done.stderr, "")

    def test_json(self):
        B, N, d = 3, 256, 64
        report = self.dir / "run.json"
        self.assert_computes(generated(B, N, d), "--json", report, "--threads", "3", "--kernel", "generic")
        told = json.loads(report.read_text())
        seconds = {f"{stage}_seconds" for stage in STAGES}
        measured = seconds | {f"{stage}_gb_per_second" for stage in BYTE_STAGES} | {
            "total_seconds", "overlap", "host_peak_bytes", "staging_bytes", "readers", "writers"}
        version = re.match(r"hw4 (\S+), ", run("hw4", "--version").stdout)[1]
        self.assertEqual(
            {name: value for name, value in told.items() if name not in measured},
            {"hw4_version": version, "operation": "forward", "contract": "f32", "revision": revisions()["f32"],
             "input": str(generated(B, N, d)), "batches": B, "heads": 1, "kv_heads": 1, "queries": N, "keys": N,
             "dim": d, "mask": "none", "window": 0, "scale": 0, "element": "float32",
             "output_crc32": crc_of(self.out.read_bytes()), "device": "cpu", "device_name": "3 threads", "kernel": "generic", "streams": 0,
             "copies": "none", "threads": 3, "chunk_batches": 3, "queries_at_once": N, "device_peak_bytes": 0,
             "read_bytes": 12 * B * N * d, "check_bytes": 12 * B * N * d, "copy_in_bytes": 12 * B * N * d,
             "copy_out_bytes": 0, "write_bytes": 4 * B * N * d, "flop": 4 * B * N * N * d,
             "kernel_tflop_per_second": told["kernel_tflop_per_second"]})
        self.assertGreater(told["kernel_seconds"], 0)
        self.assertAlmostEqual(told["kernel_tflop_per_second"] * told["kernel_seconds"] * 1e12 / told["flop"], 1, 6)
        for name in measured:
            self.assertGreaterEqual(told[name], 0, name)
        self.assertGreater(told["host_peak_bytes"], told["staging_bytes"])

    def test_json_has_the_contract_and_the_check_sum_of_the_output(self):
        report = self.dir / "run.json"
        large = generated(40, 512, 64)  # several writers get pieces of its output
        for path, contract in ((large, "f32"), *((generated(5, 100, 33), contract) for contract in contracts())):
            for threads in ("1", "3", "16"):
                with self.subTest(path.name, contract=contract, threads=threads):
                    self.assert_computes(path, "--json", report, "--threads", threads, contract=contract)
                    told = json.loads(report.read_text())
                    self.assertEqual((told["contract"], told["revision"], told["output_crc32"]),
                                     (contract, revisions()[contract], crc_of(by_seq(path, contract))))
                    self.assertIn(told["kernel"], kernels("cpu", contract))

    def test_trace(self):
        trace = self.dir / "run.trace"
        self.assert_computes(generated(3, 256, 64), "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["name"] for e in spans},
                         {"prepare", "read", "check", "copy_in", "kernel", "write", "release"})
        by_name = {name: sum(e["args"]["bytes"] for e in spans if e["name"] == name) for name in ("read", "write")}
        self.assertEqual(by_name, {"read": 12 * 3 * 256 * 64, "write": 4 * 3 * 256 * 64})
        for e in spans:
            self.assertGreaterEqual(e["ts"], 0)
            self.assertGreaterEqual(e["dur"], 0)
            self.assertIn(tracks[e["pid"], e["tid"]].split()[0], ("main", "reader", "writer"))

    def test_json_that_cannot_be_written(self):
        path = self.file(counting(1, 4, 3))
        done = hw4("--json", "/dev/full", path, self.out)
        self.assertEqual(done.returncode, IO_ERROR)
        self.assert_one_message(done.stderr, "/dev/full", r"cannot write: No space left")
        # --help: a failed run keeps the existing OUTPUT.
        report = self.dir / "missing" / "run.json"
        self.assert_refused(CANNOT_CREATE, r"cannot create", "--json", report, path, self.out, names=report)

    def test_help_and_version_of_each_program(self):
        for program in ("hw4", "seq", "generate", "compare"):
            for short, long in (("-h", "--help"), ("-V", "--version")):
                with self.subTest(program, option=short):
                    done = run(program, short)
                    self.assertEqual((done.returncode, done.stderr), (OK, ""))
                    self.assertEqual(done.stdout, run(program, long).stdout)
                    self.assertRegex(done.stdout, rf"\Ausage: {program} " if short == "-h" else rf"\A{program} .*\d.*\n\Z")

    def test_help_fits_a_terminal(self):
        for command in ("hw4 help all", "hw4 bench --help", "hw4 bench step --help", "hw4 bench allreduce --help",
                        "hw4 bench accumulate --help", "hw4 train --help", "hw4 --help", "seq --help", "seq train --help",
                        "compare --help", "generate --help"):
            done = run(*command.split())
            self.assertEqual((done.returncode, done.stderr), (OK, ""), command)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, command)

    def test_standard_output_full(self):
        for options in (("--help",), ("--version",), ("--list-kernels",), ("--list-kernels", "--json")):
            with self.subTest(options), open("/dev/full", "wb") as full:
                done = run("hw4", *options, stdout=full)
                self.assertEqual(done.returncode, IO_ERROR)
                self.assert_one_message(done.stderr, None, r"standard output: No space left")


class ManyCasesTest(CliTest):
    """Several pairs on the command line or in a list."""

    def case(self, name, content):
        """Returns INPUT and OUTPUT."""
        return self.file(content, f"{name}.in"), self.dir / f"{name}.out"

    def several(self):
        """Pairs of different shapes, the first large enough to be written in parts."""
        shapes = ((30, 128, 33), (2, 3, 4), (5, 77, 9), (1, 1, 1), (3, 256, 64))
        return [self.case(name, generated(*shape).read_bytes()) for name, shape in zip("abcde", shapes)]

    def pairs_file(self, text):
        path = self.dir / "list"
        path.write_text(text)
        return path

    def assert_computed(self, pairs):
        for path, out in pairs:
            self.assert_same_bytes(out.read_bytes(), by_seq(path))

    def messages(self, done):
        return [line for line in done.stderr.splitlines() if NOTE not in line]

    def inputs_in(self, stdout):
        """The cases that standard output reports as done."""
        *lines, total = stdout.splitlines()
        self.assertRegex(total, r"\ATime: \d+\.\d{3} seconds\Z")
        fields = [line.split("\t") for line in lines]
        for _, sizes, seconds in fields:
            self.assertRegex(sizes, r"\A\(B, N, d\): \(\d+, \d+, \d+\)\Z")
            self.assertRegex(seconds, r"\ATime: \d+\.\d{3} seconds\Z")
        return [path for path, _, _ in fields]

    def test_bytes_are_those_of_separate_runs(self):
        pairs = self.several()
        for options in ((), ("--threads", "1"), ("--contract", "fixed"), ("--sync",)):
            with self.subTest(options):
                done = hw4(*options, *itertools.chain(*pairs))
                self.assertEqual((done.returncode, self.messages(done)), (OK, []))
                self.assertEqual(self.inputs_in(done.stdout), [str(path) for path, _ in pairs])
                for path, out in pairs:
                    self.assert_same_bytes(out.read_bytes(), by_seq(path, "fixed" if "fixed" in options else "f32"))

    def test_a_line_is_taken_when_it_is_there(self):
        """The test writes the next line only after it has seen the result of the one before."""
        pairs = self.several()
        process = self.start("--pairs", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        for path, out in pairs:
            process.stdin.write(f"{path} {out}\n")
            process.stdin.flush()
            wait_until(lambda: select.select([process.stdout], [], [], 0)[0], "the case is told")
            self.assertEqual(process.stdout.readline().split("\t")[0], str(path))
            self.assert_same_bytes(out.read_bytes(), by_seq(path))
        process.stdin.write("nothing.in x.out\n")
        process.stdin.flush()
        wait_until(lambda: "nothing.in" in process.stderr.readline(), "the failure is told")
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, NO_INPUT)

    def test_the_first_failure_in_the_list_gives_the_exit_code(self):
        good = self.several()
        cannot_open = self.dir / "missing.in", self.dir / "missing.out"
        bad = self.case("bad", counting(2, 3, 4)[:-1])
        not_finite = self.case("nan", spoiled(40, 64, 16, 39, "V", 63, 15, math.nan))
        no_folder = good[0][0], self.dir / "nowhere" / "x.out"
        full = good[0][0], Path("/dev/full")
        failures = {cannot_open: (NO_INPUT, r"missing\.in: cannot open"), bad: (BAD_DATA, r"bad\.in: expected"),
                    not_finite: (BAD_DATA, r"nan\.in: batch 39, V, row 63"),
                    no_folder: (CANNOT_CREATE, r"x\.out: cannot create"), full: (IO_ERROR, r"/dev/full: cannot write")}
        for order in itertools.islice(itertools.permutations(failures), 0, None, 17):
            with self.subTest([path.name for path, _ in order]):
                pairs = [pair for both in zip(good, order) for pair in both]
                for _, out in good:
                    out.unlink(missing_ok=True)
                done = hw4(*itertools.chain(*pairs))
                self.assertEqual(done.returncode, failures[order[0]][0], done.stderr)
                messages = self.messages(done)
                self.assertEqual(len(messages), len(order), messages)
                for message, pair in zip(messages, order):
                    self.assertRegex(message, r"\Ahw4: .*" + failures[pair][1])
                self.assertEqual(self.inputs_in(done.stdout), [str(path) for path, _ in good])
                self.assert_computed(good)
                self.assertEqual({path.name for path in self.dir.glob("*.out")}, {out.name for _, out in good})
                self.assertEqual(self.temporaries(), [])

    def test_list_that_cannot_be_read(self):
        self.assert_refused(NO_INPUT, r"missing: cannot open", "--pairs", self.dir / "missing")
        self.assert_refused(IO_ERROR, r"cannot read: Is a directory", "--pairs", self.dir)

    def test_usage(self):
        (a, a_out), (b, b_out), *_ = self.several()
        self.assert_refused(USAGE, r"would overwrite the output", a, a_out, b, f"{self.dir}/./a.out")
        self.assert_refused(USAGE, r"output is the same file as input", a, a_out, b, a)
        self.assert_refused(USAGE, r"input is the same file as output", a, a_out, a_out, b_out)
        listed = self.pairs_file(f"{a} {self.dir}/list")
        for report in (), ("--json", listed):
            self.assert_refused(USAGE, r"output is the same file as input", *report, "--pairs", listed)
        for option in ("--json", "--trace"):
            self.assert_refused(USAGE, r"would overwrite the output", option, b_out, a, a_out, b, b_out)

    def test_json(self):
        pairs = [*self.several()[:2], (self.dir / "missing.in", self.dir / "x.out")]
        report = self.dir / "run.json"
        done = hw4("--json", report, *itertools.chain(*pairs))
        self.assertEqual(done.returncode, NO_INPUT)
        told = json.loads(report.read_text())
        self.assertEqual([(case["input"], case["output"], case["exit_code"]) for case in told["cases"]],
                         [(str(path), str(out), code) for (path, out), code in zip(pairs, (OK, OK, NO_INPUT))])
        self.assertEqual([case["output_crc32"] for case in told["cases"][:2]],
                         [crc_of(out.read_bytes()) for _, out in pairs[:2]])
        # A list of one case is valid.
        self.assertEqual(hw4("--json", report, "--pairs", self.pairs_file("{} {}".format(*pairs[0]))).returncode, OK)
        self.assertEqual([case["input"] for case in json.loads(report.read_text())["cases"]], [str(pairs[0][0])])

    def test_interrupted(self):
        """hw4 keeps complete outputs and leaves nothing of incomplete ones."""
        first = self.case("a", counting(2, 3, 4))
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                first[1].unlink(missing_ok=True)
                listed = self.fifo(f"list{number}")
                process = self.start("--pairs", listed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                never_sent = self.fifo(f"second{number}")
                with process.stdout, open(listed, "w") as lines:
                    lines.write("{} {}\n".format(*first))
                    lines.write(f"{never_sent} {self.dir / 'b.out'}\n")
                    lines.flush()
                    self.assertEqual(process.stdout.readline().split("\t")[0], str(first[0]))
                    with open(never_sent, "wb", buffering=0) as data:
                        data.write(header(2, 3, 4))
                        wait_until(lambda: self.temporaries() or process.poll() is not None, "b.out is begun")
                        process.send_signal(number)
                        self.assertEqual(process.wait(PATIENCE), 128 + number)
                self.assert_computed([first])
                self.assertEqual(self.temporaries(), [])
                self.assertFalse((self.dir / "b.out").exists())


class UsageTest(CliTest):
    def setUp(self):
        super().setUp()
        self.source = self.file(counting(1, 4, 3))

    def refused(self, wanted, *options):
        self.assert_refused(USAGE, wanted, *options, self.source, self.out, device=None)

    def test_unknown_kernel(self):
        self.refused(r"no kernel 'genric' \(did you mean generic\?\); --list-kernels", "--kernel", "genric")

    def test_kernel_of_the_other_device(self):
        for contract in contract_names():
            for device, other in (("cpu", "gpu"), ("gpu", "cpu")):
                for kernel in kernels(device, contract)[:1]:
                    self.refused(rf"kernel '{kernel}' is a {device.upper()} kernel", "--device", other, "--kernel", kernel,
                                 "--contract", contract)
                    asked = "fixed" if contract != "fixed" else "f32"
                    self.refused(rf"kernel '{kernel}' computes {contract}, not {asked}", "--contract", asked, "--kernel",
                                 kernel)

    def test_gpu_kernel_in_a_build_without_them(self):
        if kernels("gpu"):
            self.skipTest("this build has them")
        for kernel in ("plain_rows", "drawn_tiles", "wgmma_groups"):
            for device in ("auto", "cpu", "gpu"):
                self.assert_refused(NO_GPU, rf"kernel '{kernel}' is a GPU kernel, and this build lacks it: built without "
                                            r"CUDA$", "--device", device, "--kernel", kernel, self.source, self.out)


class SeqTest(CliTest):
    def test_exit_codes(self):
        path = self.file(counting(1, 4, 3))
        for args, code in (((), USAGE), ((path,), USAGE), ((path, self.out, "more"), USAGE),
                           (("--tome", path, self.out), USAGE), (("--time=5", path, self.out), USAGE),
                           ((path, self.out, "--contract"), USAGE), (("--contract", "f64", path, self.out), USAGE),
                           ((path, path), USAGE), ((self.dir / "missing", self.out), NO_INPUT),
                           ((self.dir, self.out), NO_INPUT), ((path, self.dir / "missing" / "x"), CANNOT_CREATE),
                           ((path, self.dir), CANNOT_CREATE), ((path, "/dev/full"), IO_ERROR)):
            with self.subTest(args=args):
                before = self.folder()
                done = run("seq", *args)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)
                self.assertEqual(self.folder(), before)

    def test_times_the_arithmetic(self):
        path = generated(2, 512, 64)
        start = time.monotonic()
        done = run("seq", "--time", path, self.out)
        whole = time.monotonic() - start
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        line = re.fullmatch(r"\(B, N, d\): \(2, 512, 64\)\narithmetic_seconds (\d\S*)\n", done.stdout)
        self.assertTrue(0 < float(line[1]) < whole, done.stdout)
        self.assert_same_bytes(self.out.read_bytes(), by_seq(path))

    def test_fixed_takes_up_to_256_columns(self):
        path = generated(1, 3, 257)
        wanted = r"has d = 257, the contract fixed needs at most 256"
        self.assert_refused(BAD_DATA, wanted, "--contract", "fixed", path, self.out, names=path)
        done = run("seq", "--contract", "fixed", path, self.out)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assert_one_message(done.stderr, path, wanted, program="seq")
        self.assertEqual(self.folder(), {})


class GenerateTest(CliTest):
    def generate(self, *args, name="case.in"):
        done = run("generate", *args, self.dir / name)
        self.assertEqual(done.returncode, OK, done.stderr)
        return (self.dir / name).read_bytes()

    def test_size_and_header(self):
        for B, N, d in ((1, 1, 1), (5, 33, 7), (3, 128, 64), (1, 1400, 1024)):  # the last is made in several parts
            data = self.generate("--shape", f"{B},{N},{d}")
            self.assertEqual(data[:12], header(B, N, d))
            self.assertEqual(len(data), case_bytes(B, N, d))

    def test_rows_of_the_table(self):
        """Rows with and without columns beyond the course's, in a table beside a copy of generate."""
        program = self.dir / "generate"
        shutil.copy(PROGRAMS / "generate", program)
        row, out = "x1\t2\t4\t3\tuniform\t7\t5\t-", self.dir / "case.in"
        for more, options in (("", ()), ("\t1\t4\tnone", ()), ("\t4,2\t5\tnone", ("--heads", "4,2", "--keys", "5")),
                              ("\t1\t4\tcausal", ("--causal",)), ("\t2\t4\tcausal", ("--heads", "2", "--causal")),
                              ("\t1\t4\tnone\tforward", ()), ("\t1\t4\tnone\tbackward", ("--backward", "--long")),
                              ("\t1\t4\tcausal\tforward\tfloat32\t2\t0.5", ("--causal", "--window", "2", "--scale", "0.5"))):
            with self.subTest(more):
                (self.dir / "cases.tsv").write_text(row + more + "\n")
                self.assertEqual(run(program, "x1", out).returncode, OK)
                self.assert_same_bytes(out.read_bytes(), self.generate("--shape", "2,4,3", "--seed", "7", *options))
        for more in "\t1", "\t1\t4", "\t1\t4\tcausal\tforward\tfloat32\t2":
            (self.dir / "cases.tsv").write_text(row + more + "\n")
            self.assertEqual(run(program, "x1", out).returncode, BAD_DATA)
        (self.dir / "cases.tsv").unlink()
        self.assertEqual((run(program, "--list").returncode, run(program, "t01", out).returncode), (NO_INPUT, NO_INPUT))

    def test_refusals(self):
        out = self.dir / "case.in"
        shaped = ("--shape", "2,4,3")
        for args in (("t99",), (), ("--seed", "1", "t01"), ("--kind", "low", "t01"), ("--heads", "2", "t01"),
                     ("--backward", "t01"), (*shaped, "--window", "2"), (*shaped, "--element", "f8"),
                     (*shaped, "--kind", "odd"), (*shaped, "--kind", "vzero:3"), (*shaped, "--kind", "normal:x"),
                     (*shaped, "--seed", "-1"), (*shaped, "--seed", ""), (*shaped, "--seed"), (*shaped, "--bogus"), (*shaped, "extra"),
                     *(("--shape", shape) for shape in ("2,4", "2,4,3,1", "2,0,3", "2,-4,3", "2,4,x", "2, 4,3", "2,4,3,", "",
                                                        "2147483647,2147483647,2147483647", "2,4,2147483648"))):
            with self.subTest(args=args):
                out.write_bytes(OLD_OUTPUT)
                done = run("generate", *args, out)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assert_one_message(done.stderr, None, program="generate")
                self.assertEqual(out.read_bytes(), OLD_OUTPUT)
                self.assertEqual(os.listdir(self.dir), ["case.in"])

    def test_numbers_that_the_type_lacks(self):
        done = run("generate", "--shape", "1,4,4", "--kind", "stray:1e6", "--element", "fp16", self.out)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assert_one_message(done.stderr, None, r"is infinite as fp16, need magnitudes below 65520", "generate")
        self.assertEqual(self.folder(), {})

    def test_output_that_cannot_be_written(self):
        self.assertEqual(run("generate", "e01", self.dir / "missing" / "x").returncode, CANNOT_CREATE)
        self.assertEqual(run("generate", "--shape", "2,40,8", "/dev/full").returncode, IO_ERROR)
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main()
