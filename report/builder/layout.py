"""Paragraphs of Markdown laid out again after facts have taken the place of their names."""
from __future__ import annotations

import re
import textwrap

COLUMNS = 120
# Lines that are no paragraph's: tables, headings, lists, quotations, comments, pictures, code.
OTHER = re.compile(r"\||#|>|[-+*] |\d+[.)] |<|!\[|    |\t|```")


def wrap(text):
    """The same text with lines of up to 120 columns in every plain paragraph."""
    blocks, fenced = [], False
    for block in text.split("\n\n"):
        lines = block.split("\n")
        plain = not fenced and any(lines) and not any(OTHER.match(line) for line in lines)
        blocks.append(_paragraph(block) if plain else block)
        fenced ^= sum(line.startswith("```") for line in lines) % 2 == 1
    return "\n\n".join(blocks)


def _paragraph(block):
    ends = len(block) - len(block.rstrip("\n"))
    lines = textwrap.wrap(block, COLUMNS, break_long_words=False, break_on_hyphens=False)
    if any(OTHER.match(line) for line in lines):  # a dash that would become a list
        return block
    return "\n".join(lines) + "\n" * ends
