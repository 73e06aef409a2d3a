"""Tables in Markdown, and how numbers stand in them."""
from __future__ import annotations

from .template import significant

NOT_KNOWN = "n/a"  # never 0


def markdown(header, rows, align):
    """`align` has a letter for each column: l or r."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join({"l": "---", "r": "--:"}[a] for a in align) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ms(seconds, digits=3):
    return significant(seconds * 1e3, digits)


def known(value, form=".1f", factor=1.0):
    return NOT_KNOWN if value is None else format(value * factor, form)
