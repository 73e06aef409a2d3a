"""The largest errors of half precision by kinds of values: hw4's beside FlashAttention-2's and cuDNN's."""
from __future__ import annotations

from builder.measured_half import Half

from . import style, words

NEEDS = ("half_errors.json",)
ALT = "the largest error by kind of values in bf16 and fp16: hw4, FlashAttention-2 and cuDNN"
TOKENS, DIM = 16384, 64
WHO = {"hw4_bf16": ("hw4, bf16", style.BF16),
       "flash2 bf16": ("FlashAttention-2, bf16", {"color": style.RED, "marker": "s"}),
       "cudnn bf16": ("cuDNN, bf16", {"color": "#4d4d4d", "marker": "D"}), "hw4_fp16": ("hw4, fp16", style.FP16),
       "flash2 fp16": ("FlashAttention-2, fp16", {"color": style.ORANGE, "marker": "^"})}
LEFT, BOTTOM, WIDTH, ROW = 3.1, 0.6, 5.6, 0.42


def caption(data):
    return (f"The largest error of any output number against attention in float64 from the numbers before they were "
            f"rounded, {words.gpu(data)}, B = 1, N = {TOKENS}, d = {DIM}. All who take a type start from the same "
            f"rounded numbers.")


def draw(data):
    cases = [case for case in Half(data).errors if (case.tokens, case.dim) == (TOKENS, DIM)]
    inner = ROW * len(cases)
    height = BOTTOM + inner + 0.8
    fig = style.figure(height)
    ax = style.axes(fig, LEFT, BOTTOM, WIDTH, inner)
    places = style.rows_down(ax, [case.title for case in cases])
    errors = [case.largest[who] for case in cases for who in WHO]
    low, high = min(errors) / 2, max(errors) * 2
    powers = style.powers(low, high)
    style.log(ax, "x", low, high, powers, style.power_labels(powers))
    ax.grid(axis="x")
    ax.set_xlabel("largest |error| against float64 (logarithmic)")
    for index, (who, (_, look)) in enumerate(WHO.items()):
        ax.plot([case.largest[who] for case in cases], [place + 0.13 * (index - 2) for place in places],
                color=look["color"], marker=look["marker"], linestyle="", markersize=6, zorder=3)
    everywhere = style.canvas(fig)
    at = 0.62
    for title, look in WHO.values():
        everywhere.plot([at], [height - 0.52], color=look["color"], marker=look["marker"], markersize=6, linestyle="")
        everywhere.text(at + 0.12, height - 0.52, title, va="center_baseline", fontsize=style.SMALL)
        at += 0.32 + 0.07 * len(title)
    style.heading(fig, height - 0.2, "Half precision: the largest error by kind of values")
    return fig
