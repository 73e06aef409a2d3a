#!/usr/bin/env python3
"""libhw4 on the host, through ctypes: the bytes of seq for all strides, what it refuses, and what it exports."""
import array
import ctypes
import itertools
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("HW4_BIN", ROOT))
FOLDER = BIN if BIN.resolve() != ROOT else Path(os.environ.get("HW4_BUILD", ROOT / "build"))
if any(mark in (BIN / "hw4").read_bytes() for mark in (b"__asan_init", b"__tsan_init")):
    raise unittest.SkipTest("an instrumented build has no library")
os.environ["HW4_LIBRARY"] = str((FOLDER / "libhw4.so").resolve())
sys.path.insert(0, str(ROOT / "python"))
from hw4 import library  # noqa: E402: after the path of the library

CONTRACTS = {"f32": (0, 1), "fixed": (0,), "fixed16": (0,), "bf16": (0, 1), "fp16": (0, 1)}  # their operations
# batches, heads, kv_heads, queries, keys, dim and, where it differs, value_dim
SHAPES = [(1, 1, 1, 1, 1, 1), (2, 2, 1, 33, 70, 33), (1, 2, 2, 130, 64, 64), (2, 4, 2, 40, 40, 256),
          (2, 4, 2, 33, 70, 20, 48), (1, 2, 1, 5, 40, 192, 128)]
ARGUMENTS = {0: (("q", "k", "v"), ("o",)), 1: (("q", "k", "v", "d_o"), ("dq", "dk", "dv"))}
EXPORTED = {"hw4_plan", "hw4_run", "hw4_check", "hw4_append", "hw4_rope_table", "hw4_error", "hw4_gpu", "hw4_abi",
            "hw4_version", "hw4_revision"}
KEYS = {"k", "v", "dk", "dv"}
VALUES = {"v", "o", "d_o", "dv"}  # these have V's columns


def columns_of(sizes, name):
    return sizes[6] if name in VALUES and len(sizes) > 6 else sizes[5]


def numbers(count, seed):
    return array.array("f", (((i * 7919 + seed * 104729) % 2003) / 1001 - 1 for i in range(count)))


class Rows:
    """A tensor with its own strides in one buffer, with marks between the rows that no call may change."""

    def __init__(self, sizes, name, gap=0, heads_inside=False):
        batches, heads, kv_heads, queries, keys, *_ = sizes
        dim = columns_of(sizes, name)
        self.heads, self.rows = (kv_heads, keys) if name in KEYS else (heads, queries)
        self.batches, self.dim, self.row = batches, dim, dim + gap
        if heads_inside:  # (B, N, H, d)
            self.head, self.row = self.row, self.row * self.heads
            self.batch = self.rows * self.row
        else:
            self.head = self.rows * self.row
            self.batch = self.heads * self.head
        self.data = array.array("f", [7.5]) * (batches * self.batch)

    def places(self):
        for batch, head, row in itertools.product(range(self.batches), range(self.heads), range(self.rows)):
            yield batch * self.batch + head * self.head + row * self.row

    def fill(self, values):
        for i, at in enumerate(self.places()):
            self.data[at:at + self.dim] = values[i * self.dim:(i + 1) * self.dim]

    def packed(self):
        return b"".join(self.data[at:at + self.dim].tobytes() for at in self.places())

    def touched_between(self):
        inside = bytearray(len(self.data))
        for at in self.places():
            inside[at:at + self.dim] = b"\1" * self.dim
        return any(value != 7.5 for value, mine in zip(self.data, inside) if not mine)

    def put_into(self, tensor):
        tensor.data = self.data.buffer_info()[0]
        tensor.batch, tensor.head, tensor.row = self.batch, self.head, self.row


class Case:
    """Inputs of a problem, seq's outputs, and calls of the library for it."""

    def __init__(self, sizes, contract, operation=0, causal=False):
        self.sizes, self.contract, self.operation, self.causal = sizes, contract, operation, causal
        self.inputs, self.outputs = ARGUMENTS[operation]
        batches, heads, kv_heads, queries, keys, *_ = sizes
        count = {name: batches * (kv_heads * keys if name in KEYS else heads * queries) * columns_of(sizes, name)
                 for name in self.inputs + self.outputs}
        self.values = {name: numbers(count[name], seed) for seed, name in enumerate(self.inputs)}
        self.count = count

    def by_seq(self, folder, lse=False):
        """The bytes of every output and of lse."""
        batches, heads, kv_heads, queries, keys, dim, *_ = self.sizes
        header = struct.pack("<16i", -2, self.operation, int(self.causal), 0, batches, heads, kv_heads, queries, keys,
                             dim, columns_of(self.sizes, "v"), 0, 0, 0, 0, 0)
        each = {name: self.count[name] // batches for name in self.inputs + self.outputs}
        body = b"".join(self.values[name][b * each[name]:(b + 1) * each[name]].tobytes()
                        for b in range(batches) for name in self.inputs)
        source, out, sums = folder / "case.in", folder / "case.out", folder / "case.lse"
        source.write_bytes(header + body)
        subprocess.run([BIN / "seq", "--contract", self.contract, *(("--lse", sums) if lse else ()), source, out],
                       check=True, stdout=subprocess.DEVNULL)
        data, at, found = out.read_bytes(), 0, {name: b"" for name in self.outputs}
        for _ in range(batches):
            for name in self.outputs:
                found[name] += data[at:at + 4 * each[name]]
                at += 4 * each[name]
        return found, sums.read_bytes() if lse else None

    def call(self, gap=0, heads_inside=False, threads=0):
        made = library.new_call(self.contract, self.operation, library.FLOAT32, self.causal, library.HOST, self.sizes)
        made.threads = threads
        self.rows = {name: Rows(self.sizes, name, gap, heads_inside) for name in self.inputs + self.outputs}
        for name, rows in self.rows.items():
            if name in self.values:
                rows.fill(self.values[name])
            rows.put_into(getattr(made, name))
        return made

    def results(self):
        return {name: self.rows[name].packed() for name in self.outputs}


class Pages:
    """K and V of Rows in shuffled pages, among pages of NaN."""

    def __init__(self, rows, lengths, page_keys, gap=0, heads_inside=False):
        k, self.page_keys = rows["k"], page_keys
        self.columns = -(-k.rows // page_keys)
        count = k.batches * self.columns + 2
        self.table = (ctypes.c_int32 * (k.batches * self.columns))(*[-1] * (k.batches * self.columns))
        free = sorted(range(count), key=lambda page: page * 7 % 11)
        self.rows = {name: Rows((count, 1, k.heads, 1, page_keys, k.dim, rows["v"].dim), name, gap, heads_inside)
                     for name in ("k", "v")}
        for pages in self.rows.values():
            pages.data = array.array("f", [float("nan")]) * len(pages.data)
        for batch, length in enumerate(lengths):
            for column in range(-(-length // page_keys)):
                self.table[batch * self.columns + column] = free.pop()
        self.lengths = lengths
        for name, pages in self.rows.items():
            for place, at in self.places(rows[name], pages):
                pages.data[place:place + pages.dim] = rows[name].data[at:at + pages.dim]

    def places(self, rows, pages):
        for batch, length in enumerate(self.lengths):
            for head, key in itertools.product(range(rows.heads), range(length)):
                page = self.table[batch * self.columns + key // self.page_keys]
                yield (page * pages.batch + head * pages.head + key % self.page_keys * pages.row,
                       batch * rows.batch + head * rows.head + key * rows.row)

    def copy_out(self, rows):
        for name, pages in self.rows.items():
            for place, at in self.places(rows[name], pages):
                rows[name].data[at:at + pages.dim] = pages.data[place:place + pages.dim]

    def put_into(self, call, k, v):
        self.rows["k"].put_into(k)
        self.rows["v"].put_into(v)
        call.pages, call.page_keys = ctypes.addressof(self.table), self.page_keys
        call.page_columns, call.page_count = self.columns, self.rows["k"].batches


class LibraryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class BytesTest(LibraryTest):
    def test_bytes_of_seq_with_any_strides(self):
        for sizes, (contract, operations), causal in itertools.product(SHAPES, CONTRACTS.items(), (False, True)):
            exact = contract in ("f32", "fixed", "fixed16")
            if len(sizes) > 6 and not exact:
                continue
            for operation in operations:
                case = Case(sizes, contract, operation, causal)
                expected, lse = case.by_seq(self.folder, lse=operation == 0)
                first = None
                for gap, heads_inside, threads in ((0, False, 1), (0, True, 2), (4, False, 3), (3, True, 1)):
                    with self.subTest(sizes=sizes, contract=contract, operation=operation, causal=causal, gap=gap,
                                      heads_inside=heads_inside):
                        call = case.call(gap, heads_inside, threads)
                        sums = (ctypes.c_float * (len(lse or b"") // 4))()
                        call.lse = ctypes.addressof(sums) if operation == 0 else None
                        library.run(call)
                        found = case.results()
                        self.assertFalse(any(rows.touched_between() for rows in case.rows.values()))
                        first = first or (found, bytes(sums))
                        self.assertEqual((found, bytes(sums)), first)
                        if exact:
                            self.assertEqual(found, expected)
                        if exact and operation == 0:
                            self.assertEqual(bytes(sums), lse)

    def test_values_of_other_columns(self):
        """The check sees the last of V's columns."""
        case = Case((2, 4, 2, 33, 70, 20, 48), "f32")
        call, v = case.call(gap=3, heads_inside=True), case.rows["v"]
        library.check(call)
        v.data[max(v.places()) + v.dim - 1] = math.nan
        with self.assertRaisesRegex(library.Error, rf"V, .*column {v.dim - 1}: .*need a finite number"):
            library.check(call)
        for contract in ("bf16", "fp16"):
            with self.assertRaisesRegex(library.Error, f"the contract {contract}, which has no measured bound of another d_v"):
                library.plan(Case(case.sizes, contract).call())

    def test_gradients_from_the_forward_call(self):
        for contract in ("f32", "bf16", "fp16"):
            with self.subTest(contract=contract):
                sizes = (2, 4, 2, 70, 90, 64)
                forward = Case(sizes, contract)
                call = forward.call()
                statistics = (ctypes.c_float * (3 * 2 * 4 * 70))()
                call.statistics = ctypes.addressof(statistics)
                library.run(call)
                backward = Case(sizes, contract, 1)
                again = backward.call()
                library.run(again)
                recomputed = backward.results()
                given = backward.call()
                forward.rows["o"].put_into(given.o)
                given.statistics = ctypes.addressof(statistics)
                library.run(given)
                self.assertEqual(backward.results(), recomputed)

    def test_lengths_are_those_of_single_calls(self):
        sizes, lengths = (4, 4, 2, 5, 70, 33), (70, 1, 33, 64)
        for contract, causal, window, gap, heads_inside, threads in (
                ("f32", False, 0, 0, False, 3), ("f32", True, 0, 0, False, 2), ("f32", True, 20, 3, True, 1),
                ("bf16", True, 0, 0, False, 2), ("fp16", False, 0, 0, False, 2)):
            case = Case(sizes, contract, causal=causal)
            call = case.call(gap, heads_inside, threads)
            call.window = window
            for name in ("k", "v"):  # data beyond a length does not matter
                rows = case.rows[name]
                for at, (batch, _, row) in zip(rows.places(), itertools.product(range(4), range(2), range(70))):
                    if row >= lengths[batch]:
                        rows.data[at:at + 33] = array.array("f", [float("nan")]) * 33
            given = (ctypes.c_int32 * 4)(*lengths)
            sums = (ctypes.c_float * (4 * 4 * 5))()
            statistics = (ctypes.c_float * (3 * 4 * 4 * 5))()
            call.lengths, call.lse = ctypes.addressof(given), ctypes.addressof(sums)
            call.statistics = ctypes.addressof(statistics)
            library.check(call)
            library.run(call)
            found = case.results()["o"], bytes(sums), bytes(statistics)
            for page_keys in (16, 64, 256) if contract == "f32" else ():
                pages = Pages(case.rows, lengths, page_keys, gap, heads_inside)
                paged = library.Call.from_buffer_copy(call)
                pages.put_into(paged, paged.k, paged.v)
                case.rows["o"].fill(array.array("f", [0]) * case.count["o"])
                library.check(paged)
                library.run(paged)
                self.assertEqual((case.results()["o"], bytes(sums), bytes(statistics)), found, page_keys)
            for memory in (sums, statistics):
                ctypes.memset(memory, 0, ctypes.sizeof(memory))
            case.rows["o"].fill(array.array("f", [0]) * case.count["o"])
            for batch, length in enumerate(lengths):
                alone = library.Call.from_buffer_copy(call)
                alone.lengths, alone.batches, alone.keys = None, 1, length
                for tensor in (alone.q, alone.k, alone.v, alone.o):
                    tensor.data += 4 * batch * tensor.batch
                alone.lse += 4 * batch * 4 * 5
                alone.statistics += 12 * batch * 4 * 5
                library.run(alone)
            with self.subTest(contract=contract, causal=causal, gap=gap):
                self.assertEqual(found, (case.results()["o"], bytes(sums), bytes(statistics)))

    def test_decoding_is_prefill(self):
        """seq's bytes of whole sequences, in chunks and token by token, alone and among 64 sequences, each a token further
        than the one before, from caches in one piece and in pages."""
        tokens, dim, values = 570, 4, 3
        case = Case((64, 2, 1, tokens, tokens, dim, values), "f32", causal=True)
        wanted = array.array("f", case.by_seq(self.folder)[0]["o"])
        whole, o, lengths = case.call(threads=1), case.rows["o"], (ctypes.c_int32 * 64)()
        pages = Pages(case.rows, [tokens] * 64, 16)
        for count, paged, (first, batches) in itertools.product((1, 7, 64, 500), (False, True), ((0, 64), (41, 1))):
            call = library.Call.from_buffer_copy(whole)
            call.batches, call.queries, call.lengths = batches, count, ctypes.addressof(lengths)
            for tensor in (call.q, call.k, call.v, call.o):
                tensor.data += 4 * first * tensor.batch
            if paged:
                pages.put_into(call, call.k, call.v)
                call.pages += 4 * first * pages.columns
            call.q.batch, call.o.batch = call.q.batch + dim, call.o.batch + values
            ctypes.memset(whole.o.data, 0, 4 * len(o.data))
            chunks = (tokens - batches + 1) // count
            for chunk in range(chunks):
                lengths[:batches] = range((chunk + 1) * count, (chunk + 1) * count + batches)
                library.run(call)
                call.q.data += 4 * count * dim
                call.o.data += 4 * count * values
            for batch, head in itertools.product(range(batches), range(2)):
                at = (first + batch) * o.batch + head * o.head + batch * values
                end = at + chunks * count * values
                self.assertEqual(o.data[at:end], wanted[at:end], (count, paged, batches, batch))

    def test_appended_rows(self):
        """Compares copying, and rotation in both layouts, into one piece and into pages, with an independent loop."""
        def rounded(x):
            return ctypes.c_float(x).value

        batches, heads, kv_heads, tokens, keys, dim = 3, 4, 2, 5, 40, 8
        values = 11  # columns of v
        room = (batches, heads, kv_heads, tokens, keys, dim, values)
        lengths = (40, 5, 33)
        given = (ctypes.c_int32 * 3)(*lengths)
        table = (ctypes.c_float * (keys * dim))()
        library.rope_table(10000.0, keys, dim, table)
        case = Case((batches, heads, kv_heads, tokens, tokens, dim, values), "f32")
        case.call()
        new = case.rows
        for rotates, interleaved, paged in itertools.product((False, True), repeat=3):
            cache, expected = ({name: Rows(room, name) for name in ("k", "v")} for _ in range(2))
            turned, wanted = (Rows(room, "q") for _ in range(2))
            for name, to in (("k", expected["k"]), ("v", expected["v"]), ("q", wanted)):
                for b, h, i in itertools.product(range(batches), range(to.heads), range(tokens)):
                    at = b * new[name].batch + h * new[name].head + i * to.dim
                    row, position = new[name].data[at:at + to.dim], lengths[b] - tokens + i
                    for pair in range(dim // 2 if rotates and name != "v" else 0):
                        x, y = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + dim // 2)
                        a, b_, (c, s) = row[x], row[y], table[position * dim + 2 * pair:position * dim + 2 * pair + 2]
                        row[x], row[y] = a * c - rounded(b_ * s), a * s + rounded(b_ * c)  # exact but for one rounding
                    place = b * to.batch + h * to.head + (i if name == "q" else position) * to.dim
                    to.data[place:place + to.dim] = row
            call = library.AppendCall(size=ctypes.sizeof(library.AppendCall), batches=batches, kv_heads=kv_heads,
                                      tokens=tokens, keys=keys, dim=dim, value_dim=values, rope_positions=keys,
                                      lengths=ctypes.addressof(given), rope_layout=int(interleaved))
            new["k"].put_into(call.k)
            new["v"].put_into(call.v)
            if rotates:
                call.rope, call.heads = ctypes.addressof(table), heads
                new["q"].put_into(call.q)
                turned.put_into(call.q_out)
            if paged:
                pages = Pages(cache, lengths, 16)
                pages.put_into(call, call.k_cache, call.v_cache)
            else:
                cache["k"].put_into(call.k_cache)
                cache["v"].put_into(call.v_cache)
            library.append(call)
            if paged:
                pages.copy_out(cache)
            with self.subTest(rotates=rotates, interleaved=interleaved, paged=paged):
                self.assertTrue(all(cache[name].data == expected[name].data for name in cache))
                self.assertEqual(turned.data, wanted.data if rotates else turned.data)

    def test_rope_table(self):
        def table(theta, positions, dim):
            made = (ctypes.c_float * (positions * dim))()
            library.rope_table(theta, positions, dim, made)
            return made

        value = 0
        for word in struct.unpack("<32768I", bytes(table(10000.0, 512, 64))):
            value = (value ^ word) * 0x100000001b3 % 2**64
        self.assertEqual(f"{value:016x}", "a36901001c936879")  # the same on x86-64 and aarch64
        for theta, dim in ((10000.0, 6), (500000.0, 128), (1.0, 2)):
            made = table(theta, 5000, dim)
            for position, pair in itertools.product((0, 1, 77, 4999), range(dim // 2)):
                angle = position * theta ** (-2 * pair / dim)
                at = position * dim + 2 * pair
                self.assertAlmostEqual(made[at], math.cos(angle), delta=4e-8)
                self.assertAlmostEqual(made[at + 1], math.sin(angle), delta=4e-8)
        for arguments in ((0.5, 1, 2), (float("nan"), 1, 2), (1e4, 0, 2), (1e4, 2**20 + 1, 2), (1e4, 1, 3)):
            with self.assertRaisesRegex(library.Error, "hw4_rope_table: .* is .*, need "):
                library.rope_table(*arguments, (ctypes.c_float * 8)())

    def test_a_workspace_of_the_caller(self):
        case = Case((1, 1, 1, 70, 70, 33), "fixed")
        call = case.call(gap=1)
        pointers = [getattr(call, name).data for name in ("q", "k", "v", "o")]
        for name in ("q", "k", "v", "o"):
            getattr(call, name).data = None  # hw4_plan follows no pointer
        needs = library.plan(call)
        for name, pointer in zip(("q", "k", "v", "o"), pointers):
            getattr(call, name).data = pointer
        self.assertGreater(needs.workspace_bytes, 0)
        memory = ctypes.create_string_buffer(needs.workspace_bytes + 64)
        call.workspace = -(-ctypes.addressof(memory) // 64) * 64
        call.workspace_bytes = needs.workspace_bytes
        library.run(call)
        self.assertEqual(case.results(), case.by_seq(self.folder)[0])
        call.workspace_bytes -= 1
        with self.assertRaisesRegex(library.Error, "workspace has .* bytes, need"):
            library.run(call)


class RefusedTest(LibraryTest):
    def assert_refused(self, code, wanted, change, operation=0, contract="f32"):
        case = Case((2, 4, 2, 5, 6, 8), contract, operation)
        call = case.call()
        change(call)
        with self.subTest(wanted=wanted):
            for function in (library.run, library.check):
                with self.assertRaisesRegex(library.Error, wanted) as refused:
                    function(call)
                self.assertEqual(refused.exception.code, code)
            self.assertTrue(all(value == 7.5 for name in case.outputs for value in case.rows[name].data))

    def test_wrong_calls(self):
        def put(**fields):
            return lambda call: [setattr(call, name, value) for name, value in fields.items()]

        def put_stride(tensor, name, value):
            return lambda call: setattr(getattr(call, tensor), name, value)

        for wanted, change in [
                ("hw4_call.size is 8, need", put(size=8)), ("contract 'f64', need f32, fixed", put(contract=b"f64")),
                ("contract is null", put(contract=None)), ("element is 3, need 0 to 2", put(element=3)),
                ("mask is -1", put(mask=-1)), ("place is 2", put(place=2)), ("operation is 7", put(operation=7)),
                ("queries is 0, need 1 to", put(queries=0)), ("keys is -4", put(keys=-4)), ("dim is 0", put(dim=0)),
                ("kv_heads is 3, need a number that divides heads = 4", put(kv_heads=3)),
                ("too large", put(batches=2**31 - 1, queries=2**31 - 1)), ("threads is -1", put(threads=-1)),
                ("window is -1, need at least 1, or 0 for none", put(window=-1)),
                ("Q is null", put_stride("q", "data", None)), ("V has a stride of -1", put_stride("v", "head", -1)), ("strides beyond", put_stride("k", "batch", 2**62)),
                ("K has rows 7 elements apart, need at least dim = 8", put_stride("k", "row", 7)),
                ("O has strides by which its rows overlap", put_stride("o", "head", 8))]:
            self.assert_refused(64, wanted, change)
        self.assert_refused(64, "both o and statistics", put(statistics=16), operation=1)
        for scale in (-1, float("nan"), float("inf")):
            self.assert_refused(64, "scale is .*, need a finite number above 0", put(scale=scale))

    def test_scales_and_lengths(self):
        for contract, scale in (("f32", 1e-31), ("bf16", 2.0**101), ("fixed", 1.5), ("fixed16", 0.06)):
            self.assert_refused(65, f"scale of .*, the contract {contract} takes",
                                lambda call: setattr(call, "scale", scale), contract=contract)
        for lengths, wanted in (((6, 0), "batch 1 has 0 keys, need 1 to 6"), ((7, 1), "batch 0 has 7 keys"),
                                ((-1, 1), "batch 0 has -1 keys")):
            given = (ctypes.c_int32 * 2)(*lengths)
            self.assert_refused(65, wanted, lambda call: setattr(call, "lengths", ctypes.addressof(given)))
        for contract, operation in (("bf16", 1), ("fixed", 0), ("f32", 1)):
            given = (ctypes.c_int32 * 2)(6, 6)
            self.assert_refused(65, f"with lengths, which the contract {contract} lacks: a GPU has lengths in forward under "
                                    "f32, bf16 and fp16 alone",
                                lambda call: setattr(call, "lengths", ctypes.addressof(given)), operation, contract)

    def test_pages(self):
        lengths = (ctypes.c_int32 * 2)(6, 6)
        table = (ctypes.c_int32 * 2)(0, 2)

        def put(**fields):
            def change(call):
                call.lengths, call.pages = ctypes.addressof(lengths), ctypes.addressof(table)
                call.page_keys, call.page_columns, call.page_count = 16, 1, 2
                for tensor in (call.k, call.v):
                    tensor.batch, tensor.head, tensor.row = 0, 0, 8  # nothing of these is read
                for name, value in fields.items():
                    setattr(call, name, value)
            return change

        self.assert_refused(65, "pages: batch 1, column 0 is 2, need 0 to 1", put())
        for wanted, fields in [("page_keys is 17, need 16, 32, 64, 128 or 256", {"page_keys": 17}),
                               ("page_keys is 512, need", {"page_keys": 512}), ("page_count is 0", {"page_count": 0}),
                               ("keys is 17, need at most page_columns \\* page_keys = 16", {"keys": 17}),
                               ("pages are given without lengths", {"lengths": None})]:
            self.assert_refused(64, wanted, put(**fields))
        lengths[0] = 7
        self.assert_refused(65, "lengths: batch 0 has 7 keys, need 1 to 6", put())
        self.assert_refused(65, "with lengths, which the contract fixed lacks", put(contract=b"fixed"))

    def test_appends(self):
        lengths = (ctypes.c_int32 * 2)(9, 9)
        table = (ctypes.c_int32 * 1)(3)
        rows = Rows((1, 1, 1, 1, 16, 5), "k")
        for code, wanted, fields in [
                (64, "hw4_append_call.size is 8, need", {"size": 8}), (64, "lengths is null", {"lengths": None}),
                (64, "tokens is 0", {"tokens": 0}), (64, "rope_layout is 2", {"rope_layout": 2}),
                (65, "lengths: batch 0 has 9 keys, need 10 to 16", {"tokens": 10}),
                (65, "lengths: batch 0 has 9 keys, need 2 to 8", {"keys": 8}),
                (64, "q is given without rope", {"heads": 1}), (64, "dim is 5, RoPE needs an even one", {"rope": 16}),
                (64, "rope_positions is 15, need at least keys = 16", {"rope": 16, "dim": 4, "rope_positions": 15}),
                (65, "pages: batch 0, column 0 is 3, need 0 to 2", {"pages": ctypes.addressof(table)}),
                (64, "v has rows 5 elements apart, need at least value_dim = 6", {"value_dim": 6}),
                (64, "k_cache is null", {"k_cache": library.Tensor()}),
                (64, "v_cache has strides by which its rows overlap", {"batches": 2})]:
            call = library.AppendCall(size=ctypes.sizeof(library.AppendCall), batches=1, kv_heads=1, tokens=2, keys=16,
                                      dim=5, lengths=ctypes.addressof(lengths), page_keys=16, page_columns=1, page_count=3)
            for tensor in (call.k, call.v, call.k_cache, call.v_cache):
                rows.put_into(tensor)
            call.v_cache.batch = 0
            for name, value in fields.items():
                setattr(call, name, value)
            with self.subTest(wanted=wanted), self.assertRaisesRegex(library.Error, wanted) as refused:
                library.append(call)
            self.assertEqual(refused.exception.code, code)
        self.assertTrue(all(value == 7.5 for value in rows.data))

    def test_what_the_contract_lacks(self):
        self.assert_refused(65, "asks for backward, which the contract fixed lacks",
                            lambda call: setattr(call, "operation", 1), contract="fixed")
        self.assert_refused(65, "bf16 takes float32 and bf16",
                            lambda call: setattr(call, "element", library.FP16), contract="bf16")

    def test_a_kernel_that_is_not_there(self):
        call = Case((1, 1, 1, 4, 4, 4), "f32").call()
        call.kernel = b"nobody"
        with self.assertRaisesRegex(library.Error, "nobody"):
            library.run(call)

    def test_values(self):
        for name, index, value, wanted in [("q", 0, float("nan"), "batch 0, Q, head 0, row 0, column 0: nan, need a finite"),
                                           ("v", 2 * 6 * 8 * 2 - 1, float("inf"), "batch 1, V, head 1, row 5, column 7"),
                                           ("k", 3, 1e38, "batch 0, Q.*scores up to")]:
            case = Case((2, 4, 2, 5, 6, 8), "f32")
            case.values[name][index] = value
            if name == "k":
                case.values["q"][0] = 1e38
            call = case.call(gap=1)
            with self.assertRaisesRegex(library.Error, wanted) as refused:
                library.check(call)
            self.assertEqual(refused.exception.code, 65)

    def test_values_with_a_scale_and_lengths(self):
        """The limits apply to scaled scores; values beyond a length are not checked."""
        case = Case((2, 4, 2, 5, 6, 8), "f32")
        case.values["q"][0] = case.values["k"][0] = 2.0**62
        case.values["v"][2 * 6 * 8 + 3 * 8] = float("nan")  # batch 1, head 0, row 3
        call = case.call()
        given = (ctypes.c_int32 * 2)(6, 3)
        call.lengths = ctypes.addressof(given)
        library.check(call)
        given[1] = 4
        with self.assertRaisesRegex(library.Error, "batch 1, V, head 0, row 3, column 0: nan"):
            library.check(call)
        given[1], call.scale = 3, 8
        with self.assertRaisesRegex(library.Error, r"batch 0, Q, .*scores up to .* \(scale \* sum"):
            library.check(call)

    def test_without_a_gpu(self):
        if library.LIBRARY.hw4_gpu() == 0:
            self.skipTest("there is a GPU")
        case = Case((1, 1, 1, 4, 4, 4), "f32")
        call = case.call()
        call.place = library.DEVICE
        with self.assertRaises(library.Error) as refused:
            library.run(call)
        self.assertEqual(refused.exception.code, 69)
        self.assertTrue(str(refused.exception))


class FileTest(LibraryTest):
    def test_exports(self):
        done = subprocess.run(["nm", "-D", "--defined-only", FOLDER / "libhw4.so"], capture_output=True, text=True,
                              check=True)
        names = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
        self.assertEqual(names - {"HW4_0"}, EXPORTED)

    def test_names(self):
        self.assertEqual(library.revision("f32"), "f32.forward/1")
        self.assertIsNone(library.revision("fixed", library.BACKWARD))
        self.assertIsNone(library.revision("nothing"))
        self.assertRegex(library.version(), r"^\d+\.\d+\.\d+$")

    def test_examples(self):
        for name, wanted in (("example_c", r"^(\S+ \S+\n){10}$"), ("example_cpp", "fixed16.forward/1, kernel")):
            done = subprocess.run([FOLDER / name], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, wanted)


if __name__ == "__main__":
    unittest.main()
