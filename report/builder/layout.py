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


def _list(block):
    ends = len(block) - len(block.rstrip("\n"))
    items = re.split(r"\n(?=- )", block.rstrip("\n"))
    return "\n".join("\n".join(textwrap.wrap(" ".join(item.split()), COLUMNS, subsequent_indent="  ",
                                             break_long_words=False, break_on_hyphens=False)) for item in items) + "\n" * ends


def _paragraph(block):
    ends = len(block) - len(block.rstrip("\n"))
    lines = textwrap.wrap(block, COLUMNS, break_long_words=False, break_on_hyphens=False)
    if any(OTHER.match(line) for line in lines):  # a dash would become a list
        return block
    return "\n".join(lines) + "\n" * ends


BEGIN = re.compile(r"<!-- begin ([\w-]+) \(make report\) -->")
END = re.compile(r"<!-- end ([\w-]+) -->")


def fill(text, blocks, file):
    """The text with each block in its place. Each block must have exactly one place, and each place a block."""
    lines, inside, seen = [], None, []
    for number, line in enumerate(text.split("\n"), 1):
        begin, end = BEGIN.fullmatch(line), END.fullmatch(line)
        if begin:
            if inside:
                raise Failed(f"{file}:{number}: '{begin[1]}' begins inside '{inside}'")
            if begin[1] not in blocks:
                raise Failed(f"{file}:{number}: no block '{begin[1]}'; there are {', '.join(sorted(blocks))}")
            if begin[1] in seen:
                raise Failed(f"{file}:{number}: a second place for '{begin[1]}'")
            inside = begin[1]
            seen.append(inside)
            lines += [line, *blocks[inside].strip("\n").split("\n")]
        elif end:
            if end[1] != inside:
                raise Failed(f"{file}:{number}: '{end[1]}' ends here but did not begin")
            inside = None
            lines.append(line)
        elif not inside:
            lines.append(line)
    if inside:
        raise Failed(f"{file}: '{inside}' begins but does not end")
    for name in blocks:
        if name not in seen:
            raise Failed(f"{file}: no place for '{name}': add the line <!-- begin {name} (make report) --> "
                         f"and the line <!-- end {name} -->")
    return "\n".join(lines)
