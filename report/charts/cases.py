"""The kernels' rate on every case of the course, beside PyTorch."""
from __future__ import annotations

from builder.template import significant

from . import style, words
from .speedup_over_seq import case_axis

ALT = "TFLOP/s of the kernels of f32 and fixed and of PyTorch on each of the course's cases"


def caption(data):
    fixed = data.fixed_course_cases
    return (f"Rate of the kernel on every case of the course, {words.gpu(data)}: {words.FLOP} over the time. "
            f"{words.median_of([case.hw4 for case in data.cases]).capitalize()}. `fixed` where it was measured, on "
            f"{len(fixed)} of them. PyTorch: its memory-efficient float32 attention in the run of `f32`. Open marks: "
            f"d = 32, filled: d = 64. The dotted line is cuBLAS's SGEMM.")


def series(data):
    """(name, {case: Spread of TFLOP/s}, look)"""
    return [("fixed", {case.name: case.tflops(case.hw4) for case in data.fixed_course_cases}, style.FIXED),
            ("f32", {case.name: case.tflops(case.hw4) for case in data.cases}, style.HW4),
            ("PyTorch", {case.name: case.tflops(case.torch_best) for case in data.cases}, style.EFFICIENT)]


def draw(data):
    fig = style.figure(4.3)
    cases, found, sgemm = data.cases, series(data), data.kernels["sgemm"]["tflops"]
    dims = {case.name: case.dim for case in cases}
    every = [spread for _, points, _ in found for spread in points.values()]
    low, high = min(spread.low for spread in every) / 1.5, max(spread.high for spread in every) * 1.4
    ax, place = case_axis(fig, cases, low, high)
    style.log(ax, "y", low, high, [at for at in (1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= at <= high])
    ax.grid(axis="y")
    ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
    ax.plot(ax.get_xlim(), [sgemm, sgemm], color=style.GREEN, linestyle=":", linewidth=1.2)
    ax.text(-0.5, sgemm * 1.04, "cuBLAS SGEMM", fontsize=style.SMALL)
    for name, points, look in found:
        order = sorted(points, key=place.get)
        if len(order) == len(cases):  # a line through some of them would pass over the others
            ax.plot([place[case] for case in order], [points[case].mid for case in order], color=look["color"],
                    linestyle=look["linestyle"], linewidth=0.7)
        for case in order:
            style.whiskers(ax, place[case], points[case], horizontal=False, color=look["color"])
            ax.plot([place[case]], [points[case].mid], marker=look["marker"], color=look["color"], linestyle="", zorder=5,
                    markerfacecolor="white" if dims[case] == 32 else look["color"])
        best = max(points, key=lambda case: points[case].mid)
        if name != "PyTorch":  # whose own line would cross it
            ax.text(place[best], points[best].mid * 1.1, significant(points[best].mid, 3), ha="center",
                    fontsize=style.SMALL)
        ax.text(len(cases) - 0.1, points[order[-1]].mid, name, va="center_baseline", fontsize=style.TEXT,
                color=style.ink(look["color"]), weight="bold", clip_on=False)
    style.heading(fig, 4.08, "The kernels on every case")
    return fig
