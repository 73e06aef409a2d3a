"""Drawing: a run from file to file, who hands what to whom."""
from __future__ import annotations

from builder import sources

from . import style
from .drawing import DEVICE, HOST, K, O, Q, V, area, arrow, box, lines, tint

ALT = "drawing of a run: reader threads, a ring of staging buffers, slots and streams on the GPU, writer threads"


def caption(data):
    return ("A run from file to file. Readers start at once, while the main thread makes the CUDA context; from then "
            "on only the slowest stage shows. A chunk of batches has a slot and a stream of its own, so that one is "
            "copied in while another is computed and a third copied out; each writer copies out in a stream of its "
            "own. The host's memory is that of the ring and of the writers' buffers, however large the file.")


def draw(data):
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
        ax.text(0.63, y + 0.115, "QKV"[index % 3] + "₀₁₂"[index // 3], ha="center", va="center_baseline",
                fontsize=style.SMALL)
    lines(ax, 0.63, 0.72, ["input file"], ha="center", weight="bold")
    lines(ax, 0.63, 0.56, ["B times", "Q, K, V"], ha="center", color=style.GREY)

    # Readers
    for index in range(run["readers"]):
        box(ax, 1.62, 2.78 - 0.26 * index, 0.68, 0.2, "white", line=0.8)
        ax.text(1.96, 2.88 - 0.26 * index, f"reader {index}", ha="center", va="center_baseline", fontsize=6.5)
    middle = 2.88 - 0.13 * (run["readers"] - 1)
    lines(ax, 1.96, 0.72, ["reader threads"], ha="center", weight="bold")
    lines(ax, 1.96, 0.56, ["read 2 MiB,".replace("2", str(code["piece_mib"])), "check the numbers"], ha="center",
          color=style.GREY)
    arrow(ax, (0.98, middle), (1.56, middle))
    ax.text(1.27, middle + 0.09, "pread", ha="center", fontsize=7.5)

    # The ring
    buffers, across = code["ring_buffers"], 4
    down = -(-buffers // across)
    size = 0.27
    x0, y0 = 3.0, middle - down * size / 2
    for index in range(buffers):
        filled = index < 11
        box(ax, x0 + size * (index % across), y0 + size * (down - 1 - index // across), size, size,
            tint((Q, K, V)[index % 3]) if filled else "white", line=0.6)
    lines(ax, x0 + size * across / 2, 0.72, ["ring of staging buffers"], ha="center", weight="bold")
    lines(ax, x0 + size * across / 2, 0.56, [f"{buffers} × {code['piece_mib']} MiB, pinned", "once a context is there"],
          ha="center", color=style.GREY)
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
            ax.text(5.54 + 0.24 * part, y + tall / 2, name, ha="center", va="center_baseline", fontsize=style.SMALL)
        arrow(ax, (6.18, y + tall / 2), (6.76, y + tall / 2), O)
        ax.text(6.45, y + tall / 2 + 0.07, "kernel", ha="center", fontsize=7.5)
        box(ax, 6.80, y, 0.24, tall, tint(O), line=0.6)
        ax.text(6.92, y + tall / 2, "O", ha="center", va="center_baseline", fontsize=style.SMALL)
        ax.text(5.42, y + tall + 0.03, f"slot {index}, stream {index}", fontsize=6.5, color=style.GREY)
    lines(ax, 6.12, 0.72, [f"{streams} slots, {streams} streams"], ha="center", weight="bold")
    lines(ax, 6.12, 0.56, ["pitched rows; a chunk of", "batches in each, in turn"], ha="center", color=style.GREY)
    end_of_ring = x0 + size * across + 0.06
    for index in range(streams):
        arrow(ax, (end_of_ring, middle), (5.38, 2.62 - pitch * index + tall / 2), line=0.9)
    lines(ax, 3.72, 3.22, ["main thread: makes the context,", "then feeds: copy in, launch"], fontsize=7.5, ha="center")

    # Writers: whoever is free takes the next part
    writers = run["writers"]
    step = 2.2 / writers
    box(ax, 7.50, 0.97, 0.17, 2.05, "white", line=0.6)
    ax.text(7.585, 2.0, "queue of parts", rotation=90, ha="center", va="center", fontsize=7)
    for index in range(streams):
        arrow(ax, (7.07, 2.62 - pitch * index + tall / 2), (7.47, 2.62 - pitch * index + tall / 2), line=0.9)
    for index in range(writers):
        y = 2.62 - step * index + 0.2
        box(ax, 7.83, y - 0.13, 0.5, 0.26, "white", line=0.8)
        ax.text(8.08, y, f"writer {index}", ha="center", va="center_baseline", fontsize=6.5)
        arrow(ax, (7.68, y), (7.80, y), line=0.9)
        arrow(ax, (8.35, y), (8.50, y), line=0.9)
    box(ax, 8.53, 0.97, 0.24, 2.05, tint(O), line=0.6)
    ax.text(8.65, 2.0, "output file", rotation=90, ha="center", va="center", fontsize=style.SMALL)
    lines(ax, 8.14, 0.72, ["writer threads"], ha="center", weight="bold")
    lines(ax, 8.14, 0.56, ["copy out, pwrite;", "renamed at the end"], ha="center", color=style.GREY)
    return fig
