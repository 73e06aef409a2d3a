"""The kernels' times on values of many kinds, over that on the first, beside PyTorch."""
from __future__ import annotations

from . import style, words

ALT = ("time on values of many kinds over that on normal ones of deviation 1, for d = 32, 64 and 128: hw4 under f32 "
       "and fixed, and PyTorch")
SERIES = (("hw4", "f32", style.HW4, ""), ("hw4_fixed", "fixed", style.FIXED, "\\\\"),
          ("torch", "PyTorch", style.EFFICIENT, "//"))
LEFT, WIDTH, GAP = 1.85, 2.15, 0.2
PITCH, BAR = 0.44, 0.26  # inches of a kind, and the share of them that is a bar


def caption(data):
    case = data.values["cases"][0]
    spreads = [spread for kinds in data.kinds_of_values.values() for of_kind in kinds
               for spread in of_kind.seconds.values()]
    first = data.values["kinds"][case["kind"]]
    return (f"Time of the kernel on values of {len(data.values['kinds'])} kinds over its time on the first of them "
            f"({first}), {words.gpu(data)}, B = {case['batches']}, N = {case['tokens']}, all batches in one launch: "
            f"medians of {words.counts(spreads)} samples, whiskers from p20 to p80. PyTorch: its memory-efficient "
            f"float32 attention on the same numbers.")


def draw(data):
    by_dim = data.kinds_of_values
    titles = [of_kind.title for of_kind in next(iter(by_dim.values()))]
    inner = PITCH * len(titles)
    height = inner + 1.95
    fig = style.figure(height)
    everywhere = style.canvas(fig)
    most = max(of_kind.seconds[who].high / of_kind.first[who].mid
               for kinds in by_dim.values() for of_kind in kinds for who, *_ in SERIES)
    scale = style.steps(most, 4)
    for index, (dim, kinds) in enumerate(by_dim.items()):
        left = LEFT + (WIDTH + GAP) * index
        ax = style.axes(fig, left, 0.55, WIDTH, inner)
        places = style.rows_down(ax, titles if index == 0 else [""] * len(titles))
        ax.set_xlim(0, max(scale[-1], most * 1.15))
        style.ticks(ax.xaxis, scale)
        ax.grid(axis="x")
        ax.axvline(1, color=style.BLACK, linewidth=0.8, zorder=3)
        ax.set_xlabel("time over that of the top row" if index == 0 else "")
        for place, of_kind in zip(places, kinds):
            for row, (who, _, look, hatch) in enumerate(SERIES):
                draw_bar(ax, place + (row - 1) * BAR, of_kind, who, look, hatch)
        for row, (who, name, look, hatch) in enumerate(SERIES):
            ms = words.milliseconds(kinds[0].first[who].mid)
            style.key(everywhere, left, height - 0.78 - 0.2 * row, look["color"], hatch, f"{name} ({ms} ms in the top row)")
        style.write(fig, left, height - 0.48, f"d = {dim}", fontsize=style.TEXT, weight="bold", va="center")
    style.heading(fig, height - 0.2, "Time on values of other kinds")
    return fig


def draw_bar(ax, place, of_kind, who, look, hatch):
    ratio = of_kind.seconds[who].times(1 / of_kind.first[who].mid)
    ax.barh([place], [ratio.mid], height=BAR, color=look["color"], hatch=hatch, edgecolor=style.INK, linewidth=0.4,
            zorder=2)
    style.whiskers(ax, place, ratio)
    ax.text(ratio.high + ax.get_xlim()[1] * 0.02, place, f"{ratio.mid:.2f}", va="center_baseline",
            fontsize=6.0, clip_on=False)
