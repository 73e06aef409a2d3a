"""The gradients of half precision beside FlashAttention-2's and cuDNN's, and other ways to them."""
from __future__ import annotations

from builder.measured_half import ANY_ORDER, APART, CUDNN, FLASH2, half_gradients

from . import style, sweeps, words

NEEDS = ("half_backward.json",)
ALT = "TFLOP/s of the gradients of bf16 by shape and mask: hw4, the same without an order, with dQ apart, and others"
WHO = {"bf16": "hw4, bf16", ANY_ORDER: "dQ's parts in any order", APART: "dQ by a kernel of its own",
       FLASH2: "FlashAttention-2", CUDNN: "cuDNN"}
PALE = {ANY_ORDER: style.PALE, APART: style.PALE}  # hw4 without a promise, and with more work
LEFT, GAP, WIDTH, BAR = 1.75, 0.3, 3.25, 0.2
BOTTOM, ABOVE, BETWEEN = 0.6, 0.75, 0.42


def caption(data):
    document = data.documents["half_backward.json"]
    rounds = "one round" if document["rounds"] == 1 else f"{document['rounds']} rounds"
    return (f"Gradients of bf16 on {words.gpu(data)} by B, H, N and d, without a mask and causal: 10·B·H·N²·d FLOP, "
            f"half of it under the mask, over the median time of {rounds}, forward done before; "
            f"operands are bf16. Two other ways are hw4's too: the same kernel with parts of dQ added as they come, and "
            f"one more kernel that computes dQ apart. FlashAttention-2 and cuDNN are those of PyTorch "
            f"{document['torch']['torch'].partition('+')[0]}.")


def draw(data):
    cases = half_gradients(data)
    shapes = list(dict.fromkeys(case.name for case in cases))
    inner = BAR * len(WHO)
    height = BOTTOM + ABOVE + len(shapes) * inner + (len(shapes) - 1) * BETWEEN
    fig = style.figure(height)
    scale = style.steps(max(case.rate(who) for case in cases for who in WHO) * 1.12, 6)
    for case in cases:
        row, column = shapes.index(case.name), int(case.mask == "causal")
        bottom = BOTTOM + (len(shapes) - 1 - row) * (inner + BETWEEN)
        ax = style.axes(fig, LEFT + column * (WIDTH + GAP), bottom, WIDTH, inner)
        draw_case(ax, case, scale, named=column == 0, numbered=row == len(shapes) - 1)
        mask = "causal" if column else "no mask"
        style.write(fig, LEFT + column * (WIDTH + GAP), bottom + inner + 0.14, f"{case.text}, {mask}",
                    fontsize=style.SMALL, weight="bold", va="center")
    style.heading(fig, height - 0.22, "Gradients in bf16")
    return fig


def draw_case(ax, case, scale, named, numbered):
    places = style.rows_down(ax, list(WHO.values()) if named else [""] * len(WHO))
    ax.set_xlim(0, scale[-1])
    style.ticks(ax.xaxis, scale, None if numbered else [""] * len(scale))
    ax.grid(axis="x")
    if numbered:
        ax.set_xlabel("TFLOP/s")
    for place, who in zip(places, WHO):
        ax.barh([place], [case.rate(who)], height=0.7, color=PALE.get(who) or sweeps.look_of(who)["color"], zorder=2)
        ax.text(case.rate(who) + scale[-1] * 0.02, place, f"{case.rate(who):.0f}", va="center_baseline",
                fontsize=style.SMALL, zorder=6, bbox=style.WHITE)
