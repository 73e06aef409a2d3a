"""The ladders: every kernel of a contract, a row each."""
from __future__ import annotations

from builder.words import NOT_KNOWN, significant

from . import style


def ladder(data):
    """Every kernel of f32 on t28: time, and rate relative to the peak of the float32 units."""
    rungs = data.ladder("f32")
    height = 1.25 + 0.30 * len(rungs)
    fig = style.figure(height)
    times = style.axes(fig, 1.35, 0.55, 3.3, height - 1.25)
    places = style.rows_down(times, [rung.kernel for rung in rungs])
    low = min(rung.seconds.low for rung in rungs) * 1e3 / 1.5
    high = max(rung.seconds.high for rung in rungs) * 1e3 * 3  # space for the last number
    style.log(times, "x", low, high, style.within(low, high))
    times.grid(axis="x")
    times.set_xlabel("kernel time on t28, ms (logarithmic)")
    for place, rung in zip(places, rungs):
        took = rung.seconds.times(1e3)
        times.plot([low, took.mid], [place, place], color=style.PALE, linewidth=1.2, zorder=1)
        style.whiskers(times, place, took)
        times.plot([took.mid], [place], linestyle="", marker="o", color=style.BLUE, markersize=6, zorder=5)
        times.text(took.mid * 1.18, place, significant(took.mid), va="center_baseline", fontsize=style.SMALL, zorder=6,
                   bbox=style.WHITE)
    rates_beside(fig, 5.0, height - 1.25, rungs, "", data.peak("f32"), "float32 peak", style.BLUE)
    style.heading(fig, height - 0.25, "The ladder of f32 on t28: B = 4, N = 16384, d = 64")
    return fig


def rates_beside(fig, left, inner, rungs, title, peak, name, colour, labels=None):
    """Bars of the rates, and the peak as a line above all bars."""
    ax = style.axes(fig, left, 0.55, 3.7 if labels is None else 3.3, inner)
    places = style.rows_down(ax, labels or [""] * len(rungs))
    scale = style.steps(peak, 6)
    ax.set_xlim(0, peak * 1.04)
    style.ticks(ax.xaxis, [place for place in scale if place < peak * 0.97])
    ax.grid(axis="x")
    ax.set_xlabel("TFLOP/s, 4·B·N²·d over the time")
    ax.plot([peak, peak], [len(rungs) - 0.4, -0.6], color=style.INK, linewidth=1.3)
    ax.text(peak, -0.68, f"{name} {significant(peak)}", ha="right", va="bottom", fontsize=style.SMALL)
    if title:
        style.title(ax, title)
    for place, rung in zip(places, rungs):
        if rung.seconds is None:
            ax.text(peak * 0.013, place, f"{NOT_KNOWN}: the samples drift", va="center_baseline", fontsize=style.SMALL)
            continue
        style.bar(ax, place, rung.tflops, significant(rung.tflops.mid), peak * 0.013, color=colour)


def of_tensor_cores(data, contract, shapes, title, peak_name, colour):
    """The kernels of a contract on two shapes, relative to the peak of the tensor cores."""
    found = data.ladders(contract)
    inner = 0.32 * len(next(iter(found.values())))
    fig = style.figure(inner + 1.4)
    for index, (shape, words) in enumerate(shapes.items()):
        rungs = found[shape]
        rates_beside(fig, 1.25 + 3.95 * index, inner, rungs, words, data.peak(contract), peak_name, colour,
                     [rung.kernel if index == 0 else "" for rung in rungs])
    style.heading(fig, inner + 1.2, title)
    return fig


def fixed_ladder(data):
    return of_tensor_cores(data, "fixed", {"t28": "t28: N = 16384, d = 64", "t11": "t11: N = 128, d = 32"},
                           "The ladder of fixed: long and short rows", "bytes, six for one", style.FIXED["color"])


def half_ladder(data):
    return of_tensor_cores(data, "bf16", {"d64": "64 heads, d = 64", "d128": "32 heads, d = 128"},
                           "The ladder of bf16, N = 8192", "16-bit peak", style.BF16["color"])
