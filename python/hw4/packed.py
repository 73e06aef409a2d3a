"""Packed sequences of different lengths in one tensor, without padding."""

import itertools
import numbers


def _whole(name, lengths):
    lengths = lengths.tolist() if hasattr(lengths, "tolist") else list(lengths)
    if not lengths or any(isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1 for n in lengths):
        raise ValueError(f"{name} are {lengths}: need whole numbers from 1, one for each sequence")
    return [int(n) for n in lengths]


def attention(q, k, v, lengths, key_lengths, attend, join):
    """Calls `attend` on (B, H, N, d) for each run of sequences of the same lengths; `join` joins a list of rows."""
    of_queries = _whole("lengths", lengths)
    of_keys = of_queries if key_lengths is None else _whole("key_lengths", key_lengths)
    if len(of_keys) != len(of_queries):
        raise ValueError(f"there are {len(of_keys)} key_lengths: need {len(of_queries)}, as many as lengths")
    for name, rows, counts in (("q", q, of_queries), ("k", k, of_keys), ("v", v, of_keys)):
        if len(rows.shape) != 3 or rows.shape[0] != sum(counts):
            raise ValueError(f"{name} has shape {tuple(rows.shape)}: need ({sum(counts)}, heads, d), the rows of all "
                             "sequences one after the other")

    def batch(rows, first, count, length):
        return rows[first:first + count * length].reshape(count, length, *rows.shape[1:]).swapaxes(1, 2)

    def rows_of(output):  # (B, H, N, ...) to (B * N, H, ...)
        return output.swapaxes(1, 2).reshape(-1, output.shape[1], *output.shape[3:])

    parts, first_query, first_key = [], 0, 0
    for (queries, keys), run in itertools.groupby(zip(of_queries, of_keys)):
        count = len(list(run))
        o = attend(batch(q, first_query, count, queries), *(batch(rows, first_key, count, keys) for rows in (k, v)))
        parts.append([rows_of(output) for output in (o if isinstance(o, tuple) else (o,))])
        first_query += count * queries
        first_key += count * keys
    joined = [column[0] if len(column) == 1 else join(column) for column in map(list, zip(*parts))]
    return tuple(joined) if len(joined) > 1 else joined[0]
