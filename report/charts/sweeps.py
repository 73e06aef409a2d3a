"""What the charts of sweeps share: who looks how, and curves with names at their ends. Not a chart itself."""
from __future__ import annotations

import math

from . import style, words

LOOKS = {"f32": style.HW4, "fixed": style.FIXED, "fixed16": style.FIXED16, "bf16": style.BF16, "fp16": style.FP16,
         "flash2": style.EFFICIENT, "pytorch": style.NAIVE, "cudnn": {**style.SEQ, "color": "#4d4d4d"},
         "naive": {"color": style.BLACK, "marker": "x", "linestyle": ":"}}
PLACES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000,
          10000, 20000, 50000)
GAP = 1.2 * style.SMALL / 72  # inches between two names


def look_of(who):
    return LOOKS[who.partition(" ")[0]]


def panel(fig, place, xs, label, title, x_labels=None):
    """Axes at (left, bottom, width, height) whose x doubles from one to the next."""
    ax = style.axes(fig, *place)
    ax.set_xscale("log", base=2)
    ax.set_xlim(xs[0] / 1.25, xs[-1] * 1.25)
    style.ticks(ax.xaxis, xs, x_labels or [words.short(x) for x in xs])
    ax.grid(axis="y")
    ax.set_xlabel(label)
    style.title(ax, title)
    return ax


def scale(ax, values, logarithmic=True, room=1.3, above=1.0):
    """The y axis for these values; a logarithmic one with room, and more of it above."""
    if not logarithmic:
        places = style.steps(max(values), 6)
        style.ticks(ax.yaxis, places)
        ax.set_ylim(0, places[-1])
        return
    low, high = min(values) / room, max(values) * room * above
    inside = [place for place in PLACES if low <= place <= high]
    if len(inside) > 7:  # tens are enough
        inside = [place for place in inside if round(math.log10(place), 9) == round(math.log10(place))]
    style.log(ax, "y", low, high, inside)


def curves(ax, height, series, names=True):
    """series: {who: {x: Spread}}. Each with its name at its end, in a panel that is so many inches high."""
    series = {who: points for who, points in series.items() if points}
    for who, points in series.items():
        style.band(ax, points, look_of(who))
    if names and series:
        name_ends(ax, height, {who: list(points.values())[-1].mid for who, points in series.items()})


def name_ends(ax, height, ends):
    low, high = ax.get_ylim()
    logarithmic = ax.get_yscale() == "log"

    def inches(value):
        share = math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / (high - low)
        return height * share

    wanted = [inches(end) for end in ends.values()]
    for who, place in zip(ends, style.apart(wanted, GAP, low=0.0)):
        ax.text(1.02, place / height, words.short_name(who), transform=ax.transAxes, va="center_baseline",
                fontsize=style.SMALL, weight="bold", color=style.ink(look_of(who)["color"]))


def out_of_memory(ax, xs, who, level):
    """Marks at the upper end, one level under the other, for sizes that did not fit."""
    for x in xs:
        ax.text(x, 1 - 0.07 * level, "OOM", transform=ax.get_xaxis_transform(), ha="center", va="top",
                fontsize=7, weight="bold", color=style.ink(look_of(who)["color"]),
                bbox={"facecolor": "white", "edgecolor": look_of(who)["color"], "pad": 1.0, "linewidth": 0.6})


def types(data_torch):
    """Of a caption: what the numbers are."""
    return (f"FlashAttention-2, cuDNN and PyTorch's naive form (lab5.py's) are those of PyTorch {data_torch}, in fp16; "
            f"hw4's `bf16` has operands of that type, its others float32.")
