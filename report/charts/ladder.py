"""Every rung on t28: time and rate, beside PyTorch, cuBLAS and the peak."""
from __future__ import annotations

from builder.template import significant

from . import style, words

CASE = "t28"
ALT = "time and rate of every kernel of f32 on t28, and of the last of fixed"


def caption(data):
    case, rungs = data.case(CASE), data.ladder(CASE)
    return (f"Every kernel of `f32`'s ladder on {CASE} ({words.shape(case)}), and the last of `fixed`'s, "
            f"{words.gpu(data)}: time, and rate ({words.FLOP} over it). "
            f"{words.median_of([rung.seconds for rung in rungs]).capitalize()}. PyTorch naive keeps the scores in "
            f"memory; SGEMM is cuBLAS's, of matrices of {data.kernels['sgemm']['size']}² in float32; the peak is that "
            f"of the float32 units.")


def lines(data):
    """(name, TFLOP/s, look) of what the rungs are measured by."""
    case = data.case(CASE)
    return [("PyTorch naive", case.tflops(data.naive).mid, style.NAIVE),
            ("PyTorch efficient", case.tflops(case.torch["efficient"]).mid, style.EFFICIENT),
            ("cuBLAS SGEMM", data.kernels["sgemm"]["tflops"], {"color": style.GREEN, "linestyle": "-"}),
            ("float32 peak", data.profile["device"]["peak_flop_per_second"] * 1e-12,
             {"color": style.BLACK, "linestyle": "-"})]


def draw(data):
    case, of_f32, of_fixed = data.case(CASE), data.ladder(CASE), data.fixed_ladder(CASE)[-1]
    rungs = [*of_f32, of_fixed]
    colours = [style.BLUE] * len(of_f32) + [style.FIXED["color"]]
    height = 1.45 + 0.30 * len(rungs)
    fig = style.figure(height)
    inner = height - 1.45
    times = style.axes(fig, 1.55, 0.55, 3.15, inner)
    rates = style.axes(fig, 5.05, 0.55, 3.65, inner)
    places = style.rows_down(times, [*(rung.kernel for rung in of_f32), f"fixed: {of_fixed.kernel}"])
    style.rows_down(rates, [""] * len(rungs))

    slowest = max(rung.seconds.high for rung in rungs) * 1e3
    fastest = min(rung.seconds.low for rung in rungs) * 1e3
    style.log(times, "x", fastest / 1.5, slowest * 2.2, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
              ("1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"))
    times.set_xlim(fastest / 1.5, slowest * 2.2)
    times.grid(axis="x")
    times.set_xlabel(f"kernel time on {CASE}, ms (logarithmic)")
    for place, rung, colour in zip(places, rungs, colours):
        ms = rung.seconds.times(1e3)
        times.plot([times.get_xlim()[0], ms.mid], [place, place], color=style.PALE, linewidth=1.2, zorder=1)
        style.whiskers(times, place, ms)
        times.plot([ms.mid], [place], linestyle="", marker="o", color=colour, markersize=6, zorder=5)
        times.text(ms.mid * 1.16, place, significant(ms.mid, 3), va="center_baseline", fontsize=style.SMALL, zorder=6,
                   bbox=style.WHITE)

    references = lines(data)
    most = max([of_fixed.tflops.high, *(rate for _, rate, _ in references)])
    rates.set_xlim(0, most * 1.04)
    style.ticks(rates.xaxis, [25 * n for n in range(int(most / 25) + 1)])
    rates.grid(axis="x")
    rates.set_xlabel("TFLOP/s, 4·B·N²·d over the time")
    rates.barh(places, [rung.tflops.mid for rung in rungs], height=0.62, color=colours, zorder=2)
    for place, rung in zip(places, rungs):
        style.whiskers(rates, place, rung.tflops)
        inside = rung.tflops.mid > most / 8  # at the foot of the bar, where no line crosses it
        rates.text(most * 0.013 if inside else rung.tflops.mid + most * 0.013, place, significant(rung.tflops.mid, 3),
                   va="center_baseline", fontsize=style.SMALL, color="white" if inside else style.INK, zorder=6)
    # Labels on stairs, each right of its line: the lower rate is higher, so that no line crosses a name.
    for step, (name, rate, look) in enumerate(sorted(references, key=lambda line: -line[1])):
        top = -0.75 - 0.5 * step
        rates.plot([rate, rate], [len(of_f32) - 0.5, top - 0.25], color=look["color"], clip_on=False, zorder=3,
                   linestyle=look["linestyle"], linewidth=1.3)
        rates.text(rate + most * 0.01, top, f"{name} {significant(rate, 3)}", va="center_baseline",
                   fontsize=style.SMALL, clip_on=False)
    style.heading(fig, height - 0.25, f"The ladder on {CASE}: {words.shape(case)}")
    return fig
