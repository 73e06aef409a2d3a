"""Speed against accuracy, and errors by kinds of values."""
from __future__ import annotations

import math

from builder.measured_half import Half, points
from builder.words import scientific, significant

from . import style

OTHERS = {"color": style.GREY}
# The names of the rounds: label and look.
POINTS = {"f32": ("hw4, f32", style.HW4), "fixed": ("hw4, fixed", style.FIXED),
          "fixed16": ("hw4, fixed16", style.FIXED16), "bf16": ("hw4, bf16", style.BF16),
          "fp16": ("hw4, fp16", style.FP16),
          "flash2 bf16": ("FlashAttention-2, bf16", {**OTHERS, "marker": "s"}),
          "flash2 fp16": ("FlashAttention-2, fp16", {**OTHERS, "marker": "D"}),
          "cudnn bf16": ("cuDNN, bf16", {**OTHERS, "marker": "s"}),
          "efficient": ("PyTorch efficient, float32", {**OTHERS, "marker": "o"}),
          "naive tf32": ("PyTorch naive, TF32", {**OTHERS, "marker": "^"})}
WIDTH, INNER = 8.0, 4.25
LETTER, LINE = 0.62 * style.SMALL / 72, 1.25 * style.SMALL / 72  # inches of a label's text, about


def front(found):
    """Those that no other is both more accurate and faster than, from the most accurate on."""
    best, kept = 0.0, []
    for who, (_, rate) in sorted(found.items(), key=lambda point: (point[1][0], -point[1][1])):
        if rate > best:
            best = rate
            kept.append(who)
    return kept


def speed_against_error(data):
    """The rate on t28 over the largest error on values like its own: hw4's contracts beside others."""
    found = {point.who: (point.error, point.rate) for point in points(data) if point.who in POINTS}
    fig = style.figure(5.3)
    ax = style.axes(fig, 0.75, 0.6, WIDTH, INNER)
    left = min(error for error, _ in found.values()) / 2.5
    right = max(error for error, _ in found.values()) * 12  # room for a label
    bottom, top = min(rate for _, rate in found.values()) / 1.6, max(rate for _, rate in found.values()) * 1.6
    style.log(ax, "x", left, right)
    style.log(ax, "y", bottom, top, style.within(bottom, top, 20))
    ax.grid()
    ax.set_xlabel("← better: largest |error| against float64 (logarithmic)")
    ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic): better →")
    joined = front(found)
    ax.plot(*zip(*(found[who] for who in joined)), color=style.PALE, linewidth=1.4, zorder=1)
    # Those of the line have their labels first, nearest to them.
    places = {who: (WIDTH * math.log(found[who][0] / left) / math.log(right / left),
                    INNER * math.log(found[who][1] / bottom) / math.log(top / bottom))
              for who in (*joined, *(who for who in found if who not in joined))}
    labels = {who: (POINTS[who][0], f"{significant(rate)} TFLOP/s, {scientific(error)}")
              for who, (error, rate) in found.items()}
    for who, ladder in (("f32", data.ladder("t28")), ("fixed", data.fixed_ladder("t28"))):
        if who not in found:
            continue
        # The other kernels of a ladder have the errors of the contract: they have its bytes.
        rates = [rung.tflops.mid for rung in ladder[:-1] if rung.tflops.mid > bottom]
        ax.plot([found[who][0]] * len(rates), rates, marker=POINTS[who][1]["marker"], markersize=4, linestyle="",
                markerfacecolor="white", markeredgecolor=POINTS[who][1]["color"], zorder=3)
    for who, corner in label_corners(places, labels, [places[who] for who in joined]).items():
        look = POINTS[who][1]
        ax.plot(*([value] for value in found[who]), marker=look["marker"], color=look["color"], markersize=8,
                linestyle="", zorder=5 if who in joined else 4)
        for line, (text, weight) in enumerate(zip(labels[who], ("bold", "normal"))):
            at = corner[0] / WIDTH, (corner[1] + LINE * (1.5 - line)) / INNER
            ax.text(*at, text, transform=ax.transAxes, va="center_baseline", fontsize=style.SMALL, weight=weight,
                    color=style.ink(look["color"]), zorder=5)
    style.heading(fig, 5.1, "Speed against error: t28, values uniform in ±3")
    return fig


def label_corners(places, labels, line=()):
    """The lower left corner of each label, in inches as the places of the marks: beside, above or below its mark,
    where it covers no mark, no other label and, if that can be, nothing of the line, and is within the axes."""
    mark = 0.09  # inches around a point
    taken = [(x - mark, y - mark, x + mark, y + mark) for x, y in places.values()]
    joined = [(*point, *point) for point in along(line)]
    corners = {}
    for who, (x, y) in places.items():
        width, height = LETTER * max(map(len, labels[who])), 2 * LINE
        beside, above = x + 1.5 * mark, y + 1.3 * mark
        before, below = x - 1.5 * mark - width, y - 1.3 * mark - height
        wanted = [(beside, y - height / 2), (before, y - height / 2), (x - width / 2, above), (x - width / 2, below),
                  (beside, above), (beside, below), (before, above), (before, below)]
        wanted += [(side, y + away * height) for away in (0.8, -1.8, 1.6, -2.6) for side in (beside, before)]
        boxes = [(*corner, corner[0] + width, corner[1] + height) for corner in wanted]
        chosen = next((box for others in (taken + joined, taken) for box in boxes if is_free(box, others)), boxes[0])
        corners[who] = chosen[:2]
        taken.append(chosen)
    return corners


def along(line, steps=100):
    """Points of it, closer to each other than a label is high."""
    return [tuple(a + (b - a) * step / steps for a, b in zip(start, end))
            for start, end in zip(line, line[1:]) for step in range(steps + 1)]


def is_free(box, taken):
    inside = box[0] >= 0 and box[1] >= 0 and box[2] <= WIDTH and box[3] <= INNER
    return inside and all(box[2] <= other[0] or other[2] <= box[0] or box[3] <= other[1] or other[3] <= box[1]
                          for other in taken)


def half_error(data):
    """The largest errors of half precision by kinds of values: hw4's beside FlashAttention-2's and cuDNN's."""
    everybody = {"hw4_bf16": ("hw4, bf16", style.BF16),
           "flash2 bf16": ("FlashAttention-2, bf16", {"color": style.RED, "marker": "s"}),
           "cudnn bf16": ("cuDNN, bf16", {"color": "#4d4d4d", "marker": "D"}), "hw4_fp16": ("hw4, fp16", style.FP16),
           "flash2 fp16": ("FlashAttention-2, fp16", {"color": style.ORANGE, "marker": "^"})}
    cases = [case for case in Half(data).errors if (case.tokens, case.dim) == (16384, 64)]
    inner = 0.42 * len(cases)
    height = 0.6 + inner + 0.8
    fig = style.figure(height)
    ax = style.axes(fig, 3.1, 0.6, 5.6, inner)
    places = style.rows_down(ax, [case.title for case in cases])
    errors = [case.largest[who] for case in cases for who in everybody]
    low, high = min(errors) / 2, max(errors) * 2
    style.log(ax, "x", low, high)
    ax.grid(axis="x")
    ax.set_xlabel("largest |error| against float64 (logarithmic)")
    for index, (who, (_, look)) in enumerate(everybody.items()):
        ax.plot([case.largest[who] for case in cases], [place + 0.13 * (index - 2) for place in places],
                color=look["color"], marker=look["marker"], linestyle="", markersize=6, zorder=3)
    everywhere = style.canvas(fig)
    at = 0.62
    for title, look in everybody.values():
        everywhere.plot([at], [height - 0.52], color=look["color"], marker=look["marker"], markersize=6, linestyle="")
        everywhere.text(at + 0.12, height - 0.52, title, va="center_baseline", fontsize=style.SMALL)
        at += 0.32 + 0.07 * len(title)
    style.heading(fig, height - 0.2, "Half precision: the largest error by kind of values")
    return fig
