"""Drawing: what happens to a tile of keys in the top kernel, from global memory to the running output."""
from __future__ import annotations

from builder import sources
from builder.measured import metric

from . import style
from .drawing import DEVICE, HOST, K, O, P, Q, REGISTER, V, arrow, box, grid, lines, tint

ALT = "drawing of a tile's life in the top kernel: copies to shared memory, scores, weights, output"


def caption(data):
    code = sources.constants()
    launch = data.launch(data.chosen)
    kib = metric(launch, "shared_bytes_per_block") / 1024
    return (f"The life of a tile in {data.chosen} at d = 64, in the order of the numbers. ① Q of the block's "
            f"{code['rows']} rows, once. For every tile of {code['keys']} keys: ② K, transposed on its way, while the "
            f"tile before is still multiplied with V; ③ V, while the scores are computed; ④ scores as outer products, "
            f"in blocks of {code['score_columns']} columns; ⑤ weights p = 2^(c·s), with M = 0 for ordinary data, so "
            f"that m is only watched: the largest |s|; their sums are l, which waits in shared memory from tile to "
            f"tile; ⑥ weights to shared memory, where the warp's other lanes find them; ⑦ outer products of weights "
            f"and V into 64 sums, which ⑧ are added to the totals. ⑨ After the last tile O = total / l. The block "
            f"takes {kib:.0f} KiB of shared memory and {metric(launch, 'registers'):.0f} registers a thread, and "
            f"{code['blocks_per_multiprocessor']} blocks share a multiprocessor.")


def number(ax, x, y, digit):
    ax.text(x, y, "①②③④⑤⑥⑦⑧⑨"[digit - 1], ha="center", va="center", fontsize=12, zorder=6)


def draw(data):
    code = sources.constants()
    rows, keys, of_thread = code["rows"], code["keys"], code["rows_per_thread"]
    fig = style.figure(5.35)
    ax = style.canvas(fig)
    ax.text(0.15, 5.14, f"A tile's life in {data.chosen}, d = 64", fontsize=10.5, weight="bold", va="center")
    for y, height, face, title, under in ((3.90, 0.98, HOST, "global", "memory"),
                                          (2.10, 1.66, DEVICE, "shared", "memory"),
                                          (0.15, 1.81, REGISTER, "registers", "of a thread")):
        box(ax, 0.12, y, 8.76, height, face, style.PALE, zorder=0)
        lines(ax, 0.2, y + height - 0.15, [title, under], weight="bold", color=style.GREY, fontsize=style.TEXT)

    # Global memory
    for x, name, colour in ((1.45, "Q", Q), (3.20, "K", K), (5.85, "V", V), (7.45, "O", O)):
        box(ax, x, 4.02, 0.74, 0.74, tint(colour, 0.12))
        place = 4.30
        box(ax, x, place, 0.74, 0.2, tint(colour, 0.6))
        ax.text(x + 0.82, place + 0.1, {"Q": f"{rows} rows", "K": f"{keys} keys", "V": f"{keys} keys",
                                        "O": f"{rows} rows"}[name], fontsize=7.5, va="center_baseline")
        ax.text(x - 0.08, 4.39, name, ha="right", va="center_baseline", fontsize=12, weight="bold")

    # Shared memory: Q and K transposed, weights, V
    tall = 0.72
    for x, width, colour, name, size in ((1.25, 1.15, Q, "Qᵀ", f"64 × {rows}"), (3.20, 0.74, K, "Kᵀ", f"64 × {keys}"),
                                         (4.35, 1.15, P, "weights p", f"{keys} × {rows}"),
                                         (5.85, 0.74, V, "V", f"{keys} × 64")):
        box(ax, x, 2.62, width, tall, tint(colour, 0.3))
        ax.text(x + width / 2, 3.06, name, ha="center", va="center_baseline", fontsize=10, weight="bold")
        ax.text(x + width / 2, 2.82, size, ha="center", va="center_baseline", fontsize=style.SMALL)
    arrow(ax, (1.82, 4.27), (1.82, 3.38))
    number(ax, 1.66, 3.83, 1)
    arrow(ax, (3.57, 4.27), (3.57, 3.38))
    number(ax, 3.41, 3.83, 2)
    arrow(ax, (6.22, 4.27), (6.22, 3.38))
    number(ax, 6.06, 3.83, 3)
    lines(ax, 1.93, 3.56, ["once for all keys"], fontsize=7.5, color=style.GREY)
    lines(ax, 3.68, 3.56, ["cp.async, during ⑦"], fontsize=7.5, color=style.GREY)
    lines(ax, 6.33, 3.56, ["cp.async, during ④"], fontsize=7.5, color=style.GREY)

    # Registers: scores, sums, outputs, totals
    side = 0.80
    columns = code["columns_per_thread"]
    for x, colour, name, across in ((2.15, P, "scores s", code["keys_per_thread"]), (5.55, O, "p·v", columns),
                                    (7.42, O, "totals", columns)):
        box(ax, x, 0.62, side, side, tint(colour, 0.3))
        grid(ax, x, 0.62, side, side, across, of_thread, 0.4)
        lines(ax, x + side / 2, 0.46, [name], ha="center", weight="bold")
        lines(ax, x + side / 2, 0.29, [f"{of_thread} × {across}"], ha="center", color=style.GREY, fontsize=7.5)
    box(ax, 4.05, 0.62, 0.12, side, tint(P, 0.3))
    grid(ax, 4.05, 0.62, 0.12, side, 1, of_thread, 0.4)
    lines(ax, 4.11, 0.46, ["l"], ha="center", weight="bold")
    lines(ax, 4.11, 0.29, ["a sum a row"], ha="center", color=style.GREY, fontsize=7.5)
    box(ax, 4.90, 0.96, 0.12, 0.12, tint(P, 0.3))
    lines(ax, 4.96, 0.46, ["m"], ha="center", weight="bold")
    lines(ax, 4.96, 0.29, ["largest |s|"], ha="center", color=style.GREY, fontsize=7.5)

    arrow(ax, (1.82, 2.60), (2.35, 1.45), Q)
    arrow(ax, (3.57, 2.60), (2.75, 1.45), K)
    number(ax, 2.58, 1.76, 4)
    lines(ax, 1.05, 1.25, ["a column of Qᵀ", "times one of Kᵀ,", "64 times"], fontsize=7.5, color=style.GREY)
    arrow(ax, (2.99, 0.84), (3.98, 0.84), P)
    number(ax, 3.12, 1.02, 5)
    lines(ax, 3.25, 1.02, ["p = 2^(c·s)"], fontsize=7.5)
    arrow(ax, (2.99, 1.30), (4.66, 2.58), P, curve=0.12)
    number(ax, 3.86, 2.02, 6)
    arrow(ax, (4.98, 2.60), (5.72, 1.45), P)
    arrow(ax, (6.22, 2.60), (6.05, 1.45), V)
    number(ax, 5.78, 1.74, 7)
    lines(ax, 6.32, 1.80, ["a key's weights times", f"its row of V, {keys} times"], fontsize=7.5, color=style.GREY)
    arrow(ax, (6.39, 1.02), (7.37, 1.02), O)
    number(ax, 6.74, 1.20, 8)
    lines(ax, 6.87, 1.20, ["added"], fontsize=7.5)
    arrow(ax, (7.82, 1.45), (7.82, 4.27), O)
    number(ax, 7.66, 2.90, 9)
    lines(ax, 7.93, 2.98, ["total / l,", "after the", "last tile"], fontsize=7.5, color=style.GREY)
    return fig
