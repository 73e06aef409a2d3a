"""The rate on t28 over the largest error on values like its own: hw4's contracts beside half precision and others."""
from __future__ import annotations

import math

from builder import measured_half
from builder.template import significant

from . import style, words

NEEDS = ("rounds.json", "half_errors.json")
ALT = ("TFLOP/s on t28 over the largest error on uniform values: hw4's contracts, FlashAttention-2 in bf16 and fp16, "
       "cuDNN in bf16, PyTorch's efficient float32 and its naive form with TF32")
OTHERS = {"color": style.GREY}
# By the names of the rounds.
POINTS = {"f32": ("hw4, f32", style.HW4), "fixed": ("hw4, fixed", style.FIXED),
          "fixed16": ("hw4, fixed16", style.FIXED16), "bf16": ("hw4, bf16", style.BF16),
          "fp16": ("hw4, fp16", style.FP16),
          "flash2 bf16": ("FlashAttention-2, bf16", {**OTHERS, "marker": "s"}),
          "flash2 fp16": ("FlashAttention-2, fp16", {**OTHERS, "marker": "D"}),
          "cudnn bf16": ("cuDNN, bf16", {**OTHERS, "marker": "s"}),
          "efficient": ("PyTorch efficient, float32", {**OTHERS, "marker": "o"}),
          "naive tf32": ("PyTorch naive, TF32", {**OTHERS, "marker": "^"})}
TOKENS, DIM = measured_half.T28["tokens"], measured_half.T28["dim"]
HEIGHT, LEFT, BOTTOM, WIDTH, INNER = 5.3, 0.75, 0.6, 8.0, 4.25
RATES = (20, 50, 100, 200, 500, 1000)
LETTER, LINE = 0.62 * style.SMALL / 72, 1.25 * style.SMALL / 72  # inches of a label's text, about
MARK = 0.09  # inches around a point


def points(data):
    """{who: (largest error, TFLOP/s)}"""
    return {point.who: (point.error, point.rate) for point in measured_half.points(data) if point.who in POINTS}


def rungs(data, found):
    """{contract: rates} of the other kernels of a ladder, whose errors are those of the contract: its bytes are."""
    ladders = {"f32": data.ladder("t28"), "fixed": data.fixed_ladder("t28")}
    return {who: [rung.tflops.mid for rung in ladder[:-1]] for who, ladder in ladders.items() if who in found}


def front(found):
    """Those that no other is both more accurate and faster than, from the most accurate on."""
    best, kept = 0.0, []
    for who, (_, rate) in sorted(found.items(), key=lambda point: (point[1][0], -point[1][1])):
        if rate > best:
            best = rate
            kept.append(who)
    return kept


def caption(data):
    rounds = data.rounds["rounds"]
    return (f"Rate on t28 over accuracy, {words.gpu(data)}: {words.FLOP} over the median time of {rounds} rounds in "
            f"which each was timed once; the largest error of any output number against attention in float64, values "
            f"uniform in ±3, B = 1, N = {TOKENS}, d = {DIM}. Up is faster, left is more accurate. The line joins those "
            f"that no other is both faster and more accurate than. Small: earlier kernels of `f32` and `fixed`, as far "
            f"as the axis goes; their bytes, and so their errors, are those of the last. The exact contracts start "
            f"from float32 numbers, and their digits are made within the time; all kernels in bf16 and fp16 have their "
            f"operands rounded beforehand.")


def draw(data):
    found = points(data)
    fig = style.figure(HEIGHT)
    ax = style.axes(fig, LEFT, BOTTOM, WIDTH, INNER)
    left = min(error for error, _ in found.values()) / 2.5
    right = max(error for error, _ in found.values()) * 12  # room for a label
    bottom, top = min(rate for _, rate in found.values()) / 1.6, max(rate for _, rate in found.values()) * 1.6
    powers = style.powers(left, right)
    style.log(ax, "x", left, right, powers, style.power_labels(powers))
    style.log(ax, "y", bottom, top, [rate for rate in RATES if bottom <= rate <= top])
    ax.grid()
    ax.set_xlabel("← better: largest |error| against float64 (logarithmic)")
    ax.set_ylabel("TFLOP/s, 4·B·N²·d over the time (logarithmic): better →")
    joined = front(found)
    ax.plot(*zip(*(found[who] for who in joined)), color=style.PALE, linewidth=1.4, zorder=1)
    # Those of the line have their labels first, nearest to them.
    places = {who: (WIDTH * math.log(found[who][0] / left) / math.log(right / left),
                    INNER * math.log(found[who][1] / bottom) / math.log(top / bottom))
              for who in (*joined, *(who for who in found if who not in joined))}
    labels = {who: (POINTS[who][0], f"{significant(rate, 3)} TFLOP/s, {words.scientific(error)}")
              for who, (error, rate) in found.items()}
    for who, rates in rungs(data, found).items():
        rates = [rate for rate in rates if rate > bottom]
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
    style.heading(fig, HEIGHT - 0.2, "Speed against error: t28, values uniform in ±3")
    return fig


def label_corners(places, labels, line=()):
    """The lower left corner of each label, in inches as the places of the marks: beside, above or below its mark,
    where it covers no mark, no other label and, if that can be, nothing of the line, and is within the axes."""
    taken = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in places.values()]
    joined = [(*point, *point) for point in along(line)]
    corners = {}
    for who, (x, y) in places.items():
        width, height = LETTER * max(map(len, labels[who])), 2 * LINE
        beside, above = x + 1.5 * MARK, y + 1.3 * MARK
        before, below = x - 1.5 * MARK - width, y - 1.3 * MARK - height
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
