"""Br x Bc: the rate of every tiling that was tried."""
from __future__ import annotations

from builder.spread import Spread
from builder.template import significant

from . import style, words

ALT = "heat map of the rate over the tile sizes Br and Bc"


def caption(data):
    tilings, left_out = data.tilings["tilings"], data.tilings["left_out"]
    spreads = [Spread.of(tiling["seconds"]) for tiling in tilings]
    widest = max((spread.high - spread.low) / spread.mid for spread in spreads)
    first = tilings[0]
    reasons = {}
    for skip in left_out:
        reasons.setdefault(skip["why"], []).append(f"{skip['rows']} × {skip['keys']}")
    why = "; ".join(f"{', '.join(sizes)}: {reason}" for reason, sizes in reasons.items())
    kernel = f"Tile sizes of {first['kernel']}" if "kernel" in first else "Tile sizes"
    return (f"{kernel}: Br query rows of a block and Bc keys of a tile, B = {first['batches']}, N = {first['tokens']}, "
            f"d = {first['dim']}, {words.gpu(data)}. In each cell TFLOP/s ({words.FLOP} over the median of "
            f"{words.counts(spreads)} samples; p20 to p80 is at most {significant(100 * widest, 2)} % of the median), "
            f"registers a thread, shared memory a block and blocks a multiprocessor. The frame marks the fastest."
            + (f" Left out: {why}." if why else ""))


def draw(data):
    from matplotlib.patches import Rectangle
    tilings = data.tilings["tilings"]
    left_out = data.tilings["left_out"]
    rows = sorted({cell["rows"] for cell in tilings})  # what was left out altogether is in the caption alone
    keys = sorted({cell["keys"] for cell in tilings})
    rates = {(cell["rows"], cell["keys"]): rate(cell) for cell in tilings}
    best = max(rates, key=rates.get)
    cell_width, cell_height = min(1.9, 7.2 / len(keys)), 0.72
    height = 1.25 + cell_height * len(rows)
    fig = style.figure(height)
    left = 0.9 + (style.WIDTH - 1.1 - cell_width * len(keys)) / 2
    ax = style.axes(fig, left, 0.6, cell_width * len(keys), cell_height * len(rows))
    ax.set_xlim(-0.5, len(keys) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    style.ticks(ax.xaxis, range(len(keys)), keys)
    style.ticks(ax.yaxis, range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.set_xlabel("Bc, keys of a tile")
    ax.set_ylabel("Br, query rows of a block")
    for spine in ax.spines.values():
        spine.set_visible(False)
    low, high = min(rates.values()), max(rates.values())
    by_size = {(cell["rows"], cell["keys"]): cell for cell in tilings}
    for down, br in enumerate(rows):
        for across, bc in enumerate(keys):
            cell = by_size.get((br, bc))
            share = (rates[br, bc] - low) / (high - low) if cell and high > low else 0.0
            colour = style.shade(0.1 + 0.9 * share) if cell else style.FAINT
            ax.add_patch(Rectangle((across - 0.5, down - 0.5), 1, 1, facecolor=colour, linewidth=2, edgecolor="white"))
            if not cell:
                tried = any((skip["rows"], skip["keys"]) == (br, bc) for skip in left_out)
                ax.text(across, down, "left out" if tried else "not tried", ha="center", va="center_baseline",
                        fontsize=style.SMALL)
                continue
            ax.text(across, down - 0.17, significant(rates[br, bc], 3), ha="center", va="center_baseline", fontsize=12,
                    weight="bold")
            ax.text(across, down + 0.12, f"{cell['registers']} registers", ha="center", va="center_baseline",
                    fontsize=style.SMALL)
            blocks = cell["blocks_per_multiprocessor"]
            ax.text(across, down + 0.31, f"{cell['shared_bytes'] / 1024:.0f} KiB, {blocks} block{'s' * (blocks != 1)}",
                    ha="center", va="center_baseline", fontsize=style.SMALL)
    down, across = rows.index(best[0]), keys.index(best[1])
    ax.add_patch(Rectangle((across - 0.485, down - 0.485), 0.97, 0.97, fill=False, edgecolor=style.ORANGE, linewidth=3,
                           zorder=5))
    style.heading(fig, height - 0.22, f"TFLOP/s over tile sizes, {shape_of(tilings[0])}")
    return fig


def rate(cell):
    return Spread.of(cell["seconds"]).under(4e-12 * cell["batches"] * cell["tokens"] ** 2 * cell["dim"]).mid


def shape_of(cell):
    return f"B = {cell['batches']}, N = {cell['tokens']}, d = {cell['dim']}"
