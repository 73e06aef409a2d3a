"""What warps wait for, every rung on t28."""
from __future__ import annotations

from . import style, words

ALT = "cycles that a warp waits for each reason, for every kernel of the ladder on t28"

# The reasons worth telling apart, in the words of the legend; all others together.
REASONS = {
    "long_scoreboard": "global or local memory", "short_scoreboard": "shared memory",
    "mio_throttle": "shared-memory queue", "lg_throttle": "global-memory queue", "barrier": "barrier",
    "wait": "fixed latency",
    "not_selected": "ready, another was issued",
}


def caption(data):
    return (f"Why warps wait, t28 on {words.gpu(data)}: cycles that a warp waits between two of its "
            f"instructions, by reason (Nsight Compute {data.profile['ncu']['version']}, one launch of each; reasons in "
            f"ncu's names: {', '.join(f'{text} = {reason}' for reason, text in REASONS.items())}). Right: the same "
            f"with a scale for the upper rungs; bars that leave it end in an arrow. A warp that was ready while "
            f"another was issued has lost nothing.")


def parts(launch):
    """Warps by reason, in the order of REASONS, then all others."""
    stalls = {reason: value or 0.0 for reason, value in launch["stalls"].items() if reason != "selected"}
    return [stalls.get(reason, 0.0) for reason in REASONS] + [
        sum(value for reason, value in stalls.items() if reason not in REASONS)]


def draw(data):
    rungs = data.rungs
    rows = [parts(data.launch(kernel)) for kernel in rungs]
    height = 1.55 + 0.28 * len(rungs)
    fig = style.figure(height)
    totals = [sum(row) for row in rows]
    whole = style.axes(fig, 1.3, 0.55, 3.6, height - 1.55)
    close = style.axes(fig, 5.15, 0.55, 3.6, height - 1.55)
    few = sorted(totals)[len(totals) // 2 - 1]  # the lower half of the bars fits
    for ax, most, labels in ((whole, max(totals), rungs), (close, few * 1.5, [""] * len(rungs))):
        places = style.rows_down(ax, labels)
        scale = style.steps(most, 6)
        limit = scale[-1]
        ax.set_xlim(0, limit * 1.06)
        style.ticks(ax.xaxis, scale)
        ax.grid(axis="x")
        for place, row, total in zip(places, rows, totals):
            start = 0.0
            for value, (colour, hatch) in zip(row, style.PARTS):
                if value > 0 and start < limit:
                    ax.barh([place], [min(value, limit - start)], left=[start], height=0.66, color=colour, hatch=hatch,
                            edgecolor=style.INK, linewidth=0.4, zorder=2)
                start += value
            if total > limit:
                ax.plot([limit * 1.025], [place], marker=">", color=style.GREY, markersize=5, clip_on=False)
            else:
                ax.text(total + limit * 0.015, place, f"{total:.1f}", va="center_baseline",
                        fontsize=style.SMALL)
    whole.set_xlabel("cycles a warp waits between two instructions")
    close.set_xlabel("the same, closer")
    everywhere = style.canvas(fig)
    x, y = 1.3, height - 0.55
    for text, (colour, hatch) in zip([*REASONS.values(), "other"], style.PARTS):
        if x + 0.2 + 0.068 * len(text) > 8.9:
            x, y = 1.3, y - 0.22
        x = style.key(everywhere, x, y, colour, hatch, text)
    style.write(fig, 0.15, height - 0.22, "What warps wait for on t28", fontsize=10.5, weight="bold", va="center")
    return fig
