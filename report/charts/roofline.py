"""The ladders of f32 and fixed on t28 under the roofs: the rate over the work for each byte from DRAM and from L2."""
from __future__ import annotations

from builder.claims import count_of
from builder.measured import INTEGER_ROOF, metric
from builder.template import significant

from . import style, words

ALT = "roofline of every kernel of f32 and fixed on t28: rate over FLOP per byte from DRAM and from L2"


HEIGHT = 5.5


def caption(data):
    device = data.profile["device"]
    corner = device["peak_flop_per_second"] / device["peak_dram_bytes_per_second"]
    corner_of_fixed = INTEGER_ROOF * 1e12 / device["peak_dram_bytes_per_second"]
    found = points(data)
    right = sum(dram > (corner_of_fixed if kernel in data.fixed_rungs else corner) for kernel, *_, dram in found)
    busiest, share, l2_peak = l2_roof(data)
    samples = words.counts([rung.seconds for rung in [*data.ladder("t28"), *data.fixed_ladder("t28")]])
    return (f"Roofline, t28 on {words.gpu(data)}: rate ({words.FLOP} over the median time of {samples} samples) over "
            f"the work for each byte. Filled marks: bytes between L2 and the multiprocessors; open marks: bytes "
            f"between DRAM and L2, by the profiler. The slanted roof over the open marks is DRAM's "
            f"{significant(device['peak_dram_bytes_per_second'] * 1e-12, 3)} TB/s, the dashed one over the filled "
            f"marks L2's {significant(l2_peak, 3)} TB/s: the bytes a second of {busiest} over the {share:.0f} % of "
            f"L2's peak that they are to the profiler. The flat roof is the float32 units' "
            f"{significant(device['peak_flop_per_second'] * 1e-12, 3)} TFLOP/s; the dotted one is cuBLAS's SGEMM. The "
            f"upper flat roof, {significant(INTEGER_ROOF, 3)} TFLOP/s, is that of bytes on the tensor cores, six "
            f"products of bytes for each of floats, for the kernels of the contract `fixed` (section 5). The open "
            f"marks of {count_of(right, len(found), 'kernels')} are right of their roof's corner, at {corner:.0f} or "
            f"{corner_of_fixed:.0f} FLOP for each byte, where DRAM is no limit.")


def points(data):
    """(kernel, TFLOP/s, FLOP for each byte of L2, of DRAM), those of fixed last"""
    pairs = [(rung, data.launch(rung.kernel), "profile_ladder.json") for rung in data.ladder("t28")]
    pairs += [(rung, data.fixed_launch(rung.kernel), "profile_fixed.json") for rung in data.fixed_ladder("t28")]
    return [(rung.kernel, rung.tflops.mid, rung.flop / metric(launch, "l2_bytes", file),
             rung.flop / metric(launch, "dram_bytes", file)) for rung, launch, file in pairs]


def l2_roof(data):
    """(the kernel of fixed that asks most of L2, the percentage of L2's peak, that peak in TB/s). The card does not
    tell the peak, but the profiler the share of it."""
    file = "profile_fixed.json"
    share, kernel = max((metric(data.fixed_launch(kernel), "l2_throughput_pct", file), kernel)
                        for kernel in data.fixed_rungs)
    launch = data.fixed_launch(kernel)
    rate = metric(launch, "l2_bytes", file) / metric(launch, "duration_seconds", file)
    return kernel, share, rate * 1e-12 / (share / 100)


def draw(data):
    device = data.profile["device"]
    peak, memory = device["peak_flop_per_second"] * 1e-12, device["peak_dram_bytes_per_second"] * 1e-12
    sgemm = data.kernels["sgemm"]["tflops"]
    *_, l2_peak = l2_roof(data)
    found = points(data)
    fig = style.figure(HEIGHT)
    ax = style.axes(fig, 0.75, 0.6, 6.75, HEIGHT - 1.15)
    left = min(1.0, min(l2 for _, _, l2, _ in found) / 2)
    right = max(dram for *_, dram in found) * 1.9
    bottom, top = min(rate for _, rate, *_ in found) / 1.8, INTEGER_ROOF * 1.7
    powers = style.powers(left, right)
    style.log(ax, "x", left, right, powers, style.power_labels(powers))
    style.log(ax, "y", bottom, top, (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500),
              ("0.5", "1", "2", "5", "10", "20", "50", "100", "200", "500"))
    ax.set_ylim(bottom, top)
    ax.grid()
    ax.set_xlabel("FLOP for each byte (logarithmic)")
    ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
    corner = peak / memory
    ax.plot([left, corner, right], [memory * left, peak, peak], color=style.INK, linewidth=1.6)
    ax.plot([corner, INTEGER_ROOF / memory, right], [peak, INTEGER_ROOF, INTEGER_ROOF], color=style.FIXED["color"],
            linewidth=1.6)
    dashed = {"linewidth": 1.4, "linestyle": (0, (4, 2))}
    ax.plot([left, peak / l2_peak, corner], [l2_peak * left, peak, peak], color=style.INK, **dashed)
    ax.plot([peak / l2_peak, INTEGER_ROOF / l2_peak, INTEGER_ROOF / memory], [peak, INTEGER_ROOF, INTEGER_ROOF],
            color=style.FIXED["color"], **dashed)
    ax.plot([corner, right], [sgemm, sgemm], color=style.GREEN, linewidth=1.2, linestyle=":")
    ax.text(right * 0.97, peak / 1.04, f"float32 peak {significant(peak, 3)} TFLOP/s", ha="right", va="top",
            fontsize=style.SMALL)
    ax.text(right * 0.97, INTEGER_ROOF * 1.07, f"bytes on tensor cores, six for one: {significant(INTEGER_ROOF, 3)} "
            "TFLOP/s", ha="right", fontsize=style.SMALL)
    ax.text(left * 1.75, memory * left * 1.2, f"DRAM {significant(memory, 3)} TB/s", fontsize=style.SMALL)
    ax.text(left * 3.4, l2_peak * left * 3.7, f"L2 {significant(l2_peak, 3)} TB/s", ha="right", fontsize=style.SMALL)
    ax.text(corner * 1.25, sgemm * 1.06, f"cuBLAS SGEMM {significant(sgemm, 3)} TFLOP/s", fontsize=style.SMALL)
    fixed = data.fixed_rungs
    for kernel, rate, l2, dram in found:
        look = {key: (style.FIXED if kernel in fixed else style.HW4)[key] for key in ("color", "marker")}
        ax.plot([l2, dram], [rate, rate], color=style.PALE, linewidth=0.9, zorder=2)
        ax.plot([l2], [rate], markersize=6, zorder=4, **look)
        ax.plot([dram], [rate], markerfacecolor="white", markersize=6, zorder=4, **look)
    label(fig, ax, found, right)
    top_line = HEIGHT - 0.22
    style.heading(fig, top_line, "Roofline of f32 and fixed on t28")
    everywhere = style.canvas(fig)
    for x, look, face, text in ((3.4, style.HW4, style.BLUE, "bytes from L2"),
                                (4.7, style.HW4, "white", "bytes from DRAM"),
                                (6.2, style.FIXED, style.PURPLE, "the same under fixed")):
        everywhere.plot([x], [top_line], marker=look["marker"], color=look["color"], markerfacecolor=face, markersize=6)
        everywhere.text(x + 0.12, top_line, text, va="center_baseline", fontsize=style.TEXT)
    return fig


def label(fig, ax, found, right):
    """Names in a column on the right, as close to the height of their points as they can be."""
    import math
    low, high = (math.log10(limit) for limit in ax.get_ylim())
    heights = [(math.log10(rate) - low) / (high - low) for _, rate, *_ in found]
    for (kernel, rate, _, dram), height, place in zip(found, heights, style.apart(heights, 0.046, 0.01, 0.99)):
        ax.plot([1.005, 1.03], [height, place], transform=ax.transAxes, color=style.GREY, linewidth=0.6, clip_on=False)
        start = (math.log10(dram) - math.log10(ax.get_xlim()[0])) / math.log10(right / ax.get_xlim()[0])
        ax.plot([start + 0.012, 1.005], [height, height], transform=ax.transAxes, color=style.PALE, linewidth=0.6)
        ax.text(1.037, place, f"{kernel} {significant(rate, 3)}", transform=ax.transAxes, va="center_baseline",
                fontsize=style.SMALL, clip_on=False)
