"""One stream against four, flat copies against 2-D ones, beside a bare context and the plain program."""
from __future__ import annotations

from builder.errors import Failed
from builder.spread import Spread
from builder.template import significant

from . import style, words

ALT = "wall time of hw4 with one and four streams, flat and 2-D copies, beside a bare context and a plain program"

ROWS = (("context", "a bare CUDA context", style.PALE), ("hw4", "hw4: 4 streams, 2-D copies", style.BLUE),
        ("1 stream", "hw4, 1 stream", style.SKY), ("linear copies", "hw4, flat copies", style.SKY),
        ("plain", "plain: read, copy, write", style.ORANGE))


def caption(data):
    spreads = [Spread.of(samples) for case in cases(data) for samples in case["seconds"].values()]
    return (f"The whole command on {', '.join(case['name'] for case in cases(data))}, {words.gpu(data)}, files in the "
            f"page cache: bars are medians of {words.counts(spreads)} runs, whiskers p20 to p80, dots the runs. A bare "
            f"context: a program that makes a CUDA context and ends. Plain: pin a buffer of the file's size, read, "
            f"copy in, copy out, write, one after the other and without arithmetic. The programs took turns.")


def cases(data):
    """Those on which the variants ran."""
    found = [record for record in data.files["cases"] if "1 stream" in record["seconds"]]
    if not found:
        raise Failed("files.json: cases: none has seconds of '1 stream'")
    return found


def draw(data):
    found = cases(data)
    pitch = 1.42
    height = 0.8 + pitch * len(found)
    fig = style.figure(height)
    scale = style.steps(max(max(samples) for record in found for samples in record["seconds"].values()) * 1e3, 7)
    for index, record in enumerate(found):
        ax = style.axes(fig, 2.25, 0.55 + pitch * (len(found) - 1 - index), 6.3, 1.1)
        rows = [row for row in ROWS if row[0] in record["seconds"]]
        places = style.rows_down(ax, [label for _, label, *_ in rows])
        ax.set_xlim(0, scale[-1] * 1.04)
        ax.grid(axis="x")
        stages = record["stages"]
        ax.set_title(f"{record['name']}: {stages['read_bytes'] * 1e-6:.0f} MB in, "
                     f"{stages['write_bytes'] * 1e-6:.0f} MB out", loc="left", fontsize=style.TEXT, weight="bold",
                     pad=3)
        for place, (name, _, colour) in zip(places, rows):
            samples = [sample * 1e3 for sample in record["seconds"][name]]
            spread = Spread.of(samples)
            ax.barh([place], [spread.mid], height=0.66, color=colour, edgecolor=style.INK, linewidth=0.4, zorder=2)
            style.whiskers(ax, place, spread)
            ax.plot(samples, [place] * len(samples), marker=".", markersize=3, color=style.INK, linestyle="", zorder=5)
            ax.text(scale[-1] * 0.006, place, significant(spread.mid, 3), va="center_baseline", fontsize=style.SMALL,
                    color="white" if colour == style.BLUE else style.INK)
        last = index == len(found) - 1
        style.ticks(ax.xaxis, scale, None if last else [""] * len(scale))
        if last:
            ax.set_xlabel("ms of the whole command")
    style.heading(fig, height - 0.2, "Streams and copies")
    return fig
