"""A case of 1 M tokens on 1 to 64 cards, from parts measured on one."""
from __future__ import annotations

import math

import scaling
from builder.template import significant

from . import style, words

ALT = "seconds from file to file over the number of cards, 1 to 64, for N = 1 M with 1 and 16 heads, under f32 and fixed"
LOOKS = {"f32": style.HW4, "fixed": style.FIXED}
LEFT, WIDTH, GAP, BOTTOM, INNER = 0.75, 3.3, 0.85, 0.6, 2.65
HEIGHT = BOTTOM + INNER + 0.75


def caption(data):
    parts = scaling.parts_of(data)
    rates = " and ".join(f"`{contract}` {significant(rate * 1e-12, 3)} TFLOP/s (N = {words.short(parts.tokens[contract])})"
                         for contract, rate in parts.rate.items())
    return (f"On paper, not measured: N = 1 M, d = {scaling.DIM}, with {scaling.HEADS[0]} and {scaling.HEADS[-1]} heads, "
            f"on 1 to {scaling.CARDS[-1]} cards, from parts measured on one {words.gpu(data)}: {rates}; reading "
            f"{parts.read * 1e-9:.1f} GB/s and writing {parts.write * 1e-9:.1f} GB/s, both of {parts.case}, from and to "
            f"the page cache; {parts.start * 1e3:.0f} ms until a card computes. Lines: every card reads and writes at "
            f"that rate. Dashed: all cards together do. Dotted: one card's time over the number of cards. Assumed: "
            f"{scaling.ASSUMPTIONS}.")


def draw(data):
    fig = style.figure(HEIGHT)
    parts = scaling.parts_of(data)
    for index, heads in enumerate(scaling.HEADS):
        draw_panel(fig, LEFT + (WIDTH + GAP) * index, parts, heads, index == 0)
    style.heading(fig, HEIGHT - 0.22, "One case of 1 M tokens on many cards, on paper")
    return fig


def draw_panel(fig, left, parts, heads, first):
    ax = style.axes(fig, left, BOTTOM, WIDTH, INNER)
    cards = scaling.CARDS

    def seconds(contract, one_disk):
        return [scaling.run_of(parts, contract, heads, number, one_disk).total for number in cards]
    every = [second for contract in scaling.CONTRACTS for one_disk in (False, True)
             for second in seconds(contract, one_disk)]
    ideal = {contract: [seconds(contract, False)[0] / number for number in cards] for contract in scaling.CONTRACTS}
    low, high = min(every) / 1.6, max(every) * 1.6
    places = [place for place in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= place <= high]
    ax.set_xscale("log", base=2)
    ax.set_xlim(cards[0] / 1.2, cards[-1] * 2.3)  # room for names
    style.ticks(ax.xaxis, cards, [str(number) for number in cards])
    style.log(ax, "y", low, high, places)
    ax.grid(axis="y")
    ax.set_xlabel("cards (logarithmic)")
    if first:
        ax.set_ylabel("seconds from file to file (logarithmic)")
    style.title(ax, "1 head" if heads == 1 else f"{heads} heads")
    for contract in scaling.CONTRACTS:
        look = LOOKS[contract]
        ax.plot(cards, ideal[contract], color=look["color"], linestyle=":", linewidth=1.0)
        ax.plot(cards, seconds(contract, True), color=look["color"], linestyle="--", linewidth=1.2)
        ax.plot(cards, seconds(contract, False), **look)
        start = seconds(contract, False)[0]
        above = contract == scaling.CONTRACTS[0]
        ax.text(cards[0], start * 1.12 if above else start / 1.12, f"{contract} {significant(start, 3)} s",
                va="bottom" if above else "top", fontsize=style.SMALL, color=style.ink(look["color"]), weight="bold")
    ends = [seconds(contract, one_disk)[-1] for contract in scaling.CONTRACTS for one_disk in (False, True)]
    heights = [math.log10(end) for end in ends]
    names = [(contract, one_disk) for contract in scaling.CONTRACTS for one_disk in (False, True)]
    for (contract, _), end, place in zip(names, ends, style.apart(heights, 0.055 * math.log10(high / low))):
        ax.text(cards[-1] * 1.15, 10 ** place, f"{significant(end, 2)} s", va="center_baseline", fontsize=style.SMALL,
                color=style.ink(LOOKS[contract]["color"]), weight="bold")
