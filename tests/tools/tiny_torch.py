"""A PyTorch for tests: just what testcases/bounds uses, on lists of Python's numbers. FlashAttention-2 is attention in
float64 here, rounded to its type, so that its errors are those of one rounding."""
import contextlib
import itertools
import math
import operator
import struct
import types

uint8, float32, bfloat16, float16, float64 = "uint8", "float32", "bfloat16", "float16", "float64"
BYTES = {uint8: 1, float32: 4, bfloat16: 2, float16: 2}
MULTIPROCESSORS = 3


def rounded(x, dtype):
    """To nearest even."""
    if math.isnan(x) or math.isinf(x) or dtype == float64:
        return x
    try:
        if dtype == float16:
            return struct.unpack("<e", struct.pack("<e", x))[0]
        bits, = struct.unpack("<I", struct.pack("<f", x))
    except OverflowError:
        return math.copysign(math.inf, x)
    bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16 if dtype == bfloat16 else bits
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def stored(data, dtype):
    if dtype == bfloat16:
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // BYTES[dtype]}{'e' if dtype == float16 else 'f'}", data))


class Tensor:
    device = "cuda"

    def __init__(self, shape, data, dtype=float64):
        assert len(data) == math.prod(shape), (shape, len(data))
        self.shape, self.data, self.dtype = tuple(shape), data, dtype

    # ---- Shapes
    def view(self, *shape):
        if shape[0] in BYTES:
            return Tensor((len(self.data) // BYTES[shape[0]],), stored(bytes(self.data), shape[0]), shape[0])
        known = math.prod(size for size in shape if size >= 0)
        return Tensor([len(self.data) // known if size < 0 else size for size in shape], self.data, self.dtype)

    reshape = view

    def places(self, index):
        """Of an index of slices, in the data; and the shape."""
        index = (index if isinstance(index, tuple) else (index,)) + (slice(None),) * len(self.shape)
        chosen = [range(size)[part] for size, part in zip(self.shape, index)]
        strides = [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]
        return ([len(part) for part in chosen],
                [sum(i * stride for i, stride in zip(place, strides)) for place in itertools.product(*chosen)])

    def __getitem__(self, index):
        shape, places = self.places(index)
        return Tensor(shape, [self.data[place] for place in places], self.dtype)

    def __setitem__(self, index, value):
        shape, places = self.places(index)
        assert tuple(shape) == value.shape
        for place, number in zip(places, value.data):
            self.data[place] = number

    def split(self, sizes, dim):
        ends = list(itertools.accumulate(sizes))
        assert dim == 1 and ends[-1] == self.shape[1]
        return [self[:, end - size:end] for size, end in zip(sizes, ends)]

    def repeat_interleave(self, times, dim):
        assert dim == 1
        rows, stride = [], math.prod(self.shape[2:])
        for head in range(self.shape[0] * self.shape[1]):
            rows += self.data[head * stride:(head + 1) * stride] * times
        return Tensor((self.shape[0], self.shape[1] * times, *self.shape[2:]), rows, self.dtype)

    def repeat(self, times, *others):
        assert others == (1,) * (len(self.shape) - 1)
        return Tensor((self.shape[0] * times, *self.shape[1:]), self.data * times, self.dtype)

    def unsqueeze(self, place):
        return Tensor((*self.shape[:place], 1, *self.shape[place:]), self.data, self.dtype)

    @property
    def mT(self):
        rows, columns = self.shape[-2:]
        count = rows * columns
        return Tensor((*self.shape[:-2], columns, rows),
                      [self.data[first + r * columns + c] for first in range(0, len(self.data), count)
                       for c in range(columns) for r in range(rows)], self.dtype)

    # ---- Numbers
    def to(self, dtype):
        return Tensor(self.shape, [rounded(x, dtype) for x in self.data], dtype)

    def double(self):
        return self.to(float64)

    def same(self):
        return self

    cuda = contiguous = detach = requires_grad_ = same

    def map(self, function):
        return Tensor(self.shape, [function(x) for x in self.data], self.dtype)

    def abs(self):
        return self.map(math.fabs)

    def isinf(self):
        return self.map(math.isinf)

    def with_(self, other, function):
        if not isinstance(other, Tensor):
            return self.map(lambda x: function(x, other))
        rank = max(len(self.shape), len(other.shape))
        shapes = [(1,) * (rank - len(m.shape)) + m.shape for m in (self, other)]
        shape = [max(sizes) for sizes in zip(*shapes)]
        assert all(size in (1, whole) for own in shapes for size, whole in zip(own, shape)), shapes
        both = [[m.data[sum((place[i] if own[i] > 1 else 0) * math.prod(own[i + 1:]) for i in range(rank))]
                 for place in itertools.product(*map(range, shape))] for m, own in zip((self, other), shapes)]
        return Tensor(shape, [function(a, b) for a, b in zip(*both)], self.dtype)

    def __add__(self, other): return self.with_(other, operator.add)
    def __sub__(self, other): return self.with_(other, operator.sub)
    def __mul__(self, other): return self.with_(other, operator.mul)
    def __truediv__(self, other): return self.with_(other, operator.truediv)
    def __ge__(self, other): return self.with_(other, operator.ge)
    __radd__ = __add__

    def masked_fill(self, mask, value):
        return self.with_(mask, lambda x, hidden: value if hidden else x)

    def __matmul__(self, other):
        assert self.shape[:-2] == other.shape[:-2] and self.shape[-1] == other.shape[-2] and self.dtype == float64
        rows, inner, columns = *self.shape[-2:], other.shape[-1]
        data = [sum(self.data[m * rows * inner + r * inner + i] * other.data[m * inner * columns + i * columns + c]
                    for i in range(inner))
                for m in range(math.prod(self.shape[:-2])) for r in range(rows) for c in range(columns)]
        return Tensor((*self.shape[:-1], columns), data)

    def reduced(self, dim, keepdim, function):
        dim %= len(self.shape)
        after, size = math.prod(self.shape[dim + 1:]), self.shape[dim]
        data = [function(self.data[first + i:first + size * after:after])
                for first in range(0, len(self.data), size * after) for i in range(after)]
        return Tensor((*self.shape[:dim], *((1,) if keepdim else ()), *self.shape[dim + 1:]), data, self.dtype)

    def sum(self, dim, keepdim=False):
        return self.reduced(dim, keepdim, sum).to(self.dtype)

    def softmax(self, dim):
        weights = self - self.reduced(dim, True, max)
        weights = weights.map(math.exp)
        return weights / weights.sum(dim, keepdim=True)

    def max(self):
        return Tensor((), [math.nan if any(x != x for x in self.data) else max(self.data)])

    def any(self):
        return Tensor((), [any(self.data)])

    def item(self):
        return self.data[0]


def from_file(path, size, dtype):
    with open(path, "rb") as file:
        data = file.read()
    assert len(data) == size and dtype == uint8
    return Tensor((size,), data, dtype)


def arange(count, device):
    return Tensor((count,), list(range(count)))


def zeros_like(m):
    return Tensor(m.shape, [0.0] * len(m.data), m.dtype)


def pad(m, sides):
    assert sides[0] == 0 and 0 <= sides[1] < 8
    columns = m.shape[-1]
    data = [x for first in range(0, len(m.data), columns) for x in m.data[first:first + columns] + [0.0] * sides[1]]
    return Tensor((*m.shape[:-1], columns + sides[1]), data, m.dtype)


def flash(q, k, v, dropout, causal, mask_wanted, scale):
    assert q.dtype == k.dtype == v.dtype in (bfloat16, float16) and k.shape == v.shape and q.shape[1] == k.shape[1]
    assert q.shape[-1] == k.shape[-1] and q.shape[-1] % 8 == 0 and (dropout, mask_wanted) == (0.0, False)
    assert q.shape[0] * q.shape[1] * math.ceil(q.shape[2] / 64) >= 2 * MULTIPROCESSORS, "it would divide the keys"
    scores = q.double() @ k.double().mT * scale
    if causal:
        last = k.shape[2] - q.shape[2]
        hidden = arange(k.shape[2], "cuda").unsqueeze(0) >= last + 1 + arange(q.shape[2], "cuda").unsqueeze(1)
        scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1)
    out = (weights @ v.double()).to(q.dtype)
    out.operands, out.weights, out.scale = (q, k, v), weights, scale
    return [Out(out)]


class Out(Tensor):
    """Remembers what it was computed from when padding is taken off."""

    def __init__(self, whole):
        super().__init__(whole.shape, whole.data, whole.dtype)
        self.whole = whole

    def __getitem__(self, index):
        if isinstance(index, tuple) and index[0] is Ellipsis:
            part = Out(super().__getitem__((slice(None),) * 3 + index[1:]))
            part.whole = self.whole
            return part
        return super().__getitem__(index)


def grad(out, leaves, d_o):
    assert out.shape == d_o.shape and d_o.dtype == out.dtype
    (q, k, v), weights, scale = (m.double() for m in out.whole.operands), out.whole.weights, out.whole.scale
    d_o = pad(d_o, (0, q.shape[-1] - d_o.shape[-1])).double()
    slopes = d_o @ v.mT
    scores = weights * (slopes - (weights * slopes).sum(-1, keepdim=True)) * scale
    found = (scores @ k, scores.mT @ q, weights.mT @ d_o)
    return [m[:, :, :, :leaf.shape[-1]].to(leaf.dtype) for m, leaf in zip(found, leaves)]


abs = Tensor.abs
enable_grad = contextlib.nullcontext
cuda = types.SimpleNamespace(
    get_device_properties=lambda device: types.SimpleNamespace(multi_processor_count=MULTIPROCESSORS))
autograd = types.SimpleNamespace(grad=grad)
nn = types.SimpleNamespace(functional=types.SimpleNamespace(pad=pad))
ops = types.SimpleNamespace(aten=types.SimpleNamespace(_scaled_dot_product_flash_attention=flash))
