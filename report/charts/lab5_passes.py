"""Lab5: the rates of forward, backward and both over the length."""
from __future__ import annotations

from builder.measured_courses import BASE, PASSES, TOKENS, Lab5

from . import style, sweeps, words

NEEDS = ("lab5.json",)
ALT = ("TFLOP/s of forward, backward and both over the length N: PyTorch's naive form, FlashAttention-2, cuDNN and "
       "hw4's f32 and bf16")
LEFT, WIDTH, GAP, BOTTOM, INNER = 0.62, 2.2, 0.2, 0.6, 2.35
HEIGHT = 3.65
TITLES = {"forward": "forward", "backward": "backward", "forward_backward": "both"}


def with_backward(found):
    return {who: rows for who, rows in found.over_length(False).items()
            if any(row.backward.ok for row in rows.values())}


def caption(data):
    found = Lab5(data)
    return (f"Forward, backward and both as one, over the length, {words.gpu(data)}: B·N = {TOKENS}, H = "
            f"{BASE['heads']}, d = {BASE['columns'] // BASE['heads']}, no mask; of those that have a backward pass. "
            f"lab5.py's FLOP over the time: backward counts 2.5 times forward's, both 3.5 times. Medians, bands from "
            f"p20 to p80. Those of PyTorch {found.sweep.torch} are in fp16, hw4's `f32` in float32, its `bf16` "
            f"in that type.")


def draw(data):
    fig = style.figure(HEIGHT)
    by_who = with_backward(Lab5(data))
    rates = {name: {who: {n: getattr(row, name).tflops for n, row in rows.items() if getattr(row, name).ok}
                    for who, rows in by_who.items()} for name in PASSES}
    every = [rate.mid for points in rates.values() for rows in points.values() for rate in rows.values()]
    lengths = sorted({n for points in rates.values() for rows in points.values() for n in rows})
    for index, name in enumerate(PASSES):
        ax = sweeps.panel(fig, (LEFT + (WIDTH + GAP) * index, BOTTOM, WIDTH, INNER), lengths, "N (logarithmic)",
                          TITLES[name])
        sweeps.scale(ax, every)
        if index == 0:
            ax.set_ylabel("TFLOP/s (logarithmic)")
        else:
            ax.set_yticklabels([])
        sweeps.curves(ax, INNER, rates[name], names=index == len(PASSES) - 1)
    style.heading(fig, HEIGHT - 0.2, "Forward, backward and both over the length")
    return fig
