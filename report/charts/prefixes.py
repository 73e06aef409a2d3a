"""Drawing: which keys a row sees under the causal mask, and which rows have the same bytes."""
from __future__ import annotations

from builder import sources

from . import style
from .drawing import K, O, box, grid, lines, tint

ALT = ("drawing of the causal mask: a row of a sequence, of its prefix and alone see the same keys and have the same "
       "bytes; under fixed where the prefix ends with a tile of keys")
CELL = 0.19  # inches
TOKENS, ROW, TILE = 12, 7, 4  # drawn; a tile's four stand for all of its keys
TOP = 3.3


def caption(data):
    keys = sources.constants()["fixed_tile_keys"]
    return (f"Which keys a row sees under the causal mask, a cell for each query and key, and what is equal to what. "
            f"Under `f32` the dark row has the same bytes in the whole sequence, as the last one of its prefix, and "
            f"alone (N_q = 1), whatever comes after it. Under `fixed` the hidden keys of its own tile count for the "
            f"scale of the tile's digits (hatched): rows of a prefix are those of the whole where it ends with a tile "
            f"of {keys} keys, of which four are drawn.")


def triangle(ax, x, queries, keys, dark, top=TOP):
    """Queries down, keys across, the last query seeing all keys. One row is dark."""
    for query in range(queries):
        colour = tint(O, 0.65) if query == dark else tint(K, 0.25)
        box(ax, x, top - CELL * (query + 1), CELL * (query + 1 + keys - queries), CELL, colour, line=0.0, zorder=1)
    box(ax, x, top - CELL * queries, CELL * keys, CELL * queries, "none", zorder=2.5)
    grid(ax, x, top - CELL * queries, CELL * keys, CELL * queries, keys, queries, 0.4, style.PALE)


def equals(ax, x, y):
    ax.text(x, y, "=", ha="center", va="center_baseline", fontsize=15, weight="bold")


def draw(data):
    fig = style.figure(4.05)
    ax = style.canvas(fig)
    ax.text(0.15, 3.84, "The causal mask and prefixes", fontsize=10.5, weight="bold", va="center")
    draw_f32(ax, 0.35)
    draw_fixed(ax, 5.6)
    return fig


def draw_f32(ax, x):
    """The whole, its prefix, the row alone."""
    seen, beside = ROW + 1, x + CELL * TOKENS + 0.6
    lines(ax, x, TOP + 0.2, ["f32: the whole sequence"], weight="bold")
    triangle(ax, x, TOKENS, TOKENS, ROW)
    lines(ax, x, TOP - CELL * TOKENS - 0.17, ["keys across, queries down;", "white: hidden"], color=style.GREY)
    lines(ax, beside, TOP + 0.2, ["its prefix"], weight="bold")
    triangle(ax, beside, seen, seen, ROW)
    equals(ax, beside - 0.3, TOP - CELL * (ROW + 0.5))
    top = TOP - CELL * (TOKENS - 1)
    lines(ax, beside, top + 0.14, ["the row alone"], weight="bold")
    triangle(ax, beside, 1, seen, 0, top)
    equals(ax, beside - 0.3, top - CELL / 2)
    lines(ax, beside, top - CELL - 0.17, ["N_q = 1, N_k = i + 1"], color=style.GREY)


def draw_fixed(ax, x):
    """A row whose keys end within a tile, in the whole."""
    row = ROW - 2
    tile_end = TILE * (row // TILE + 1)
    lines(ax, x, TOP + 0.2, ["fixed: tiles of keys with one scale"], weight="bold")
    triangle(ax, x, TOKENS, TOKENS, row)
    box(ax, x + CELL * (row + 1), TOP - CELL * (row + 1), CELL * (tile_end - row - 1), CELL, "white", line=0.4,
        hatch="/////", zorder=1.5)
    for at in range(TILE, TOKENS, TILE):
        ax.plot([x + CELL * at] * 2, [TOP, TOP - CELL * TOKENS], color=style.INK, linewidth=1.4, zorder=3)
    for end, colour, dashes in ((tile_end, style.GREEN, "-"), (row + 1, style.RED, ":")):
        box(ax, x, TOP - CELL * end, CELL * end, CELL * end, "none", colour, 2.2, linestyle=dashes, zorder=4)
    below = TOP - CELL * TOKENS - 0.17
    legend = ((style.GREEN, "-", "ends with a tile: its rows are the whole's"),
              (style.RED, ":", "ends within one: they may differ, as the hatched"),
              (None, "", "keys, which it lacks, count for the scale"))
    for number, (colour, dashes, text) in enumerate(legend):
        if colour:
            ax.plot([x, x + 0.2], [below - 0.145 * number] * 2, color=colour, linewidth=2.2, linestyle=dashes)
        lines(ax, x + 0.28, below - 0.145 * number, [text], color=style.GREY)
