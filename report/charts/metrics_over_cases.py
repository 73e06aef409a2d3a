"""What the profiler says of three rungs over cases of growing N."""
from __future__ import annotations

from . import style, words

ALT = "six profiler metrics over cases of growing size, for three kernels of the ladder"

# key, title, factor, unit, most (None: from the data)
PANELS = (("achieved_occupancy_pct", "achieved occupancy", 1, "%", 100),
          ("sm_efficiency_pct", "SM efficiency", 1, "%", 100),
          ("issue_slots_busy_pct", "issue slots busy", 1, "%", 100),
          ("shared_load_bytes_per_second", "shared load throughput", 1e-12, "TB/s", None),
          ("global_load_bytes_per_second", "global load throughput", 1e-9, "GB/s", None),
          ("dram_read_bytes_per_second", "DRAM read throughput", 1e-9, "GB/s", None))
# The first large and open, so that one under another shows.
LOOKS = ({"color": style.RED, "marker": "^", "linestyle": ":", "markersize": 9, "markerfacecolor": "white"},
         {"color": style.GREEN, "marker": "s", "linestyle": "--", "markersize": 4.5},
         {"color": style.BLUE, "marker": "o", "linestyle": "-"})


def caption(data):
    names = ", ".join(data.profiled_kernels)
    dims = sorted({launch["dim"] for launch in data.profile_of_cases["launches"]})
    return (f"Profiler metrics over cases of growing N at d = {', '.join(map(str, dims))} for {names}, "
            f"{words.gpu(data)}, Nsight Compute {data.profile_of_cases['ncu']['version']}; one launch of each, so no "
            f"spread. Shared throughput counts wavefronts of 128 bytes, global throughput bytes between the L1 cache "
            f"and the multiprocessor. A grey line parts the small cases from the larger ones, among which N begins "
            f"anew. On t02 to t10 there are too few rows for a queue: hw4 takes woven_tiles' code there, on blocks of "
            f"half the size.")


def draw(data):
    fig = style.figure(5.3)
    cases, kernels = data.profiled_cases, data.profiled_kernels
    runs = growing(cases)
    for index, (key, title, factor, unit, most) in enumerate(PANELS):
        left = 0.65 + 2.85 * (index % 3)
        ax = style.axes(fig, left, 2.95 if index < 3 else 0.6, 2.3, 1.65)
        values = {kernel: [value * factor if value is not None else None
                           for value in data.metric_of_cases(kernel, key)] for kernel in kernels}
        known = [value for row in values.values() for value in row if value is not None]
        scale = style.steps(most or max(known, default=1) or 1, 5)
        style.ticks(ax.yaxis, scale)
        ax.set_ylim(0, most * 1.04 if most else scale[-1])
        ax.set_xlim(-0.5, len(cases) - 0.5)
        style.ticks(ax.xaxis, range(len(cases)), [name for name, *_ in cases])
        ax.tick_params(axis="x", labelsize=7)
        ax.grid(axis="y")
        ax.set_title(f"{title}, {unit}", loc="left", fontsize=style.TEXT)
        for kernel, look in zip(kernels, LOOKS):
            for run in runs:
                known_here = [place for place in run if values[kernel][place] is not None]
                ax.plot(known_here, [values[kernel][place] for place in known_here], clip_on=False, zorder=3, **look)
        for run in runs[1:]:
            ax.axvline(run[0] - 0.5, color=style.PALE, linewidth=0.8, zorder=1)
        for place, (_, _, tokens) in enumerate(cases):
            ax.text(place, -0.135, words.short(tokens), fontsize=6, ha="center", va="top",
                    transform=ax.get_xaxis_transform(), color=style.GREY)
        if index % 3 == 0:
            ax.text(-0.75, -0.135, "N", fontsize=6.5, ha="right", va="top", transform=ax.get_xaxis_transform(),
                    color=style.GREY)
    style.heading(fig, 5.1, "The profiler over growing cases")
    everywhere = style.canvas(fig)
    x = 3.6
    for kernel, look in zip(kernels, LOOKS):
        everywhere.plot([x, x + 0.18, x + 0.36], [5.1] * 3, markevery=[1], **look)
        everywhere.text(x + 0.45, 5.1, kernel, va="center_baseline", fontsize=style.TEXT)
        x += 0.85 + 0.076 * len(kernel)
    return fig


def growing(cases):
    """The places of the cases, in runs in each of which N grows."""
    runs = []
    for place, (_, _, tokens) in enumerate(cases):
        if not runs or tokens <= cases[place - 1][2]:
            runs.append([])
        runs[-1].append(place)
    return runs
