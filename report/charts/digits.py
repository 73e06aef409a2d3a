"""How a product of two numbers becomes products of bytes, and which of them are taken."""
from __future__ import annotations

from . import drawing, style

ALT = "a number as three digits of a byte each, and the nine products of two numbers' digits, of which six are taken"
LEVELS = {0: (drawing.Q, "L0", "× 2³²"), 1: (drawing.K, "L1", "× 2²⁴"), 2: (drawing.V, "L2", "× 2¹⁶")}
CELL = 0.62


def caption(_):
    return ("A number of `fixed` is an integer of 23 bits and a sign, cut into three digits from −128 to 127, and a "
            "power of two that a row of Q or 64 keys share. Of the nine products of two numbers' digits six are taken, each on the tensor cores "
            "as a matrix of bytes times another; those of one weight add up in the same 32-bit sum. The three of the "
            "lowest weights are left out.")


def number(ax, x, y, name, colour):
    """Three boxes for the digits of q or k."""
    for place, weight in zip((2, 1, 0), ("2¹⁶", "2⁸", "1")):
        at = x + CELL * (2 - place)
        drawing.box(ax, at, y, CELL, 0.34, drawing.tint(colour))
        ax.text(at + CELL / 2, y + 0.17, f"{name}{place}", ha="center", va="center_baseline", fontsize=style.TEXT,
                weight="bold")
        ax.text(at + CELL / 2, y - 0.13, f"× {weight}", ha="center", va="center_baseline", fontsize=style.SMALL)


def products(ax, x, y):
    """The nine products: rows by q's digit, columns by k's."""
    for row, of_q in enumerate((2, 1, 0)):
        ax.text(x - 0.12, y - CELL * (row + 0.5), f"q{of_q}", ha="right", va="center_baseline", fontsize=style.TEXT)
        for column, of_k in enumerate((2, 1, 0)):
            level = 4 - of_q - of_k
            taken = level in LEVELS
            face = drawing.tint(LEVELS[level][0], 0.45) if taken else "white"
            drawing.box(ax, x + CELL * column, y - CELL * (row + 1), CELL, CELL, face,
                        edge=style.INK if taken else style.PALE)
            ax.text(x + CELL * (column + 0.5), y - CELL * (row + 0.5), f"q{of_q}·k{of_k}", ha="center",
                    va="center_baseline", fontsize=style.SMALL, color=style.INK if taken else style.GREY)
    for column, of_k in enumerate((2, 1, 0)):
        ax.text(x + CELL * (column + 0.5), y + 0.12, f"k{of_k}", ha="center", va="center_baseline",
                fontsize=style.TEXT)


def draw(_):
    fig = style.figure(2.95)
    ax = style.canvas(fig)
    style.heading(fig, 2.73, "Six products of bytes for one of floats")
    drawing.lines(ax, 0.15, 2.37, ["q ≈ (q2·2¹⁶ + q1·2⁸ + q0) · 2^−e"])
    number(ax, 0.15, 1.75, "q", drawing.Q)
    drawing.lines(ax, 0.15, 1.27, ["k ≈ (k2·2¹⁶ + k1·2⁸ + k0) · 2^−f"])
    number(ax, 0.15, 0.65, "k", drawing.K)
    products(ax, 3.15, 2.2)
    for step, (colour, name, weight) in enumerate(LEVELS.values()):
        style.key(ax, 5.5, 1.95 - 0.3 * step, drawing.tint(colour, 0.45), "",
                  f"{name} = sum over the columns, {weight}")
    style.key(ax, 5.5, 1.05, "white", "", "left out: weights 2⁸ and 1")
    drawing.lines(ax, 5.5, 0.65, ["score = 256·L0 + L1 + (L2 >> 8), in units of 2²⁴·2^−(e+f):",
                                  "an integer, the same whatever the order of the sums"], gap=0.17)
    return fig
