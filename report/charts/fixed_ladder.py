"""Every kernel of the contract fixed on three shapes, beside f32, PyTorch and the roof of bytes on tensor cores."""
from __future__ import annotations

from builder.measured import INTEGER_ROOF
from builder.template import significant

from . import style, words

CASES = ("t28", "t29", "4,16384,128")
ALT = "rate of every kernel of the contract fixed on t28, t29 and d = 128, beside f32, PyTorch and the integer roof"
LEFT, WIDTH, GAP = 1.15, 2.35, 0.2


def caption(data):
    spreads = [rung.seconds for name in CASES for rung in data.fixed_ladder(name)]
    return (f"Every kernel of the contract `fixed` on three shapes, {words.gpu(data)}: {words.FLOP} over the time, "
            f"each launch with the pre-pass that turns K and V into digits. "
            f"{words.median_of(spreads).capitalize()}. Lines, without their numbers: the fastest kernel of `f32` and "
            f"PyTorch's memory-efficient attention in the same run; and the roof: {significant(INTEGER_ROOF, 3)} TFLOP/s, bytes "
            f"on the tensor cores at their full rate, six products of bytes for each of floats.")


def lines(data, case):
    """(name, TFLOP/s, look). The numbers of f32 and PyTorch are those of their own runs, elsewhere."""
    return [("PyTorch", case.tflops(case.torch_best).mid, style.EFFICIENT),
            ("f32", case.tflops(data.f32_beside(case.name)).mid, style.HW4),
            (f"roof {significant(INTEGER_ROOF, 3)}", INTEGER_ROOF, {"color": style.BLACK, "linestyle": "-"})]


def draw(data):
    kernels = data.fixed_rungs
    inner = 0.34 * len(kernels)
    height = inner + 1.75
    fig = style.figure(height)
    most = INTEGER_ROOF * 1.03
    for index, name in enumerate(CASES):
        case = data.fixed_case(name)
        ax = style.axes(fig, LEFT + (WIDTH + GAP) * index, 0.55, WIDTH, inner)
        places = style.rows_down(ax, kernels if index == 0 else [""] * len(kernels))
        ax.set_xlim(0, most)
        style.ticks(ax.xaxis, [50 * n for n in range(int(most / 50) + 1)])
        ax.grid(axis="x")
        ax.set_xlabel("TFLOP/s" if index else "TFLOP/s, 4·B·N²·d over the time")
        rungs = {rung.kernel: rung for rung in data.fixed_ladder(name)}
        for place, kernel in zip(places, kernels):
            if kernel not in rungs:
                continue
            rate = rungs[kernel].tflops
            ax.barh([place], [rate.mid], height=0.62, color=style.FIXED["color"], zorder=2)
            style.whiskers(ax, place, rate)
            ax.text(rate.high + 4, place, significant(rate.mid, 3), va="center_baseline", fontsize=style.SMALL,
                    zorder=6, bbox=style.WHITE)
        references(ax, lines(data, case), len(kernels))
        x = LEFT + (WIDTH + GAP) * index
        style.write(fig, x, inner + 1.22, f"{name}: {words.shape(case)}" if name.startswith("t") else words.shape(case),
                    fontsize=style.SMALL, weight="bold", va="center")
    style.heading(fig, height - 0.22, "The ladder of the contract fixed")
    return fig


def references(ax, found, rows):
    """Lines through the bars, their names on stairs above: the lower rate is higher, so that no line crosses a name."""
    for step, (name, rate, look) in enumerate(sorted(found, key=lambda line: -line[1])):
        top = -0.75 - 0.42 * step
        ax.plot([rate, rate], [rows - 0.4, top - 0.2], color=look["color"], linestyle=look["linestyle"], linewidth=1.3,
                clip_on=False, zorder=3)
        right = rate > INTEGER_ROOF / 2
        ax.text(rate + (-3 if right else 3), top, name, ha="right" if right else "left",
                va="center_baseline", fontsize=style.SMALL, clip_on=False)
