"""The largest errors of dQ, dK and dV against float64 over the length N, beside PyTorch's."""
from __future__ import annotations

from builder.measured_backward import GRADIENTS, Backward

from . import style, words

ALT = "largest error of dQ, dK and dV against float64 over the length N, of hw4 and of PyTorch's efficient form"
SERIES = (("efficient", "PyTorch efficient", style.EFFICIENT), ("hw4", "hw4", style.HW4))
LEFT, WIDTH, GAP, INNER = 0.65, 2.35, 0.5, 2.1
HEIGHT = INNER + 1.4


def caption(data):
    torch = data.backward["torch"]["torch"].partition("+")[0]
    return (f"Largest error of any number of dQ, dK and dV against gradients in float64 over the length N, B = 1, "
            f"d = 64, values uniform in ±3, no mask: hw4's, the same on every machine and in every run, and that of "
            f"PyTorch {torch}'s memory-efficient float32 backward on {words.gpu(data)}.")


def draw(data):
    fig = style.figure(HEIGHT)
    found = Backward(data).lengths
    most = max(value for case in found.values() for errors in (case.hw4, case.efficient)
               for value in errors.values()) * 1e6
    scale = style.steps(most * 1.02, 7)
    for index, gradient in enumerate(GRADIENTS):
        ax = style.axes(fig, LEFT + (WIDTH + GAP) * index, 0.6, WIDTH, INNER)
        style.over_lengths(ax, list(found), scale, gradient)
        if index == 0:
            ax.set_ylabel("largest |error|, 10⁻⁶")
        for who, name, look in SERIES:
            ax.plot(list(found), [getattr(case, who)[gradient] * 1e6 for case in found.values()], **look)
    title_and_key(fig)
    return fig


def title_and_key(fig):
    style.heading(fig, HEIGHT - 0.22, "Error of the gradients over the length of the sequence")
    canvas = style.canvas(fig)
    for place, (_, name, look) in zip((5.9, 7.6), SERIES):
        y = HEIGHT - 0.22
        canvas.plot([place, place + 0.35], [y, y], **look)
        canvas.text(place + 0.43, y, name, va="center_baseline", fontsize=style.SMALL, weight="bold",
                    color=style.ink(look["color"]))
