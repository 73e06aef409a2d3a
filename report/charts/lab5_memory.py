"""Lab5: the peak of memory in forward, over the width and over the length."""
from __future__ import annotations

from builder.measured_courses import BASE, TOKENS, Lab5
from builder.spread import Spread

from . import style, sweeps, words

NEEDS = ("lab5.json",)
ALT = "peak memory of forward over the width and over the length, by seven implementations"
LEFTS, WIDTH, BOTTOM, INNER = (0.62, 5.2), 2.62, 0.6, 2.4
HEIGHT = 3.7
MIB = 2.0 ** 20


def caption(data):
    return (f"Peak memory of forward, inputs included, {words.gpu(data)}. Left: over the columns of all "
            f"{BASE['heads']} heads together, B = {BASE['batches']}, N = {BASE['tokens']}. Right: over the length with "
            f"B·N = {TOKENS} tokens, so that Q, K, V and O stay as large as they are: what grows is the scores. "
            f"PyTorch's form and kernels in fp16 and hw4's `bf16` have numbers of 2 bytes, hw4's others of 4.")


def peaks(rows):
    return {x: Spread.of([row.forward.peak_bytes / MIB]) for x, row in rows.items() if row.forward.ok}


def draw(data):
    fig = style.figure(HEIGHT)
    found = Lab5(data)
    panels = {"over the width": (found.over("columns"), "columns (logarithmic)"),
              "over the length": (found.over_length(False), "N (logarithmic)")}
    for left, (title, (by_who, label)) in zip(LEFTS, panels.items()):
        series = {who: peaks(rows) for who, rows in by_who.items()}
        xs = sorted({x for points in series.values() for x in points})
        ax = sweeps.panel(fig, (left, BOTTOM, WIDTH, INNER), xs, label, title, [str(x) if x < 1024 or x % 1024 else
                                                                               words.short(x) for x in xs])
        sweeps.scale(ax, [spread.mid for points in series.values() for spread in points.values()])
        ax.set_ylabel("MiB (logarithmic)")
        sweeps.curves(ax, INNER, series)
    style.heading(fig, HEIGHT - 0.2, "Peak memory of forward")
    return fig
