"""Drawing: how Q, K, V and O are cut into tiles, and who has which part of a tile."""
from __future__ import annotations

from builder import sources

from . import style
from .drawing import K, O, P, Q, V, arrow, box, grid, lines, tint

ALT = "drawing of the blocking: a block of query rows walks over tiles of keys; the tile's warps, a lane's numbers"


def caption(data):
    code = sources.constants()
    return (f"Blocking at d = 64. A block of {code['threads']} threads has Br = {code['rows']} query rows and walks "
            f"over all keys, Bc = {code['keys']} at a time: of the N × N scores only one tile exists at a time. In the "
            f"tile each of the {code['warps']} warps has {code['warp_rows']} rows, and each of its 32 lanes, "
            f"{code['lanes_across']} across and {code['lanes_down']} down, {code['rows_per_thread']} × "
            f"{code['keys_per_thread']} scores in registers (as two groups of four rows and of four keys, so that each "
            f"group is one 16-byte load).")


def draw(data):
    code = sources.constants()
    fig = style.figure(4.45)
    ax = style.canvas(fig)
    ax.text(0.15, 4.24, "Blocking", fontsize=10.5, weight="bold", va="center")

    # Left: the matrices. Five blocks of rows and eight tiles of keys stand for all.
    side, thin = 2.3, 0.42
    rows, keys = 5, 8
    x0, y0 = 0.95, 0.75
    tall, wide = side / rows, side / keys
    at_row, at_key = 1, 3
    top = y0 + side - tall * (at_row + 1)
    box(ax, x0 - thin - 0.14, y0, thin, side, tint(Q, 0.12))
    box(ax, x0 - thin - 0.14, top, thin, tall, tint(Q, 0.6))
    box(ax, x0, y0 + side + 0.14, side, thin, tint(K, 0.12))
    box(ax, x0 + wide * at_key, y0 + side + 0.14, wide, thin, tint(K, 0.6))
    box(ax, x0, y0, side, side, "white")
    grid(ax, x0, y0, side, side, keys, rows, 0.4, style.PALE)
    box(ax, x0, top, wide * at_key, tall, tint(P, 0.15), line=0.0)
    box(ax, x0 + wide * at_key, top, wide, tall, tint(P, 0.7))
    box(ax, x0 + side + 0.14, y0, thin, side, tint(O, 0.12))
    box(ax, x0 + side + 0.14, top, thin, tall, tint(O, 0.6))
    box(ax, x0, y0 - 0.14 - thin + 0.02, side, thin - 0.02, tint(V, 0.12))
    box(ax, x0 + wide * at_key, y0 - 0.14 - thin + 0.02, wide, thin - 0.02, tint(V, 0.8))
    arrow(ax, (x0 + wide * (at_key + 1) + 0.05, top + tall / 2), (x0 + side - 0.05, top + tall / 2), P)
    ax.text(x0 - thin / 2 - 0.14, y0 - 0.13, "Q", ha="center", va="center_baseline", fontsize=11, weight="bold")
    ax.text(x0 + side + 0.14 + thin / 2, y0 - 0.13, "O", ha="center", va="center_baseline", fontsize=11, weight="bold")
    ax.text(x0 + side + 0.12, y0 + side + 0.14 + thin / 2, "Kᵀ", va="center_baseline", fontsize=11, weight="bold")
    ax.text(x0 + side + 0.12, y0 - 0.33, "Vᵀ", va="center_baseline", fontsize=11, weight="bold")
    box(ax, x0 + 0.32, y0 + 0.36, side - 0.64, 0.36, "white", line=0.0, zorder=2.5)
    lines(ax, x0 + side / 2, y0 + 0.62, ["N × N scores, of which only", "one tile exists at a time"], ha="center",
          color=style.GREY)
    ax.text(x0 + wide * (at_key + 0.5), y0 + side + 0.14 + thin + 0.1, f"Bc = {code['keys']} keys", ha="center",
            fontsize=style.SMALL)
    ax.text(0.1, top + tall / 2, "Br =", fontsize=style.SMALL, va="bottom")
    ax.text(0.1, top + tall / 2, f"{code['rows']}", fontsize=style.SMALL, va="top")

    # Middle: the tile, its warps
    tile_x, tile_y, tile_w, tile_h = 4.62, 0.75, 1.15, 2.3
    box(ax, tile_x, tile_y, tile_w, tile_h, tint(P, 0.15))
    warps = code["warps"] // code["team_warps"]
    grid(ax, tile_x, tile_y, tile_w, tile_h, 1, warps, 1.0, style.INK)
    for warp in (warp for warp in range(warps) if warp != 1):
        ax.text(tile_x + tile_w / 2, tile_y + tile_h * (1 - (warp + 0.5) / warps), f"warp {warp}", ha="center",
                va="center_baseline", fontsize=style.SMALL)
    chosen = tile_y + tile_h * (1 - 2 / warps)
    box(ax, tile_x, chosen, tile_w, tile_h / warps, tint(P, 0.45), zorder=1)
    ax.text(tile_x + tile_w / 2, tile_y + tile_h / warps * (warps - 1.5), "warp 1", ha="center", va="center_baseline",
            fontsize=style.SMALL, zorder=4)
    lines(ax, tile_x + tile_w / 2, tile_y + tile_h + 0.42, ["a tile of scores"], ha="center", weight="bold")
    lines(ax, tile_x + tile_w / 2, tile_y + tile_h + 0.24, [f"{code['rows']} rows × {code['keys']} keys"], ha="center",
          color=style.GREY)
    lines(ax, tile_x + tile_w / 2, tile_y - 0.16, [f"{code['warps']} warps of", f"{code['warp_rows']} rows each"],
          ha="center", color=style.GREY)
    for corner_from, corner_to in (((x0 + wide * (at_key + 1), top + tall), (tile_x, tile_y + tile_h)),
                                   ((x0 + wide * (at_key + 1), top), (tile_x, tile_y))):
        ax.plot([corner_from[0], corner_to[0]], [corner_from[1], corner_to[1]], color=style.PALE, linewidth=0.8,
                linestyle="--", zorder=2.6)

    # Right: the warp's lanes; one lane's numbers
    warp_x, warp_y, warp_w, warp_h = 6.55, 1.45, 2.2, 1.1
    box(ax, warp_x, warp_y, warp_w, warp_h, "white")
    rows_of, keys_of = code["warp_rows"], code["keys"]
    down, across = code["lanes_down"], code["lanes_across"]
    lane_down, lane_across = 1, 2
    for half_down in range(code["rows_per_thread"] // 4):
        for half_across in range(code["keys_per_thread"] // 4):
            row = half_down * 4 * down + 4 * lane_down
            key = half_across * 4 * across + 4 * lane_across
            box(ax, warp_x + warp_w * key / keys_of, warp_y + warp_h * (1 - (row + 4) / rows_of), warp_w * 4 / keys_of,
                warp_h * 4 / rows_of, tint(P, 0.8), line=0.4, zorder=1)
    grid(ax, warp_x, warp_y, warp_w, warp_h, keys_of // 4, rows_of // 4, 0.4)
    ax.plot([warp_x + warp_w / 2] * 2, [warp_y, warp_y + warp_h], color=style.INK, linewidth=1.0, zorder=3)
    ax.plot([warp_x, warp_x + warp_w], [warp_y + warp_h / 2] * 2, color=style.INK, linewidth=1.0, zorder=3)
    for corner_from, corner_to in (((tile_x + tile_w, chosen + tile_h / warps), (warp_x, warp_y + warp_h)),
                                   ((tile_x + tile_w, chosen), (warp_x, warp_y))):
        ax.plot([corner_from[0], corner_to[0]], [corner_from[1], corner_to[1]], color=style.PALE, linewidth=0.8,
                linestyle="--", zorder=0)
    lines(ax, warp_x + warp_w / 2, warp_y + warp_h + 0.42, ["a warp's part"], ha="center", weight="bold")
    lines(ax, warp_x + warp_w / 2, warp_y + warp_h + 0.24, [f"{rows_of} rows × {keys_of} keys"], ha="center",
          color=style.GREY)
    lines(ax, warp_x + warp_w / 2, warp_y - 0.18,
          [f"shaded: one lane's {code['rows_per_thread']} × {code['keys_per_thread']} scores,",
           "in four groups of 4 × 4 (small squares);",
           f"lanes stand {across} across and {down} down"], ha="center", color=style.GREY)
    return fig
