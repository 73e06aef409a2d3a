"""A course report's bars: one thing changed at a time, from the baseline to the program as it is; the whole run and the
kernel's part of it."""
from __future__ import annotations

from builder.spread import Spread
from builder.template import significant

from . import style, words

ALT = "time of a whole run on t28 and the kernel's part of it, one optimisation after the other"


def caption(data):
    steps = data.steps["steps"]
    walls = [Spread.of(step["seconds"]) for step in steps]
    first, last = steps[0], steps[-1]
    return (f"One thing after the other on {data.steps['case']}, {words.gpu(data)}: the whole command from file to "
            f"file (median of {words.counts(walls)} runs, whiskers from p20 to p80), and within it the time in which a "
            f"kernel ran (hw4 --json). From {first['kernel']}, {copies(first)} and {streams(first)} to "
            f"{last['kernel']}, {copies(last)} and {streams(last)}; each bar changes what its label says and keeps the "
            f"rest.")


def copies(step):
    return {"2d": "2-D copies", "linear": "flat copies"}.get(step["copies"], step["copies"])


def streams(step):
    return "1 stream" if step["streams"] == 1 else f"{step['streams']} streams"


def draw(data):
    steps = data.steps["steps"]
    walls = [Spread.of(step["seconds"]).times(1e3) for step in steps]
    kernels = [Spread.of(step["kernel_seconds"]).times(1e3) for step in steps]
    height = 1.2 + 0.28 * len(steps)
    fig = style.figure(height)
    left, width = 1.75, 6.0
    ax = style.axes(fig, left, 0.55, width, height - 1.2)
    places = style.rows_down(ax, [step["label"] for step in steps])
    scale = style.steps(max(wall.high for wall in walls), 8)
    style.from_zero(ax, "x", scale)
    ax.set_xlabel(f"ms of a whole run on {data.steps['case']}")
    look = {"height": 0.64, "edgecolor": style.INK, "linewidth": 0.4, "zorder": 2}
    ax.barh(places, [kernel.mid for kernel in kernels], color=style.RED, **look)
    ax.barh(places, [max(0.0, wall.mid - kernel.mid) for wall, kernel in zip(walls, kernels)],
            left=[kernel.mid for kernel in kernels], color=style.PALE, **look)
    for place, wall, kernel in zip(places, walls, kernels):
        style.whiskers(ax, place, wall)
        ax.text(max(wall.high, wall.mid) + scale[-1] * 0.012, place,
                f"{significant(wall.mid, 3)}, kernel {significant(kernel.mid, 3)}", va="center_baseline",
                fontsize=style.SMALL, clip_on=False)
    everywhere = style.canvas(fig)
    x = style.key(everywhere, left, height - 0.52, style.RED, "", "kernel")
    style.key(everywhere, x, height - 0.52, style.PALE, "", "everything else: process, context, files, copies")
    style.heading(fig, height - 0.22, f"One optimisation after the other, {data.steps['case']} from file to file")
    return fig
