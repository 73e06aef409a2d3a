"""The backward ladder, and its top rung's rate over the memory that pairs may take."""
from __future__ import annotations

from builder.measured_backward import Backward
from builder.template import significant

from . import style, words

ALT = "rate of the three backward kernels, and the rate of the last over the scratch memory that it is given"
BOTTOM, INNER = 0.6, 1.75
LADDER, MEMORY = (1.35, 2.6), (5.1, 3.55)  # left and width of the panels


def shape(line):
    return f"B = {line['batches']}, N = {line['tokens']}, d = {line['dim']}"


def caption(data):
    found = Backward(data)
    spreads = [*(rung.seconds for rung in found.ladder), *(budget.rate for budget in found.budgets)]
    return (f"Backward on {words.gpu(data)}, {words.BACKWARD_FLOP} over the time, forward done before. Left: the "
            f"kernels of the ladder at {shape(found.ladder_shape)}. Right: `{found.ladder[-1].kernel}` at "
            f"{shape(found.memory_shape)} over the scratch memory that a launch takes, where from 64 MiB to all that "
            f"is of use was given. {words.median_of(spreads).capitalize()}.")


def draw(data):
    height = BOTTOM + INNER + 0.75
    fig = style.figure(height)
    found = Backward(data)
    rates = [*(rung.tflops.high for rung in found.ladder), *(budget.rate.high for budget in found.budgets)]
    scale = style.steps(max(rates), 5)
    draw_ladder(fig, found, scale)
    draw_memory(fig, found, scale)
    style.heading(fig, height - 0.22, "Backward: the ladder, and memory against speed")
    return fig


def title(fig, left, line):
    style.write(fig, left, BOTTOM + INNER + 0.2, shape(line), fontsize=style.SMALL, weight="bold", va="center")


def draw_ladder(fig, found, scale):
    left, width = LADDER
    ax = style.axes(fig, left, BOTTOM, width, INNER)
    places = style.rows_down(ax, [rung.kernel for rung in found.ladder])
    style.from_zero(ax, "x", scale)
    ax.set_xlabel("TFLOP/s, 10·B·N²·d over the time")
    for place, rung in zip(places, found.ladder):
        rate = rung.tflops
        ax.barh([place], [rate.mid], height=0.62, color=style.HW4["color"], zorder=2)
        style.whiskers(ax, place, rate)
        ax.text(rate.high + scale[-1] * 0.02, place, significant(rate.mid, 3), va="center_baseline",
                fontsize=style.SMALL, zorder=6, bbox=style.WHITE)
    title(fig, left, found.ladder_shape)


def draw_memory(fig, found, scale):
    left, width = MEMORY
    ax = style.axes(fig, left, BOTTOM, width, INNER)
    taken = [budget.taken_mib for budget in found.budgets]
    ax.set_xscale("log", base=2)
    ends = taken[0] / 1.5, taken[-1] * 1.75  # room for the last label
    ax.set_xlim(ends)
    places = style.powers(*ends, 2)
    style.ticks(ax.xaxis, places, [f"{place:.0f}" for place in places])
    style.from_zero(ax, "y", scale)
    ax.set_xlabel("scratch memory of a launch, MiB (logarithmic)")
    ax.set_ylabel("TFLOP/s")
    ax.plot(taken, [budget.rate.mid for budget in found.budgets], **style.HW4)
    *others, last = found.budgets
    for budget in found.budgets:
        style.whiskers(ax, budget.taken_mib, budget.rate, horizontal=False)
    for budget in others:  # below: the line rises
        ax.text(budget.taken_mib, budget.rate.low - scale[-1] * 0.11, significant(budget.rate.mid, 3), ha="center",
                fontsize=style.SMALL)
    ax.text(last.taken_mib * 1.12, last.rate.mid, f"{significant(last.rate.mid, 3)}, all", va="center_baseline",
            fontsize=style.SMALL)
    title(fig, left, found.memory_shape)
