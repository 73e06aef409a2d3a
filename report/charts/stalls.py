"""What warps wait for, every rung on t28."""
from __future__ import annotations

import math

from builder.errors import Failed

from . import style, words

ALT = "the share of each reason for which warps wait, and the cycles they wait, for every kernel of the ladder on t28"

# The reasons worth telling apart, in the words of the legend; all others together.
REASONS = {
    "long_scoreboard": "global or local memory", "short_scoreboard": "shared memory",
    "mio_throttle": "shared-memory queue", "lg_throttle": "global-memory queue", "barrier": "barrier",
    "wait": "fixed latency",
    "not_selected": "ready, another was issued",
}
# In the order of REASONS, then of all others; in grey their order tells them apart.
COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.RED, style.YELLOW, style.PALE)


def caption(data):
    return (f"Why warps wait, t28 on {words.gpu(data)}. Left: of the cycles that a warp waits between two of its "
            f"instructions, the share of each reason in percent, written where it is 4 or more (Nsight Compute "
            f"{data.profile['ncu']['version']}, one launch of each; reasons in ncu's names: "
            f"{', '.join(f'{text} = {reason}' for reason, text in REASONS.items())}). Right: how many cycles "
            f"those are. A warp that was ready while another was issued has lost nothing.")


def parts(launch):
    """Warps by reason, in the order of REASONS, then all others."""
    stalls = {reason: value or 0.0 for reason, value in launch["stalls"].items() if reason != "selected"}
    if not sum(stalls.values()):
        raise Failed(f"profile_ladder.json: {launch['kernel']} on {launch['case']}: stalls: none above 0")
    return [stalls.get(reason, 0.0) for reason in REASONS] + [
        sum(value for reason, value in stalls.items() if reason not in REASONS)]


def draw(data):
    rungs = data.rungs
    rows = [parts(data.launch(kernel)) for kernel in rungs]
    totals = [math.fsum(row) for row in rows]  # the same in every version of Python, which sum() is not
    height = 1.55 + 0.28 * len(rungs)
    fig = style.figure(height)
    shares = style.axes(fig, 1.3, 0.55, 5.2, height - 1.55)
    cycles = style.axes(fig, 6.75, 0.55, 2.0, height - 1.55)
    places = style.rows_down(shares, rungs)
    shares.set_xlim(0, 100)
    style.ticks(shares.xaxis, range(0, 101, 20))
    shares.set_xlabel("share of the cycles in which a warp waits, %")
    for place, row, total in zip(places, rows, totals):
        start = 0.0
        for value, colour in zip(row, COLOURS):
            share = round(100 * value / total, 6)
            if share:
                shares.barh([place], [share], left=[start], height=0.74, color=colour, edgecolor="white", linewidth=0.8)
            if share >= 4:
                shares.text(start + share / 2, place, f"{share:.0f}", ha="center", va="center_baseline",
                            fontsize=style.SMALL, color="white" if colour == style.BLUE else style.INK)
            start += share
    style.rows_down(cycles, [""] * len(rungs))
    low, high = min(1.0, min(totals) / 1.5), max(10.0, max(totals) * 4)  # room for the last number
    powers = style.powers(low, high)
    style.log(cycles, "x", low, high, powers, style.power_labels(powers))
    cycles.grid(axis="x")
    cycles.set_xlabel("those cycles (logarithmic)")
    cycles.plot(totals, places, marker="o", color=style.INK, linestyle="")
    for place, total in zip(places, totals):
        cycles.text(total * 1.25, place, f"{total:.1f}", va="center_baseline", fontsize=style.SMALL)
    everywhere = style.canvas(fig)
    x, y = 1.3, height - 0.55
    for text, colour in zip([*REASONS.values(), "other"], COLOURS):
        if x + 0.2 + 0.068 * len(text) > 8.9:
            x, y = 1.3, y - 0.22
        x = style.key(everywhere, x, y, colour, "", text)
    style.heading(fig, height - 0.22, "What warps wait for on t28")
    return fig
