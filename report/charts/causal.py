"""What the causal mask saves over the length N, and the rate that is left, beside PyTorch."""
from __future__ import annotations

from builder.measured import CONTRACTS
from builder.template import significant

from . import style, words

ALT = ("time without the causal mask over that with it, and TFLOP/s with it, over the length N for d = 64 and 128: hw4 "
       "under f32 and fixed, and PyTorch")
SERIES = {"hw4": ("f32", style.HW4), "hw4_fixed": ("fixed", style.FIXED), "torch": ("PyTorch", style.EFFICIENT)}
WIDTH, GAP, LEFT = 3.85, 0.3, 0.65
RATES, GAINS = (0.6, 2.3), (3.45, 1.7)  # bottom and height of the two rows, in inches
HEIGHT = 5.85


def caption(data):
    by_dim = data.masked_lengths
    cases = [case for of_dim in by_dim.values() for case in of_dim]
    spreads = [spread for case in cases for spread in (*case.causal.values(), *case.full.values())]
    return (f"The causal mask over the length N, {words.gpu(data)}, for d = {' and '.join(map(str, by_dim))}, with B·N "
            f"= {cases[0].batches * cases[0].tokens} query rows. Above: the kernel's time without the mask over its "
            f"time with it, 2 where no time goes into what is hidden. Below: 2·B·N²·d FLOP over the time with it. "
            f"Medians of {words.counts(spreads)} samples, bands from p20 to p80 of the times with the mask. PyTorch: "
            f"its memory-efficient float32 attention with is_causal=True.")


def draw(data):
    fig = style.figure(HEIGHT)
    by_dim = data.masked_lengths
    cases = [case for of_dim in by_dim.values() for case in of_dim]
    lengths = sorted({case.tokens for case in cases})
    rates = style.steps(max(case.tflops(who).high for case in cases for who in SERIES), 6)
    gains = style.steps(max(2.0, *(case.gain(who).high for case in cases for who in CONTRACTS)), 5)
    for index, (dim, of_dim) in enumerate(by_dim.items()):
        left = LEFT + (WIDTH + GAP) * index
        above = panel(fig, left, GAINS, lengths, gains, index == 0)
        style.title(above, f"d = {dim}")
        above.plot(above.get_xlim(), [2, 2], color=style.GREEN, linestyle=":", linewidth=1.2)
        below = panel(fig, left, RATES, lengths, rates, index == 0)
        below.set_xlabel("N (logarithmic)")
        if index == 0:
            above.set_ylabel("full time / causal")
            below.set_ylabel("TFLOP/s, 2·B·N²·d over the time")
        curves(above, of_dim, {who: [case.gain(who) for case in of_dim] for who in CONTRACTS}, gains, ".2f")
        curves(below, of_dim, {who: [case.tflops(who) for case in of_dim] for who in SERIES}, rates, None)
    style.heading(fig, HEIGHT - 0.2, "The causal mask over the length of the sequence")
    return fig


def panel(fig, left, place, lengths, scale, first):
    ax = style.axes(fig, left, place[0], WIDTH, place[1])
    ax.set_xscale("log", base=2)
    ax.set_xlim(lengths[0] / 1.3, lengths[-1] * 3)  # room for names
    style.ticks(ax.xaxis, lengths, [words.short(n) for n in lengths])
    style.ticks(ax.yaxis, scale, None if first else [""] * len(scale))
    ax.set_ylim(0, scale[-1])
    ax.grid(axis="y")
    return ax


def curves(ax, of_dim, series, scale, form):
    """Each with its name and last value at its end."""
    xs = [case.tokens for case in of_dim]
    for who, spreads in series.items():
        style.band(ax, dict(zip(xs, spreads)), SERIES[who][1])
    ends = [spreads[-1].mid for spreads in series.values()]
    for who, end, place in zip(series, ends, style.apart(ends, scale[-1] * 0.09, low=scale[-1] * 0.02)):
        name, look = SERIES[who]
        value = format(end, form) if form else significant(end, 3)
        ax.text(xs[-1] * 1.15, place, f"{name} {value}", va="center_baseline", fontsize=style.SMALL,
                color=style.ink(look["color"]), weight="bold")
