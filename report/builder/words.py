"""Numbers and names in texts, tables and figures; and tables in Markdown."""
from __future__ import annotations

import math

NOT_KNOWN = "n/a"  # never 0
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def significant(value, digits=3):
    """Rounds to this many significant digits, without an exponent: 12300, 340, 75.6, 5.78, 0.0254."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    magnitude = math.floor(math.log10(abs(rounded)))  # 9.996 becomes 10.0
    return f"{rounded:.{max(0, digits - 1 - magnitude)}f}"


def markdown(header, rows, align):
    """`align` has a letter for each column: l or r."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join({"l": "---", "r": "--:"}[a] for a in align) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def ms(seconds, digits=3):
    return significant(seconds * 1e3, digits)


def known(value, form=".1f", factor=1.0):
    return NOT_KNOWN if value is None else format(value * factor, form)


def short(tokens):
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def counts(spreads):
    """Numbers of samples: '20', '3 to 20'."""
    numbers = sorted({spread.count for spread in spreads})
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def count_of(some, every, what):
    """'all 30 cases', '27 of 30 cases', 'none of 30 cases'."""
    if some == every:
        return f"all {every} {what}"
    return f"{some or 'none'} of {every} {what}"


def scientific(value):
    """3.1·10⁻⁴"""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(RAISED)}"
