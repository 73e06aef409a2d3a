"""The phases of the groups of warps of a block over time."""
from __future__ import annotations

from . import style

COLOURS = (style.FAINT, style.SKY, style.PALE, style.RED, "#a0a0a0", style.GREEN)
TILES = 4  # shown, from the middle of the recording


def warp_timeline(data):
    """A row for each group, with a box per phase, from each mark to the next."""
    document = data["warp_timeline"]
    phases, by_group = document["phases"], {}
    for group, clock, phase in zip(document["group"], document["clock"], document["phase"]):
        by_group.setdefault(group, []).append((clock, phase))
    first = sorted(by_group[min(by_group)])
    begin = first[len(first) // 2 // len(phases) * len(phases)][0]
    end = first[min(len(first) - 1, (len(first) // 2 // len(phases) + TILES) * len(phases))][0]
    fig = style.figure(1.5 + 0.4 * len(by_group))
    ax = style.axes(fig, 0.9, 0.6, 7.8, 0.4 * len(by_group))
    places = style.rows_down(ax, [f"group {group}" for group in sorted(by_group)])
    ax.set_xlim(0, end - begin)
    scale = style.steps(end - begin, 8)
    style.ticks(ax.xaxis, [place for place in scale if place <= end - begin])
    ax.set_xlabel("cycles of the multiprocessor's clock")
    for place, group in zip(places, sorted(by_group)):
        marks = sorted(by_group[group])
        for (clock, phase), (until, _) in zip(marks, marks[1:]):
            if until > begin and clock < end:
                ax.barh([place], [min(until, end) - max(clock, begin)], left=[max(clock, begin) - begin], height=0.8,
                        color=COLOURS[phase], edgecolor="white", linewidth=0.5)
    style.keys(style.canvas(fig), 0.15, fig.get_size_inches()[1] - 0.62,
               *((colour, "", phase) for colour, phase in zip(COLOURS, phases)))
    style.heading(fig, fig.get_size_inches()[1] - 0.25, f"{document['kernel']}: one block, {TILES} tiles")
    return fig
