"""Where the time of a whole run goes, for every case.

Stages overlap, so their times cannot be stacked. What can: start of driver and context, the rest of what hw4 sees of
its own run, and what the command takes beyond that (loading the program before main, the driver's end of the process).
Below that, the busy time of every stage as a table of numbers, shaded by its share of the part in which all of them
run.
"""
from __future__ import annotations

from builder.spread import Spread

from . import style, words

ALT = "stacked time of a whole run for each case, and a table of the busy time of its stages"

STAGES = (("read", "read"), ("check", "check"), ("copy_in", "copy in"), ("kernel", "kernel"), ("copy_out", "copy out"),
          ("prepare", "make room"), ("write", "write"))


def caption(data):
    spreads = [Spread.of(record["seconds"]["hw4"]) for record in data.file_cases]
    return (f"Where the time of a run goes, {words.gpu(data)}. Above: the command's wall time (median of "
            f"{words.counts(spreads)} runs, whiskers from p20 to p80), stacked: driver and context; the work, which is "
            f"all else that hw4 sees of its run; and the rest, before main() and after it, when the driver takes the "
            f"process apart. hw4's own times are of a run of their own. Below: how long each stage of the work was "
            f"busy, in milliseconds, on however many threads or streams; stages overlap, so these add up to more than "
            f"the work, and the darker a cell, the larger its share of it. Kernels of several streams run side by "
            f"side; their time counts once.")


def parts(record):
    """(start, work, rest) in seconds; together the median wall time."""
    stages = record["stages"]
    start = stages["driver_seconds"] + stages["context_seconds"]
    work = max(0.0, stages["total_seconds"] - start)
    return start, work, max(0.0, Spread.of(record["seconds"]["hw4"]).mid - stages["total_seconds"])


def cell(seconds):
    """Two digits at most, and no more than three characters: 0.4, 7.2, 42, 130."""
    ms = seconds * 1e3
    return "<.1" if ms < 0.05 else f"{ms:.1f}" if ms < 9.95 else f"{ms:.0f}"


def draw(data):
    records = data.file_cases
    fig = style.figure(5.9)
    left, width = 1.05, 7.8
    bars = style.axes(fig, left, 3.15, width, 2.2)
    grid = style.axes(fig, left, 0.3, width, 2.25)
    for ax in (bars, grid):
        ax.set_xlim(-0.5, len(records) - 0.5)
    places = range(len(records))
    starts, works, rests = ([1e3 * parts(record)[index] for record in records] for index in range(3))
    look = {"width": 0.72, "edgecolor": style.INK, "linewidth": 0.4, "zorder": 2}
    bars.bar(places, starts, color=style.PALE, **look)
    bars.bar(places, works, bottom=starts, color=style.BLUE, **look)
    both = [start + work for start, work in zip(starts, works)]
    bars.bar(places, rests, bottom=both, color="white", hatch="////", **look)
    walls = [Spread.of(record["seconds"]["hw4"]).times(1e3) for record in records]
    for place, wall in zip(places, walls):
        style.whiskers(bars, place, wall, horizontal=False)
    most = max(wall.high for wall in walls)
    scale = style.steps(most)
    style.from_zero(bars, "y", scale)
    bars.set_ylabel("ms of a run")
    style.ticks(bars.xaxis, places, [record["name"] for record in records])
    bars.tick_params(axis="x", length=0, labelsize=7)

    shade(grid, records)
    style.ticks(grid.yaxis, range(len(STAGES) + 1), [label for _, label in STAGES] + ["the work"])
    grid.set_ylim(len(STAGES) + 0.5, -0.5)
    style.ticks(grid.xaxis, [])
    grid.tick_params(axis="y", length=0)
    for spine in grid.spines.values():
        spine.set_visible(False)
    for edge in group_edges(records):
        for ax, low, high in ((bars, 0, scale[-1]), (grid, -0.5, len(STAGES) + 0.5)):
            ax.plot([edge, edge], [low, high], color=style.GREY, linewidth=0.8, zorder=3)

    everywhere = style.canvas(fig)
    x = style.key(everywhere, left, 5.45, style.PALE, "", "driver and context")
    x = style.key(everywhere, x, 5.45, style.BLUE, "", "the work: reading to writing, overlapped")
    style.key(everywhere, x, 5.45, "white", "////", "before main() and after it")
    style.heading(fig, 5.72, "A run from file to file")
    style.write(fig, 0.15, 2.72, "Busy time of each stage, ms (they overlap)", fontsize=style.TEXT, weight="bold",
                va="center")
    return fig


def shade(grid, records):
    from matplotlib.patches import Rectangle
    for column, record in enumerate(records):
        work = parts(record)[1]
        for row, seconds in enumerate([record["stages"][f"{stage}_seconds"] for stage, _ in STAGES] + [work]):
            share = min(1.0, seconds / work) if work and row < len(STAGES) else 0.0
            grid.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=style.shade(share), edgecolor="white",
                                     linewidth=1.0))
            grid.text(column, row, cell(seconds), ha="center", va="center_baseline", fontsize=6.5,
                      weight="bold" if row == len(STAGES) else "normal")


def group_edges(records):
    return [index - 0.5 for index, record in enumerate(records) if record["name"] in ("t11", "t21") and index]
