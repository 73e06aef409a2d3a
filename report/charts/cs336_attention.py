"""CS336: attention's time and memory over the length, with what does not fit."""
from __future__ import annotations

from builder.measured_courses import LIMIT_BYTES, Cs336
from builder.spread import Spread

from . import style, sweeps, words

NEEDS = ("cs336_attention.json",)
ALT = ("forward time and memory before backward over N at d = 64 within 8 GiB: naive forms, FlashAttention-2 and hw4's "
       "f32; sizes that do not fit are marked")
DIM = 64
LEFTS, WIDTH, BOTTOM, INNER = (0.62, 5.2), 2.62, 0.6, 2.7
HEIGHT = 4.0
MIB = 2.0 ** 20


def caption(data):
    found = Cs336(data)
    both = any(who.startswith("pytorch") for who in found.attention.everybody)
    naive = "our plain form on cuBLAS, and PyTorch's, both in float32" if both else "our plain form on cuBLAS, in float32"
    return (f"CS336's grid at d = {DIM}, {words.gpu(data)}, B = {found.attention.rows[0].batches}, one head, no mask, "
            f"within {LIMIT_BYTES >> 30} GiB. Left: forward's time. Right: the memory in use when backward begins; the "
            f"dotted line is the limit. OOM: forward or backward did not fit. Naive: {naive}; FlashAttention-2 in fp16, "
            f"hw4's `f32` in float32. All sizes are in the appendix.")


def draw(data):
    fig = style.figure(HEIGHT)
    by_who = Cs336(data).over_length(DIM)
    lengths = sorted({n for rows in by_who.values() for n in rows})
    times = {who: {n: row.forward.seconds.times(1e3) for n, row in rows.items() if row.forward.ok}
             for who, rows in by_who.items()}
    held = {who: {n: Spread.of([row.backward.before_backward_bytes / MIB]) for n, row in rows.items()
                  if row.backward.ok and row.backward.before_backward_bytes} for who, rows in by_who.items()}
    lacking = {who: ([n for n, row in rows.items() if row.forward.out_of_memory],
                     [n for n, row in rows.items() if row.backward.out_of_memory]) for who, rows in by_who.items()}
    for index, (left, series, title, side) in enumerate(zip(
            LEFTS, (times, held), ("forward", "before backward"), ("ms (logarithmic)", "MiB (logarithmic)"))):
        ax = sweeps.panel(fig, (left, BOTTOM, WIDTH, INNER), lengths, "N (logarithmic)", title)
        values = [spread.mid for points in series.values() for spread in points.values()]
        sweeps.scale(ax, values + ([LIMIT_BYTES / MIB] if index else []), room=1.6, above=6.0)
        ax.set_ylabel(side)
        if index:
            ax.plot(ax.get_xlim(), [LIMIT_BYTES / MIB] * 2, color=style.GREEN, linestyle=":", linewidth=1.2)
        sweeps.curves(ax, INNER, series)
        level = 0
        for who, both in lacking.items():
            if both[index]:
                sweeps.out_of_memory(ax, both[index], who, level)
                level += 1
    style.heading(fig, HEIGHT - 0.2, "Attention within 8 GiB: time, memory, and where it ends")
    return fig
