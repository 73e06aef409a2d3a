"""The rate over the length N at three head sizes, beside PyTorch."""
from __future__ import annotations

from builder.template import significant

from . import style, words

ALT = "TFLOP/s over the length N for d = 32, 64 and 128, hw4 and PyTorch"


def caption(data):
    shapes = data.length_shapes
    rows = sorted({shape.batches * shape.tokens for shape in shapes})
    return (f"Rate of the kernel over the length N, {words.gpu(data)}, for d = "
            f"{', '.join(str(dim) for dim in dims(shapes))}, with B·N = {rows[0]} query rows"
            f"{' (more where B is at least 2)' if len(rows) > 1 else ''}: {words.FLOP} over the median of "
            f"{words.counts([shape.hw4 for shape in shapes])} samples; bands from p20 to p80. PyTorch: its "
            f"memory-efficient float32 attention (3×TF32 on tensor cores). The dotted line is cuBLAS's SGEMM in the "
            f"same run.")


def dims(shapes):
    return sorted({shape.dim for shape in shapes})


def draw(data):
    fig = style.figure(3.9)
    shapes = data.length_shapes
    sgemm = data.lengths["sgemm"]["tflops"]
    most = max([sgemm, *(shape.tflops(shape.hw4).high for shape in shapes)])
    scale = style.steps(most, 7)
    lengths = sorted({shape.tokens for shape in shapes})
    for index, dim in enumerate(dims(shapes)):
        ax = style.axes(fig, 0.65 + 2.8 * index, 0.6, 2.6, 2.65)
        of_dim = sorted((shape for shape in shapes if shape.dim == dim), key=lambda shape: shape.tokens)
        xs = [shape.tokens for shape in of_dim]
        ax.set_xscale("log", base=2)
        ax.set_xlim(lengths[0] / 1.3, lengths[-1] * 1.3)
        style.ticks(ax.xaxis, lengths, [words.short(n) for n in lengths])
        ax.tick_params(axis="x", labelsize=7)
        style.ticks(ax.yaxis, scale, None if index == 0 else [""] * len(scale))
        ax.set_ylim(0, scale[-1])
        ax.grid(axis="y")
        ax.set_xlabel("N (logarithmic)")
        ax.set_title(f"d = {dim}", loc="left", weight="bold", fontsize=style.TEXT)
        ax.plot(ax.get_xlim(), [sgemm, sgemm], color=style.GREEN, linestyle=":", linewidth=1.2)
        if index == 0:
            ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time")
            ax.text(lengths[0], sgemm + scale[-1] * 0.012, f"cuBLAS SGEMM {significant(sgemm, 3)}",
                    fontsize=style.SMALL)
        ends = []
        for name, look, pick in (("hw4", style.HW4, lambda shape: shape.hw4),
                                 ("PyTorch", style.EFFICIENT, lambda shape: shape.torch_best)):
            rates = [shape.tflops(pick(shape)) for shape in of_dim]
            ax.fill_between(xs, [rate.low for rate in rates], [rate.high for rate in rates], color=look["color"],
                            alpha=0.25, linewidth=0)
            ax.plot(xs, [rate.mid for rate in rates], **look)
            ends.append((name, look["color"], rates[-1].mid))
        lower = min(ends, key=lambda end: end[2])
        for end in ends:
            name, colour, rate = end
            near = 0 <= sgemm - rate < scale[-1] * 0.11  # no room between: above SGEMM's line
            place = rate - scale[-1] * 0.075 if end is lower else (sgemm if near else rate) + scale[-1] * 0.02
            ax.text(xs[-1], place, f"{name} {significant(rate, 3)}", ha="right", fontsize=style.TEXT, color=colour,
                    weight="bold")
    style.write(fig, 0.15, 3.68, "Rate over the length of the sequence", fontsize=10.5, weight="bold", va="center")
    return fig
