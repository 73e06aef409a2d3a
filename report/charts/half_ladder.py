"""The steps to half precision's kernel, at two head sizes."""
from __future__ import annotations

from builder.measured_half import half_ladder

from . import style, words

NEEDS = ("half_ladder.json",)
ALT = "TFLOP/s of the kernels of bf16 in the order of the ladder, for d = 64 and d = 128"
LEFT, GAP, WIDTH, ROW = 1.2, 0.35, 3.5, 0.3
BOTTOM = 0.6


def caption(data):
    by_dim = half_ladder(data)
    spreads = [rung.seconds for rungs in by_dim.values() for rung in rungs]
    shapes = {(line["batches"], line["tokens"], line["dim"]) for line in data.documents["half_ladder.json"]["ladder"]}
    text = " and ".join(f"{batches} heads of N = {tokens}, d = {dim}" for batches, tokens, dim in
                        sorted(shapes, key=lambda shape: shape[2]))
    return (f"The ladder of `bf16` on {words.gpu(data)}, {text}, no mask, operands of that type: {words.FLOP} over the "
            f"time. Each rung has what the ones before it have. {words.median_of(spreads).capitalize()}.")


def draw(data):
    by_dim = half_ladder(data)
    rows = max(len(rungs) for rungs in by_dim.values())
    inner = ROW * rows
    height = BOTTOM + inner + 0.75
    fig = style.figure(height)
    scale = style.steps(max(rung.tflops.high for rungs in by_dim.values() for rung in rungs) * 1.12, 6)
    for index, (dim, rungs) in enumerate(by_dim.items()):
        ax = style.axes(fig, LEFT + (WIDTH + GAP) * index, BOTTOM, WIDTH, inner)
        places = style.rows_down(ax, [rung.kernel for rung in rungs] if index == 0 else [""] * len(rungs))
        style.from_zero(ax, "x", scale)
        ax.set_xlabel("TFLOP/s, 4·B·N²·d over the time")
        style.title(ax, f"d = {dim}")
        for place, rung in zip(places, rungs):
            rate = rung.tflops
            ax.barh([place], [rate.mid], height=0.62, color=style.BF16["color"], zorder=2)
            style.whiskers(ax, place, rate)
            ax.text(rate.high + scale[-1] * 0.02, place, f"{rate.mid:.0f}", va="center_baseline", fontsize=style.SMALL,
                    zorder=6, bbox=style.WHITE)
    style.heading(fig, height - 0.22, "bf16, step by step")
    return fig
