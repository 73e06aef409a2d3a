"""Curves over a size that doubles, most often the length of the sequence, with their names at their ends."""
from __future__ import annotations

import math

import scaling as on_paper
from builder.measured import CONTRACTS
from builder.words import significant

from . import style

N = "N (logarithmic)"
LOOKS = {"f32": style.HW4, "fixed": style.FIXED}
SERIES = {"naive": ("PyTorch naive", style.NAIVE), "efficient": ("PyTorch efficient", style.EFFICIENT),
          "torch": ("PyTorch", style.EFFICIENT), "hw4_fixed": ("fixed", style.FIXED), "hw4": ("f32", style.HW4)}


def tflops_over_length(data):
    """The rate at three head sizes."""
    fig = style.figure(3.9)
    shapes, fixed = data.length_shapes, data.fixed_over_length
    sgemm = data.lengths["sgemm"]["tflops"]
    every = [*(shape.tflops(seconds) for shape in shapes for seconds in (shape.hw4, shape.torch_best)),
             *(rate for of_dim in fixed.values() for rate in of_dim.values())]
    low, high = min(rate.low for rate in every) / 1.4, max(rate.high for rate in every) * 1.35
    lengths, places = sorted({shape.tokens for shape in shapes}), style.within(low, high)
    for index, dim in enumerate(sorted({shape.dim for shape in shapes})):
        ax = style.axes(fig, 0.65 + 2.8 * index, 0.6, 2.6, 2.65)
        of_dim = sorted((shape for shape in shapes if shape.dim == dim), key=lambda shape: shape.tokens)
        style.doubling(ax, lengths, 1.3, 1.3)
        ax.tick_params(axis="x", labelsize=7)
        style.log(ax, "y", low, high, places, None if index == 0 else [""] * len(places))
        ax.grid(axis="y")
        ax.set_xlabel(N)
        style.title(ax, f"d = {dim}")
        ax.plot(ax.get_xlim(), [sgemm, sgemm], color=style.GREEN, linestyle=":", linewidth=1.2)
        if index == 0:
            ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
            ax.text(lengths[0], sgemm * 1.04, "cuBLAS SGEMM", fontsize=style.SMALL)
        curves = {"hw4": {shape.tokens: shape.tflops(shape.hw4) for shape in of_dim},
                  "torch": {shape.tokens: shape.tflops(shape.torch_best) for shape in of_dim},
                  **({"hw4_fixed": fixed[dim]} if dim in fixed else {})}
        for who, points in curves.items():
            style.band(ax, points, SERIES[who][1])
        # The lowest name is under its line, the others above theirs; above SGEMM's where that is close.
        ends = {who: list(points.items())[-1] for who, points in curves.items()}
        lowest = min(ends, key=lambda who: ends[who][1].mid)
        for who, (tokens, rate) in ends.items():
            name, look = SERIES[who]
            near = 1 <= sgemm / rate.mid < 1.3
            place = rate.mid / 1.2 if who == lowest else (sgemm * 1.06 if near else rate.mid * 1.13)
            ax.text(tokens, place, f"{name} {significant(rate.mid)}", ha="right", fontsize=style.TEXT,
                    color=style.ink(look["color"]), weight="bold")
    style.heading(fig, 3.68, "Rate over the length of the sequence")
    return fig


def causal(data):
    """What the causal mask saves over the length N, and the rate that is left."""
    fig = style.figure(5.85)
    by_dim = data.masked_lengths
    cases = [case for of_dim in by_dim.values() for case in of_dim]
    lengths = sorted({case.tokens for case in cases})
    everybody = (*CONTRACTS, "torch")
    rates = style.steps(max(case.tflops(who).high for case in cases for who in everybody), 6)
    gains = style.steps(max(2.0, *(case.gain(who).high for case in cases for who in CONTRACTS)), 5)
    for index, (dim, of_dim) in enumerate(by_dim.items()):
        for bottom, height, scale, series, form, label in (
                (3.45, 1.7, gains, {who: [case.gain(who) for case in of_dim] for who in CONTRACTS}, "{:.2f}".format,
                 "full time / causal"),
                (0.6, 2.3, rates, {who: [case.tflops(who) for case in of_dim] for who in everybody}, significant,
                 "TFLOP/s, 2·B·N²·d over the time")):
            ax = style.axes(fig, 0.65 + 4.15 * index, bottom, 3.85, height)
            style.doubling(ax, lengths, 1.3, 3)  # room for names
            style.ticks(ax.yaxis, scale, None if index == 0 else [""] * len(scale))
            ax.set_ylim(0, scale[-1])
            ax.grid(axis="y")
            if scale is gains:
                style.title(ax, f"d = {dim}")
                ax.plot(ax.get_xlim(), [2, 2], color=style.GREEN, linestyle=":", linewidth=1.2)
            else:
                ax.set_xlabel(N)
            if index == 0:
                ax.set_ylabel(label)
            xs = [case.tokens for case in of_dim]
            for who, spreads in series.items():
                style.band(ax, dict(zip(xs, spreads)), SERIES[who][1])
            ends = [spreads[-1].mid for spreads in series.values()]
            for who, end, place in zip(series, ends, style.apart(ends, scale[-1] * 0.09, low=scale[-1] * 0.02)):
                name, look = SERIES[who]
                ax.text(xs[-1] * 1.15, place, f"{name} {form(end)}", va="center_baseline", fontsize=style.SMALL,
                        color=style.ink(look["color"]), weight="bold")
    style.heading(fig, 5.65, "The causal mask over the length of the sequence")
    return fig


def error_over_length(data):
    """The largest error against float64 over the length N."""
    fig = style.figure(3.9)
    cases = data.accuracy["cases"]
    scale = style.steps(max(value for case in cases for value in case["largest_errors"].values()) * 1e6 * 1.02, 7)
    lengths = sorted({case["tokens"] for case in cases})
    for index, dim in enumerate(sorted({case["dim"] for case in cases})):
        ax = style.axes(fig, 0.65 + 4.0 * index, 0.6, 2.95, 2.65)
        style.over_lengths(ax, lengths, scale, f"d = {dim}")
        if index == 0:
            ax.set_ylabel("largest |error| against float64, 10⁻⁶")
        ends = []
        for who in ("naive", "efficient", "hw4_fixed", "hw4"):
            name, look = SERIES[who]
            worst = {}
            for case in (case for case in cases if case["dim"] == dim):
                value = case["largest_errors"][who] * 1e6
                worst[case["tokens"]] = max(value, worst.get(case["tokens"], 0.0))
                ax.plot([case["tokens"]], [value], marker=look["marker"], color=look["color"], linestyle="",
                        markersize=5, alpha=0.9, zorder=4)
            xs = sorted(worst)
            ax.plot(xs, [worst[x] for x in xs], color=look["color"], linestyle=look["linestyle"], zorder=3)
            shown = name.replace("PyTorch ", "") if index == 0 else name
            ends.append((f"hw4, {name}" if who.startswith("hw4") else shown, look, worst[xs[-1]]))
        gap = scale[-1] * 0.055
        for (name, look, _), place in zip(ends, style.apart([end for *_, end in ends], gap, gap / 2)):
            ax.text(lengths[-1] * 1.45, place, name, fontsize=style.SMALL, color=style.ink(look["color"]),
                    weight="bold", va="center_baseline", clip_on=False)
    style.heading(fig, 3.68, "Error against float64 over the length of the sequence")
    return fig


# ---- Sweeps: panels of {who: {x: Spread}}


def scaling(data):
    """A case of 1 M tokens on 1 to 64 cards, from parts measured on one."""
    fig = style.figure(4.0)
    parts, cards = on_paper.parts_of(data), on_paper.CARDS
    for index, heads in enumerate(on_paper.HEADS):
        ax = style.axes(fig, 0.75 + 4.15 * index, 0.6, 3.3, 2.65)
        seconds = {(contract, one_disk): [on_paper.run_of(parts, contract, heads, number, one_disk).total
                                          for number in cards]
                   for contract in on_paper.CONTRACTS for one_disk in (False, True)}
        every = [second for of_line in seconds.values() for second in of_line]
        low, high = min(every) / 1.6, max(every) * 1.6
        style.doubling(ax, cards, 1.2, 2.3)  # room for names
        style.log(ax, "y", low, high, style.within(low, high, 0.1))
        ax.grid(axis="y")
        ax.set_xlabel("cards (logarithmic)")
        if index == 0:
            ax.set_ylabel("seconds from file to file (logarithmic)")
        style.title(ax, "1 head" if heads == 1 else f"{heads} heads")
        for contract in on_paper.CONTRACTS:
            look, (start, *_) = LOOKS[contract], seconds[contract, False]
            ax.plot(cards, [start / number for number in cards], color=look["color"], linestyle=":", linewidth=1.0)
            ax.plot(cards, seconds[contract, True], color=look["color"], linestyle="--", linewidth=1.2)
            ax.plot(cards, seconds[contract, False], **look)
            above = contract == on_paper.CONTRACTS[0]
            ax.text(cards[0], start * 1.12 if above else start / 1.12, f"{contract} {significant(start)} s",
                    va="bottom" if above else "top", fontsize=style.SMALL, color=style.ink(look["color"]),
                    weight="bold")
        heights = [math.log10(of_line[-1]) for of_line in seconds.values()]
        for ((contract, _), of_line), place in zip(seconds.items(),
                                                   style.apart(heights, 0.055 * math.log10(high / low))):
            ax.text(cards[-1] * 1.15, 10 ** place, f"{significant(of_line[-1], 2)} s", va="center_baseline",
                    fontsize=style.SMALL, color=style.ink(LOOKS[contract]["color"]), weight="bold")
    style.heading(fig, 3.78, "One case of 1 M tokens on many cards, on paper")
    return fig
