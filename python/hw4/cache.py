"""Keys and values of sequences that grow, for hw4.decode."""

import numbers
import sys

from . import library, shapes


class Cache:
    """A cache of keys and values for B sequences of up to `capacity` tokens each: .k and .v are (B, H_kv, capacity, d),
    .lengths (B) int32 is the number of tokens of each. With a torch dtype they are tensors on `device`, otherwise numpy
    arrays. With value_dim, rows of .v and v have value_dim columns instead of d.

        cache = hw4.Cache(B, H_kv, capacity, d, q.dtype, q.device)
        o = hw4.decode(q, *cache.append(k, v))                       # q, k, v of the new tokens, equally many each
        o = hw4.decode(*cache.append(k, v, rope=hw4.rope_table(1e4, capacity, d, q.device), q=q))

    With page_keys, .k and .v are `pages` pages of this many tokens, (pages, H_kv, page_keys, d); a sequence takes the
    next free page when it needs one; .pages (B, columns) int32 is their table. Otherwise .pages is None.

    In a CUDA graph, capture append() and call reserve() before each replay. Gradients do not pass through a cache.
    """

    def __init__(self, batches, heads, capacity, dim, dtype, device=None, page_keys=None, pages=None, value_dim=None):
        torch = sys.modules.get("torch")
        if (page_keys is None) != (pages is None):
            raise ValueError(f"page_keys is {page_keys} and pages is {pages}: need both, or neither")
        if page_keys is not None and page_keys not in shapes.PAGE_KEYS:
            raise ValueError(f"page_keys is {page_keys}: need one of {', '.join(map(str, shapes.PAGE_KEYS))}")
        shape = (batches, heads, capacity) if pages is None else (pages, heads, page_keys)
        columns = None if pages is None else -(-capacity // page_keys)
        if torch is not None and isinstance(dtype, torch.dtype):
            self._module, self._place = torch, {"device": device}
        else:
            import numpy
            self._module, self._place = numpy, {}
        zeros, int32 = self._module.zeros, self._module.int32
        self.k, self.v = (zeros((*shape, row), dtype=dtype, **self._place) for row in (dim, value_dim or dim))
        self.lengths = zeros(batches, dtype=int32, **self._place)
        self.pages = None if pages is None else zeros((batches, columns), dtype=int32, **self._place)
        self._capacity, self._page_keys = capacity, page_keys
        self._filled = [0] * batches                # tokens, a copy of .lengths, which may be on a GPU
        self._taken = [[] for _ in range(batches)]  # pages of each sequence
        self._free = list(range(pages or 0))[::-1]

    def _sequences(self, sequences):
        batches = len(self._filled)
        sequences = list(range(batches) if sequences is None else sequences)
        if len(set(sequences)) != len(sequences) or not set(sequences) <= set(range(batches)):
            raise ValueError(f"sequences are {sequences}: need different ones from 0 to {batches - 1}")
        return sequences

    def reserve(self, tokens, sequences=None):
        """Adds this many tokens to each sequence and gives them pages. append() does it, unless it is captured."""
        if not isinstance(tokens, numbers.Integral) or tokens < 1:
            raise ValueError(f"tokens is {tokens!r}: need a whole number from 1")
        sequences = self._sequences(sequences)
        wanted = {}
        for at in sequences:
            total = self._filled[at] + tokens
            if total > self._capacity:
                raise library.Error(65, f"sequence {at} has {self._filled[at]} tokens and gets {tokens} more: the cache "
                                        f"has room for {self._capacity}")
            if self.pages is not None:
                wanted[at] = max(0, -(-total // self._page_keys) - len(self._taken[at]))
        if sum(wanted.values()) > len(self._free):
            raise library.Error(65, f"{tokens} more tokens of {len(sequences)} sequences need {sum(wanted.values())} "
                                    f"pages: {len(self._free)} of {self.k.shape[0]} are free")
        entries = []
        for at in sequences:
            self._filled[at] += tokens
            for _ in range(wanted.get(at, 0)):
                entries.append((at, len(self._taken[at]), self._free.pop()))
                self._taken[at].append(entries[-1][2])
        if entries:
            rows, columns, new = (self._module.asarray(each, dtype=kind, **self._place) for each, kind in zip(
                zip(*entries), (self._module.int64, self._module.int64, self._module.int32)))
            self.pages[rows, columns] = new

    def append(self, k, v, sequences=None, rope=None, q=None, interleaved=False):
        """Appends n new rows, (B, H_kv, n, d), to each sequence, or to those in the list `sequences`. rope, q and
        interleaved are as in hw4.append. Returns the arguments of decode: .k, .v, .lengths, .pages of all sequences,
        after the rotated q where one is given."""
        from . import append
        _, heads, _, dim = self.k.shape
        value_dim = self.v.shape[3]
        every, sequences = sequences is None, self._sequences(sequences)
        shape = tuple(k.shape)
        if len(shape) != 4 or shape != (len(sequences), heads, shape[2], dim) or tuple(v.shape) != (*shape[:3], value_dim):
            raise ValueError(f"k and v have shapes {shape} and {tuple(v.shape)}: need ({len(sequences)}, {heads}, n, {dim}) "
                             f"and ({len(sequences)}, {heads}, n, {value_dim})")
        capturing = False
        if hasattr(k, "detach"):
            k, v = k.detach(), v.detach()
            capturing = k.is_cuda and self._module.cuda.is_current_stream_capturing()
        if not capturing:
            self.reserve(shape[2], sequences)
        # All sequences in one call; otherwise one call each, because a call writes to contiguous sequences.
        places = [(slice(0, None), slice(0, None))] if every else [
            (slice(row, row + 1), slice(at, at + 1)) for row, at in enumerate(sequences)]
        turned = []
        try:
            for rows, at in places:
                self.lengths[at] += shape[2]
                caches = (self.k[at], self.v[at]) if self.pages is None else (self.k, self.v)
                turned.append(append(k[rows], v[rows], *caches, self.lengths[at],
                                     None if self.pages is None else self.pages[at], rope,
                                     None if q is None else q[rows], interleaved))
        except Exception:  # undoes the call, except for pages, which the next tokens use
            for _, at in places[:len(turned) + 1]:
                self.lengths[at] -= shape[2]
            for at in sequences if not capturing else ():
                self._filled[at] -= shape[2]
            raise
        kept = self.k, self.v, self.lengths, self.pages
        return kept if q is None else (turned[0] if every else self._module.concatenate(turned), *kept)

    def clear(self, sequence):
        """Starts the sequence again without tokens."""
        (sequence,) = self._sequences([sequence])
        self.lengths[sequence] = self._filled[sequence] = 0
        self._free += self._taken[sequence][::-1]
        self._taken[sequence] = []
