"""What hw4 bench measured for Lab5 and CS336."""
from __future__ import annotations

from ..measured_courses import BASE, PASSES, Cs336, Lab5, Sweep, track_of, tracks
from ..needs import needs
from .common import name_of, timing

MIB = 2.0 ** 20
GIB = 2.0 ** 30


def of_pass(found) -> dict:
    if not found.ok:
        return {"status": found.status}
    return {"status": "ok", **timing(found.seconds, found.flop), "peak_mib": found.peak_bytes / MIB}


def of_row(row) -> dict:
    return {**{name: of_pass(getattr(row, name)) for name in PASSES},
            "backward_over_forward": ratio(row.backward, row.forward)}


def ratio(above, below):
    """Of two times; None where one is missing."""
    return above.seconds.mid / below.seconds.mid if above and below and above.ok and below.ok else None


@needs("lab5.json")
def lab5(data):
    found = Lab5(data)
    tree = {"torch": found.sweep.torch, "rows": len(found.sweep.rows), **{f"base_{k}": v for k, v in BASE.items()},
            "base": {name_of(who): of_row(row) for who, row in found.base().items()}, "length": {}, "gain": {}}
    full, causal = found.over_length(False), found.over_length(True)
    for mask, by_who in (("none", full), ("causal", causal)):
        of_mask = tree["length"].setdefault(mask, {})
        for who, rows in by_who.items():
            for tokens, row in rows.items():
                of_mask.setdefault(f"n{tokens}", {"tokens": tokens})[name_of(who)] = of_row(row)
        # Of those lengths that everybody has: a sweep may have ended early.
        common = sorted(set.intersection(*(set(rows) for rows in by_who.values()))) if by_who else []
        if common:
            of_mask["first"], of_mask["last"] = (of_mask[f"n{tokens}"] for tokens in (common[0], common[-1]))
    for who, rows in full.items():  # what the mask saves of forward's time
        gains = {f"n{tokens}": gain for tokens, row in rows.items()
                 if (other := causal.get(who, {}).get(tokens))
                 and (gain := ratio(row.forward, other.forward)) is not None}
        if gains:
            first, *_, last = (next(iter(gains.values())), *gains.values())
            tree["gain"][name_of(who)] = {**gains, "first": first, "last": last}
    for size in ("batches", "heads", "columns"):
        of_size = tree.setdefault(size, {})
        for who, rows in found.over(size).items():
            for value, row in rows.items():
                of_size.setdefault(f"{size[0]}{value}", {})[name_of(who)] = of_row(row)
    return tree


@needs("cs336_attention.json")
def attention(data):
    found = Cs336(data)
    tree = {"limit_gib": found.limit() / GIB, "sizes": len(found.grid()), "torch": found.attention.torch,
            "batches": found.attention.rows[0].batches}
    for row in found.attention.rows:
        of_row_ = of_row(row)
        of_row_["before_backward_mib"] = row.backward.before_backward_bytes / MIB if row.backward.ok else None
        tree.setdefault(f"d{row.columns}", {}).setdefault(f"n{row.tokens}", {})[name_of(row.who)] = of_row_
    for who in found.attention.everybody:
        rows = found.attention.where(who=who)
        tree[name_of(who)] = {"out_of_memory": sum(row.forward.out_of_memory or row.backward.out_of_memory
                                                   for row in rows), "rows": len(rows)}
    return tree


@needs("memory.json")
def memory(data):
    """Of the pass that was refused memory: what it held, and what it wanted."""
    tree = {}
    for track in tracks(data):
        tree.setdefault(track.impl, {}).setdefault(track.name, {})[f"n{track.tokens}"] = {
            "peak_mib": track.peak / MIB, "refused": int(track.refused is not None)}
    refused = track_of(data, "naive", "forward", refused=True)
    if refused is not None:
        tree["refused"] = {"tokens": refused.tokens, "batches": refused.batches, "dim": refused.dim,
                           "held_mib": refused.peak / MIB, "wanted_gib": refused.refused["bytes"] / GIB}
    return tree


@needs("warmups.json")
def warmups(data):
    """The first sample over the median of the others, by who and by how many launches were before."""
    tree = {}
    for row in Sweep(data, "warmups.json").rows:
        if row.forward.ok and len(row.forward.samples) > 1:
            first, *others = row.forward.samples
            rest = sorted(others)[len(others) // 2]
            tree.setdefault(name_of(row.who), {})[f"w{row.warmup}"] = {
                "first_ms": first * 1e3, "rest_ms": rest * 1e3, "first_over_rest": first / rest}
    return tree


@needs("accumulate.json")
def accumulate(data):
    """By device, sum and chain, with the relative error."""
    tree = {}
    for device, found in data.documents["accumulate.json"]["by_device"].items():
        tree[device] = {"count": found["count"], "term": found["term"]}
        for one in found["sums"]:
            chain = f"chain{one['chain']}" if one["chain"] else "plain"
            tree[device].setdefault(f"{one['term']}_in_{one['sum']}", {})[chain] = {
                "result": one["result"], "exact": one["exact"], "error": one["result"] - one["exact"]}
    return tree


FACTS = {"lab5": lab5, "cs336": attention, "cs336_memory": memory, "warmups": warmups, "accumulate": accumulate}
