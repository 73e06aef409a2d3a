"""The CPU engine beside PyTorch's CPU attention and the sequential program."""
from __future__ import annotations

from builder.spread import Spread
from builder.template import significant

from . import style, words

ALT = "GFLOP/s of the CPU engine, PyTorch's CPU attention and the sequential program"

ROWS = (("hw4", "hw4", style.BLUE, ""), ("torch", "PyTorch", style.RED, "//"), ("seq", "seq, 1 thread", style.PALE, ""))


def caption(data):
    cases = data.cpu["cases"]
    spreads = [Spread.of(case["seconds"]["hw4"]) for case in cases]
    kernels = ", ".join(sorted({case["kernel"] for case in cases}))
    return (f"Attention on the CPU, {words.processor(data.cpu)}: hw4's kernel ({kernels}) and PyTorch's float32 "
            f"attention with {cases[0]['threads']} threads each, both warm and in memory, seq's whole process with "
            f"one. {words.FLOP} over the median of {words.counts(spreads)} samples (seq: one), whiskers from p20 to p80.")


def draw(data):
    found = data.cpu["cases"]
    rows = [[row for row in ROWS if case["seconds"][row[0]]] for case in found]
    height = 0.95 + sum(0.24 * len(of_case) + 0.14 for of_case in rows)
    fig = style.figure(height)
    ax = style.axes(fig, 1.85, 0.55, 6.2, height - 0.95)
    bars, names, y = [], [], 0.0
    for case, of_case in zip(found, rows):
        names.append((y + (len(of_case) - 1) / 2, case["case"]))
        for row in of_case:
            bars.append((y, case, row))
            y += 1.0
        y += 0.6
    rates = [Spread.of(case["seconds"][row[0]]).under(case["flop"] * 1e-9) for _, case, row in bars]
    scale = style.steps(max(rate.high for rate in rates), 7)
    style.from_zero(ax, "x", scale)
    ax.set_ylim(y - 1.0, -0.7)
    style.ticks(ax.yaxis, [place for place, *_ in bars], [row[1] for *_, row in bars])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("GFLOP/s, 4·B·N²·d over the time")
    for (place, case, (name, _, colour, hatch)), rate in zip(bars, rates):
        ax.barh([place], [rate.mid], height=0.78, color=colour, hatch=hatch, edgecolor=style.INK, linewidth=0.4,
                zorder=2)
        if rate.count > 1:
            style.whiskers(ax, place, rate)
        ms = Spread.of(case["seconds"][name]).mid * 1e3
        ax.text(rate.high + scale[-1] * 0.012, place, f"{significant(rate.mid, 3)} ({significant(ms, 3)} ms)",
                va="center_baseline", fontsize=style.SMALL, clip_on=False)
    for place, name in names:
        ax.text(-0.21, place, name, transform=ax.get_yaxis_transform(), va="center_baseline", fontsize=style.TEXT,
                weight="bold", clip_on=False)
    style.heading(fig, height - 0.2, "The CPU engine")
    return fig
