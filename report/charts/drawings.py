"""Drawings of the program's structure, from boxes and arrows placed in inches."""
from __future__ import annotations

from builder import sources

from . import style

HOST, DEVICE, REGISTER = "#f3f3f3", "#e6f1f8", "#fdf1e4"
Q, K, V, P, O = style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.RED  # noqa: E741 (the paper's letter)


def tint(colour, share=0.25):
    """The colour mixed with white."""
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
    """Draws each line as its own text, because the reader's fonts may differ."""
    for index, line in enumerate(words):
        ax.text(x, y - gap * index, line, fontsize=fontsize, va="center_baseline", **options)


def grid(ax, x, y, width, height, across, down, line=0.5, colour=style.GREY):
    """The inner lines of a box with this many cells."""
    for n in range(1, across):
        ax.plot([x + width * n / across] * 2, [y, y + height], color=colour, linewidth=line, zorder=2)
    for n in range(1, down):
        ax.plot([x, x + width], [y + height * n / down] * 2, color=colour, linewidth=line, zorder=2)


def centred(ax, x, y, words, fontsize=style.SMALL, **options):
    ax.text(x, y, words, ha="center", va="center_baseline", fontsize=fontsize, **options)


def headed(ax, x, y, name, *under, below=0.16, fontsize=style.SMALL):
    """A name, and grey lines under it."""
    lines(ax, x, y, [name], ha="center", weight="bold")
    lines(ax, x, y - below, under, ha="center", color=style.GREY, fontsize=fontsize)


def dashed(ax, zorder, *pairs):
    """Draws lines from corner to corner."""
    for (x0, y0), (x1, y1) in pairs:
        ax.plot([x0, x1], [y0, y1], color=style.PALE, linewidth=0.8, linestyle="--", zorder=zorder)


def blocking(data):
    """The division of Q, K, V and O into tiles, and the part of a tile that a warp and a lane compute."""
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
    centred(ax, x0 - thin / 2 - 0.14, y0 - 0.13, "Q", 11, weight="bold")
    centred(ax, x0 + side + 0.14 + thin / 2, y0 - 0.13, "O", 11, weight="bold")
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
        centred(ax, tile_x + tile_w / 2, tile_y + tile_h * (1 - (warp + 0.5) / warps), f"warp {warp}")
    chosen = tile_y + tile_h * (1 - 2 / warps)
    box(ax, tile_x, chosen, tile_w, tile_h / warps, tint(P, 0.45), zorder=1)
    centred(ax, tile_x + tile_w / 2, tile_y + tile_h / warps * (warps - 1.5), "warp 1", zorder=4)
    headed(ax, tile_x + tile_w / 2, tile_y + tile_h + 0.42, "a tile of scores",
           f"{code['rows']} rows × {code['keys']} keys", below=0.18)
    lines(ax, tile_x + tile_w / 2, tile_y - 0.16, [f"{code['warps']} warps of", f"{code['warp_rows']} rows each"],
          ha="center", color=style.GREY)
    right = x0 + wide * (at_key + 1)
    dashed(ax, 2.6, ((right, top + tall), (tile_x, tile_y + tile_h)), ((right, top), (tile_x, tile_y)))

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
    dashed(ax, 0, ((tile_x + tile_w, chosen + tile_h / warps), (warp_x, warp_y + warp_h)),
           ((tile_x + tile_w, chosen), (warp_x, warp_y)))
    headed(ax, warp_x + warp_w / 2, warp_y + warp_h + 0.42, "a warp's part", f"{rows_of} rows × {keys_of} keys",
           below=0.18)
    lines(ax, warp_x + warp_w / 2, warp_y - 0.18,
          [f"shaded: one lane's {code['rows_per_thread']} × {code['keys_per_thread']} scores,",
           "in four groups of 4 × 4 (small squares);",
           f"lanes stand {across} across and {down} down"], ha="center", color=style.GREY)
    return fig


def numbered(ax, x, y, digit):
    ax.text(x, y, "①②③④⑤⑥⑦⑧⑨"[digit - 1], ha="center", va="center", fontsize=12, zorder=6)


def tile_life(data):
    """The path of a tile of keys in the top kernel, from global memory to the running output."""
    code = sources.constants()
    rows, keys, of_thread = code["rows"], code["keys"], code["rows_per_thread"]
    fig, kernel = style.figure(5.35), data.ladder("f32")[-1].kernel
    ax = style.canvas(fig)
    ax.text(0.15, 5.14, f"A tile's life in {kernel}, d = 64", fontsize=10.5, weight="bold", va="center")
    for y, height, face, title, under in ((3.90, 0.98, HOST, "global", "memory"),
                                          (2.10, 1.66, DEVICE, "shared", "memory"),
                                          (0.15, 1.81, REGISTER, "registers", "of a thread")):
        box(ax, 0.12, y, 8.76, height, face, style.PALE, zorder=0)
        lines(ax, 0.2, y + height - 0.15, [title, under], weight="bold", color=style.GREY, fontsize=style.TEXT)

    # Global memory
    for x, name, colour, part in ((1.45, "Q", Q, f"{rows} rows"), (3.20, "K", K, f"{keys} keys"),
                                  (5.85, "V", V, f"{keys} keys"), (7.45, "O", O, f"{rows} rows")):
        box(ax, x, 4.02, 0.74, 0.74, tint(colour, 0.12))
        box(ax, x, 4.30, 0.74, 0.2, tint(colour, 0.6))
        ax.text(x + 0.82, 4.40, part, fontsize=7.5, va="center_baseline")
        ax.text(x - 0.08, 4.39, name, ha="right", va="center_baseline", fontsize=12, weight="bold")

    # Shared memory: Q and K transposed, weights, V
    tall, grey = 0.72, {"fontsize": 7.5, "color": style.GREY}
    for x, width, colour, name, size in ((1.25, 1.15, Q, "Qᵀ", f"64 × {rows}"), (3.20, 0.74, K, "Kᵀ", f"64 × {keys}"),
                                         (4.35, 1.15, P, "weights p", f"{keys} × {rows}"),
                                         (5.85, 0.74, V, "V", f"{keys} × 64")):
        box(ax, x, 2.62, width, tall, tint(colour, 0.3))
        centred(ax, x + width / 2, 3.06, name, 10, weight="bold")
        centred(ax, x + width / 2, 2.82, size)
    copies = ((1.82, "once for all keys"), (3.57, "cp.async, during ⑦"), (6.22, "cp.async, during ④"))
    for digit, (x, _) in enumerate(copies, 1):
        arrow(ax, (x, 4.27), (x, 3.38))
        numbered(ax, x - 0.16, 3.83, digit)
    for x, how in copies:
        lines(ax, x + 0.11, 3.56, [how], **grey)

    # Registers: scores, sums, outputs, totals
    side = 0.80
    columns = code["columns_per_thread"]
    for x, colour, name, across in ((2.15, P, "scores s", code["keys_per_thread"]), (5.55, O, "p·v", columns),
                                    (7.42, O, "totals", columns)):
        box(ax, x, 0.62, side, side, tint(colour, 0.3))
        grid(ax, x, 0.62, side, side, across, of_thread, 0.4)
        headed(ax, x + side / 2, 0.46, name, f"{of_thread} × {across}", below=0.17, fontsize=7.5)
    box(ax, 4.05, 0.62, 0.12, side, tint(P, 0.3))
    grid(ax, 4.05, 0.62, 0.12, side, 1, of_thread, 0.4)
    headed(ax, 4.11, 0.46, "l", "a sum a row", below=0.17, fontsize=7.5)
    box(ax, 4.90, 0.96, 0.12, 0.12, tint(P, 0.3))
    headed(ax, 4.96, 0.46, "m", "largest |s|", below=0.17, fontsize=7.5)

    plain = {"fontsize": 7.5}
    for digit, arrows, at, words_at, words, look in (
            (4, [((1.82, 2.60), (2.35, 1.45), Q), ((3.57, 2.60), (2.75, 1.45), K)], (2.58, 1.76), (1.05, 1.25),
             ["a column of Qᵀ", "times one of Kᵀ,", "64 times"], grey),
            (5, [((2.99, 0.84), (3.98, 0.84), P)], (3.12, 1.02), (3.25, 1.02), ["p = 2^(c·s)"], plain),
            (6, [((2.99, 1.30), (4.66, 2.58), P, 0.12)], (3.86, 2.02), (0, 0), [], plain),
            (7, [((4.98, 2.60), (5.72, 1.45), P), ((6.22, 2.60), (6.05, 1.45), V)], (5.78, 1.74), (6.32, 1.80),
             ["a key's weights times", f"its row of V, {keys} times"], grey),
            (8, [((6.39, 1.02), (7.37, 1.02), O)], (6.74, 1.20), (6.87, 1.20), ["added"], plain),
            (9, [((7.82, 1.45), (7.82, 4.27), O)], (7.66, 2.90), (7.93, 2.98),
             ["total / l,", "after the", "last tile"], grey)):
        for one in arrows:
            arrow(ax, *one)
        numbered(ax, *at, digit)
        lines(ax, *words_at, words, **look)
    return fig


def data_flow(data):
    """A run from file to file: the data flow between threads."""
    code = sources.constants()
    run = data.file_case("t22")["stages"]
    fig = style.figure(4.05)
    ax = style.canvas(fig)
    area(ax, 0.12, 0.15, 4.72, 3.45, HOST, "host")
    area(ax, 4.96, 0.15, 2.32, 3.45, DEVICE, "GPU")
    area(ax, 7.40, 0.15, 1.48, 3.45, HOST, "host")
    ax.text(0.15, 3.83, "A run from file to file", fontsize=10.5, weight="bold", va="center")

    # The input file: Q0 K0 V0 Q1 K1 V1 ...
    for index in range(9):
        colour = (Q, K, V)[index % 3]
        y = 2.78 - 0.23 * index
        box(ax, 0.32, y, 0.62, 0.23, tint(colour), line=0.6)
        centred(ax, 0.63, y + 0.115, "QKV"[index % 3] + "₀₁₂"[index // 3])
    headed(ax, 0.63, 0.72, "input file", "B times", "Q, K, V")

    # Readers
    for index in range(run["readers"]):
        box(ax, 1.62, 2.78 - 0.26 * index, 0.68, 0.2, "white", line=0.8)
        centred(ax, 1.96, 2.88 - 0.26 * index, f"reader {index}", 6.5)
    middle = 2.88 - 0.13 * (run["readers"] - 1)
    headed(ax, 1.96, 0.72, "reader threads", f"read {code['piece_mib']} MiB,", "check the numbers")
    arrow(ax, (0.98, middle), (1.56, middle))
    ax.text(1.27, middle + 0.09, "pread", ha="center", fontsize=7.5)

    # The ring
    buffers, across = code["ring_buffers"], 4
    down = -(-buffers // across)
    size = 0.27
    x0, y0 = 3.0, middle - down * size / 2
    for index in range(buffers):
        box(ax, x0 + size * (index % across), y0 + size * (down - 1 - index // across), size, size,
            tint((Q, K, V)[index % 3]) if index < 11 else "white", line=0.6)  # some are filled
    headed(ax, x0 + size * across / 2, 0.72, "ring of staging buffers", f"{buffers} × {code['piece_mib']} MiB, pinned",
           "once a context is there")
    arrow(ax, (2.34, middle), (x0 - 0.06, middle))
    ax.text((2.34 + x0) / 2 - 0.02, middle + 0.09, "filled", ha="center", fontsize=7.5)

    # Slots
    streams = run["streams"]
    tall = 0.40
    pitch = 2.2 / streams
    for index in range(streams):
        y = 2.62 - pitch * index
        for part, (name, colour) in enumerate((("Q", Q), ("K", K), ("V", V))):
            box(ax, 5.42 + 0.24 * part, y, 0.24, tall, tint(colour), line=0.6)
            centred(ax, 5.54 + 0.24 * part, y + tall / 2, name)
        arrow(ax, (6.18, y + tall / 2), (6.76, y + tall / 2), O)
        ax.text(6.45, y + tall / 2 + 0.07, "kernel", ha="center", fontsize=7.5)
        box(ax, 6.80, y, 0.24, tall, tint(O), line=0.6)
        centred(ax, 6.92, y + tall / 2, "O")
        ax.text(5.42, y + tall + 0.03, f"slot {index}, stream {index}", fontsize=6.5, color=style.GREY)
    headed(ax, 6.12, 0.72, f"{streams} slots, {streams} streams", "pitched rows; a chunk of",
           "batches in each, in turn")
    end_of_ring = x0 + size * across + 0.06
    for index in range(streams):
        arrow(ax, (end_of_ring, middle), (5.38, 2.62 - pitch * index + tall / 2), line=0.9)
    lines(ax, 3.72, 3.22, ["main thread: makes the context,", "then feeds: copy in, launch"], fontsize=7.5, ha="center")

    # Writers: a free one takes the next part
    writers = run["writers"]
    step = 2.2 / writers
    box(ax, 7.50, 0.97, 0.17, 2.05, "white", line=0.6)
    ax.text(7.585, 2.0, "queue of parts", rotation=90, ha="center", va="center", fontsize=7)
    for index in range(streams):
        arrow(ax, (7.07, 2.62 - pitch * index + tall / 2), (7.47, 2.62 - pitch * index + tall / 2), line=0.9)
    for index in range(writers):
        y = 2.62 - step * index + 0.2
        box(ax, 7.83, y - 0.13, 0.5, 0.26, "white", line=0.8)
        centred(ax, 8.08, y, f"writer {index}", 6.5)
        arrow(ax, (7.68, y), (7.80, y), line=0.9)
        arrow(ax, (8.35, y), (8.50, y), line=0.9)
    box(ax, 8.53, 0.97, 0.24, 2.05, tint(O), line=0.6)
    ax.text(8.65, 2.0, "output file", rotation=90, ha="center", va="center", fontsize=style.SMALL)
    headed(ax, 8.14, 0.72, "writer threads", "copy out, pwrite;", "renamed at the end")
    return fig


LEVELS = {0: (Q, "L0", "× 2³²"), 1: (K, "L1", "× 2²⁴"), 2: (V, "L2", "× 2¹⁶")}
WIDE = 0.62


def number(ax, x, y, name, colour):
    """Three boxes for the digits of q or k."""
    for place, weight in zip((2, 1, 0), ("2¹⁶", "2⁸", "1")):
        at = x + WIDE * (2 - place)
        box(ax, at, y, WIDE, 0.34, tint(colour))
        centred(ax, at + WIDE / 2, y + 0.17, f"{name}{place}", style.TEXT, weight="bold")
        centred(ax, at + WIDE / 2, y - 0.13, f"× {weight}")


def products(ax, x, y):
    """The nine products: rows by q's digit, columns by k's."""
    for row, of_q in enumerate((2, 1, 0)):
        ax.text(x - 0.12, y - WIDE * (row + 0.5), f"q{of_q}", ha="right", va="center_baseline", fontsize=style.TEXT)
        for column, of_k in enumerate((2, 1, 0)):
            level = 4 - of_q - of_k
            taken = level in LEVELS
            face = tint(LEVELS[level][0], 0.45) if taken else "white"
            box(ax, x + WIDE * column, y - WIDE * (row + 1), WIDE, WIDE, face, edge=style.INK if taken else style.PALE)
            centred(ax, x + WIDE * (column + 0.5), y - WIDE * (row + 0.5), f"q{of_q}·k{of_k}",
                    color=style.INK if taken else style.GREY)
    for column, of_k in enumerate((2, 1, 0)):
        centred(ax, x + WIDE * (column + 0.5), y + 0.12, f"k{of_k}", style.TEXT)


def digits(_):
    """The division of a product of two numbers into products of bytes, and which of them are computed."""
    fig = style.figure(2.95)
    ax = style.canvas(fig)
    style.heading(fig, 2.73, "Six products of bytes for one of floats")
    lines(ax, 0.15, 2.37, ["q ≈ (q2·2¹⁶ + q1·2⁸ + q0) · 2^−e"])
    number(ax, 0.15, 1.75, "q", Q)
    lines(ax, 0.15, 1.27, ["k ≈ (k2·2¹⁶ + k1·2⁸ + k0) · 2^−f"])
    number(ax, 0.15, 0.65, "k", K)
    products(ax, 3.15, 2.2)
    for step, (colour, name, weight) in enumerate(LEVELS.values()):
        style.key(ax, 5.5, 1.95 - 0.3 * step, tint(colour, 0.45), "", f"{name} = sum over the columns, {weight}")
    style.key(ax, 5.5, 1.05, "white", "", "left out: weights 2⁸ and 1")
    lines(ax, 5.5, 0.65, ["score = 256·L0 + L1 + (L2 >> 8), in units of 2²⁴·2^−(e+f):",
                                  "an integer, the same whatever the order of the sums"], gap=0.17)
    return fig
