"""Lab5: forward's time and rate over the length, without a mask and under the causal one."""
from __future__ import annotations

from builder.measured_courses import BASE, TOKENS, Lab5

from . import style, sweeps, words

NEEDS = ("lab5.json",)
ALT = ("forward time and TFLOP/s over the length N, without a mask and causal: PyTorch's naive form, FlashAttention-2, "
       "cuDNN and hw4 under four contracts")
LEFTS, WIDTH = (0.62, 5.2), 2.62
RATES, TIMES = (0.6, 2.2), (3.55, 2.2)  # bottom and height
HEIGHT = 6.35


def caption(data):
    found = Lab5(data)
    return (f"Lab5 over the length, {words.gpu(data)}: B·N = {TOKENS} tokens, H = {BASE['heads']}, d = "
            f"{BASE['columns'] // BASE['heads']}. Above: forward's time. Below: lab5.py's FLOP (4·B·H·N²·d, half of it "
            f"under the mask) over the time, so that a kernel that computes hidden scores too has half the rate for "
            f"the same time. Medians, bands from p20 to p80. {sweeps.types(found.sweep.torch)}")


def draw(data):
    fig = style.figure(HEIGHT)
    found = Lab5(data)
    by_mask = {"no mask": found.over_length(False), "causal": found.over_length(True)}
    timed = {title: {who: {n: row.forward for n, row in rows.items() if row.forward.ok} for who, rows in by_who.items()}
             for title, by_who in by_mask.items()}
    every = [one for by_who in timed.values() for points in by_who.values() for one in points.values()]
    lengths = sorted({n for by_who in timed.values() for points in by_who.values() for n in points})
    for left, (title, by_who) in zip(LEFTS, timed.items()):
        for (bottom, height), what, values in ((TIMES, "ms", [one.seconds.mid * 1e3 for one in every]),
                                               (RATES, "TFLOP/s", [one.tflops.mid for one in every])):
            ax = sweeps.panel(fig, (left, bottom, WIDTH, height), lengths, "N (logarithmic)", title)
            sweeps.scale(ax, values)
            ax.set_ylabel("forward, ms (logarithmic)" if what == "ms" else "TFLOP/s (logarithmic)")
            sweeps.curves(ax, height, {who: {n: one.seconds.times(1e3) if what == "ms" else one.tflops
                                             for n, one in points.items()} for who, points in by_who.items()})
    style.heading(fig, HEIGHT - 0.2, "Forward over the length of the sequence")
    return fig
