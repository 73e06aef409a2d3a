"""CS336: what a pass holds, allocation after allocation, with the scores in memory and without."""
from __future__ import annotations

from builder.errors import Failed
from builder.measured_courses import tracks
from builder.template import significant

from . import drawing, style, words

NEEDS = ("memory.json",)
ALT = ("memory held after each allocation by the naive form and by hw4's f32, in forward and in backward, by what it "
       "is "
       "for")
MIB = 2.0 ** 20
LEFTS, BOTTOMS, WIDTH, INNER = (0.7, 5.05), (3.05, 0.6), 3.75, 1.55
HEIGHT = 5.85
TITLES = {"naive": "naive: all scores in memory", "f32": "hw4, f32: scores in tiles"}
# What it is for: colour and hatch.
KINDS = {"inputs": (drawing.Q, "", ("inputs", "Q", "K", "V", "dO")), "O": (drawing.O, "//", ("O",)),
         "scores": (drawing.P, "", ("scores",)), "their gradients": (drawing.P, "xx", ("gradients of scores",)),
         "dQ, dK, dV": (drawing.K, "..", ("dQ, dK, dV", "dQ", "dK", "dV")),
         "scratch and row statistics": (style.PALE, "", ())}  # and everything else


def kind_of(purpose):
    return next((kind for kind, (_, _, purposes) in KINDS.items() if purpose in purposes), list(KINDS)[-1])


def of_kinds(state):
    found = dict.fromkeys(KINDS, 0)
    for purpose, count in state.items():
        found[kind_of(purpose)] += count
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


def caption(data):
    some = tracks_shown(data)
    track = next(iter(some.values()))
    return (f"Memory held after each allocation of one pass, {words.gpu(data)}, B = {track.batches}, N = "
            f"{track.tokens}, d = {track.dim}, one head, float32. Above forward, below forward and backward as one; "
            f"the numbers are the peaks. `hw4 bench --memory` writes the same for pytorch.org/memory_viz and for "
            f"Perfetto.")


def draw(data):
    fig = style.figure(HEIGHT)
    some = tracks_shown(data)
    top = max(track.peak for track in some.values()) / MIB
    scale = style.steps(top, 5)
    for (impl, name), track in some.items():
        left, bottom = LEFTS[impl == "f32"], BOTTOMS[name != "forward"]
        ax = style.axes(fig, left, bottom, WIDTH, INNER)
        states = [of_kinds(state) for state in track.held()]
        xs = range(1, len(states) + 1)
        under = [0.0] * len(states)
        for kind, (colour, hatch, _) in KINDS.items():
            heights = [state[kind] / MIB for state in states]
            ax.bar(xs, heights, bottom=under, width=0.9, color=drawing.tint(colour, 0.75), hatch=hatch,
                   edgecolor=style.INK, linewidth=0.3, zorder=2)
            under = [a + b for a, b in zip(under, heights)]
        ax.set_xlim(0.4, max(len(track.held()) for track in some.values()) + 0.6)
        style.ticks(ax.xaxis, list(xs))
        style.ticks(ax.yaxis, scale)
        ax.set_ylim(0, scale[-1] * 1.02)
        ax.grid(axis="y")
        digits = 4 if under[-1] >= 1000 else 3
        ax.text(len(states), under[-1] + scale[-1] * 0.03, f"{significant(under[-1], digits)} MiB", ha="right",
                fontsize=style.SMALL, weight="bold")
        style.title(ax, f"{TITLES[impl]}, {'forward' if name == 'forward' else 'forward and backward'}")
        if impl == "naive":
            ax.set_ylabel("MiB")
        ax.set_xlabel("allocation")
    everywhere = style.canvas(fig)
    at = 0.7
    for kind, (colour, hatch, _) in KINDS.items():
        at = style.key(everywhere, at, HEIGHT - 0.62, drawing.tint(colour, 0.75), hatch, kind)
    style.heading(fig, HEIGHT - 0.2, "What memory is for, with the scores and without")
    return fig
