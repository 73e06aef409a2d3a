"""When each thread and stream of a run on t22 was busy: four streams above, one below, on one time axis."""
from __future__ import annotations

from builder.words import significant
from run_trace import GPU

from . import style

LOOKS = {"read": (style.GREEN, ""), "check": ("#8fd6c0", ""), "copy_in": (style.ORANGE, ""), "kernel": (style.RED, ""),
         "copy_out": (style.PURPLE, ""), "write": (style.BLUE, ""), "prepare": (style.SKY, "")}
LABELS = {"copy_in": "copy in", "copy_out": "copy out", "prepare": "make room for the output",
          "other": "pin, allocate, load code, release"}
OTHER = (style.GREY, "")
BEFORE = 8.0  # milliseconds shown before the context is created
ROW, GAP = 0.105, 0.05  # inches of a track; between groups


def ready(trace):
    """The end of the context's creation."""
    return trace.last("context") or 0.0


def after_context(trace):
    return trace.end - ready(trace)


def groups(trace):
    """(label, tracks): readers, main, writers, streams that compute, streams that copy out."""
    named = {}
    for track in trace.tracks:
        name = trace.names[track]
        stages = {stage for place, stage, *_ in trace.spans if place == track}
        if track[0] == GPU:
            group = "stream{}: copy out" if stages <= {"copy_out"} else "stream{}: copy in, kernel"
        else:
            group = {"reader": "reader thread{}", "main": "main thread", "writer": "writer thread{}"}.get(
                name.partition(" ")[0], name)
        named.setdefault(group, []).append(track)
    return list(named.items())


def height_of(trace):
    every = groups(trace)
    return ROW * sum(len(tracks) for _, tracks in every) + GAP * (len(every) - 1)


def merged(spans, least):
    """Spans of one track and stage; neighbours closer than `least` are merged, since they would touch when drawn."""
    result = []
    for start, to in sorted(spans):
        if result and start - result[-1][1] < least:
            result[-1][1] = max(result[-1][1], to)
        else:
            result.append([start, to])
    return result


def boxes(ax, spans, colour, hatch):
    """Draws all boxes as one path: (x, y, width, height)."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
    points, codes = [], []
    for x, y, width, height in spans:
        points += [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    if points:
        ax.add_patch(PathPatch(Path(points, codes), facecolor=colour, edgecolor="none", hatch=hatch))


def draw_run(fig, trace, left, bottom, width, span):
    """Draws the run's tracks from `bottom` up; time is in milliseconds since the context."""
    height = height_of(trace)
    ax = style.axes(fig, left, bottom, width, height)
    ax.set_xlim(-BEFORE, span)
    ax.set_ylim(0, height)
    zero, found, y = ready(trace), {}, height
    least = span / 1200  # about a pixel
    for label, tracks in groups(trace):
        top = y
        for track in tracks:
            y -= ROW
            by_stage = {}
            for place, stage, start, to in trace.spans:
                if place == track and stage not in ("driver", "context"):
                    by_stage.setdefault(stage if stage in LOOKS else "other", []).append((start - zero, to - zero))
            for stage, spans in by_stage.items():
                found.setdefault(stage, []).extend(
                    (max(start, -BEFORE), y + 0.012, max(to - max(start, -BEFORE), least), ROW - 0.024)
                    for start, to in merged(spans, least) if to > -BEFORE)
        words_of = f"{len(tracks)} {label.format('s' if len(tracks) > 1 else '')}" if "{}" in label else label
        style.write(fig, left - 0.1, bottom + (top + y) / 2, words_of, ha="right", va="center", fontsize=style.SMALL)
        y -= GAP
    for stage, spans in found.items():
        boxes(ax, spans, *LOOKS.get(stage, OTHER))
    end = after_context(trace)
    ax.plot([end, end], [0, height], color=style.INK, linewidth=1.0, linestyle=":")
    ax.plot([0, 0], [0, height], color=style.INK, linewidth=1.0)
    ax.grid(axis="x")
    style.ticks(ax.yaxis, [])
    ax.spines["left"].set_visible(False)
    return ax, {stage for stage, spans in found.items() if spans}


def pipeline(data):
    four, one = (data.trace(streams) for streams in (4, 1))
    heights = height_of(four), height_of(one)
    height = 1.65 + sum(heights)
    fig = style.figure(height)
    span = max(after_context(four), after_context(one)) * 1.06
    places = [place for place in style.steps(span, 8) if place < span]
    left, width = 1.75, 7.05
    below = 0.5
    above = below + heights[1] + 0.38
    seen = set()
    for trace, bottom, streams in ((four, above, 4), (one, below, 1)):
        ax, stages = draw_run(fig, trace, left, bottom, width, span)
        seen |= stages
        style.ticks(ax.xaxis, places, None if streams == 1 else [""] * len(places))
        if streams == 1:
            ax.set_xlabel("milliseconds since the CUDA context is there")
        end = after_context(trace)
        x = left + width * (end + BEFORE) / (span + BEFORE)
        style.write(fig, x, bottom + height_of(trace) + 0.05, f"{significant(end)} ms", ha="right",
                    fontsize=style.SMALL)
        style.write(fig, left, bottom + height_of(trace) + 0.05,
                    f"{streams} streams" if streams > 1 else "1 stream", fontsize=style.TEXT, weight="bold")
    style.keys(style.canvas(fig), left, height - 0.5, *((*LOOKS.get(stage, OTHER), LABELS.get(stage, stage))
                                                        for stage in [*LOOKS, "other"] if stage in seen))
    style.heading(fig, height - 0.2, "The pipeline on t22")
    return fig
