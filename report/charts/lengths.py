"""Curves over a size that doubles, most often the length of the sequence, with their names at their ends."""
from __future__ import annotations

import math

import scaling as on_paper
from builder.measured import CONTRACTS
from builder.measured_backward import GRADIENTS, Backward
from builder.measured_courses import LIMIT_BYTES, PASSES, Cs336, Lab5, Sweep
from builder.measured_half import CUDNN, FLASH2, MASKS, half_lengths as lengths_of_half
from builder.spread import Spread
from builder.words import in_words, short, short_name, significant

from . import style

MIB = 2.0 ** 20
N = "N (logarithmic)"
LOOKS = {"f32": style.HW4, "fixed": style.FIXED, "fixed16": style.FIXED16, "bf16": style.BF16, "fp16": style.FP16,
         "flash2": style.EFFICIENT, "pytorch": style.NAIVE, "cudnn": {**style.SEQ, "color": "#4d4d4d"},
         "naive": {"color": style.BLACK, "marker": "x", "linestyle": ":"}}
SERIES = {"naive": ("PyTorch naive", style.NAIVE), "efficient": ("PyTorch efficient", style.EFFICIENT),
          "torch": ("PyTorch", style.EFFICIENT), "hw4_fixed": ("fixed", style.FIXED), "hw4": ("f32", style.HW4)}


def look_of(who):
    return LOOKS[who.partition(" ")[0]]


# ---- hw4 beside PyTorch


def tflops_over_length(data):
    """The rate at three head sizes."""
    fig = style.figure(3.9)
    shapes, fixed = data.length_shapes, data.fixed_over_length
    sgemm = data.lengths["sgemm"]["tflops"]
    every = [*(shape.tflops(seconds) for shape in shapes for seconds in (shape.hw4, shape.torch_best)),
             *(rate for of_dim in fixed.values() for rate in of_dim.values())]
    low, high = min(rate.low for rate in every) / 1.4, max(rate.high for rate in every) * 1.35
    lengths, places = sorted({shape.tokens for shape in shapes}), style.within(low, high)
    for index, dim in enumerate(sorted({shape.dim for shape in shapes})):
        ax = style.axes(fig, 0.65 + 2.8 * index, 0.6, 2.6, 2.65)
        of_dim = sorted((shape for shape in shapes if shape.dim == dim), key=lambda shape: shape.tokens)
        style.doubling(ax, lengths, 1.3, 1.3)
        ax.tick_params(axis="x", labelsize=7)
        style.log(ax, "y", low, high, places, None if index == 0 else [""] * len(places))
        ax.grid(axis="y")
        ax.set_xlabel(N)
        style.title(ax, f"d = {dim}")
        ax.plot(ax.get_xlim(), [sgemm, sgemm], color=style.GREEN, linestyle=":", linewidth=1.2)
        if index == 0:
            ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic)")
            ax.text(lengths[0], sgemm * 1.04, "cuBLAS SGEMM", fontsize=style.SMALL)
        curves = {"hw4": {shape.tokens: shape.tflops(shape.hw4) for shape in of_dim},
                  "torch": {shape.tokens: shape.tflops(shape.torch_best) for shape in of_dim},
                  **({"hw4_fixed": fixed[dim]} if dim in fixed else {})}
        for who, points in curves.items():
            style.band(ax, points, SERIES[who][1])
        # The lowest name is under its line, the others above theirs; above SGEMM's where that is close.
        ends = {who: list(points.items())[-1] for who, points in curves.items()}
        lowest = min(ends, key=lambda who: ends[who][1].mid)
        for who, (tokens, rate) in ends.items():
            name, look = SERIES[who]
            near = 1 <= sgemm / rate.mid < 1.3
            place = rate.mid / 1.2 if who == lowest else (sgemm * 1.06 if near else rate.mid * 1.13)
            ax.text(tokens, place, f"{name} {significant(rate.mid)}", ha="right", fontsize=style.TEXT,
                    color=style.ink(look["color"]), weight="bold")
    style.heading(fig, 3.68, "Rate over the length of the sequence")
    return fig


def causal(data):
    """What the causal mask saves over the length N, and the rate that is left."""
    fig = style.figure(5.85)
    by_dim = data.masked_lengths
    cases = [case for of_dim in by_dim.values() for case in of_dim]
    lengths = sorted({case.tokens for case in cases})
    everybody = (*CONTRACTS, "torch")
    rates = style.steps(max(case.tflops(who).high for case in cases for who in everybody), 6)
    gains = style.steps(max(2.0, *(case.gain(who).high for case in cases for who in CONTRACTS)), 5)
    for index, (dim, of_dim) in enumerate(by_dim.items()):
        for bottom, height, scale, series, form, label in (
                (3.45, 1.7, gains, {who: [case.gain(who) for case in of_dim] for who in CONTRACTS}, "{:.2f}".format,
                 "full time / causal"),
                (0.6, 2.3, rates, {who: [case.tflops(who) for case in of_dim] for who in everybody}, significant,
                 "TFLOP/s, 2·B·N²·d over the time")):
            ax = style.axes(fig, 0.65 + 4.15 * index, bottom, 3.85, height)
            style.doubling(ax, lengths, 1.3, 3)  # room for names
            style.ticks(ax.yaxis, scale, None if index == 0 else [""] * len(scale))
            ax.set_ylim(0, scale[-1])
            ax.grid(axis="y")
            if scale is gains:
                style.title(ax, f"d = {dim}")
                ax.plot(ax.get_xlim(), [2, 2], color=style.GREEN, linestyle=":", linewidth=1.2)
            else:
                ax.set_xlabel(N)
            if index == 0:
                ax.set_ylabel(label)
            xs = [case.tokens for case in of_dim]
            for who, spreads in series.items():
                style.band(ax, dict(zip(xs, spreads)), SERIES[who][1])
            ends = [spreads[-1].mid for spreads in series.values()]
            for who, end, place in zip(series, ends, style.apart(ends, scale[-1] * 0.09, low=scale[-1] * 0.02)):
                name, look = SERIES[who]
                ax.text(xs[-1] * 1.15, place, f"{name} {form(end)}", va="center_baseline", fontsize=style.SMALL,
                        color=style.ink(look["color"]), weight="bold")
    style.heading(fig, 5.65, "The causal mask over the length of the sequence")
    return fig


def error_over_length(data):
    """The largest error against float64 over the length N."""
    fig = style.figure(3.9)
    cases = data.accuracy["cases"]
    scale = style.steps(max(value for case in cases for value in case["largest_errors"].values()) * 1e6 * 1.02, 7)
    lengths = sorted({case["tokens"] for case in cases})
    for index, dim in enumerate(sorted({case["dim"] for case in cases})):
        ax = style.axes(fig, 0.65 + 4.0 * index, 0.6, 2.95, 2.65)
        style.over_lengths(ax, lengths, scale, f"d = {dim}")
        if index == 0:
            ax.set_ylabel("largest |error| against float64, 10⁻⁶")
        ends = []
        for who in ("naive", "efficient", "hw4_fixed", "hw4"):
            name, look = SERIES[who]
            worst = {}
            for case in (case for case in cases if case["dim"] == dim):
                value = case["largest_errors"][who] * 1e6
                worst[case["tokens"]] = max(value, worst.get(case["tokens"], 0.0))
                ax.plot([case["tokens"]], [value], marker=look["marker"], color=look["color"], linestyle="",
                        markersize=5, alpha=0.9, zorder=4)
            xs = sorted(worst)
            ax.plot(xs, [worst[x] for x in xs], color=look["color"], linestyle=look["linestyle"], zorder=3)
            shown = name.replace("PyTorch ", "") if index == 0 else name
            ends.append((f"hw4, {name}" if who.startswith("hw4") else shown, look, worst[xs[-1]]))
        gap = scale[-1] * 0.055
        for (name, look, _), place in zip(ends, style.apart([end for *_, end in ends], gap, gap / 2)):
            ax.text(lengths[-1] * 1.45, place, name, fontsize=style.SMALL, color=style.ink(look["color"]),
                    weight="bold", va="center_baseline", clip_on=False)
    style.heading(fig, 3.68, "Error against float64 over the length of the sequence")
    return fig


def backward_errors(data):
    """The largest errors of dQ, dK and dV against float64 over the length N."""
    fig = style.figure(3.5)
    found = Backward(data).lengths
    most = max(value for case in found.values() for errors in (case.hw4, case.efficient)
               for value in errors.values()) * 1e6
    scale = style.steps(most * 1.02, 7)
    series = (("efficient", "PyTorch efficient", style.EFFICIENT), ("hw4", "hw4", style.HW4))
    for index, gradient in enumerate(GRADIENTS):
        ax = style.axes(fig, 0.65 + 2.85 * index, 0.6, 2.35, 2.1)
        style.over_lengths(ax, list(found), scale, gradient)
        if index == 0:
            ax.set_ylabel("largest |error|, 10⁻⁶")
        for who, _, look in series:
            ax.plot(list(found), [getattr(case, who)[gradient] * 1e6 for case in found.values()], **look)
    style.heading(fig, 3.28, "Error of the gradients over the length of the sequence")
    canvas = style.canvas(fig)
    for place, (_, name, look) in zip((5.9, 7.6), series):
        canvas.plot([place, place + 0.35], [3.28, 3.28], **look)
        canvas.text(place + 0.43, 3.28, name, va="center_baseline", fontsize=style.SMALL, weight="bold",
                    color=style.ink(look["color"]))
    return fig


# ---- Sweeps: panels of {who: {x: Spread}}


def draw_sweep(fig, place, series, side, title, xs=None, label=N, x_labels=None, values=None, names=True, limit=None,
               **scaled):
    """A panel at (left, bottom, width, height) with a name at the end of each curve. values: those of all panels that
    have one scale."""
    values = [*(values or mids(series)), *([limit] if limit else [])]
    xs = xs or sorted({x for points in series.values() for x in points})
    ax = style.axes(fig, *place)
    style.doubling(ax, xs, 1.25, 1.25, x_labels and [x_labels(x) for x in xs])
    ax.grid(axis="y")
    ax.set_xlabel(label)
    style.title(ax, title)
    scale(ax, values, **scaled)
    ax.set_ylabel(side)
    if limit:
        ax.plot(ax.get_xlim(), [limit] * 2, color=style.GREEN, linestyle=":", linewidth=1.2)
    series = {who: points for who, points in series.items() if points}
    for who, points in series.items():
        style.band(ax, points, look_of(who))
    if names and series:
        name_ends(ax, place[3], {who: list(points.values())[-1].mid for who, points in series.items()})
    return ax


def scale(ax, values, logarithmic=True, room=1.3, above=1.0):
    """The y axis for these values; a logarithmic one with room, and more of it above."""
    if not logarithmic:
        places = style.steps(max(values), 6)
        style.ticks(ax.yaxis, places)
        ax.set_ylim(0, places[-1])
        return
    low, high = min(values) / room, max(values) * room * above
    inside = style.within(low, high, 0.001, 50000)
    if len(inside) > 7:  # tens are enough
        inside = [place for place in inside if round(math.log10(place), 9) == round(math.log10(place))]
    style.log(ax, "y", low, high, inside)


def name_ends(ax, height, ends):
    low, high = ax.get_ylim()
    logarithmic = ax.get_yscale() == "log"
    wanted = [height * (math.log(end / low) / math.log(high / low) if logarithmic else (end - low) / (high - low))
              for end in ends.values()]
    for who, place in zip(ends, style.apart(wanted, 1.2 * style.SMALL / 72, low=0.0)):
        ax.text(1.02, place / height, short_name(who), transform=ax.transAxes, va="center_baseline",
                fontsize=style.SMALL, weight="bold", color=style.ink(look_of(who)["color"]))


def mids(series):
    return [spread.mid for points in series.values() for spread in points.values()]


def measured(by_who, figure, name="forward"):
    """{who: {x: figure(pass)}} of the passes that ran."""
    return {who: {x: figure(getattr(row, name)) for x, row in rows.items() if getattr(row, name).ok}
            for who, rows in by_who.items()}


def time(found):
    return found.seconds.times(1e3)


def rate(found):
    return found.tflops


def peak(found):
    return Spread.of([found.peak_bytes / MIB])


def half_lengths(data):
    """The rate of bf16 beside FlashAttention-2 and cuDNN, without a mask and causal."""
    fig = style.figure(6.15)
    for left, (dim, by_mask) in zip((0.62, 5.2), lengths_of_half(data).items()):
        rates = {mask: {who: {case.tokens: case.seconds(who).under(case.record["flop"] * 1e-12) for case in cases}
                        for who in ("bf16", FLASH2, CUDNN)} for mask, cases in by_mask.items()}
        values = [spread.high for series in rates.values() for points in series.values() for spread in points.values()]
        for bottom, mask in zip((3.45, 0.6), MASKS):
            draw_sweep(fig, (left, bottom, 2.62, 2.0), rates[mask], "TFLOP/s",
                       f"d = {dim}, {'no mask' if mask == 'none' else 'causal'}", values=values, logarithmic=False)
    style.heading(fig, 5.95, "bf16 over the length of the sequence")
    return fig


def lab5_length(data):
    """Forward's time and rate, without a mask and under the causal one."""
    fig = style.figure(6.35)
    by_mask = {"no mask": Lab5(data).over_length(False), "causal": Lab5(data).over_length(True)}
    lengths = sorted({n for by_who in by_mask.values() for rows in by_who.values() for n, row in rows.items()
                      if row.forward.ok})
    for left, (title, by_who) in zip((0.62, 5.2), by_mask.items()):
        for bottom, figure, side in ((3.55, time, "forward, ms (logarithmic)"), (0.6, rate, "TFLOP/s (logarithmic)")):
            values = [value for rows in by_mask.values() for value in mids(measured(rows, figure))]
            draw_sweep(fig, (left, bottom, 2.62, 2.2), measured(by_who, figure), side, title, lengths, values=values)
    style.heading(fig, 6.15, "Forward over the length of the sequence")
    return fig


def lab5_passes(data):
    """The rates of forward, backward and both, of those that have a backward pass."""
    fig = style.figure(3.65)
    by_who = {who: rows for who, rows in Lab5(data).over_length(False).items()
              if any(row.backward.ok for row in rows.values())}
    rates = {name: measured(by_who, rate, name) for name in PASSES}
    values = [value for series in rates.values() for value in mids(series)]
    lengths = sorted({n for series in rates.values() for points in series.values() for n in points})
    for index, (name, title) in enumerate(zip(PASSES, ("forward", "backward", "both"))):
        ax = draw_sweep(fig, (0.62 + 2.4 * index, 0.6, 2.2, 2.35), rates[name],
                        "" if index else "TFLOP/s (logarithmic)", title, lengths, values=values, names=index == 2)
        if index:
            ax.set_yticklabels([])
    style.heading(fig, 3.45, "Forward, backward and both over the length")
    return fig


def lab5_sizes(data):
    """Forward's time over batch and over heads, and the rate over the batch."""
    fig = style.figure(3.85)
    for left, size, figure, title in ((0.62, "batches", time, "time over the batch"),
                                      (3.2, "batches", rate, "rate over the batch"),
                                      (5.8, "heads", time, "time over the heads")):
        draw_sweep(fig, (left, 0.6, 1.9, 2.5), measured(Lab5(data).over(size), figure),
                   "forward, ms (logarithmic)" if figure is time else "TFLOP/s (logarithmic)", title,
                   label=f"{size[0].upper()} (logarithmic)", x_labels=str, names=size == "heads")
    style.heading(fig, 3.65, "Forward over batch and heads")
    return fig


def lab5_memory(data):
    """The peak of memory in forward, over the width and over the length."""
    fig = style.figure(3.7)
    for left, by_who, title, label in ((0.62, Lab5(data).over("columns"), "over the width", "columns (logarithmic)"),
                                       (5.2, Lab5(data).over_length(False), "over the length", N)):
        draw_sweep(fig, (left, 0.6, 2.62, 2.4), measured(by_who, peak), "MiB (logarithmic)", title, label=label,
                   x_labels=lambda x: str(x) if x < 1024 or x % 1024 else short(x))
    style.heading(fig, 3.5, "Peak memory of forward")
    return fig


def cs336_attention(data):
    """Attention's time and memory over the length, with what does not fit."""
    fig = style.figure(4.0)
    by_who = Cs336(data).over_length(64)
    lengths = sorted({n for rows in by_who.values() for n in rows})
    held = {who: {n: Spread.of([row.backward.before_backward_bytes / MIB]) for n, row in rows.items()
                  if row.backward.ok and row.backward.before_backward_bytes} for who, rows in by_who.items()}
    for left, series, title, side, name, limit in (
            (0.62, measured(by_who, time), "forward", "ms (logarithmic)", "forward", None),
            (5.2, held, "before backward", "MiB (logarithmic)", "backward", LIMIT_BYTES / MIB)):
        ax = draw_sweep(fig, (left, 0.6, 2.62, 2.7), series, side, title, lengths, limit=limit, room=1.6, above=6.0)
        level = 0  # marks at the upper end, one level under the other, for sizes that did not fit
        for who, rows in by_who.items():
            lacking = [n for n, row in rows.items() if getattr(row, name).out_of_memory]
            for n in lacking:
                ax.text(n, 1 - 0.07 * level, "OOM", transform=ax.get_xaxis_transform(), ha="center", va="top",
                        fontsize=7, weight="bold", color=style.ink(look_of(who)["color"]),
                        bbox={"facecolor": "white", "edgecolor": look_of(who)["color"], "pad": 1.0, "linewidth": 0.6})
            level += bool(lacking)
    style.heading(fig, 3.8, "Attention within 8 GiB: time, memory, and where it ends")
    return fig


def warmups(data):
    """The samples in their order, after 0, 1, 2 and 5 launches."""
    looks = {0: (style.RED, "o"), 1: (style.ORANGE, "s"), 2: (style.SKY, "^"), 5: (style.BLUE, "D")}
    fig = style.figure(3.4)
    found = Sweep(data, "warmups.json")
    every = [sample * 1e3 for row in found.rows if row.forward.ok for sample in row.forward.samples]
    for left, who in zip((0.62, 4.85), found.everybody):
        ax = style.axes(fig, left, 0.6, 3.9, 2.1)
        rows = [row for row in found.where(who=who) if row.forward.ok]
        count = max(len(row.forward.samples) for row in rows)
        scale(ax, every, room=1.5)
        style.ticks(ax.xaxis, list(range(1, count + 1)))
        ax.set_xlim(0.5, count + 0.5)
        ax.grid(axis="y")
        ax.set_xlabel("sample")
        if left < 1:
            ax.set_ylabel("ms (logarithmic)")
        style.title(ax, in_words(who))
        for row in rows:
            colour, marker = looks.get(row.warmup, (style.GREY, "x"))
            ax.plot(range(1, len(row.forward.samples) + 1), [sample * 1e3 for sample in row.forward.samples],
                    color=colour, marker=marker, label=f"{row.warmup} before")
        ax.legend(loc="upper right", frameon=False, fontsize=style.SMALL)
    style.heading(fig, 3.2, "The first launch of a process is not like the others")
    return fig


def scaling(data):
    """A case of 1 M tokens on 1 to 64 cards, from parts measured on one."""
    fig = style.figure(4.0)
    parts, cards = on_paper.parts_of(data), on_paper.CARDS
    for index, heads in enumerate(on_paper.HEADS):
        ax = style.axes(fig, 0.75 + 4.15 * index, 0.6, 3.3, 2.65)
        seconds = {(contract, one_disk): [on_paper.run_of(parts, contract, heads, number, one_disk).total
                                          for number in cards]
                   for contract in on_paper.CONTRACTS for one_disk in (False, True)}
        every = [second for of_line in seconds.values() for second in of_line]
        low, high = min(every) / 1.6, max(every) * 1.6
        style.doubling(ax, cards, 1.2, 2.3)  # room for names
        style.log(ax, "y", low, high, style.within(low, high, 0.1))
        ax.grid(axis="y")
        ax.set_xlabel("cards (logarithmic)")
        if index == 0:
            ax.set_ylabel("seconds from file to file (logarithmic)")
        style.title(ax, "1 head" if heads == 1 else f"{heads} heads")
        for contract in on_paper.CONTRACTS:
            look, (start, *_) = LOOKS[contract], seconds[contract, False]
            ax.plot(cards, [start / number for number in cards], color=look["color"], linestyle=":", linewidth=1.0)
            ax.plot(cards, seconds[contract, True], color=look["color"], linestyle="--", linewidth=1.2)
            ax.plot(cards, seconds[contract, False], **look)
            above = contract == on_paper.CONTRACTS[0]
            ax.text(cards[0], start * 1.12 if above else start / 1.12, f"{contract} {significant(start)} s",
                    va="bottom" if above else "top", fontsize=style.SMALL, color=style.ink(look["color"]),
                    weight="bold")
        heights = [math.log10(of_line[-1]) for of_line in seconds.values()]
        for ((contract, _), of_line), place in zip(seconds.items(),
                                                   style.apart(heights, 0.055 * math.log10(high / low))):
            ax.text(cards[-1] * 1.15, 10 ** place, f"{significant(of_line[-1], 2)} s", va="center_baseline",
                    fontsize=style.SMALL, color=style.ink(LOOKS[contract]["color"]), weight="bold")
    style.heading(fig, 3.78, "One case of 1 M tokens on many cards, on paper")
    return fig
