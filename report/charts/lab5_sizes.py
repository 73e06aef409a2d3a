"""Lab5: forward's time over batch and over heads, and the rate over the batch."""
from __future__ import annotations

from builder.measured_courses import BASE, Lab5

from . import style, sweeps, words

NEEDS = ("lab5.json",)
ALT = "forward time over the batch and over the heads, and TFLOP/s over the batch, by seven implementations"
WIDTH, BOTTOM, INNER = 1.9, 0.6, 2.5
LEFTS = (0.62, 3.2, 5.8)
HEIGHT = 3.85


def caption(data):
    found = Lab5(data)
    return (f"Lab5 over batch and heads, {words.gpu(data)}, no mask, N = {BASE['tokens']}, {BASE['columns']} columns "
            f"of all heads. Left and middle: H = {BASE['heads']} heads of {BASE['columns'] // BASE['heads']} columns. "
            f"Right: B = {BASE['batches']}, and the columns divided among ever more heads: as many FLOP, for H times "
            f"N² scores. Medians, bands from p20 to p80. {sweeps.types(found.sweep.torch)}")


def forward(rows, what):
    return {x: row.forward.seconds.times(1e3) if what == "ms" else row.forward.tflops
            for x, row in rows.items() if row.forward.ok}


def draw(data):
    fig = style.figure(HEIGHT)
    found = Lab5(data)
    panels = (("batches", "ms", "B (logarithmic)", "time over the batch", "forward, ms (logarithmic)"),
              ("batches", "TFLOP/s", "B (logarithmic)", "rate over the batch", "TFLOP/s (logarithmic)"),
              ("heads", "ms", "H (logarithmic)", "time over the heads", "forward, ms (logarithmic)"))
    for left, (size, what, label, title, side) in zip(LEFTS, panels):
        series = {who: forward(rows, what) for who, rows in found.over(size).items()}
        xs = sorted({x for points in series.values() for x in points})
        ax = sweeps.panel(fig, (left, BOTTOM, WIDTH, INNER), xs, label, title, [str(x) for x in xs])
        sweeps.scale(ax, [spread.mid for points in series.values() for spread in points.values()])
        ax.set_ylabel(side)
        sweeps.curves(ax, INNER, series, names=size == "heads")
    style.heading(fig, HEIGHT - 0.2, "Forward over batch and heads")
    return fig
