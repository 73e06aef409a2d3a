"""Horizontal bars, a row for each kernel, program or kind of values."""
from __future__ import annotations

from builder.errors import Failed
from builder.measured import FIXED_LADDER_CASES, INTEGER_ROOF
from builder.measured_backward import Backward
from builder.measured_half import ANY_ORDER, CUDNN, FLASH2, half_gradients as gradients_in_turns
from builder.measured_half import half_ladder as ladder_of_half
from builder.spread import Spread
from builder.words import ms, shape, significant

from . import style
from .lengths import look_of

BLACK = {"color": style.BLACK, "linestyle": "-"}


def ladder(data):
    """Every rung on t28: time and rate, beside PyTorch, cuBLAS and the peak."""
    case, of_f32, of_fixed = data.case("t28"), data.ladder("t28"), data.fixed_ladder("t28")[-1]
    rungs = [*of_f32, of_fixed]
    colours = [style.BLUE] * len(of_f32) + [style.FIXED["color"]]
    height = 1.45 + 0.30 * len(rungs)
    fig = style.figure(height)
    times = style.axes(fig, 1.55, 0.55, 3.15, height - 1.45)
    rates = style.axes(fig, 5.05, 0.55, 3.65, height - 1.45)
    places = style.rows_down(times, [*(rung.kernel for rung in of_f32), f"fixed: {of_fixed.kernel}"])
    style.rows_down(rates, [""] * len(rungs))

    low = min(rung.seconds.low for rung in rungs) * 1e3 / 1.5
    high = max(rung.seconds.high for rung in rungs) * 1e3 * 2.2
    style.log(times, "x", low, high, style.within(low, high))
    times.grid(axis="x")
    times.set_xlabel("kernel time on t28, ms (logarithmic)")
    for place, rung, colour in zip(places, rungs, colours):
        took = rung.seconds.times(1e3)
        times.plot([times.get_xlim()[0], took.mid], [place, place], color=style.PALE, linewidth=1.2, zorder=1)
        style.whiskers(times, place, took)
        times.plot([took.mid], [place], linestyle="", marker="o", color=colour, markersize=6, zorder=5)
        times.text(took.mid * 1.16, place, significant(took.mid), va="center_baseline", fontsize=style.SMALL, zorder=6,
                   bbox=style.WHITE)

    references = [("PyTorch naive", case.tflops(data.naive).mid, style.NAIVE),
                  ("PyTorch efficient", case.tflops(case.torch["efficient"]).mid, style.EFFICIENT),
                  ("cuBLAS SGEMM", data.kernels["sgemm"]["tflops"], {"color": style.GREEN, "linestyle": "-"}),
                  ("float32 peak", data.profile["device"]["peak_flop_per_second"] * 1e-12, BLACK)]
    most = max([of_fixed.tflops.high, *(rate for _, rate, _ in references)])
    rates.set_xlim(0, most * 1.04)
    style.ticks(rates.xaxis, [25 * n for n in range(int(most / 25) + 1)])
    rates.grid(axis="x")
    rates.set_xlabel("TFLOP/s, 4·B·N²·d over the time")
    rates.barh(places, [rung.tflops.mid for rung in rungs], height=0.62, color=colours, zorder=2)
    for place, rung in zip(places, rungs):
        style.whiskers(rates, place, rung.tflops)
        inside = rung.tflops.mid > most / 8  # at the foot of the bar, where no line crosses it
        rates.text(most * 0.013 if inside else rung.tflops.mid + most * 0.013, place, significant(rung.tflops.mid),
                   va="center_baseline", fontsize=style.SMALL, color="white" if inside else style.INK, zorder=6)
    style.stairs(rates, references, len(of_f32) - 0.5, 0.5, 0.25,
                 lambda name, rate: (rate + most * 0.01, f"{name} {significant(rate)}", "left"))
    style.heading(fig, height - 0.25, f"The ladder on t28: {shape(case)}")
    return fig


def fixed_ladder(data):
    """Every kernel of the contract fixed on three shapes, beside f32, PyTorch and the roof of bytes on tensor cores.
    The numbers of f32 and PyTorch are those of their own runs, elsewhere."""
    kernels = data.fixed_rungs
    inner = 0.34 * len(kernels)
    fig = style.figure(inner + 1.75)
    most, roof = INTEGER_ROOF * 1.03, f"roof {significant(INTEGER_ROOF)}"
    for index, name in enumerate(FIXED_LADDER_CASES):
        case, left = data.fixed_case(name), 1.15 + 2.55 * index
        ax = style.axes(fig, left, 0.55, 2.35, inner)
        places = style.rows_down(ax, kernels if index == 0 else [""] * len(kernels))
        ax.set_xlim(0, most)
        style.ticks(ax.xaxis, [50 * n for n in range(int(most / 50) + 1)])
        ax.grid(axis="x")
        ax.set_xlabel("TFLOP/s" if index else "TFLOP/s, 4·B·N²·d over the time")
        rungs = {rung.kernel: rung.tflops for rung in data.fixed_ladder(name)}
        for place, kernel in zip(places, kernels):
            if kernel in rungs:
                style.bar(ax, place, rungs[kernel], significant(rungs[kernel].mid), 4, color=style.FIXED["color"])
        style.stairs(ax, [("PyTorch", case.tflops(case.torch_best).mid, style.EFFICIENT),
                          ("f32", case.tflops(data.f32_beside(name)).mid, style.HW4), (roof, INTEGER_ROOF, BLACK)],
                     len(kernels) - 0.4, 0.42, 0.2, lambda name, rate: (rate - 3, name, "right")
                     if rate > INTEGER_ROOF / 2 else (rate + 3, name, "left"))
        style.write(fig, left, inner + 1.22, f"{name}: {shape(case)}" if name.startswith("t") else shape(case),
                    fontsize=style.SMALL, weight="bold", va="center")
    style.heading(fig, inner + 1.53, "The ladder of the contract fixed")
    return fig


def half_ladder(data):
    """The steps to half precision's kernel, at two head sizes."""
    by_dim = ladder_of_half(data)
    inner = 0.3 * max(len(rungs) for rungs in by_dim.values())
    height = 0.6 + inner + 0.75
    fig = style.figure(height)
    scale = style.steps(max(rung.tflops.high for rungs in by_dim.values() for rung in rungs) * 1.12, 6)
    for index, (dim, rungs) in enumerate(by_dim.items()):
        ax = style.axes(fig, 1.2 + 3.85 * index, 0.6, 3.5, inner)
        places = style.rows_down(ax, [rung.kernel for rung in rungs] if index == 0 else [""] * len(rungs))
        style.from_zero(ax, "x", scale)
        ax.set_xlabel("TFLOP/s, 4·B·N²·d over the time")
        style.title(ax, f"d = {dim}")
        for place, rung in zip(places, rungs):
            style.bar(ax, place, rung.tflops, f"{rung.tflops.mid:.0f}", scale[-1] * 0.02, color=style.BF16["color"])
    style.heading(fig, height - 0.22, "bf16, step by step")
    return fig


def half_gradients(data):
    """The gradients of half precision beside FlashAttention-2's and cuDNN's, and another way to them."""
    everybody = {"bf16": "hw4, bf16", ANY_ORDER: "dQ's parts in any order",
                 FLASH2: "FlashAttention-2", CUDNN: "cuDNN"}
    cases = gradients_in_turns(data)
    shapes = list(dict.fromkeys(case.name for case in cases))
    inner = 0.2 * len(everybody)
    height = 0.6 + 0.75 + len(shapes) * inner + (len(shapes) - 1) * 0.42
    fig = style.figure(height)
    scale = style.steps(max(case.rate(who) for case in cases for who in everybody) * 1.12, 6)
    for case in cases:
        row, column = shapes.index(case.name), int(case.mask == "causal")
        left, bottom = 1.75 + column * 3.55, 0.6 + (len(shapes) - 1 - row) * (inner + 0.42)
        ax = style.axes(fig, left, bottom, 3.25, inner)
        places = style.rows_down(ax, [""] * len(everybody) if column else list(everybody.values()))
        ax.set_xlim(0, scale[-1])
        is_last = row == len(shapes) - 1
        style.ticks(ax.xaxis, scale, None if is_last else [""] * len(scale))
        ax.grid(axis="x")
        if is_last:
            ax.set_xlabel("TFLOP/s")
        for place, who in zip(places, everybody):
            # Pale: hw4 without a promise.
            colour = style.PALE if who == ANY_ORDER else look_of(who)["color"]
            ax.barh([place], [case.rate(who)], height=0.7, color=colour, zorder=2)
            ax.text(case.rate(who) + scale[-1] * 0.02, place, f"{case.rate(who):.0f}", va="center_baseline",
                    fontsize=style.SMALL, zorder=6, bbox=style.WHITE)
        style.write(fig, left, bottom + inner + 0.14, f"{case.text}, {'causal' if column else 'no mask'}",
                    fontsize=style.SMALL, weight="bold", va="center")
    style.heading(fig, height - 0.22, "Gradients in bf16")
    return fig


def backward(data):
    """The backward ladder, and its top rung's rate over the memory that pairs may take."""
    fig = style.figure(3.1)
    found = Backward(data)
    scale = style.steps(max([*(rung.tflops.high for rung in found.ladder),
                             *(budget.rate.high for budget in found.budgets)]), 5)
    for left, line in ((1.35, found.ladder_shape), (5.1, found.memory_shape)):
        style.write(fig, left, 2.55, shape(line), fontsize=style.SMALL, weight="bold", va="center")

    ax = style.axes(fig, 1.35, 0.6, 2.6, 1.75)
    places = style.rows_down(ax, [rung.kernel for rung in found.ladder])
    style.from_zero(ax, "x", scale)
    ax.set_xlabel("TFLOP/s, 10·B·N²·d over the time")
    for place, rung in zip(places, found.ladder):
        style.bar(ax, place, rung.tflops, significant(rung.tflops.mid), scale[-1] * 0.02, color=style.HW4["color"])

    ax = style.axes(fig, 5.1, 0.6, 3.55, 1.75)
    taken = [budget.taken_mib for budget in found.budgets]
    ax.set_xscale("log", base=2)
    ends = taken[0] / 1.5, taken[-1] * 1.75  # room for the last label
    ax.set_xlim(ends)
    places = style.powers(*ends, 2)
    style.ticks(ax.xaxis, places, [f"{place:.0f}" for place in places])
    style.from_zero(ax, "y", scale)
    ax.set_xlabel("scratch memory of a launch, MiB (logarithmic)")
    ax.set_ylabel("TFLOP/s")
    ax.plot(taken, [budget.rate.mid for budget in found.budgets], **style.HW4)
    *others, last = found.budgets
    for budget in found.budgets:
        style.whiskers(ax, budget.taken_mib, budget.rate, horizontal=False)
    for budget in others:  # below: the line rises
        ax.text(budget.taken_mib, budget.rate.low - scale[-1] * 0.11, significant(budget.rate.mid), ha="center",
                fontsize=style.SMALL)
    ax.text(last.taken_mib * 1.12, last.rate.mid, f"{significant(last.rate.mid)}, all", va="center_baseline",
            fontsize=style.SMALL)
    style.heading(fig, 2.88, "Backward: the ladder, and memory against speed")
    return fig


def steps(data):
    """One thing changed at a time, from the baseline to the program as it is; the whole run and the kernel's part."""
    every = data.steps["steps"]
    walls = [Spread.of(step["seconds"]).times(1e3) for step in every]
    kernels = [Spread.of(step["kernel_seconds"]).times(1e3) for step in every]
    height = 1.2 + 0.28 * len(every)
    fig = style.figure(height)
    ax = style.axes(fig, 1.75, 0.55, 6.0, height - 1.2)
    places = style.rows_down(ax, [step["label"] for step in every])
    scale = style.steps(max(wall.high for wall in walls), 8)
    style.from_zero(ax, "x", scale)
    ax.set_xlabel(f"ms of a whole run on {data.steps['case']}")
    look = {"height": 0.64, "edgecolor": style.INK, "linewidth": 0.4, "zorder": 2}
    ax.barh(places, [kernel.mid for kernel in kernels], color=style.RED, **look)
    ax.barh(places, [max(0.0, wall.mid - kernel.mid) for wall, kernel in zip(walls, kernels)],
            left=[kernel.mid for kernel in kernels], color=style.PALE, **look)
    for place, wall, kernel in zip(places, walls, kernels):
        style.whiskers(ax, place, wall)
        ax.text(max(wall.high, wall.mid) + scale[-1] * 0.012, place,
                f"{significant(wall.mid)}, kernel {significant(kernel.mid)}", va="center_baseline",
                fontsize=style.SMALL, clip_on=False)
    style.keys(style.canvas(fig), 1.75, height - 0.52, (style.RED, "", "kernel"), (
        style.PALE, "", "everything else: process, context, files, copies"))
    style.heading(fig, height - 0.22, f"One optimisation after the other, {data.steps['case']} from file to file")
    return fig


def with_variants(data):
    """The cases on which the variants of streams_and_copies ran."""
    found = [record for record in data.files["cases"] if "1 stream" in record["seconds"]]
    if not found:
        raise Failed("files.json: cases: none has seconds of '1 stream'")
    return found


def streams_and_copies(data):
    """One stream against four, flat copies against 2-D ones, beside a bare context and the plain program."""
    programs = (("context", "a bare CUDA context", style.PALE), ("hw4", "hw4: 4 streams, 2-D copies", style.BLUE),
                ("1 stream", "hw4, 1 stream", style.SKY), ("linear copies", "hw4, flat copies", style.SKY),
                ("plain", "plain: read, copy, write", style.ORANGE))
    found, pitch = with_variants(data), 1.42
    height = 0.8 + pitch * len(found)
    fig = style.figure(height)
    scale = style.steps(max(max(samples) for record in found for samples in record["seconds"].values()) * 1e3, 7)
    for index, record in enumerate(found):
        ax = style.axes(fig, 2.25, 0.55 + pitch * (len(found) - 1 - index), 6.3, 1.1)
        rows = [row for row in programs if row[0] in record["seconds"]]
        places = style.rows_down(ax, [label for _, label, *_ in rows])
        ax.set_xlim(0, scale[-1] * 1.04)
        ax.grid(axis="x")
        stages = record["stages"]
        ax.set_title(f"{record['name']}: {stages['read_bytes'] * 1e-6:.0f} MB in, "
                     f"{stages['write_bytes'] * 1e-6:.0f} MB out", loc="left", fontsize=style.TEXT, weight="bold",
                     pad=3)
        for place, (name, _, colour) in zip(places, rows):
            samples = [sample * 1e3 for sample in record["seconds"][name]]
            spread = Spread.of(samples)
            ax.barh([place], [spread.mid], height=0.66, color=colour, edgecolor=style.INK, linewidth=0.4, zorder=2)
            style.whiskers(ax, place, spread)
            ax.plot(samples, [place] * len(samples), marker=".", markersize=3, color=style.INK, linestyle="", zorder=5)
            ax.text(scale[-1] * 0.006, place, significant(spread.mid), va="center_baseline", fontsize=style.SMALL,
                    color="white" if colour == style.BLUE else style.INK)
        last = index == len(found) - 1
        style.ticks(ax.xaxis, scale, None if last else [""] * len(scale))
        if last:
            ax.set_xlabel("ms of the whole command")
    style.heading(fig, height - 0.2, "Streams and copies")
    return fig


def cpu(data):
    """The CPU engine beside PyTorch's CPU attention and the sequential program."""
    programs = {"hw4": ("hw4", style.BLUE, ""), "torch": ("PyTorch", style.RED, "//"),
                "seq": ("seq, 1 thread", style.PALE, "")}
    bars, names, y = [], [], 0.0
    for case in data.cpu["cases"]:
        rows = [who for who in programs if case["seconds"][who]]
        names.append((y + (len(rows) - 1) / 2, case["case"]))
        for who in rows:
            bars.append((y, who, Spread.of(case["seconds"][who]), case["flop"] * 1e-9))
            y += 1.0
        y += 0.6
    height = 0.95 + 0.24 * len(bars) + 0.14 * len(names)
    fig = style.figure(height)
    ax = style.axes(fig, 1.85, 0.55, 6.2, height - 0.95)
    scale = style.steps(max(seconds.under(work).high for *_, seconds, work in bars), 7)
    style.from_zero(ax, "x", scale)
    ax.set_ylim(y - 1.0, -0.7)
    style.ticks(ax.yaxis, [place for place, *_ in bars], [programs[who][0] for _, who, *_ in bars])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("GFLOP/s, 4·B·N²·d over the time")
    for place, who, seconds, work in bars:
        _, colour, hatch = programs[who]
        rate = seconds.under(work)
        ax.barh([place], [rate.mid], height=0.78, color=colour, hatch=hatch, edgecolor=style.INK, linewidth=0.4,
                zorder=2)
        if rate.count > 1:
            style.whiskers(ax, place, rate)
        ax.text(rate.high + scale[-1] * 0.012, place, f"{significant(rate.mid)} ({ms(seconds.mid)} ms)",
                va="center_baseline", fontsize=style.SMALL, clip_on=False)
    for place, name in names:
        ax.text(-0.21, place, name, transform=ax.get_yaxis_transform(), va="center_baseline", fontsize=style.TEXT,
                weight="bold", clip_on=False)
    style.heading(fig, height - 0.2, "The CPU engine")
    return fig


def values(data):
    """The kernels' times on values of many kinds, over that on the first, beside PyTorch."""
    series = (("hw4", "f32", style.HW4, ""), ("hw4_fixed", "fixed", style.FIXED, "\\\\"),
              ("torch", "PyTorch", style.EFFICIENT, "//"))
    by_dim, thick = data.kinds_of_values, 0.26
    titles = [of_kind.title for of_kind in next(iter(by_dim.values()))]
    inner = 0.44 * len(titles)
    height = inner + 1.95
    fig = style.figure(height)
    everywhere = style.canvas(fig)
    most = max(of_kind.seconds[who].high / of_kind.first[who].mid
               for kinds in by_dim.values() for of_kind in kinds for who, *_ in series)
    scale = style.steps(most, 4)
    for index, (dim, kinds) in enumerate(by_dim.items()):
        left = 1.85 + 2.35 * index
        ax = style.axes(fig, left, 0.55, 2.15, inner)
        places = style.rows_down(ax, titles if index == 0 else [""] * len(titles))
        ax.set_xlim(0, max(scale[-1], most * 1.15))
        style.ticks(ax.xaxis, scale)
        ax.grid(axis="x")
        ax.axvline(1, color=style.BLACK, linewidth=0.8, zorder=3)
        ax.set_xlabel("time over that of the top row" if index == 0 else "")
        for row, of_kind in zip(places, kinds):
            for number, (who, _, look, hatch) in enumerate(series):
                place, ratio = row + (number - 1) * thick, of_kind.seconds[who].times(1 / of_kind.first[who].mid)
                ax.barh([place], [ratio.mid], height=thick, color=look["color"], hatch=hatch, edgecolor=style.INK,
                        linewidth=0.4, zorder=2)
                style.whiskers(ax, place, ratio)
                ax.text(ratio.high + ax.get_xlim()[1] * 0.02, place, f"{ratio.mid:.2f}", va="center_baseline",
                        fontsize=6.0, clip_on=False)
        for row, (who, name, look, hatch) in enumerate(series):
            style.key(everywhere, left, height - 0.78 - 0.2 * row, look["color"], hatch,
                      f"{name} ({ms(kinds[0].first[who].mid)} ms in the top row)")
        style.write(fig, left, height - 0.48, f"d = {dim}", fontsize=style.TEXT, weight="bold", va="center")
    style.heading(fig, height - 0.2, "Time on values of other kinds")
    return fig
