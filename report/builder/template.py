"""The template language. Double braces contain one of

    path.to.a.fact          a text or a whole number
    path.to.a.fact | .1f    a number in a Python format; an integer alone, `| 3`, gives the significant digits
    table:NAME  figure:NAME
    code:KERNEL             the characteristic lines of the kernel's source (sources.EXCERPTS)
    require: a.fact < 1.5   nothing; the build fails where it does not hold. A sentence that claims more than the number
                            it shows has such a line beside it: < <= > >= == between facts and numbers.

All other text is copied. An unknown name is an error, and so is a table, a figure or an excerpt that no text uses. A
line with only requirements on it leaves no line.
"""
from __future__ import annotations

import operator
import re

from .errors import Failed
from .words import significant

HOLE = re.compile(r"\{\{(.*?)\}\}")
PATH = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
REQUIREMENT = re.compile(r"(\S+)\s+(<=|>=|==|<|>)\s+(\S+)")


class Wrong(Exception):
    """An error in one hole; the caller adds the line."""


def look_up(facts, path):
    """The fact at the dotted path."""
    at = facts
    walked = []
    for name in path.split("."):
        if not isinstance(at, dict) or name not in at:
            known = ", ".join(sorted(at)) if isinstance(at, dict) else "nothing"
            where = f"'{'.'.join(walked)}' has" if walked else "there are"
            raise Wrong(f"no fact '{path}'; {where} {known}")
        at = at[name]
        walked.append(name)
    if isinstance(at, dict):
        raise Wrong(f"'{path}' is not a fact but has some: {', '.join(sorted(at))}")
    if at is None:
        raise Wrong(f"'{path}' was not measured (null)")
    return at


def formatted(path, value, form):
    if isinstance(value, str):
        if form:
            raise Wrong(f"'{path}' is a text and takes no format")
        return value
    if not form:
        if isinstance(value, float):
            raise Wrong(f"'{path}' is {value!r} and needs a format, as in {{{{ {path} | .1f }}}}")
        return str(value)
    if form.isdigit() and int(form) > 0:
        return significant(value, int(form))
    try:
        return format(value, form)
    except ValueError as error:
        raise Wrong(f"'{path}': format '{form}': {error}") from error


class Renderer:
    """Renders texts from the same facts and remembers what they used."""

    def __init__(self, facts, tables, figures, excerpts):
        self.facts = facts
        # name: function without arguments; for a figure it returns the description, the caption and the facts of `here`
        self.available = {"table": tables, "figure": figures, "code": excerpts}
        self.used = {kind: set() for kind in self.available}

    def render(self, text, name, figure_folder, numbered=True):
        """`name`: the template's, for messages. `figure_folder`: the figures' folder, seen from the text."""
        order = []  # the figures in this text
        for match in HOLE.finditer(text):
            kind, _, figure = match[1].strip().partition(":")
            if kind == "figure" and figure not in order:
                order.append(figure)
        page = _Page(self, self.facts, figure_folder, order if numbered else None)
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                filled = HOLE.sub(lambda match: page.fill(match[1].strip()), line)
                if "{{" in HOLE.sub("", line) or "}}" in HOLE.sub("", line):
                    raise Wrong("double braces that do not close on their line")
            except Wrong as wrong:
                raise Failed(f"{name}:{number}: {wrong}") from wrong
            if filled.strip() or not line.strip():
                lines.append(filled)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))

    def make(self, kind, name):
        if name not in self.available[kind]:
            raise Wrong(f"no {kind} '{name}'; there are {', '.join(sorted(self.available[kind]))}")
        self.used[kind].add(name)
        return self.available[kind][name]()

    def unused(self):
        """'table kernels', ... for everything that no text uses."""
        return [f"{kind} {name}" for kind, names in self.available.items() for name in names
                if name not in self.used[kind]]


class _Page:
    def __init__(self, renderer, facts, figure_folder, order):
        self.renderer, self.facts = renderer, facts
        self.figure_folder = figure_folder
        self.order = order  # None: figures have no numbers

    def fill(self, words):
        kind, colon, rest = words.partition(":")
        if not colon:
            return self.fact(words)
        rest = rest.strip()
        if kind in ("table", "code"):
            return self.renderer.make(kind, rest)
        if kind == "figure":
            return self.figure(rest)
        if kind == "require":
            return self.require(rest)
        raise Wrong(f"'{kind}:' is none of table, code, figure, require")

    def fact(self, words):
        path, bar, form = (part.strip() for part in words.partition("|"))
        if not PATH.fullmatch(path):
            raise Wrong(f"'{path}' is not the name of a fact")
        if bar and not form:
            raise Wrong(f"'{path}': no format after the bar")
        return formatted(path, look_up(self.facts, path), form)

    def figure(self, name):
        alt, caption, here = self.renderer.make("figure", name)
        inside = _Page(self.renderer, {**self.facts, "here": here}, self.figure_folder, self.order)
        caption = HOLE.sub(lambda match: inside.fill(match[1].strip()), caption)
        number = f"**Figure {self.order.index(name) + 1}.** " if self.order is not None else ""
        return f"![{alt}]({self.figure_folder}/{name}.svg)\n\n{number}{caption}"

    def require(self, words):
        match = REQUIREMENT.fullmatch(words)
        if not match:
            raise Wrong(f"require: '{words}' is not like 'a.fact < 1.5'")
        left, right = (self.operand(word) for word in (match[1], match[3]))
        try:
            holds = COMPARISONS[match[2]](left, right)
        except TypeError as error:
            raise Wrong(f"require: {words}: a text and a number") from error
        if not holds:
            raise Wrong(f"require: {words} does not hold: {left!r} and {right!r}. The text there must change")
        return ""

    def operand(self, word):
        if NUMBER.fullmatch(word):
            return float(word)
        if not PATH.fullmatch(word):
            raise Wrong(f"require: '{word}' is neither a fact nor a number")
        return look_up(self.facts, word)
