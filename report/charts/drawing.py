"""Boxes and arrows for the drawings, in inches."""
from __future__ import annotations

from . import style

HOST, DEVICE, REGISTER = "#f3f3f3", "#e6f1f8", "#fdf1e4"
Q, K, V, P, O = style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.RED  # noqa: E741 (the paper's letter)


def tint(colour, share=0.25):
    """The colour thinned with white."""
    parts = [int(colour[at:at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in parts)


def box(ax, x, y, width, height, face="white", edge=style.INK, line=0.8, **options):
    from matplotlib.patches import Rectangle
    ax.add_patch(Rectangle((x, y), width, height, facecolor=face, edgecolor=edge, linewidth=line, **options))


def area(ax, x, y, width, height, face, title):
    """A region with its name in the upper left corner."""
    box(ax, x, y, width, height, face, style.PALE, 0.8, zorder=0)
    ax.text(x + 0.08, y + height - 0.08, title, va="top", fontsize=style.TEXT, weight="bold", color=style.GREY)


def arrow(ax, start, end, colour=style.INK, curve=0.0, line=1.3, **options):
    from matplotlib.patches import FancyArrowPatch
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, color=colour, linewidth=line,
                                 connectionstyle=f"arc3,rad={curve}", shrinkA=0, shrinkB=0, zorder=3, **options))


def lines(ax, x, y, words, gap=0.145, fontsize=style.SMALL, **options):
    """Line under line, each a text of its own: the reader's fonts may be others."""
    for index, line in enumerate(words):
        ax.text(x, y - gap * index, line, fontsize=fontsize, va="center_baseline", **options)


def grid(ax, x, y, width, height, across, down, line=0.5, colour=style.GREY):
    """The inner lines of a box of so many cells."""
    for n in range(1, across):
        ax.plot([x + width * n / across] * 2, [y, y + height], color=colour, linewidth=line, zorder=2)
    for n in range(1, down):
        ax.plot([x, x + width], [y + height * n / down] * 2, color=colour, linewidth=line, zorder=2)
