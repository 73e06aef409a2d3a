"""Profiler results of the kernels."""
from __future__ import annotations

import math

from builder.errors import Failed
from builder.facts import per_load
from builder.measured import metric
from builder.words import significant

from . import style


def bank_conflicts(data):
    """Shared memory on t28: bank conflicts, and wavefronts per load, before and after padding."""
    rungs, launches = list(data.launches("f32")), list(data.launches("f32").values())
    height = 1.15 + 0.29 * len(rungs)
    fig = style.figure(height)
    counts = style.axes(fig, 1.3, 0.55, 4.1, height - 1.15)
    waves = style.axes(fig, 5.75, 0.55, 2.9, height - 1.15)
    places = style.rows_down(counts, rungs)
    style.rows_down(waves, [""] * len(rungs))
    every = [launch["metrics"].get(f"shared_{kind}_conflicts") for launch in launches for kind in ("load", "store")]
    most = max((value for value in every if value), default=1)
    left, right = min((value for value in every if value), default=1) / 4, most * 4
    style.log(counts, "x", left, right)
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
    """A text for values that a logarithmic axis cannot show."""
    def kind(value):
        return "n/a" if value is None else "0" if value == 0 else None
    if kind(loads) and kind(loads) == kind(stores):
        return "none" if loads == 0 else "n/a"
    parts = [f"{name} {kind(value)}" for name, value in (("loads", loads), ("stores", stores)) if kind(value)]
    return ", ".join(parts)


# The reasons shown separately, with their legend texts; all others are combined.
REASONS = {"long_scoreboard": "global or local memory", "short_scoreboard": "shared memory",
           "mio_throttle": "shared-memory queue", "lg_throttle": "global-memory queue", "barrier": "barrier",
           "wait": "fixed latency", "not_selected": "ready, another was issued"}


def parts(launch):
    """Warps by reason, in the order of REASONS, then all others."""
    stalls = {reason: value or 0.0 for reason, value in launch["stalls"].items() if reason != "selected"}
    if not sum(stalls.values()):
        raise Failed(f"profile_ladder.json: {launch['kernel']} on {launch['case']}: stalls: none above 0")
    others = math.fsum(value for reason, value in stalls.items() if reason not in REASONS)
    return [*(stalls.get(reason, 0.0) for reason in REASONS), others]


def stalls(data):
    """What warps wait for, every kernel on t28."""
    # The order is that of REASONS, then all others; in grey it distinguishes them.
    colours = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.RED, style.YELLOW, style.PALE)
    rungs = list(data.launches("f32"))
    rows = [parts(launch) for launch in data.launches("f32").values()]
    totals = [math.fsum(row) for row in rows]  # the same in every version of Python, unlike sum()
    height = 1.55 + 0.28 * len(rungs)
    fig = style.figure(height)
    shares = style.axes(fig, 1.3, 0.55, 5.2, height - 1.55)
    cycles = style.axes(fig, 6.75, 0.55, 2.0, height - 1.55)
    places = style.rows_down(shares, rungs)
    shares.set_xlim(0, 100)
    style.ticks(shares.xaxis, range(0, 101, 20))
    shares.set_xlabel("share of the cycles between two instructions, %")
    for place, row, total in zip(places, rows, totals):
        start = 0.0
        for value, colour in zip(row, colours):
            share = round(100 * value / total, 6)
            if share:
                shares.barh([place], [share], left=[start], height=0.74, color=colour, edgecolor="white", linewidth=0.8)
            if share >= 4:
                shares.text(start + share / 2, place, f"{share:.0f}", ha="center", va="center_baseline",
                            fontsize=style.SMALL, color="white" if colour == style.BLUE else style.INK)
            start += share
    style.rows_down(cycles, [""] * len(rungs))
    low, high = min(1.0, min(totals) / 1.5), max(10.0, max(totals) * 4)  # space for the last number
    style.log(cycles, "x", low, high)
    cycles.grid(axis="x")
    cycles.set_xlabel("those cycles (logarithmic)")
    cycles.plot(totals, places, marker="o", color=style.INK, linestyle="")
    for place, total in zip(places, totals):
        cycles.text(total * 1.25, place, f"{total:.1f}", va="center_baseline", fontsize=style.SMALL)
    everywhere = style.canvas(fig)
    x, y = 1.3, height - 0.55
    for text, colour in zip([*REASONS.values(), "other"], colours):
        if x + 0.2 + 0.068 * len(text) > 8.9:
            x, y = 1.3, y - 0.22
        x = style.key(everywhere, x, y, colour, "", text)
    style.heading(fig, height - 0.22, "What warps wait for on t28")
    return fig


def points(data):
    """(kernel, TFLOP/s, FLOP per byte of L2, of DRAM), with fixed's kernels last"""
    found = []
    for contract in ("f32", "fixed"):
        for rung in data.ladder(contract):
            launch, file = data.launch(contract, rung.kernel), f"the profile of {contract}"
            found.append((rung.kernel, rung.tflops.mid, rung.flop / metric(launch, "l2_bytes", file),
                          rung.flop / metric(launch, "dram_bytes", file)))
    return found


def l2_roof(data):
    """(the kernel of fixed with the highest L2 load, the percentage of L2's peak, that peak in TB/s). The card does not
    report the peak, but the profiler reports the percentage of it."""
    launches = data.launches("fixed")
    share, kernel = max((metric(launch, "l2_throughput_pct"), kernel) for kernel, launch in launches.items())
    rate = metric(launches[kernel], "l2_bytes") / metric(launches[kernel], "duration_seconds")
    return kernel, share, rate * 1e-12 / (share / 100)


def roofline(data):
    """The kernels of f32 and fixed on t28 under the roofs: the rate over the work per byte from DRAM and L2."""
    device, bytes_peak = data.device, data.peak("fixed")
    peak, memory = device["peak_flop_per_second"] * 1e-12, device["peak_dram_bytes_per_second"] * 1e-12
    *_, l2_peak = l2_roof(data)
    found = points(data)
    fig = style.figure(5.5)
    ax = style.axes(fig, 0.75, 0.6, 6.75, 4.35)
    left = min(1.0, min(l2 for _, _, l2, _ in found) / 2)
    right = max(dram for *_, dram in found) * 1.9
    bottom, top = min(rate for _, rate, *_ in found) / 1.8, bytes_peak * 1.7
    style.log(ax, "x", left, right)
    style.log(ax, "y", bottom, top, style.within(bottom, top, 0.5, 500))
    ax.grid()
    ax.set_xlabel("FLOP for each byte (logarithmic)")
    ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
    corner = peak / memory
    ax.plot([left, corner, right], [memory * left, peak, peak], color=style.INK, linewidth=1.6)
    ax.plot([corner, bytes_peak / memory, right], [peak, bytes_peak, bytes_peak], color=style.FIXED["color"],
            linewidth=1.6)
    dashed = {"linewidth": 1.4, "linestyle": (0, (4, 2))}
    ax.plot([left, peak / l2_peak, corner], [l2_peak * left, peak, peak], color=style.INK, **dashed)
    ax.plot([peak / l2_peak, bytes_peak / l2_peak, bytes_peak / memory], [peak, bytes_peak, bytes_peak],
            color=style.FIXED["color"], **dashed)
    ax.text(right * 0.97, peak / 1.04, f"float32 peak {significant(peak)} TFLOP/s", ha="right", va="top",
            fontsize=style.SMALL)
    ax.text(right * 0.97, bytes_peak * 1.07, f"bytes on tensor cores, six for one: {significant(bytes_peak)} "
            "TFLOP/s", ha="right", fontsize=style.SMALL)
    ax.text(left * 1.75, memory * left * 1.2, f"DRAM {significant(memory)} TB/s", fontsize=style.SMALL)
    ax.text(left * 3.4, l2_peak * left * 3.7, f"L2 {significant(l2_peak)} TB/s", ha="right", fontsize=style.SMALL)
    fixed = data.launches("fixed")
    for kernel, rate, l2, dram in found:
        look = {key: (style.FIXED if kernel in fixed else style.HW4)[key] for key in ("color", "marker")}
        ax.plot([l2, dram], [rate, rate], color=style.PALE, linewidth=0.9, zorder=2)
        ax.plot([l2], [rate], markersize=6, zorder=4, **look)
        ax.plot([dram], [rate], markerfacecolor="white", markersize=6, zorder=4, **look)
    label(ax, found, right)
    style.heading(fig, 5.28, "Roofline of f32 and fixed on t28")
    everywhere = style.canvas(fig)
    for x, look, face, text in ((3.4, style.HW4, style.BLUE, "bytes from L2"),
                                (4.7, style.HW4, "white", "bytes from DRAM"),
                                (6.2, style.FIXED, style.PURPLE, "the same under fixed")):
        everywhere.plot([x], [5.28], marker=look["marker"], color=look["color"], markerfacecolor=face, markersize=6)
        everywhere.text(x + 0.12, 5.28, text, va="center_baseline", fontsize=style.TEXT)
    return fig


def label(ax, found, right):
    """Names in a column on the right, as close to the height of their points as possible."""
    low, high = (math.log10(limit) for limit in ax.get_ylim())
    heights = [(math.log10(rate) - low) / (high - low) for _, rate, *_ in found]
    for (kernel, rate, _, dram), height, place in zip(found, heights, style.apart(heights, 0.046, 0.01, 0.99)):
        ax.plot([1.005, 1.03], [height, place], transform=ax.transAxes, color=style.GREY, linewidth=0.6, clip_on=False)
        start = (math.log10(dram) - math.log10(ax.get_xlim()[0])) / math.log10(right / ax.get_xlim()[0])
        ax.plot([start + 0.012, 1.005], [height, height], transform=ax.transAxes, color=style.PALE, linewidth=0.6)
        ax.text(1.037, place, f"{kernel} {significant(rate)}", transform=ax.transAxes, va="center_baseline",
                fontsize=style.SMALL, clip_on=False)
