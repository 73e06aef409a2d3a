"""The cases of the course across: rates, speed-ups, the parts of a run; and memory by allocation."""
from __future__ import annotations

from builder.errors import Failed
from builder.measured_courses import tracks
from builder.spread import Spread
from builder.words import short, significant

from . import drawings, style

MIB = 2.0 ** 20


def group_edges(names):
    """Between t10 and t11, t20 and t21: small, middle and large cases."""
    return [index - 0.5 for index, name in enumerate(names) if name in ("t11", "t21") and index]


class OverCases:
    """Axes with the cases across, N under their names, and lines between the groups."""

    def __init__(self, cases, every, below, above, title):
        self.fig = style.figure(4.3)
        self.low, self.high = min(spread.low for spread in every) / below, max(spread.high for spread in every) * above
        self.ax = ax = style.axes(self.fig, 0.75, 0.85, 7.25, 3.0)
        self.dims = {case.name: case.dim for case in cases}
        self.place = {case.name: index for index, case in enumerate(cases)}
        ax.set_xlim(-0.7, len(cases) - 0.3)
        style.ticks(ax.xaxis, range(len(cases)), [case.name for case in cases])
        ax.tick_params(axis="x", labelrotation=90, length=0)
        for index, case in enumerate(cases):
            ax.text(index, -0.115, short(case.tokens), transform=ax.get_xaxis_transform(), fontsize=6.5, rotation=90,
                    ha="center", va="top", color=style.GREY)
        ax.text(-1.0, -0.115, "N", transform=ax.get_xaxis_transform(), fontsize=7, ha="right", va="top",
                color=style.GREY)
        for edge in group_edges(self.dims):
            ax.plot([edge, edge], [self.low, self.high], color=style.PALE, linewidth=0.8)
        style.heading(self.fig, 4.08, title)

    def marks(self, points, colour, marker, **line):
        """{case: Spread}, open where d = 32; joined by a line if it is given a look. The cases in their order."""
        order = sorted(points, key=self.place.get)
        if line:
            self.ax.plot([self.place[case] for case in order], [points[case].mid for case in order], color=colour,
                         linewidth=0.7, **line)
        for case in order:
            style.whiskers(self.ax, self.place[case], points[case], horizontal=False, color=colour)
            self.ax.plot([self.place[case]], [points[case].mid], marker=marker, color=colour, linestyle="", zorder=5,
                         markerfacecolor="white" if self.dims[case] == 32 else colour)
        return order

    def label_best(self, points, above):
        best = max(points, key=lambda case: points[case].mid)
        self.ax.text(self.place[best], points[best].mid * above, significant(points[best].mid), ha="center",
                     fontsize=style.SMALL)

    def name(self, x, y, text, colour, **options):
        self.ax.text(x, y, text, va="center_baseline", fontsize=style.TEXT, color=colour, weight="bold", **options)


def cases(data):
    """The kernels' rate on every case of the course, beside PyTorch."""
    found = [("fixed", {case.name: case.tflops(case.hw4) for case in data.fixed_course_cases}, style.FIXED),
             ("f32", {case.name: case.tflops(case.hw4) for case in data.cases}, style.HW4),
             ("PyTorch", {case.name: case.tflops(case.torch_best) for case in data.cases}, style.EFFICIENT)]
    every, sgemm = [spread for _, points, _ in found for spread in points.values()], data.kernels["sgemm"]["tflops"]
    over = OverCases(data.cases, every, 1.5, 1.4, "The kernels on every case")
    ax = over.ax
    style.log(ax, "y", over.low, over.high, style.within(over.low, over.high, most=500))
    ax.grid(axis="y")
    ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
    ax.plot(ax.get_xlim(), [sgemm, sgemm], color=style.GREEN, linestyle=":", linewidth=1.2)
    ax.text(-0.5, sgemm * 1.04, "cuBLAS SGEMM", fontsize=style.SMALL)
    for name, points, look in found:
        # A line through some of them would pass over the others.
        line = {"linestyle": look["linestyle"]} if len(points) == len(data.cases) else {}
        order = over.marks(points, look["color"], look["marker"], **line)
        if name != "PyTorch":  # whose own line would cross it
            over.label_best(points, 1.1)
        over.name(len(data.cases) - 0.1, points[order[-1]].mid, name, style.ink(look["color"]), clip_on=False)
    return over.fig


def speedup_over_seq(data):
    """How much faster than the sequential program: the GPU kernel, a whole run, the CPU engine; every case."""
    of_seq = {case.name: data.sequential_seconds(case.name).mid for case in data.cases}

    def over_seq(seconds):
        return {name: found.under(of_seq[name]) for name, found in seconds if name in of_seq}

    # A colour, a marker, and whether it is there on all cases.
    found = {"kernel": (over_seq((case.name, case.hw4) for case in data.cases), style.BLUE, "o", True),
             "file to file": (over_seq((record["name"], Spread.of(record["seconds"]["hw4"]))
                                       for record in data.file_cases), style.RED, "s", True),
             "kernel, fixed": (over_seq((case.name, case.hw4) for case in data.fixed_course_cases), style.PURPLE, "v",
                               False),
             "CPU engine": (over_seq((record["case"], Spread.of(record["seconds"]["hw4"]))
                                     for record in data.cpu["cases"]), style.GREEN, "^", False)}
    every = [spread for points, *_ in found.values() for spread in points.values()]
    over = OverCases(data.cases, every, 2, 2.2, "Speed-up over the sequential program")
    ax = over.ax
    style.log(ax, "y", over.low, over.high)
    ax.grid(axis="y")
    ax.set_ylabel("times as fast as seq (logarithmic)")
    ax.plot(ax.get_xlim(), [1, 1], color=style.GREY, linewidth=0.8)
    for name, (points, colour, marker, on_all) in found.items():
        order = over.marks(points, colour, marker, **({"linestyle": "-"} if on_all else {}))
        if on_all:
            over.label_best(points, 1.5)
            over.name(len(data.cases) - 0.1, points[order[-1]].mid, name, colour, clip_on=False)
        else:  # a few marks: named beside the first
            over.name(over.place[order[0]] - 0.6, points[order[0]].mid, name, style.ink(colour), ha="right")
    return over.fig


# ---- Where the time of a whole run goes


def parts(record):
    """(start, work, rest) in seconds; together the median wall time. Stages overlap, so their times cannot be stacked.
    What can: start of driver and context, the rest of what hw4 sees of its own run, and what the command takes beyond
    that (loading the program before main, the driver's end of the process)."""
    stages = record["stages"]
    start = stages["driver_seconds"] + stages["context_seconds"]
    work = max(0.0, stages["total_seconds"] - start)
    return start, work, max(0.0, Spread.of(record["seconds"]["hw4"]).mid - stages["total_seconds"])


def breakdown(data):
    """A stack for each case; below, the busy time of every stage, shaded by its share of the work."""
    records = data.file_cases
    names = [record["name"] for record in records]
    stages = ("read", "check", "copy_in", "kernel", "copy_out", "prepare", "write")
    fig = style.figure(5.9)
    bars, grid = style.axes(fig, 1.05, 3.15, 7.8, 2.2), style.axes(fig, 1.05, 0.3, 7.8, 2.25)
    for ax in (bars, grid):
        ax.set_xlim(-0.5, len(records) - 0.5)
    places = range(len(records))
    starts, works, rests = ([1e3 * part for part in column] for column in zip(*map(parts, records)))
    look = {"width": 0.72, "edgecolor": style.INK, "linewidth": 0.4, "zorder": 2}
    bars.bar(places, starts, color=style.PALE, **look)
    bars.bar(places, works, bottom=starts, color=style.BLUE, **look)
    bars.bar(places, rests, bottom=[start + work for start, work in zip(starts, works)], color="white", hatch="////",
             **look)
    walls = [Spread.of(record["seconds"]["hw4"]).times(1e3) for record in records]
    for place, wall in zip(places, walls):
        style.whiskers(bars, place, wall, horizontal=False)
    scale = style.steps(max(wall.high for wall in walls))
    style.from_zero(bars, "y", scale)
    bars.set_ylabel("ms of a run")
    style.ticks(bars.xaxis, places, names)
    bars.tick_params(axis="x", length=0, labelsize=7)

    for column, record in enumerate(records):
        work = parts(record)[1]
        for row, seconds in enumerate([*(record["stages"][f"{stage}_seconds"] for stage in stages), work]):
            share = min(1.0, seconds / work) if work and row < len(stages) else 0.0
            drawings.box(grid, column - 0.5, row - 0.5, 1, 1, style.shade(share), "white", 1.0)
            ms = seconds * 1e3  # two digits at most, and no more than three characters
            grid.text(column, row, "<.1" if ms < 0.05 else f"{ms:.1f}" if ms < 9.95 else f"{ms:.0f}", ha="center",
                      va="center_baseline", fontsize=6.5, weight="bold" if row == len(stages) else "normal")
    labels = [{"prepare": "make room"}.get(stage, stage.replace("_", " ")) for stage in stages]
    style.ticks(grid.yaxis, range(len(stages) + 1), [*labels, "the work"])
    grid.set_ylim(len(stages) + 0.5, -0.5)
    style.ticks(grid.xaxis, [])
    grid.tick_params(axis="y", length=0)
    for spine in grid.spines.values():
        spine.set_visible(False)
    for edge in group_edges(names):
        for ax, low, high in ((bars, 0, scale[-1]), (grid, -0.5, len(stages) + 0.5)):
            ax.plot([edge, edge], [low, high], color=style.GREY, linewidth=0.8, zorder=3)

    style.keys(style.canvas(fig), 1.05, 5.45, (style.PALE, "", "driver and context"),
               (style.BLUE, "", "the work: reading to writing, overlapped"),
               ("white", "////", "before main() and after it"))
    style.heading(fig, 5.72, "A run from file to file")
    style.write(fig, 0.15, 2.72, "Busy time of each stage, ms (they overlap)", fontsize=style.TEXT, weight="bold",
                va="center")
    return fig


# ---- What a pass holds, allocation after allocation, with the scores in memory and without

# What it is for: colour, hatch, purposes.
KINDS = {"inputs": (drawings.Q, "", ("inputs", "Q", "K", "V", "dO")), "O": (drawings.O, "//", ("O",)),
         "scores": (drawings.P, "", ("scores",)), "their gradients": (drawings.P, "xx", ("gradients of scores",)),
         "dQ, dK, dV": (drawings.K, "..", ("dQ, dK, dV", "dQ", "dK", "dV")),
         "scratch and row statistics": (style.PALE, "", ())}  # and everything else


def of_kinds(state):
    found = dict.fromkeys(KINDS, 0)
    for purpose, count in state.items():
        found[next((kind for kind, (*_, purposes) in KINDS.items() if purpose in purposes), list(KINDS)[-1])] += count
    return found


def tracks_shown(data):
    """{(implementation, pass): its track}, on the longest rows that all of them could take."""
    wanted = [(impl, name) for name in ("forward", "forward_backward") for impl in ("naive", "f32")]
    found = {}
    for track in tracks(data):
        if track.refused is None:
            found.setdefault(track.tokens, {})[track.impl, track.name] = track
    complete = [tokens for tokens, by_pass in found.items() if set(wanted) <= set(by_pass)]
    if not complete:
        raise Failed("memory.json: tracks: no length that naive and f32 take forward and backward")
    return {key: found[max(complete)][key] for key in wanted}


def cs336_memory(data):
    titles = {"naive": "naive: all scores in memory", "f32": "hw4, f32: scores in tiles"}
    fig = style.figure(5.85)
    some = tracks_shown(data)
    scale = style.steps(max(track.peak for track in some.values()) / MIB, 5)
    looks = [(drawings.tint(colour, 0.75), hatch, kind) for kind, (colour, hatch, _) in KINDS.items()]
    for (impl, name), track in some.items():
        ax = style.axes(fig, 0.7 if impl == "naive" else 5.05, 3.05 if name == "forward" else 0.6, 3.75, 1.55)
        states = [of_kinds(state) for state in track.held()]
        xs = range(1, len(states) + 1)
        under = [0.0] * len(states)
        for colour, hatch, kind in looks:
            heights = [state[kind] / MIB for state in states]
            ax.bar(xs, heights, bottom=under, width=0.9, color=colour, hatch=hatch, edgecolor=style.INK, linewidth=0.3,
                   zorder=2)
            under = [a + b for a, b in zip(under, heights)]
        ax.set_xlim(0.4, max(len(track.held()) for track in some.values()) + 0.6)
        style.ticks(ax.xaxis, list(xs))
        style.ticks(ax.yaxis, scale)
        ax.set_ylim(0, scale[-1] * 1.02)
        ax.grid(axis="y")
        ax.text(len(states), under[-1] + scale[-1] * 0.03,
                f"{significant(under[-1], 4 if under[-1] >= 1000 else 3)} MiB", ha="right", fontsize=style.SMALL,
                weight="bold")
        style.title(ax, f"{titles[impl]}, {'forward' if name == 'forward' else 'forward and backward'}")
        if impl == "naive":
            ax.set_ylabel("MiB")
        ax.set_xlabel("allocation")
    style.keys(style.canvas(fig), 0.7, 5.23, *looks)
    style.heading(fig, 5.65, "What memory is for, with the scores and without")
    return fig
