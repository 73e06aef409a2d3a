"""The charts' common style, and helpers for placing things. Everything is placed by hand, in inches from the lower left
corner: automatic layout would depend on more than the data.

matplotlib is imported where it is used, so that captions work without it.
"""
from __future__ import annotations

import math

from builder.words import RAISED, short

WIDTH = 9.0  # inches, for every figure; at 900 pixels a point is 1.4 pixels
TEXT, SMALL = 9.0, 8.0

# Okabe and Ito's colours, which colour-blind readers can distinguish; in grey, markers or hatches distinguish them.
ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
INK, GREY, PALE, FAINT = "#222222", "#6f6f6f", "#c9c9c9", "#ebebeb"

# Colour, marker and line of each program in every chart.
HW4 = {"color": BLUE, "marker": "o", "linestyle": "-"}
FIXED = {"color": PURPLE, "marker": "v", "linestyle": "-"}
FIXED16 = {"color": GREEN, "marker": "P", "linestyle": "-"}
BF16 = {"color": SKY, "marker": "X", "linestyle": "-"}
FP16 = {"color": "#1f6f9f", "marker": "h", "linestyle": "-"}
EFFICIENT = {"color": RED, "marker": "s", "linestyle": "--"}
NAIVE = {"color": ORANGE, "marker": "^", "linestyle": ":"}

WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # behind a number that lines may cross

RC = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"], "font.size": TEXT,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GREY, "xtick.color": INK, "ytick.color": INK,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "axes.labelsize": TEXT, "axes.titlesize": TEXT,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8, "axes.axisbelow": True,
    "axes.grid": False, "grid.color": FAINT, "grid.linewidth": 0.8, "lines.linewidth": 1.6, "lines.markersize": 5.0,
    "hatch.linewidth": 0.6, "xtick.major.size": 3.0, "ytick.major.size": 3.0, "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0, "figure.facecolor": "white", "axes.facecolor": "white", "savefig.facecolor": "white",
    "svg.fonttype": "none", "svg.hashsalt": "hw4", "path.simplify": False, "axes.unicode_minus": True,
    "text.parse_math": False,
}


def ink(colour):
    """A shade of the colour that is dark enough for text."""
    return {ORANGE: "#8a5f00", SKY: "#1f6f9f", YELLOW: "#6f6a00", PURPLE: "#8f3f6b",
            GREEN: "#00694d"}.get(colour, colour)


def figure(height):
    from matplotlib.figure import Figure
    return Figure(figsize=(WIDTH, height), dpi=72)


def axes(fig, left, bottom, width, height, **options):
    across, up = fig.get_size_inches()
    return fig.add_axes((left / across, bottom / up, width / across, height / up), **options)


def canvas(fig):
    """Axes over the whole figure, in inches, for drawings and for text anywhere."""
    across, up = fig.get_size_inches()
    everywhere = fig.add_axes((0, 0, 1, 1), xlim=(0, across), ylim=(0, up))
    everywhere.axis("off")
    return everywhere


def write(fig, x, y, words, **options):
    """Text at a position in inches."""
    across, up = fig.get_size_inches()
    return fig.text(x / across, y / up, words, **options)


def heading(fig, y, words):
    write(fig, 0.15, y, words, fontsize=10.5, weight="bold", va="center")


def title(ax, words):
    ax.set_title(words, loc="left", weight="bold", fontsize=TEXT)


def band(ax, points, look):
    """A line through the medians of {x: Spread}, in a band from p20 to p80."""
    ax.fill_between(list(points), [spread.low for spread in points.values()],
                    [spread.high for spread in points.values()], color=look["color"], alpha=0.25, linewidth=0)
    ax.plot(list(points), [spread.mid for spread in points.values()], **look)


def ticks(axis, places, labels=None):
    """Sets exactly these ticks."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_major_formatter(FixedFormatter([f"{place:g}" for place in places] if labels is None else list(labels)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def over_lengths(ax, lengths, scale, words):
    """A panel with the length of the sequence as x, with ticks that double, and y from 0 to the last of its ticks."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(lengths[0] / 1.35, lengths[-1] * 1.35)
    ticks(ax.xaxis, lengths, [short(tokens) for tokens in lengths])
    ax.set_ylim(0, scale[-1])
    ticks(ax.yaxis, scale)
    ax.grid(axis="y")
    ax.set_xlabel("N (logarithmic)")
    title(ax, words)


def log(ax, direction, low, high, places=None, labels=None):
    """A logarithmic axis without tick positions: the powers of ten."""
    getattr(ax, f"set_{direction}scale")("log")
    getattr(ax, f"set_{direction}lim")(low, high)
    ticks(getattr(ax, f"{direction}axis"), places or powers(low, high), labels if places else
          power_labels(powers(low, high)))


def within(low, high, least=1, most=1000):
    """1, 2, 5, 10 and so on, from low to high."""
    return [place for place in (digit * 10 ** exponent for exponent in range(-3, 5) for digit in (1, 2, 5))
            if max(low, least) <= place <= min(high, most)]


def powers(low, high):
    """The powers of ten between low and high, both included."""
    return [10.0 ** exponent for exponent in range(-20, 21) if low * (1 - 1e-9) <= 10.0 ** exponent <= high * (1 + 1e-9)]


def power_labels(places):
    """0.1, 1, 10 and so on where all of them are short, else 10⁰, 10¹ and so on: one notation per axis."""
    exponents = [round(math.log10(place)) for place in places]
    if all(-2 <= exponent <= 4 for exponent in exponents):
        return [f"{10.0 ** exponent:g}" for exponent in exponents]
    return ["10" + str(exponent).translate(RAISED) for exponent in exponents]


def steps(most, about=6):
    """Round numbers from 0 past `most`, about this many, for a linear axis."""
    step = next(digit * 10.0 ** exponent for exponent in range(-9, 16) for digit in (1, 2, 5)
                if most / (digit * 10.0 ** exponent) <= about)
    return [step * n for n in range(int(most / step - 1e-9) + 2)]


def rows_down(ax, labels, first_gap=0.6):
    """A category for each row, the first on top. Returns the positions."""
    places = list(range(len(labels)))
    ticks(ax.yaxis, places, labels)
    ax.set_ylim(len(labels) - 1 + first_gap, -first_gap)
    ax.tick_params(axis="y", length=0)
    return places


def apart(wanted, gap, low=None, high=None):
    """Positions for labels: as close to the wanted ones as the gap between neighbours allows, in the same order."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    clusters = []  # [first wanted position, count]: labels pushed together, centred on the mean of wanted positions
    for index in order:
        clusters.append([[wanted[index]], wanted[index]])
        while len(clusters) > 1:
            (above, centre_above), (below, centre_below) = clusters[-1], clusters[-2]
            if centre_above - (len(above) - 1) / 2 * gap - (centre_below + (len(below) - 1) / 2 * gap) >= gap - 1e-9:
                break
            together = below + above
            clusters[-2:] = [[together, sum(together) / len(together)]]
    placed = []
    for members, centre in clusters:
        start = centre - (len(members) - 1) / 2 * gap
        if high is not None:
            start = min(start, high - (len(members) - 1) * gap)
        if low is not None:
            start = max(start, low)
        placed += [start + gap * n for n in range(len(members))]
    result = [0.0] * len(wanted)
    for index, place in zip(order, placed):
        result[index] = place
    return result


def whiskers(ax, place, spread, horizontal=True, **options):
    """Whiskers from p20 to p80."""
    look = {"color": INK, "linewidth": 1.0, "zorder": 4, **options}
    if horizontal:
        ax.plot([spread.low, spread.high], [place, place], marker="|", markersize=5, **look)
    else:
        ax.plot([place, place], [spread.low, spread.high], marker="_", markersize=5, **look)


def bar(ax, place, spread, label, gap, height=0.62, **look):
    """A horizontal bar with its whiskers, and a label behind them."""
    ax.barh([place], [spread.mid], height=height, zorder=2, **look)
    whiskers(ax, place, spread)
    ax.text(spread.high + gap, place, label, va="center_baseline", fontsize=SMALL, zorder=6, bbox=WHITE)


def key(ax, x, y, colour, hatch, words, size=0.13, fontsize=SMALL):
    """A patch and its meaning, on a canvas in inches. Returns the position of the next."""
    from matplotlib.patches import Rectangle
    ax.add_patch(Rectangle((x, y), size, size, facecolor=colour, edgecolor=INK, linewidth=0.4, hatch=hatch))
    ax.text(x + size + 0.06, y + size / 2, words, fontsize=fontsize, va="center_baseline")
    return x + size + 0.06 + 0.068 * fontsize / SMALL * len(words) + 0.2


def keys(ax, x, y, *entries):
    """Several such patches side by side: (colour, hatch, words)."""
    for entry in entries:
        x = key(ax, x, y, *entry)
