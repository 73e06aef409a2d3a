"""The rate over the length N at three head sizes, beside PyTorch."""
from __future__ import annotations

from builder.template import significant

from . import style, words

ALT = "TFLOP/s over the length N for d = 32, 64 and 128: hw4 under f32 and fixed, and PyTorch"


def caption(data):
    shapes = data.length_shapes
    rows = sorted({shape.batches * shape.tokens for shape in shapes})
    return (f"Rate of the kernel over the length N, {words.gpu(data)}, for d = "
            f"{', '.join(str(dim) for dim in dims(shapes))}, with B·N = {rows[0]} query rows"
            f"{' (more where B is at least 2)' if len(rows) > 1 else ''}: {words.FLOP} over the median of "
            f"{words.counts([shape.hw4 for shape in shapes])} samples; bands from p20 to p80. PyTorch: its "
            f"memory-efficient float32 attention (3×TF32 on tensor cores). The dotted line is cuBLAS's SGEMM in the "
            f"same run. `fixed` is from the run with the causal mask, where it was measured without one too: d = "
            f"{' and '.join(map(str, data.fixed_over_length))}.")


def dims(shapes):
    return sorted({shape.dim for shape in shapes})


def draw(data):
    fig = style.figure(3.9)
    shapes, fixed = data.length_shapes, data.fixed_over_length
    sgemm = data.lengths["sgemm"]["tflops"]
    rates = [shape.tflops(seconds) for shape in shapes for seconds in (shape.hw4, shape.torch_best)]
    every = [*rates, *(rate for of_dim in fixed.values() for rate in of_dim.values())]
    low, high = min(rate.low for rate in every) / 1.4, max(rate.high for rate in every) * 1.35
    lengths = sorted({shape.tokens for shape in shapes})
    places = [place for place in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= place <= high]
    for index, dim in enumerate(dims(shapes)):
        ax = style.axes(fig, 0.65 + 2.8 * index, 0.6, 2.6, 2.65)
        of_dim = sorted((shape for shape in shapes if shape.dim == dim), key=lambda shape: shape.tokens)
        ax.set_xscale("log", base=2)
        ax.set_xlim(lengths[0] / 1.3, lengths[-1] * 1.3)
        style.ticks(ax.xaxis, lengths, [words.short(n) for n in lengths])
        ax.tick_params(axis="x", labelsize=7)
        style.log(ax, "y", low, high, places, None if index == 0 else [""] * len(places))
        ax.grid(axis="y")
        ax.set_xlabel("N (logarithmic)")
        style.title(ax, f"d = {dim}")
        ax.plot(ax.get_xlim(), [sgemm, sgemm], color=style.GREEN, linestyle=":", linewidth=1.2)
        if index == 0:
            ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
            ax.text(lengths[0], sgemm * 1.04, "cuBLAS SGEMM", fontsize=style.SMALL)
        curves = {"f32": (style.HW4, {shape.tokens: shape.tflops(shape.hw4) for shape in of_dim}),
                  "PyTorch": (style.EFFICIENT, {shape.tokens: shape.tflops(shape.torch_best) for shape in of_dim}),
                  **({"fixed": (style.FIXED, fixed[dim])} if dim in fixed else {})}
        for look, points in curves.values():
            style.band(ax, points, look)
        name_ends(ax, curves, sgemm)
    style.heading(fig, 3.68, "Rate over the length of the sequence")
    return fig


def name_ends(ax, curves, sgemm):
    """The lowest under its line, the others above theirs; above SGEMM's where that is close."""
    ends = {name: list(points.items())[-1] for name, (_, points) in curves.items()}
    lowest = min(ends, key=lambda name: ends[name][1].mid)
    for name, (tokens, rate) in ends.items():
        near = 1 <= sgemm / rate.mid < 1.3
        place = rate.mid / 1.2 if name == lowest else (sgemm * 1.06 if near else rate.mid * 1.13)
        ax.text(tokens, place, f"{name} {significant(rate.mid, 3)}", ha="right", fontsize=style.TEXT,
                color=style.ink(curves[name][0]["color"]), weight="bold")
