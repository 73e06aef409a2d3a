"""Keys and values of sequences that grow, for hw4.decode."""

import sys

from . import library


class Cache:
    """Room for the keys and values of B sequences of up to `capacity` tokens each: .k and .v are (B, H_kv, capacity, d),
    .lengths (B) int32 says how many tokens of each there are. With a torch dtype they are tensors on `device`, otherwise
    numpy arrays.

        cache = hw4.Cache(B, H_kv, capacity, d, q.dtype, q.device)
        o = hw4.decode(q, *cache.append(k, v))    # q, k, v of the new tokens, as many of each sequence

    Gradients do not pass through a cache. append() counts tokens on the host: it is not for a CUDA graph.
    """

    def __init__(self, batches, heads, capacity, dim, dtype, device=None):
        torch = sys.modules.get("torch")
        shape = (batches, heads, capacity, dim)
        if torch is not None and isinstance(dtype, torch.dtype):
            self.k, self.v = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
            self.lengths = torch.zeros(batches, dtype=torch.int32, device=device)
            self._range = lambda count: torch.arange(count, device=device)
        else:
            import numpy
            self.k, self.v = (numpy.zeros(shape, dtype) for _ in range(2))
            self.lengths = numpy.zeros(batches, numpy.int32)
            self._range = numpy.arange
        self._filled = [0] * batches  # the lengths, which a GPU's need not be read for

    def append(self, k, v, sequences=None):
        """Puts n new rows, (B, H_kv, n, d), after those of each sequence; with a list of sequences, after theirs alone.
        Returns .k, .v, .lengths of all."""
        batches, heads, capacity, dim = self.k.shape
        every = sequences is None
        sequences = list(range(batches) if sequences is None else sequences)
        shape = tuple(k.shape)
        if len(shape) != 4 or shape != (len(sequences), heads, shape[2], dim) or tuple(v.shape) != shape:
            raise ValueError(f"k and v have shapes {shape} and {tuple(v.shape)}: need ({len(sequences)}, {heads}, n, {dim})")
        if len(set(sequences)) != len(sequences) or not set(sequences) <= set(range(batches)):
            raise ValueError(f"sequences are {sequences}: need different ones from 0 to {batches - 1}")
        for at in sequences:
            if self._filled[at] + shape[2] > capacity:
                raise library.Error(65, f"sequence {at} has {self._filled[at]} tokens and gets {shape[2]} more: the cache "
                                        f"has room for {capacity}")
        k, v = (rows.detach() if hasattr(rows, "detach") else rows for rows in (k, v))
        rows = self._range(batches) if every else self._range(batches)[sequences]
        places = self.lengths[rows][:, None] + self._range(shape[2])
        self.k[rows[:, None], :, places] = k.swapaxes(1, 2)
        self.v[rows[:, None], :, places] = v.swapaxes(1, 2)
        self.lengths[rows] += shape[2]
        for at in sequences:
            self._filled[at] += shape[2]
        return self.k, self.v, self.lengths

    def clear(self, sequence):
        """Begins the sequence anew."""
        self.lengths[sequence] = self._filled[sequence] = 0
