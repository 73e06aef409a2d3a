#!/usr/bin/env python3
"""The Python package hw4: torch tensors on the CPU and the GPU, numpy arrays, the wheel."""
import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("HW4_BIN") or ROOT)
FOLDER = BIN if BIN.resolve() != ROOT else Path(os.environ.get("HW4_BUILD") or ROOT / "build")
if any(mark in (BIN / "hw4").read_bytes() for mark in (b"__asan_init", b"__tsan_init")):
    raise unittest.SkipTest("an instrumented build has no library")
os.environ["HW4_LIBRARY"] = str((FOLDER / "libhw4.so").resolve())
sys.path.insert(0, str(ROOT / "python"))
import hw4  # noqa: E402: after the path of the library

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None
try:
    import numpy
except ImportError:
    numpy = None

EXACT = ("f32", "fixed", "fixed16")
CONTRACTS = torch and [("f32", torch.float32), ("fixed", torch.float32), ("fixed16", torch.bfloat16),
                       ("bf16", torch.bfloat16), ("fp16", torch.float16)]
# batch, heads, heads of keys, queries, keys, d
SHAPES = [(1, 1, 1, 1, 1, 1), (2, 4, 2, 33, 70, 33), (2, 2, 2, 130, 130, 64), (1, 2, 1, 65, 65, 128), (1, 2, 2, 40, 50, 256)]


def devices():
    return ["cpu"] + (["cuda"] if torch.cuda.is_available() and hw4.library.LIBRARY.hw4_gpu() == 0 else [])


def drawn(shape, dtype=None, device="cpu", seed=0):
    """Returns q, k, v with the same values on every device."""
    batch, heads, kv_heads, queries, keys, dim = shape
    source = torch.Generator().manual_seed(seed)
    sizes = [(batch, heads, queries, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, dim)]
    return [torch.randn(size, generator=source).to(dtype or torch.float32).to(device) for size in sizes]


def takes_lengths(device):
    """The reason why hw4_plan refuses a call with lengths; empty if it does not."""
    sizes = (2, 4, 2, 1, 64, 64)
    call = hw4.library.new_call("f32", hw4.library.FORWARD, hw4.library.FLOAT32, True,
                                hw4.library.HOST if device == "cpu" else hw4.library.DEVICE, sizes)
    call.lengths = 1  # hw4_plan follows no pointer
    for place in (call.q, call.k, call.v, call.o):
        place.data, place.batch, place.head, place.row = 1, 4 * 64 * 64, 64 * 64, 64
    try:
        hw4.library.plan(call)
    except hw4.Error as error:
        return str(error)
    return ""


def in_pages(k, v, lengths, page_keys):
    """k and v in pages in a random order, among pages of NaN, and the table."""
    batches, columns = k.shape[0], -(-k.shape[2] // page_keys)
    order = torch.randperm(batches * columns + 2, generator=torch.Generator().manual_seed(1))
    table = order[:batches * columns].reshape(batches, columns)
    pages = [torch.full((len(order), k.shape[1], page_keys, k.shape[3]), float("nan"), dtype=k.dtype, device=k.device)
             for _ in range(2)]
    for b, n in enumerate(lengths):
        for at in range(0, n, page_keys):
            for to, rows in zip(pages, (k, v)):
                part = rows[b, :, at:min(at + page_keys, n)]
                to[table[b, at // page_keys], :, :part.shape[1]] = part
        table[b, -(-n // page_keys):] = -1
    return *pages, lengths, table.to(k.device)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bool((a.cpu().contiguous().view(torch.uint8) ==
                                                              b.cpu().contiguous().view(torch.uint8)).all())


def in_float64(q, k, v, causal=False, scale=None):
    q, k, v = (t.double() for t in (q, k, v))
    group = q.shape[-3] // k.shape[-3]
    k, v = (t.repeat_interleave(group, dim=-3) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(k.shape[-2] - q.shape[-2])
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v


@unittest.skipIf(torch is None, "needs PyTorch")
class OperatorTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_values_of_other_columns(self):
        """Every device gives the CPU's bytes and gradients close to PyTorch's in float64, also when compiled."""
        for dim, columns in ((20, 48), (192, 128)):
            q, k, v, d_o = (torch.randn(2, heads, rows, n) for heads, rows, n in (
                (4, 33, dim), (2, 70, dim), (2, 70, columns), (4, 33, columns)))
            wanted = None
            for device in devices():
                leaves = [t.detach().to(device).requires_grad_() for t in (q, k, v)]
                o = hw4.attention(*leaves, causal=True)
                o.backward(d_o.to(device))
                found = [o.detach(), *(leaf.grad for leaf in leaves)]
                with torch.no_grad():
                    for contract in EXACT:
                        found += hw4.attention(*leaves, causal=True, contract=contract, return_lse=True)
                wanted = wanted or found
                self.assertTrue(all(map(same, found, wanted)), device)
                with torch.no_grad():
                    lengths = torch.tensor([70, 40])
                    step = [hw4.decode(t[0], t[1], t[2], lengths) for t in (leaves, [leaf.cpu() for leaf in leaves])]
                    self.assertTrue(same(*step))
                whole = hw4.attention(q[:, :, :30], *(t[:, :, :30] for t in (k, v)), causal=True)
                for paged in ({}, {"page_keys": 16, "pages": 4}):
                    cache = hw4.Cache(2, 2, 32, dim, torch.float32, device, value_dim=columns, **paged)
                    now = [t[:, :, :30].to(device) for t in (q, k, v)]
                    if paged and device == "cuda":
                        with self.assertRaisesRegex(hw4.Error, f"pages under f32: value_dim is {columns}, need dim = {dim}"):
                            hw4.decode(now[0], *cache.append(*now[1:]))
                        continue
                    parts = [hw4.decode(now[0][:, :, at:at + 6], *cache.append(*(t[:, :, at:at + 6] for t in now[1:])))
                             for at in range(0, 30, 6)]
                    self.assertTrue(same(torch.cat(parts, 2), whole), (device, paged))
            exact = [t.double().requires_grad_() for t in (q, k, v)]
            in_float64(*exact, causal=True).backward(d_o.double())
            for got, leaf in zip(wanted[1:4], exact):
                torch.testing.assert_close(got.cpu().double(), leaf.grad, atol=1e-4, rtol=1e-4)
            compiled = torch.compile(lambda *t: hw4.attention(*t, causal=True), backend="eager", fullgraph=True)
            self.assertTrue(same(compiled(q, k, v), wanted[0]))
        with self.assertRaisesRegex(ValueError, "bf16, which has no measured bound of another d_v"):
            hw4.attention(q, k, v, contract="bf16")

    def test_one_result_on_every_device(self):
        for shape in SHAPES:
            for contract in EXACT:
                for causal in (False, True):
                    results = [hw4.attention(*drawn(shape, device=device), causal=causal, contract=contract,
                                             return_lse=True) for device in devices()]
                    with self.subTest(shape=shape, contract=contract, causal=causal):
                        for o, lse in results[1:]:
                            self.assertTrue(same(o, results[0][0]) and same(lse, results[0][1]))
                        error = (results[0][0] - in_float64(*drawn(shape), causal)).abs().max()
                        self.assertLess(error, 2e-3 if contract == "fixed16" else 1e-5)

    def test_gradients(self):
        for device in devices():
            for shape in SHAPES:
                for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 8e-2), (torch.float16, 1e-2)):
                    ours = [t.requires_grad_() for t in drawn(shape, dtype, device)]
                    exact = [t.detach().double().requires_grad_() for t in ours]
                    d_o = torch.randn(ours[0].shape, dtype=dtype, device=device)
                    hw4.attention(*ours, causal=True).backward(d_o)
                    in_float64(*exact, True).backward(d_o.double())
                    for got, wanted in zip(ours, exact):
                        with self.subTest(device=device, shape=shape, dtype=dtype):
                            self.assertLess((got.grad - wanted.grad).abs().max(), bound * (1 + wanted.grad.abs().max()))

    def test_a_batch_alone_and_among_others(self):
        for device in devices():
            for dtype in (torch.float32, torch.bfloat16):
                q, k, v = drawn((64, 2, 1, 70, 90, 64), dtype, device)
                whole = hw4.attention(q, k, v, causal=True)
                for count in (1, 2):
                    part = hw4.attention(q[5:5 + count], k[5:5 + count], v[5:5 + count], causal=True)
                    self.assertTrue(same(part, whole[5:5 + count]), (device, dtype, count))

    def test_scale(self):
        for device in devices():
            for contract, dtype in CONTRACTS:
                q, k, v = drawn((2, 4, 2, 70, 90, 64), dtype, device)
                usual = hw4.attention(q, k, v, contract=contract, return_lse=True)
                given = hw4.attention(q, k, v, contract=contract, return_lse=True, scale=64 ** -0.5)
                twice = hw4.attention(q, k, v, contract=contract, return_lse=True, scale=0.25)
                doubled = hw4.attention(2 * q, k, v, contract=contract, return_lse=True)
                with self.subTest(device=device, contract=contract):
                    self.assertTrue(all(map(same, usual, given)))
                    self.assertTrue(all(map(same, twice, doubled)))
                if contract not in hw4.shapes.WITH_BACKWARD:
                    continue
                found = []
                for factor, scale in ((1, 0.25), (2, None)):
                    ours = [t.detach().requires_grad_() for t in (factor * q, k, v)]
                    hw4.attention(*ours, contract=contract, causal=True, scale=scale).sum().backward()
                    # fp16's smallest numbers are rounded before they are doubled.
                    found.append([ours[1].grad, ours[2].grad] + [factor * ours[0].grad] * (dtype != torch.float16))
                with self.subTest(device=device, contract=contract):
                    self.assertTrue(all(map(same, *found)))

    def devices_with_lengths(self):
        for device in devices():
            why_not = takes_lengths(device)
            if not why_not:
                yield device
            else:
                with self.subTest(device=device):
                    self.skipTest(why_not)

    def test_decoded_tokens_are_those_of_a_prefill(self):
        """Decoding in chunks and token by token, alone and in a batch of 64, from a contiguous or a paged cache, with and
        without RoPE: the bytes that the CPU gives in one piece."""
        for dtype, turned in ((torch.float32, True), (torch.bfloat16, True), (torch.bfloat16, False)):
            q, k, v = drawn((2, 4, 2, 510, 510, 32), dtype)
            table = hw4.rope_table(1e4, 510, 32, "cpu") if turned else None
            cache = hw4.Cache(2, 2, 510, 32, dtype)
            kept = cache.append(k, v, rope=table, q=q if turned else None)
            whole = hw4.attention(kept[0] if turned else q, cache.k, v, causal=True, contract="f32", scale=0.2)
            for device in self.devices_with_lengths():
                now = table.to(device) if turned else None
                for step, page_keys, batches in ((1, 16, 2), (7, 64, 64), (64, 256, 1), (500, 16, 2), (1, None, 1), (7, None, 1),
                                                 (64, None, 64), (500, None, 64)):
                    paged = {} if page_keys is None else {"page_keys": page_keys,
                                                          "pages": batches * -(-512 // page_keys) + 1}
                    cache = hw4.Cache(batches, 2, 512, 32, dtype, device, **paged)
                    taken, parts = torch.arange(batches) % 2, []
                    on_device = [t[taken].to(device) for t in (q, k, v)]
                    for at in range(0, 510, step):
                        a, b, c = (t[:, :, at:at + step] for t in on_device)
                        kept = cache.append(b, c, rope=now, q=a if turned else None)
                        parts.append(hw4.decode(*(() if turned else (a,)), *kept, scale=0.2))
                    self.assertTrue(same(torch.cat(parts, 2), whole[taken]), (device, dtype, step, page_keys, batches))

    def test_windows(self):
        """A window equals a mask that hides the earlier keys, in float64; decoded tokens equal a prefill's."""
        for device in self.devices_with_lengths():
            q, k, v = drawn((2, 4, 2, 130, 130, 64), torch.float32, device)
            for window in (1, 40, 500):
                whole, lse = hw4.attention(q, k, v, causal=True, window=window, return_lse=True)
                place = torch.arange(130, device=device)
                hidden = (place[None] > place[:, None]) | (place[None] <= place[:, None] - window)
                k64, v64 = (x.double().repeat_interleave(2, 1) for x in (k, v))
                scores = (q.double() @ k64.transpose(-1, -2) / 8).masked_fill(hidden, -torch.inf)
                self.assertLess((whole - scores.softmax(-1) @ v64).abs().max(), 1e-5, (device, window))
                self.assertLess((lse - scores.logsumexp(-1)).abs().max(), 1e-5, (device, window))
                cache = hw4.Cache(2, 2, 150, 64, torch.float32, device)
                parts = [hw4.decode(q[:, :, at:at + 13], *cache.append(k[:, :, at:at + 13], v[:, :, at:at + 13]),
                                    window=window) for at in range(0, 130, 13)]
                self.assertTrue(same(torch.cat(parts, 2), whole), (device, window))
            if numpy is not None:
                arrays = [x.cpu().numpy() for x in (q, k, v)]
                self.assertTrue((hw4.attention(*arrays, causal=True, window=40) ==
                                 hw4.attention(q, k, v, causal=True, window=40).cpu().numpy()).all())

    def test_a_sequence_alone_and_among_others(self):
        """Each batch has its own length, with any data beyond it, lengths in any memory, contiguous and paged."""
        for device in self.devices_with_lengths():
            for shape, causal in (((5, 4, 2, 1, 150, 64), True), ((5, 4, 1, 3, 150, 128), True),
                                  ((5, 2, 2, 9, 150, 32), False), ((64, 4, 2, 1, 300, 64), True)):
                q, k, v = drawn(shape, device=device)
                lengths = [1, 130, 33, 64, 97] if shape[0] == 5 else [1 + 47 * b % 300 for b in range(64)]
                alone = [hw4.attention(q[b:b + 1], k[b:b + 1, :, :n], v[b:b + 1, :, :n], causal=causal, return_lse=True)
                         for b, n in enumerate(lengths)]
                for b, n in enumerate(lengths):
                    k[b, :, n:] = v[b, :, n:] = float("nan")
                kinds = [(k, v, given, None) for given in (lengths, torch.tensor(lengths),
                                                           torch.tensor(lengths, dtype=torch.int32, device=device))]
                kinds += [in_pages(k, v, lengths, page_keys) for page_keys in (16, 64, 256)]
                for kind in kinds:
                    o, lse = hw4.decode(q, *kind, causal=causal, return_lse=True, check=True)
                    self.assertTrue(same(o, torch.cat([o for o, _ in alone])), (device, shape))
                    self.assertTrue(same(lse, torch.cat([lse for _, lse in alone])), (device, shape))

    def test_packed_sequences(self):
        lengths, key_lengths = [3, 3, 70, 1, 1, 33], [3, 3, 90, 1, 1, 40]
        for device in devices():
            q, k, v = (torch.randn(sum(counts), heads, 64, generator=torch.Generator().manual_seed(heads)).to(device)
                       .requires_grad_() for counts, heads in ((lengths, 4), (key_lengths, 2), (key_lengths, 2)))
            o, lse = hw4.attention(q, k, v, causal=True, lengths=torch.tensor(lengths), key_lengths=key_lengths,
                                   return_lse=True)
            together = torch.autograd.grad(o.square().sum(), (q, k, v))
            first = first_key = 0
            for count, keys in zip(lengths, key_lengths):
                one = [x[at:at + n].detach().transpose(0, 1)[None].requires_grad_()
                       for x, at, n in ((q, first, count), (k, first_key, keys), (v, first_key, keys))]
                alone, of_rows = hw4.attention(*one, causal=True, return_lse=True)
                self.assertTrue(same(alone[0].transpose(0, 1), o[first:first + count]))
                self.assertTrue(same(of_rows[0].transpose(0, 1), lse[first:first + count]))
                gradients = torch.autograd.grad(alone.square().sum(), one)
                for whole, part, at in zip(together, gradients, (first, first_key, first_key)):
                    self.assertTrue(same(part[0].transpose(0, 1), whole[at:at + part.shape[2]]))
                first, first_key = first + count, first_key + keys
            with torch.no_grad():
                equal = hw4.attention(q[:6], k[:6], v[:6], lengths=[3, 3])
            self.assertEqual(equal.shape, (6, 4, 64))
        for wanted, more in (("need whole numbers from 1", {"lengths": [3, 0]}), ("q has shape", {"lengths": [3]}),
                             ("need 6, as many", {"lengths": lengths, "key_lengths": [99, 39]}),
                             ("key_lengths are given without lengths", {"key_lengths": key_lengths}),
                             ("k has shape", {"lengths": lengths})):
            with self.assertRaisesRegex(ValueError, wanted):
                hw4.attention(q, k, v, **more)

    def test_half_contracts_decode_a_sequence_alone_and_among_others(self):
        lengths = [1, 1030, 513, 64]
        for device in self.devices_with_lengths():
            for dtype, contract, dim in ((torch.bfloat16, "bf16", 64), (torch.float16, "fp16", 64),
                                         (torch.bfloat16, "bf16", 128)):
                q, k, v = drawn((4, 8, 2, 3, 1100, dim), dtype, device)
                alone = [hw4.decode(q[b:b + 1], k[b:b + 1, :, :n], v[b:b + 1, :, :n], [n], contract=contract, return_lse=True)
                         for b, n in enumerate(lengths)]
                for b, n in enumerate(lengths):
                    k[b, :, n:] = v[b, :, n:] = float("nan")
                for kind in ((k, v, lengths), *(in_pages(k, v, lengths, page_keys) for page_keys in (16, 32, 256))):
                    o, lse = hw4.decode(q, *kind, contract=contract, return_lse=True, check=True)
                    self.assertTrue(same(o, torch.cat([o for o, _ in alone])), (device, contract))
                    self.assertTrue(same(lse, torch.cat([lse for _, lse in alone])), (device, contract))

    def test_refused_lengths_and_pages(self):
        """Every device refuses them where they are checked; unchecked, a GPU takes page 0 for one that is not there."""
        for device in self.devices_with_lengths():
            q, k, v = drawn((2, 4, 2, 1, 6, 8), device=device)
            *pages, lengths, table = in_pages(k, v, [6, 6], 16)
            broken = table.clone()
            broken[1, 0] = 2**40
            for wanted, given in [("batch 1 has 0 keys, need 1 to 6", (k, v, [6, 0])),
                                  ("batch 0 has 7 keys, need 1 to 6", (k, v, torch.tensor([7, 1], device=device))),
                                  ("keys, need 1 to 6", (k, v, torch.tensor([2**32 + 1, 1], device=device))),
                                  ("need (2,), one for each", (k, v, [1, 2, 3])), ("need int32 or int64", (k, v, [1.0, 2.0])),
                                  ("batch 0 has 17 keys, need 1 to 16", (*pages, torch.tensor([17, 1], device=device), table)),
                                  ("pages: batch 1, column 0 is 2147483647, need", (*pages, lengths, broken)),
                                  ("pages: batch 0, column 0 is 9, need 0 to 3", (*pages, lengths, [[9], [0]])),
                                  ("need (pages, H_kv, page_keys, d) and (B, columns)", (*pages, lengths, [1]))]:
                with self.assertRaisesRegex(ValueError, re.escape(wanted)):
                    hw4.decode(q, *given, check=True)
            if device == "cuda":
                zero = torch.where(broken == 2**40, 0, broken)
                self.assertTrue(same(hw4.decode(q, *pages, lengths, broken), hw4.decode(q, *pages, lengths, zero)))
        with self.assertRaisesRegex(ValueError, "decode has no gradients"):
            hw4.decode(q.requires_grad_(), k, v, [6, 6])

    def test_cache(self):
        _, k, v = drawn((3, 2, 2, 1, 5, 8))
        cache = hw4.Cache(3, 2, 7, 8, torch.float32)
        cache.append(k[1:2, :, :2], v[1:2, :, :2], [1])
        cache.append(k[:2], v[:2], [0, 1])
        self.assertEqual(cache.lengths.tolist(), [5, 7, 0])
        self.assertTrue(same(cache.k[1], torch.cat((k[1, :, :2], k[1]), 1)) and same(cache.v[0, :, :5], v[0]))
        before = cache.k.clone()
        for wanted, call in [("sequence 0 has 5 tokens and gets 5 more: the cache has room for 7", lambda: cache.append(k, v)),
                             ("need (3, 2, n, 8)", lambda: cache.append(k[..., :4], v)),
                             ("need different ones from 0 to 2", lambda: cache.append(k, v, [0, 0, 2]))]:
            with self.assertRaisesRegex(ValueError, re.escape(wanted)):
                call()
        self.assertTrue(same(cache.k, before))
        cache.clear(1)
        cache.append(k[:1], v[:1], [1])
        self.assertEqual(cache.lengths.tolist(), [5, 5, 0])

    def test_a_cache_in_pages(self):
        """A sequence takes a page when it needs one, and gives its pages back."""
        _, k, v = drawn((2, 2, 2, 1, 33, 8))
        cache = hw4.Cache(2, 2, 48, 8, torch.float32, page_keys=16, pages=4)
        cache.append(k[:1], v[:1], [0])
        cache.append(k[1:, :, :16], v[1:, :, :16], [1])
        for wanted, sequence in [("16 more tokens of 1 sequences need 1 pages: 0 of 4 are free", 1),
                                 ("sequence 0 has 33 tokens and gets 16 more: the cache has room for 48", 0)]:
            with self.assertRaisesRegex(hw4.Error, wanted):
                cache.append(k[:1, :, :16], v[:1, :, :16], [sequence])
        self.assertEqual(cache.lengths.tolist(), [33, 16])
        self.assertTrue(same(torch.cat([cache.k[page] for page in cache.pages[0]], 1)[:, :33], k[0]))
        cache.clear(0)
        cache.append(k[:1, :, :32], v[:1, :, :32], [1])
        self.assertEqual((cache.lengths.tolist(), len(set(cache.pages[1].tolist()))), ([0, 48], 3))
        for wanted, paged in (("need both, or neither", {}), ("page_keys is 0: need one of 16, 32", {"page_keys": 0})):
            with self.assertRaisesRegex(ValueError, wanted):
                hw4.Cache(2, 2, 48, 8, torch.float32, pages=4, **paged)

    def test_a_refused_append_leaves_the_cache(self):
        q, k, v = drawn((2, 2, 2, 9, 9, 8))
        for paged in ({}, {"page_keys": 16, "pages": 2}):
            cache = hw4.Cache(2, 2, 16, 8, torch.float32, **paged)
            for sequences, (wanted, given) in itertools.product((None, [1, 0]), [
                    ("and rope", {"q": q}), ("need a float32 tensor", {"rope": torch.zeros(16, 4, 2).half()}),
                    ("need 9 to 8", {"rope": hw4.rope_table(1e4, 8, 8, "cpu")})]):
                with self.assertRaisesRegex(ValueError, wanted):
                    cache.append(k, v, sequences, **given)
            self.assertEqual(cache.append(k, v)[2].tolist(), [9, 9])
            self.assertTrue(same(hw4.decode(q, *cache.append(k[:, :, :7], v[:, :, :7])),
                                 hw4.attention(q, *(torch.cat((x, x[:, :, :7]), 2) for x in (k, v)), causal=True)))

    def test_append(self):
        """Every device gives the CPU's bytes for each dtype; calls that it refuses."""
        for dtype, interleaved in ((torch.float32, False), (torch.bfloat16, True), (torch.float16, False)):
            q, k, v = drawn((2, 4, 2, 5, 5, 64), dtype)
            v = v[..., :40]
            found = []
            for device in devices():
                caches = [torch.zeros(2, 2, 40, n, dtype=dtype, device=device) for n in (64, 40)]
                given = [t.to(device) for t in (k, v)]
                turned = hw4.append(*given, *caches, [40, 7], rope=hw4.rope_table(1e4, 40, 64, device), q=q.to(device),
                                    interleaved=interleaved)
                found.append([t.cpu() for t in (turned, *caches)])
            self.assertTrue(all(same(a, b) for other in found for a, b in zip(other, found[0])))
            self.assertTrue(same(found[0][2][0, :, 35:], v[0]))
            angle = torch.arange(35, 40)[:, None] * 1e4 ** (-torch.arange(32, dtype=torch.float64) / 32)
            (a, b), (x, y) = ((t[..., ::2], t[..., 1::2]) if interleaved else t.chunk(2, -1)
                              for t in (q[0].double(), found[0][0][0].double()))
            for got, exact in ((x, a * angle.cos() - b * angle.sin()), (y, a * angle.sin() + b * angle.cos())):
                self.assertLess((got - exact).abs().max(), 1e-5 if dtype == torch.float32 else 4e-2)
        caches = [torch.zeros(2, 2, 40, 64) for _ in range(2)]
        q, k, v = drawn((2, 4, 2, 5, 5, 64))
        table = hw4.rope_table(1e4, 39, 64, "cpu")
        for wanted, call in [("batch 0 has 41 keys, need 5 to 40", lambda: hw4.append(k, v, *caches, [41, 7])),
                             ("batch 0 has 40 keys, need 5 to 39", lambda: hw4.append(k, v, *caches, [40, 7], rope=table)),
                             ("need (2, H, 5, 64), and rope", lambda: hw4.append(k, v, *caches, [40, 7], q=q)),
                             ("need (positions, 64 / 2, 2)", lambda: hw4.append(k, v, *caches, [40, 7], rope=table[:, :, :1].clone())),
                             ("need (2, 2, capacity, 64)", lambda: hw4.append(k, v, *(c[:1] for c in caches), [40, 7])),
                             ("as hw4.rope_table makes it with device='cpu'",
                              lambda: hw4.append(k, v, *caches, [39, 7], rope=table.numpy())),
                             ("one dtype", lambda: hw4.append(k, v, *(c.half() for c in caches), [40, 7])),
                             ("append has no gradients", lambda: hw4.append(k.requires_grad_(), v, *caches, [40, 7]))]:
            with self.assertRaisesRegex(ValueError, re.escape(wanted)):
                call()
        self.assertFalse(any(cache.any() for cache in caches))

    def test_strides(self):
        for device in devices():
            for dtype in (torch.float32, torch.bfloat16):
                packed = torch.randn(2, 70, 3, 4, 64, device=device).to(dtype)  # (B, N, 3, H, d)
                q, k, v = (packed[:, :, i].transpose(1, 2) for i in range(3))
                expected = hw4.attention(*(t.contiguous() for t in (q, k, v)))
                self.assertTrue(same(hw4.attention(q, k, v), expected))
                turned = [t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (q, k, v)]
                self.assertTrue(same(hw4.attention(*turned), expected))
                odd = [F.pad(t, (1, 0))[..., 1:] for t in (q, k, v)]  # no row begins at a multiple of 16 bytes
                self.assertTrue(same(hw4.attention(*odd), expected))
                few = [F.pad(t[..., :36], (1, 0))[..., 1:] for t in (q, k, v)]  # rows of 72 or 144 bytes
                for contract in ("fixed16", "f32"):
                    self.assertTrue(same(hw4.attention(*few, contract=contract),
                                         hw4.attention(*(t.contiguous() for t in few), contract=contract)))
                broad = [t[:1].expand(2, -1, -1, -1) for t in (q, k, v)]
                self.assertTrue(same(hw4.attention(*broad)[1:], hw4.attention(*(t[:1] for t in (q, k, v)))))
                self.assertTrue(same(hw4.attention(*(t[:, 0] for t in (q, k, v))), expected[:, 0]))
                lone = [t[:1].as_strided(t[:1].shape, (3, *t.stride()[1:])) for t in (q, k, v)]  # a batch of one
                self.assertTrue(same(hw4.attention(*lone), expected[:1]))

    def test_registration(self):
        q, k, v = (t.requires_grad_() for t in drawn((1, 2, 1, 9, 12, 16)))
        forward = (q, k, v, True, "f32", 0.3, 0, True, True, False)
        torch.library.opcheck(torch.ops.hw4.forward.default, forward)
        o, _, statistics = (t.detach() for t in torch.ops.hw4.forward(*forward))
        inputs = (*(t.detach() for t in (q, k, v)), o, statistics, torch.ones_like(o), True, "f32", 0.3)
        torch.library.opcheck(torch.ops.hw4.backward.default, inputs)
        torch.library.opcheck(torch.ops.hw4.attention.default, (*inputs[:3], True, "f32", 0.3, 5, False))
        lengths = torch.tensor([11])
        for lse in (False, True):
            torch.library.opcheck(torch.ops.hw4.decode.default, (*inputs[:3], lengths, None, True, "f32", 0.3, 5,
                                                                 lse, True))
        table = torch.zeros(1, 1, dtype=torch.int32)
        pages = [torch.zeros(1, 1, 16, 16) for _ in range(2)]
        torch.library.opcheck(torch.ops.hw4.append.default, (inputs[1], inputs[2], *pages, torch.tensor([16]), table,
                                                             hw4.rope_table(1e4, 16, 16, "cpu"), inputs[1], False))
        torch.library.opcheck(torch.ops.hw4.decode.default, (inputs[0], *pages, lengths, table, True, "f32", 0.3, 0,
                                                             True, True))
        compiled = torch.compile(lambda *a: hw4.attention(*a, causal=True), fullgraph=True, backend="aot_eager")
        decode = torch.compile(hw4.decode, fullgraph=True, backend="aot_eager")
        inputs = (*drawn((2, 4, 2, 1, 9, 8)), torch.tensor([9, 4], dtype=torch.int32))
        self.assertTrue(same(decode(*inputs), hw4.decode(*inputs)))
        found = []
        for function in (compiled, lambda *a: hw4.attention(*a, causal=True)):
            o = function(q, k, v)
            found.append((o.detach(), *torch.autograd.grad(o.sum(), (q, k, v))))  # dO has strides of 0
        self.assertTrue(all(same(a, b) for a, b in zip(*found)))
        with self.assertRaisesRegex(NotImplementedError, "no second derivatives"):
            [first] = torch.autograd.grad(hw4.attention(q, k, v).sum(), q, create_graph=True)
            first.sum().backward()

    def test_refused(self):
        q, k, v = drawn((2, 4, 2, 5, 6, 8))
        for wanted, call in [("need float32, bfloat16 or float16", lambda: hw4.attention(q.double(), k.double(), v.double())),
                             ("of one dtype on one device", lambda: hw4.attention(q, k.half(), v)),
                             ("need the same shape", lambda: hw4.attention(q, k, v[..., :3, :])),
                             ("need the same B and d", lambda: hw4.attention(q[..., :4], k, v)),
                             ("divides the heads", lambda: hw4.attention(q[:, :3], k, v)),
                             ("at least 1", lambda: hw4.attention(q[:, :, :0], k, v)),
                             ("(B, H, N, d) or (B, N, d)", lambda: hw4.attention(q[0, 0], k[0, 0], v[0, 0])),
                             ("contract 'f64'", lambda: hw4.attention(q, k, v, contract="f64")),
                             ("need float32", lambda: hw4.FlashAttention.apply(*(x[:, 0].double() for x in (q, k, v)))),
                             ("fixed has no backward", lambda: hw4.attention(q.requires_grad_(), k, v, contract="fixed"))]:
            with self.assertRaisesRegex(ValueError, re.escape(wanted)):
                call()
        with self.assertRaisesRegex(TypeError, "need torch tensors alone"):
            hw4.attention(q.detach(), k.tolist(), v)
        bad, long_q, long_k = (t.detach().clone() for t in (v, q, k))
        bad[1, 1, 2, 3] = float("nan")
        long_q[1, 2, 4] = long_k[1, 1, 2, 3] = 3e38
        for device in devices():
            for wanted, values in (("batch 1, V, head 1, row 2, column 3: nan", (q.detach(), k, bad)),
                                   ("batch 1, Q, head 2, row 4: .*scores up to", (long_q, long_k, v))):
                with self.assertRaisesRegex(hw4.Error, wanted, msg=device):
                    hw4.attention(*(t.to(device) for t in values), check=True)
        self.assertTrue(hw4.attention(q.detach(), k, bad, check=False).isnan().any())
        with self.assertRaisesRegex(ValueError, "contract 'f64'"), hw4.as_sdpa("f64"):
            pass
        if "cuda" in devices():
            wide = [torch.randn(1, 1, 4, 300, device="cuda") for _ in range(3)]
            with self.assertRaisesRegex(hw4.Error, "300"):
                hw4.attention(*wide)

    def test_in_the_place_of_sdpa(self):
        q, k, v = drawn((2, 4, 2, 5, 7, 16))
        with hw4.as_sdpa("f32") as replaced, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            top_left = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            scaled = F.scaled_dot_product_attention(q, k, v, scale=0.3, enable_gqa=True)
            for _ in range(2):
                F.scaled_dot_product_attention(q, k, v, scale=-0.3, enable_gqa=True)
        self.assertEqual((replaced.ours, replaced.others, len(said)), (2, {"scale": 2}, 1))
        self.assertLess((scaled - in_float64(q, k, v, scale=0.3)).abs().max(), 1e-5)
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        self.assertLess((top_left - expected).abs().max(), 1e-5)

    def model(self, attention):
        """A tiny model from a configuration: it loads no weights."""
        try:
            import transformers
        except ImportError:
            self.skipTest("needs transformers")
        hw4.register_transformers()
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2)
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()

    def test_transformers(self):
        ours, eager = self.model("hw4"), self.model("eager")
        self.assertEqual(ours.config._attn_implementation, "hw4")
        tokens = torch.randint(64, (2, 17))
        padded = torch.ones_like(tokens)
        padded[0, :3] = 0
        with torch.no_grad(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for mask in (None, padded):
                difference = (ours(tokens, attention_mask=mask).logits - eager(tokens, attention_mask=mask).logits)
                self.assertLess(difference[padded.bool()].abs().max(), 1e-5)
            self.assertEqual(sum("hw4: PyTorch computes" in str(w.message) for w in said), 1)
            again = [m.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=4, do_sample=False,
                                pad_token_id=0) for m in (ours, eager)]
        self.assertTrue(torch.equal(*again))

    def test_a_models_attention_alone_and_in_a_batch(self):
        """On every device every call, in prefill and decode, has the same bytes alone, in a batch of 32 and on the CPU.
        PyTorch's products do not, so a row's inputs come from the run of the batch, not from its own run."""
        from hw4 import torch_op
        calls, attention = [], torch_op.attention

        def recorded(q, k, v, **options):
            calls.append((q, k, v, options, attention(q, k, v, **options)))
            return calls[-1][-1]

        model, tokens = self.model("hw4"), torch.randint(64, (32, 9))
        for device in devices():
            calls.clear()
            model, tokens = model.to(device), tokens.to(device)
            with torch.no_grad(), unittest.mock.patch.object(torch_op, "attention", recorded):
                model(tokens[:, 8:], past_key_values=model(tokens[:, :8], use_cache=True).past_key_values)
            self.assertEqual([(q.shape[2], k.shape[2]) for q, k, *_ in calls], [(8, 8)] * 2 + [(1, 9)] * 2)
            for *inputs, options, o in calls:
                self.assertTrue(same(attention(*(t.cpu() for t in inputs), **options), o), device)
                for at in (0, 17, 31):
                    self.assertTrue(same(attention(*(t[at:at + 1] for t in inputs), **options), o[at:at + 1]), device)

    def test_example(self):
        """In the source tree the package uses the library that make has built."""
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            (tree / "build").mkdir()
            (tree / "build/libhw4.so").symlink_to(os.environ["HW4_LIBRARY"])
            (tree / "python").symlink_to(ROOT / "python")
            elsewhere = {key: value for key, value in os.environ.items() if key != "HW4_LIBRARY"}
            done = subprocess.run([sys.executable, tree / "python/example.py", "2"], capture_output=True, text=True,
                                  env=elsewhere, check=False)
            self.assertEqual((done.returncode, done.stdout.count(": equal bits")), (0, 2), done.stderr)

    def test_cs336(self):
        """The tests of the course's handout: B 4, N 128, d 64, one saved tensor of shape (B, N_q), 1e-2."""
        for device in devices():
            for causal in (False, True):
                q, k, v, d_o = (torch.randn(4, 128, 64, device=device, requires_grad=True) for _ in range(4))
                o = hw4.FlashAttention.apply(q, k, v, causal)
                saved = [t for t in o.grad_fn.saved_tensors if t.shape == (4, 128)]
                self.assertEqual(len(saved), 1)
                scores = torch.einsum("bqd,bkd->bqk", q, k) / 8
                if causal:
                    scores = scores.masked_fill(torch.ones(128, 128, device=device).triu(1).bool(), -1e6)
                torch.testing.assert_close(saved[0], torch.logsumexp(scores, -1).detach(), rtol=1e-2, atol=1e-2)
                o.backward(d_o)
                got = [t.grad.clone() for t in (q, k, v)]
                for t in (q, k, v):
                    t.grad = None
                expected = torch.softmax(scores, -1) @ v
                expected.backward(d_o)
                torch.testing.assert_close(o, expected, rtol=1e-2, atol=1e-2)
                for mine, tensor in zip(got, (q, k, v)):
                    torch.testing.assert_close(mine, tensor.grad, rtol=1e-2, atol=1e-2)

    def test_streams_and_graphs(self):
        if "cuda" not in devices():
            self.skipTest("needs a GPU")
        for contract, dtype in CONTRACTS:
            q, k, v = drawn((2, 4, 2, 300, 300, 64), dtype, "cuda")
            expected = hw4.attention(q, k, v, contract=contract, causal=True)
            torch.cuda.synchronize()
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                beside = hw4.attention(q, k, v, contract=contract, causal=True)
            side.synchronize()
            self.assertTrue(same(beside, expected), contract)
            graph = torch.cuda.CUDAGraph()
            still = [torch.zeros_like(t) for t in (q, k, v)]
            with torch.cuda.graph(graph):
                captured = hw4.attention(*still, contract=contract, causal=True)
            for to, source in zip(still, (q, k, v)):
                to.copy_(source)
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue(same(captured, expected), contract)
        q, k, v = drawn((2, 4, 2, 1, 600, 64), torch.bfloat16, "cuda")
        lengths = torch.tensor([600, 1], dtype=torch.int32, device="cuda")
        hw4.decode(q, k, v, lengths)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = hw4.decode(q, k, v, lengths)
        for now in ([600, 1], [7, 300]):
            lengths.copy_(torch.tensor(now))
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue(same(captured, hw4.decode(q, k, v, now)), now)
        table = hw4.rope_table(1e4, 64, 64, "cuda")
        first, expected, cache = (hw4.Cache(2, 2, 64, 64, torch.bfloat16, "cuda", page_keys=16, pages=8) for _ in range(3))
        q, k, v = drawn((2, 4, 2, 40, 40, 64), torch.bfloat16, "cuda")
        still = [t[:, :, :1].clone() for t in (q, k, v)]
        hw4.decode(*first.append(still[1], still[2], rope=table, q=still[0]))  # loads the kernels
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = hw4.decode(*cache.append(still[1], still[2], rope=table, q=still[0]))
        for at in range(40):  # across two page boundaries
            for to, source in zip(still, (q, k, v)):
                to.copy_(source[:, :, at:at + 1])
            cache.reserve(1)
            graph.replay()
            a, b, c = (t[:, :, at:at + 1] for t in (q, k, v))
            self.assertTrue(same(captured, hw4.decode(*expected.append(b, c, rope=table, q=a))), at)

    def test_short_memory_takes_the_least_workspace(self):
        if "cuda" not in devices():
            self.skipTest("needs a GPU")
        refused, empty = [], torch.empty

        def gradients():
            leaves = [t.requires_grad_() for t in drawn((1, 1, 1, 4096, 4096, 64), device="cuda")]
            hw4.attention(*leaves).sum().backward()
            return [leaf.grad for leaf in leaves]

        def short(*size, **options):
            if options.get("dtype") == torch.uint8 and not refused:
                refused.append(size[0])
                raise torch.cuda.OutOfMemoryError
            return empty(*size, **options)

        expected = gradients()
        with unittest.mock.patch("torch.empty", short):
            self.assertTrue(all(map(same, gradients(), expected)))
        self.assertEqual(len(refused), 1)

    def test_values_without_meaning_end(self):
        """Values outside a kernel's range do not make it hang or write outside its outputs."""
        if "cuda" not in devices():
            self.skipTest("needs a GPU")
        for contract, dtype in CONTRACTS:
            for value in (float("nan"), float("inf"), torch.finfo(dtype).max):
                for shape in ((1, 2, 2, 300, 300, 64), (2, 4, 2, 65, 400, 128), (1, 1, 1, 33, 33, 33), (1, 8, 2, 1, 4000, 128),
                              (200, 2, 1, 1, 300, 64)):
                    q, k, v = drawn(shape, dtype, "cuda")
                    rows = torch.full((q.shape[0], 2 * q.shape[1], *q.shape[2:]), 7.0, dtype=dtype, device="cuda")
                    k[..., 5::64, :] = value
                    q[..., -1, :] = -value
                    hw4.torch_op._run(hw4.library.FORWARD, (q, k, v, rows[:, ::2]), True, contract, None, None)
                    torch.cuda.synchronize()
                    self.assertTrue(bool((rows[:, 1::2] == 7).all()), (contract, value, shape))
                    if contract in hw4.shapes.WITH_BACKWARD:
                        training = [t.requires_grad_() for t in (q, k, v)]
                        hw4.attention(*training, contract=contract).backward(torch.ones_like(q))
                        torch.cuda.synchronize()


@unittest.skipIf(numpy is None, "needs numpy")
class ArraysTest(unittest.TestCase):
    def test_packed_sequences(self):
        q, k, v = (numpy.random.default_rng(seed).standard_normal((12, 2, 8)).astype("f") for seed in range(3))
        ends = numpy.array([0, 5, 10, 12])
        o = hw4.attention(q, k, v, causal=True, window=3, lengths=list(numpy.diff(ends)))
        for first, end in zip(ends, ends[1:]):
            one = (x[first:end].swapaxes(0, 1)[None] for x in (q, k, v))
            numpy.testing.assert_array_equal(hw4.attention(*one, causal=True, window=3)[0].swapaxes(0, 1), o[first:end])

    def test_strides_and_lse(self):
        source = numpy.random.default_rng(0)
        packed = source.standard_normal((2, 40, 3, 4, 33)).astype("float32")
        q, k, v = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        for contract in EXACT:
            expected, sums = hw4.attention(*(numpy.ascontiguousarray(a) for a in (q, k, v)), contract=contract,
                                           return_lse=True)
            o, lse = hw4.attention(q, k, v, contract=contract, return_lse=True)
            self.assertEqual((o.tobytes(), lse.tobytes()), (expected.tobytes(), sums.tobytes()))
            scores = numpy.einsum("bhqd,bhkd->bhqk", q.astype("float64"), k.astype("float64")) / 33 ** 0.5
            exact = numpy.log(numpy.exp(scores).sum(-1))
            self.assertLess(abs(lse - exact).max(), 1e-3)
        self.assertEqual(hw4.attention(q.astype("float16"), k.astype("float16"), v.astype("float16")).dtype, "float16")

    def test_decode(self):
        source = numpy.random.default_rng(0)
        for dtype in ("float32", "float16"):
            q, k, v = (source.standard_normal((2, heads, 40, n)).astype(dtype) for heads, n in ((4, 33), (2, 33), (2, 40)))
            whole = hw4.attention(q, k, v, causal=True, contract="f32", scale=0.3)
            for paged in ({}, {"page_keys": 16, "pages": 6}):
                cache = hw4.Cache(2, 2, 48, 33, dtype, value_dim=40, **paged)
                parts = [hw4.decode(q[:, :, at:at + 8], *cache.append(k[:, :, at:at + 8], v[:, :, at:at + 8]), scale=0.3)
                         for at in range(0, 40, 8)]
                self.assertEqual(numpy.concatenate(parts, 2).tobytes(), whole.tobytes())
            even = [a[..., :32] for a in (q, k, v)]
            turned = [hw4.Cache(2, 2, 40, 32, dtype).append(*even[1:], rope=hw4.rope_table(1e4, 40, 32), q=even[0])]
            cache = hw4.Cache(2, 2, 40, 32, dtype)
            turned += [cache.append(*(a[:, :, at:at + 8] for a in even[1:]), rope=hw4.rope_table(1e4, 50, 32),
                                    q=even[0][:, :, at:at + 8])[0] for at in range(0, 40, 8)]
            self.assertEqual(turned[0][0].tobytes(), numpy.concatenate(turned[1:], 2).tobytes())
            self.assertEqual(turned[0][1].tobytes(), cache.k.tobytes())
        for wanted, lengths in (("batch 1 has 41 keys, need 1 to 40", [1, 41]), ("need integers", [1.0, 2.0])):
            with self.assertRaisesRegex(ValueError, wanted):
                hw4.decode(even[0][:, :, :1], cache.k, cache.v, lengths)
        with self.assertRaisesRegex(hw4.Error, "a window, which the contract fixed lacks: a GPU has windows in forward under f32"):
            hw4.attention(*(a.astype("float32") for a in even), causal=True, contract="fixed", window=3)
        with self.assertRaisesRegex(TypeError, "need torch tensors alone or numpy arrays alone"):
            hw4.append(even[1], even[2], cache.k, cache.v.tolist(), [40, 40])


class WheelTest(unittest.TestCase):
    def test_it_holds_all(self):
        """Installs without a build: the library is the existing one."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-c", "import sys, backend; print(backend.build_wheel(sys.argv[1]))", folder],
                           cwd=ROOT / "python", check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "HW4_BUILT_LIBRARY": os.environ["HW4_LIBRARY"]})
            [wheel] = Path(folder).glob("hw4-*-py3-none-*.whl")
            names = zipfile.ZipFile(wheel).namelist()
            modules = [f"hw4/{path.name}" for path in (ROOT / "python" / "hw4").glob("*.py")]
            self.assertLessEqual({"hw4/libhw4.so", *modules}, set(names))
            self.assertLess(wheel.stat().st_size, 20 << 20)
            zipfile.ZipFile(wheel).extractall(Path(folder) / "at")
            elsewhere = {key: value for key, value in os.environ.items() if key != "HW4_LIBRARY"}
            subprocess.run([sys.executable, "-c", "import hw4; hw4.version()"], check=True,
                           env={**elsewhere, "PYTHONPATH": str(Path(folder) / "at")})

    def test_pip_needs_no_network(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
            if made.returncode != 0:
                self.skipTest("needs python3-venv")
            elsewhere = {key: value for key, value in os.environ.items() if key not in ("HW4_LIBRARY", "PYTHONPATH")}
            subprocess.run([f"{folder}/bin/pip", "install", "--no-index", "--quiet", ROOT / "python"], check=True,
                           env={**elsewhere, "HW4_BUILT_LIBRARY": os.environ["HW4_LIBRARY"]})
            subprocess.run([f"{folder}/bin/python3", "-c", "import hw4; hw4.version()"], check=True, env=elsewhere,
                           cwd=folder)


if __name__ == "__main__":
    unittest.main()
