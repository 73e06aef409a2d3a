"""Works on rendered texts: wraps paragraphs, and fills the parts of a file between the lines <!-- begin NAME (make
report) --> and <!-- end NAME -->."""
from __future__ import annotations

import re
import textwrap

from .errors import Failed

COLUMNS = 120
# Lines outside paragraphs: tables, headings, lists, quotations, comments, pictures, code.
OTHER = re.compile(r"\||#|>|[-+*] |\d+[.)] |<|!\[|    |\t|```")


def wrap(text):
    """The same text with lines of up to 120 columns in every plain paragraph and list."""
    blocks, fenced = [], False
    for block in text.split("\n\n"):
        lines = block.split("\n")
        plain = not fenced and any(lines) and not any(OTHER.match(line) for line in lines)
        if plain:
            block = _paragraph(block)
        elif not fenced and block.startswith("- "):
            block = _list(block)
        blocks.append(block)
        fenced ^= sum(line.startswith("```") for line in lines) % 2 == 1
    return "\n\n".join(blocks)


def _filled(text, **options):
    return "\n".join(textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False, **options))


def _list(block):
    ends = len(block) - len(block.rstrip("\n"))
    items = re.split(r"\n(?=- )", block.rstrip("\n"))
    return "\n".join(_filled(" ".join(item.split()), subsequent_indent="  ") for item in items) + "\n" * ends


def _paragraph(block):
    ends = len(block) - len(block.rstrip("\n"))
    text = _filled(block)
    # A dash at the beginning of a line would become a list.
    return block if any(OTHER.match(line) for line in text.split("\n")) else text + "\n" * ends


PART = re.compile(r"(?<=<!-- begin )([\w-]+)( \(make report\) -->\n)(?:.*\n)*?(<!-- end \1 -->)")


def fill(text, blocks, file):
    """The text with each block in its place. Each block must have exactly one place, and each place a block."""
    places = sorted(match[1] for match in PART.finditer(text))
    if places != sorted(blocks):
        raise Failed(f"{file}: has places for {', '.join(places)}, need one for each of {', '.join(sorted(blocks))}: the "
                     "lines <!-- begin NAME (make report) --> and <!-- end NAME -->")
    return PART.sub(lambda match: match[1] + match[2] + blocks[match[1]].strip("\n") + "\n" + match[3], text)
