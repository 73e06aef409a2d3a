"""Shared memory on t28: bank conflicts, and passes through the banks for each load, before and after padding."""
from __future__ import annotations

from . import style, words

ALT = "bank conflicts of shared loads and stores, and wavefronts for each load, for every kernel of the ladder on t28"


def caption(data):
    return (f"Shared memory on t28, {words.gpu(data)}, Nsight Compute {data.profile['ncu']['version']}, one launch of "
            f"each. Left: bank conflicts (logarithmic), filled for loads, open for stores. Right: wavefronts, passes "
            f"through the 32 banks, for each load instruction of a warp. A load of four bytes a lane needs one, a load "
            f"of sixteen bytes two to four.")


def per_load(launch):
    """Wavefronts of a load; None where there are no loads, or no counter."""
    metrics = launch["metrics"]
    loads = metrics.get("shared_load_instructions")
    waves = metrics.get("shared_load_wavefronts")
    return waves / loads if loads and waves is not None else None


def draw(data):
    rungs = data.rungs
    launches = [data.launch(kernel) for kernel in rungs]
    height = 1.15 + 0.29 * len(rungs)
    fig = style.figure(height)
    counts = style.axes(fig, 1.3, 0.55, 4.1, height - 1.15)
    waves = style.axes(fig, 5.75, 0.55, 2.9, height - 1.15)
    places = style.rows_down(counts, rungs)
    style.rows_down(waves, [""] * len(rungs))
    every = [launch["metrics"].get(f"shared_{kind}_conflicts") for launch in launches for kind in ("load", "store")]
    most = max((value for value in every if value), default=1)
    left, right = min((value for value in every if value), default=1) / 4, most * 4
    powers = style.powers(left, right)
    style.log(counts, "x", left, right, powers, style.power_labels(powers))
    counts.grid(axis="x")
    counts.set_xlabel("bank conflicts in a launch (logarithmic)")
    for place, launch in zip(places, launches):
        counts.plot([left, right], [place, place], color=style.FAINT, linewidth=0.8, zorder=1)
        points = []
        for kind, colour, marker, face in (("load", style.BLUE, "o", style.BLUE), ("store", style.RED, "s", "white")):
            value = launch["metrics"].get(f"shared_{kind}_conflicts")
            if value:
                counts.plot([value], [place], marker=marker, color=colour, markerfacecolor=face, linestyle="",
                            markersize=6.5, zorder=4)
            points.append(value)
        words_of = note(*points)
        if words_of:
            counts.text(left * 1.15, place, words_of, fontsize=style.SMALL, color=style.GREY, va="center_baseline",
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    ratios = [per_load(launch) for launch in launches]
    scale = style.steps(max((ratio for ratio in ratios if ratio), default=1), 6)
    waves.set_xlim(0, scale[-1] * 1.08)
    style.ticks(waves.xaxis, scale)
    waves.grid(axis="x")
    waves.set_xlabel("wavefronts for each shared load")
    waves.barh(places, [ratio or 0 for ratio in ratios], height=0.62, color=style.BLUE, zorder=2)
    for place, ratio in zip(places, ratios):
        waves.text((ratio or 0) + scale[-1] * 0.015, place, "no shared loads" if ratio is None else f"{ratio:.2f}",
                   va="center_baseline", fontsize=style.SMALL, color=style.GREY if ratio is None else style.INK)
    style.heading(fig, height - 0.22, "Bank conflicts on t28")
    everywhere = style.canvas(fig)
    for x, marker, face, colour, text in ((2.6, "o", style.BLUE, style.BLUE, "loads"),
                                          (3.5, "s", "white", style.RED, "stores")):
        everywhere.plot([x], [height - 0.42], marker=marker, markerfacecolor=face, color=colour, markersize=6.5)
        everywhere.text(x + 0.12, height - 0.42, text, va="center_baseline", fontsize=style.TEXT)
    return fig


def note(loads, stores):
    """What cannot be drawn on a logarithmic axis."""
    def kind(value):
        return "n/a" if value is None else "0" if value == 0 else None
    if kind(loads) and kind(loads) == kind(stores):
        return "none" if loads == 0 else "n/a"
    parts = [f"{name} {kind(value)}" for name, value in (("loads", loads), ("stores", stores)) if kind(value)]
    return ", ".join(parts)
