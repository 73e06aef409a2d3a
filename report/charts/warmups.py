"""CS336: the samples in their order, after 0, 1, 2 and 5 launches."""
from __future__ import annotations

from builder.measured_courses import Sweep

from . import style, sweeps, words

NEEDS = ("warmups.json",)
ALT = "milliseconds of each sample in its order after 0, 1, 2 and 5 warm-ups, of hw4's f32 and of PyTorch's naive form"
LEFTS, WIDTH, BOTTOM, INNER = (0.62, 4.85), 3.9, 0.6, 2.1
HEIGHT = 3.4
LOOKS = {0: (style.RED, "o"), 1: (style.ORANGE, "s"), 2: (style.SKY, "^"), 5: (style.BLUE, "D")}


def caption(data):
    row = Sweep(data, "warmups.json").rows[0]
    return (f"Every sample of forward in its order, one launch each, after so many launches before the first, "
            f"{words.gpu(data)}, B = {row.batches}, N = {row.tokens}, d = {row.dim}; each line is a process of its "
            f"own. PyTorch's naive form in fp16.")


def draw(data):
    fig = style.figure(HEIGHT)
    found = Sweep(data, "warmups.json")
    every = [sample * 1e3 for row in found.rows if row.forward.ok for sample in row.forward.samples]
    for left, who in zip(LEFTS, found.everybody):
        ax = style.axes(fig, left, BOTTOM, WIDTH, INNER)
        rows = [row for row in found.where(who=who) if row.forward.ok]
        count = max(len(row.forward.samples) for row in rows)
        sweeps.scale(ax, every, room=1.5)
        style.ticks(ax.xaxis, list(range(1, count + 1)))
        ax.set_xlim(0.5, count + 0.5)
        ax.grid(axis="y")
        ax.set_xlabel("sample")
        if left == LEFTS[0]:
            ax.set_ylabel("ms (logarithmic)")
        style.title(ax, words.in_words(who))
        for row in rows:
            colour, marker = LOOKS.get(row.warmup, (style.GREY, "x"))
            ax.plot(range(1, len(row.forward.samples) + 1), [sample * 1e3 for sample in row.forward.samples],
                    color=colour, marker=marker, label=f"{row.warmup} before")
        ax.legend(loc="upper right", frameon=False, fontsize=style.SMALL)
    style.heading(fig, HEIGHT - 0.2, "The first launch of a process is not like the others")
    return fig
