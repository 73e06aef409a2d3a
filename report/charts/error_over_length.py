"""The largest error against float64 over the length N, beside PyTorch."""
from __future__ import annotations

from . import style, words

ALT = ("largest error against float64 over the length N for d = 32 and 64: hw4 under f32 and fixed, PyTorch's "
       "efficient and naive form")

SERIES = (("naive", "PyTorch naive", style.NAIVE), ("efficient", "PyTorch efficient", style.EFFICIENT),
          ("hw4_fixed", "hw4, fixed", style.FIXED), ("hw4", "hw4, f32", style.HW4))


def caption(data):
    return (f"Largest error of any output number against attention in float64 over the length N, a mark for each of "
            f"the course's {len(data.accuracy['cases'])} cases (values uniform in ±3), lines through the largest at "
            f"each N. hw4's is the same on every machine; PyTorch {data.accuracy['torch'].partition('+')[0]}'s are "
            f"from {words.gpu(data)}, float32 with TF32 off for the naive form. An error has no spread: the results "
            f"are the same in every run of hw4.")


def draw(data):
    fig = style.figure(3.9)
    cases = data.accuracy["cases"]
    dims = sorted({case["dim"] for case in cases})
    most = max(value for case in cases for value in case["largest_errors"].values()) * 1e6
    scale = style.steps(most * 1.02, 7)
    lengths = sorted({case["tokens"] for case in cases})
    for index, dim in enumerate(dims):
        ax = style.axes(fig, 0.65 + 4.0 * index, 0.6, 2.95, 2.65)
        of_dim = [case for case in cases if case["dim"] == dim]
        style.over_lengths(ax, lengths, scale, f"d = {dim}")
        if index == 0:
            ax.set_ylabel("largest |error| against float64, 10⁻⁶")
        ends = []
        for key, name, look in SERIES:
            worst = {}
            for case in of_dim:
                value = case["largest_errors"][key] * 1e6
                worst[case["tokens"]] = max(value, worst.get(case["tokens"], 0.0))
                ax.plot([case["tokens"]], [value], marker=look["marker"], color=look["color"], linestyle="",
                        markersize=5, alpha=0.9, zorder=4)
            xs = sorted(worst)
            ax.plot(xs, [worst[x] for x in xs], color=look["color"], linestyle=look["linestyle"], zorder=3)
            ends.append((name, look, worst[xs[-1]]))
        gap = scale[-1] * 0.055
        for (name, look, _), place in zip(ends, style.apart([end for *_, end in ends], gap, gap / 2)):
            ax.text(lengths[-1] * 1.45, place, name if index else name.replace("PyTorch ", ""), fontsize=style.SMALL,
                    color=style.ink(look["color"]), weight="bold", va="center_baseline", clip_on=False)
    style.heading(fig, 3.68, "Error against float64 over the length of the sequence")
    return fig
