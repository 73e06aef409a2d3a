"""How much faster than the sequential program: the GPU kernel, a whole run, the CPU engine; every case."""
from __future__ import annotations

from builder.spread import Spread
from builder.template import significant

from . import style, words

ALT = "speed-up over the sequential program for each of the course's cases, on a logarithmic axis"


def caption(data):
    shortened = sum(record["measured_batches"] < record["batches"] for record in data.sequential["cases"])
    return (f"Speed-up over seq, the sequential program (one thread of {words.processor(data.sequential)}; its "
            f"arithmetic alone, without reading and writing), for every case, on a logarithmic axis. Kernel: the GPU "
            f"kernel's time on {words.gpu(data)}, under `f32` and, where measured, under `fixed`. File to file: the "
            f"whole command, from starting the process to its end. CPU engine: the kernel's time, warm and in memory, "
            f"with {data.cpu['cases'][0]['threads']} threads, where measured. Medians; whiskers from p20 to "
            f"p80 of our times. On {shortened} cases seq was timed on some of the batches and scaled to all. Open marks: d = 32, filled: d = 64.")


def series(data):
    """name: {case: Spread of speed-ups}"""
    of_seq = {case.name: data.sequential_seconds(case.name).mid for case in data.cases}
    kernel = {case.name: case.hw4.under(of_seq[case.name]) for case in data.cases}
    fixed = {case.name: case.hw4.under(of_seq[case.name]) for case in data.fixed_course_cases if case.name in of_seq}
    files = {record["name"]: Spread.of(record["seconds"]["hw4"]).under(of_seq[record["name"]])
             for record in data.file_cases if record["name"] in of_seq}
    cpu = {record["case"]: Spread.of(record["seconds"]["hw4"]).under(of_seq[record["case"]])
           for record in data.cpu["cases"] if record["case"] in of_seq}
    return {"kernel": kernel, "file to file": files, "kernel, fixed": fixed, "CPU engine": cpu}


LOOKS = {"kernel": (style.BLUE, "o"), "file to file": (style.RED, "s"), "kernel, fixed": (style.PURPLE, "v"),
         "CPU engine": (style.GREEN, "^")}
ON_SOME_CASES = ("kernel, fixed", "CPU engine")


def draw(data):
    fig = style.figure(4.3)
    cases = data.cases
    dims = {case.name: case.dim for case in cases}
    found = series(data)
    every = [spread for points in found.values() for spread in points.values()]
    low, high = min(spread.low for spread in every) / 2, max(spread.high for spread in every) * 2.2
    powers = style.powers(low, high)
    ax, place = case_axis(fig, cases, low, high)
    style.log(ax, "y", low, high, powers, style.power_labels(powers))
    ax.grid(axis="y")
    ax.set_ylabel("times as fast as seq (logarithmic)")
    ax.plot(ax.get_xlim(), [1, 1], color=style.GREY, linewidth=0.8)
    for name, points in found.items():
        colour, marker = LOOKS[name]
        order = sorted(points, key=place.get)
        if name not in ON_SOME_CASES:
            ax.plot([place[case] for case in order], [points[case].mid for case in order], color=colour, linewidth=0.7)
        for case in order:
            style.whiskers(ax, place[case], points[case], horizontal=False, color=colour)
            ax.plot([place[case]], [points[case].mid], marker=marker, color=colour, linestyle="", zorder=5,
                    markerfacecolor="white" if dims[case] == 32 else colour)
        if name in ON_SOME_CASES:  # a few marks: named beside the first
            ax.text(place[order[0]] - 0.6, points[order[0]].mid, name, ha="right", va="center_baseline",
                    fontsize=style.TEXT, color=style.ink(colour), weight="bold")
            continue
        best = max(points, key=lambda case: points[case].mid)
        ax.text(place[best], points[best].mid * 1.5, significant(points[best].mid, 3), ha="center",
                fontsize=style.SMALL)
        ax.text(len(cases) - 0.1, points[order[-1]].mid, name, va="center_baseline", fontsize=style.TEXT, color=colour,
                weight="bold", clip_on=False)
    style.heading(fig, 4.08, "Speed-up over the sequential program")
    return fig


def case_axis(fig, cases, low, high):
    """Axes with the cases across, N under their names, and lines from low to high between the groups. Returns them and
    the cases' places."""
    ax = style.axes(fig, 0.75, 0.85, 7.25, 3.0)
    ax.set_xlim(-0.7, len(cases) - 0.3)
    style.ticks(ax.xaxis, range(len(cases)), [case.name for case in cases])
    ax.tick_params(axis="x", labelrotation=90, length=0)
    for index, case in enumerate(cases):
        ax.text(index, -0.115, words.short(case.tokens), transform=ax.get_xaxis_transform(), fontsize=6.5, rotation=90,
                ha="center", va="top", color=style.GREY)
    ax.text(-1.0, -0.115, "N", transform=ax.get_xaxis_transform(), fontsize=7, ha="right", va="top", color=style.GREY)
    for edge in group_edges(cases):
        ax.plot([edge, edge], [low, high], color=style.PALE, linewidth=0.8)
    return ax, {case.name: index for index, case in enumerate(cases)}


def group_edges(cases):
    """Between t10 and t11, t20 and t21: small, middle and large cases."""
    return [index - 0.5 for index, case in enumerate(cases) if case.name in ("t11", "t21") and index]
