"""Curves and marks: errors and rates over the length, speed-ups over the cases, speed against error."""
from __future__ import annotations

import math

from builder import beside, courses
from builder.measured import T28, error_name
from builder.spread import Spread
from builder.words import scientific, significant

from . import style

ERRORS = {"naive": ("PyTorch naive", style.NAIVE), "efficient": ("PyTorch efficient", style.EFFICIENT),
          "hw4_fixed": ("hw4, fixed", style.FIXED), "hw4": ("hw4, f32", style.HW4)}
LOOKS = {"f32": style.HW4, "fixed": style.FIXED, "fixed16": style.FIXED16, "bf16": style.BF16, "fp16": style.FP16}


def error_over_length(data):
    """The largest error against float64 over the length N."""
    fig = style.figure(3.9)
    cases = data["accuracy"]["cases"]
    scale = style.steps(max(value for case in cases for value in case["largest_errors"].values()) * 1e6 * 1.02, 7)
    lengths = sorted({case["tokens"] for case in cases})
    for index, dim in enumerate(sorted({case["dim"] for case in cases})):
        ax = style.axes(fig, 0.65 + 4.0 * index, 0.6, 2.95, 2.65)
        style.over_lengths(ax, lengths, scale, f"d = {dim}")
        if index == 0:
            ax.set_ylabel("largest |error| against float64, 10⁻⁶")
        ends = []
        for impl, (name, look) in ERRORS.items():
            worst = {}
            for case in (case for case in cases if case["dim"] == dim):
                value = case["largest_errors"][impl] * 1e6
                worst[case["tokens"]] = max(value, worst.get(case["tokens"], 0.0))
                ax.plot([case["tokens"]], [value], marker=look["marker"], color=look["color"], linestyle="",
                        markersize=5, alpha=0.9, zorder=4)
            xs = sorted(worst)
            ax.plot(xs, [worst[x] for x in xs], color=look["color"], linestyle=look["linestyle"], zorder=3)
            ends.append((name if index else name.replace("PyTorch ", ""), look, worst[xs[-1]]))
        gap = scale[-1] * 0.055
        for (name, look, _), place in zip(ends, style.apart([end for *_, end in ends], gap, gap / 2)):
            ax.text(lengths[-1] * 1.45, place, name, fontsize=style.SMALL, color=style.ink(look["color"]),
                    weight="bold", va="center_baseline", clip_on=False)
    style.heading(fig, 3.68, "Error against float64 over the length of the sequence")
    return fig


def lab5_length(data):
    """hw4's forward rates over the length, without a mask and causal."""
    fig = style.figure(3.7)
    rates = {title: {impl: {tokens: row.tflops() for tokens, row in rows.items() if row.tflops()}
                     for impl, rows in courses.over_length(data, causal).items()}
             for title, causal in (("no mask", False), ("causal", True))}
    spreads = [spread for by_impl in rates.values() for points in by_impl.values() for spread in points.values()]
    scale = style.steps(max(spread.high for spread in spreads), 6)
    for left, (title, by_impl) in zip((0.65, 5.1), rates.items()):
        ax = style.axes(fig, left, 0.6, 3.05, 2.45)
        style.over_lengths(ax, sorted({tokens for points in by_impl.values() for tokens in points}), scale, title)
        ax.set_ylabel("TFLOP/s")
        ends = {impl: list(points.values())[-1].mid for impl, points in by_impl.items()}
        for impl, place in zip(ends, style.apart(list(ends.values()), scale[-1] * 0.065, low=0)):
            style.band(ax, by_impl[impl], LOOKS[impl])
            ax.text(1.02, place / scale[-1], f"{impl} {significant(ends[impl])}", transform=ax.transAxes,
                    va="center_baseline", fontsize=style.SMALL, weight="bold", color=style.ink(LOOKS[impl]["color"]))
    style.heading(fig, 3.48, "Forward over the length of the sequence")
    return fig


def speedup_over_seq(data):
    """The whole command beside the sequential program, in groups of one head size, ordered by N."""
    fig = style.figure(3.75)
    found = [(record["name"], data.sequential_case(record["name"])) for record in data.file_cases]
    gains = {name: Spread.of(data.file_case(name)["seconds"]["hw4"]).under(seconds.mid) for name, (seconds, _) in found}
    low, high = min(gain.low for gain in gains.values()) / 2, max(gain.high for gain in gains.values()) * 2.5
    for index, dim in enumerate((32, 64)):
        records = sorted((record for _, (_, record) in found if record["dim"] == dim),
                         key=lambda record: (record["flop"], record["name"]))
        ax = style.axes(fig, 0.75 + 4.1 * index, 0.75, 3.95, 2.4)
        ax.set_xlim(-0.7, len(records) - 0.3)
        style.ticks(ax.xaxis, range(len(records)), [record["name"] for record in records])
        ax.tick_params(axis="x", labelrotation=90, length=0)
        places = style.powers(low, high)
        style.log(ax, "y", low, high, places, [""] * len(places) if index else style.power_labels(places))
        ax.grid(axis="y")
        ax.plot(ax.get_xlim(), [1, 1], color=style.INK, linewidth=1.0)
        style.title(ax, f"d = {dim}")
        if index == 0:
            ax.set_ylabel("times as fast as seq (logarithmic)")
        ax.set_xlabel("case, in order of its work")
        for place, record in enumerate(records):
            gain = gains[record["name"]]
            style.whiskers(ax, place, gain, horizontal=False)
            ax.plot([place], [gain.mid], marker="o", color=style.BLUE, linestyle="", zorder=5)
            if place in (0, len(records) - 1):
                ax.text(place, gain.mid * 1.5, significant(gain.mid), ha="center", fontsize=style.SMALL)
    style.heading(fig, 3.53, "The whole command over the sequential program")
    return fig


def speed_against_error(data):
    """The rate on t28 over the largest error on similar values: hw4's contracts beside their peers, as measured in
    turns. Peers are open rings, so that they hide nothing."""
    errors, points = data.errors("uniform", *T28[1:]), {}
    for pair in beside.sustained(data, "results", cell=(4, 1, 16384, 64), passes="forward", causal=False):
        points.setdefault(f"hw4, {pair.contract}", (errors[error_name(pair.contract)], pair.rate, LOOKS[pair.contract]))
        name = {"fa2": "flash2"}.get(pair.peer, pair.peer)
        error = errors.get(f"{name} {pair.dtype}", errors.get(name))
        if error:
            points.setdefault(f"{beside.PEERS[pair.peer]}, {pair.dtype}",
                              (error, pair.rate / pair.ratio, {"marker": "o", "color": style.GREY}))
    fig = style.figure(4.6)
    ax = style.axes(fig, 0.75, 0.6, 5.0, 3.5)
    all_errors, rates = [point[0] for point in points.values()], [point[1] for point in points.values()]
    style.log(ax, "x", min(all_errors) / 2.5, max(all_errors) * 2.5)
    style.log(ax, "y", min(rates) / 1.6, max(rates) * 1.6, style.within(min(rates) / 1.6, max(rates) * 1.6, 10))
    ax.grid()
    ax.set_xlabel("← better: largest |error| against float64 (logarithmic)")
    ax.set_ylabel("TFLOP/s (logarithmic): better →")
    lowest, highest = ax.get_ylim()
    names = sorted(points, key=lambda name: points[name][1])
    wanted = [log_share(points[name][1], lowest, highest) for name in names]
    for name, height in zip(names, style.apart(wanted, 0.065, 0.02, 0.98)):
        error, rate, look = points[name]
        hw4 = name.startswith("hw4")
        ax.plot([error], [rate], marker=look["marker"], color=look["color"], markersize=9 if hw4 else 7, linestyle="",
                markerfacecolor=look["color"] if hw4 else "none", markeredgewidth=1.4, zorder=4 if hw4 else 5)
        ax.plot([log_share(error, *ax.get_xlim()), 1.02], [log_share(rate, lowest, highest), height],
                transform=ax.transAxes, color=style.PALE, linewidth=0.6, clip_on=False, zorder=1)
        ax.text(1.03, height, f"{name}: {significant(rate)}, {scientific(error)}", transform=ax.transAxes,
                va="center_baseline", fontsize=style.SMALL, color=style.ink(look["color"]),
                weight="bold" if hw4 else None)
    style.heading(fig, 4.4, "Speed against error: t28, forward")
    return fig


def log_share(value, low, high):
    """The position of a value on a logarithmic axis, from 0 to 1."""
    return math.log(value / low) / math.log(high / low)
