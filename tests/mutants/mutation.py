"""Mutants: single changes to the sources, each a mistake that somebody could make and that a test has to notice.

They are written down as blocks of `name: value` lines in list.txt, separated by blank lines:

    file: src/problem/domain.cpp
    kind: expression
    old: sum > largest.sum
    new: sum >= largest.sum
    lets: the last of several equal rows is named
    killer: unit_tests:DomainTest.FindsTheSameInStretchesOfAnyLength

A value goes on in lines that start with four blanks. `old` stands exactly once in the file, in whole words, however it
is laid out. An expression becomes (mutant_is(n) ? (new) : (old)), statements become if (mutant_is(n)) { new } else { old }, so that
all mutants are in one build, and HW4_MUTANT=n in the environment puts number n in force. n counts the blocks.

`killer` is the test that fails when the mutant is in force: the step of tests/run that it belongs to, a colon, and a
GoogleTest filter or the names of Python tests. A mutant that no test can notice has `survives` instead, the reason.

`machine`, as uname -m prints it, marks a mutant of one kind of processor: its file is compiled, or its killer exists,
on that machine alone. Elsewhere the mutant is left out.
"""
from __future__ import annotations

import dataclasses
import fnmatch
import re
from pathlib import Path

KINDS = {"expression": "(mutant_is({number}) ? ({new}) : ({old}))",
         "statement": "if (mutant_is({number})) {{ {new} }} else {{ {old} }}"}
FIELDS = ("file", "machine", "kind", "old", "new", "lets", "killer", "survives")
LEAST_KILLED = 0.95  # of all, by the tests; each of the others has its reason
NEEDED = ("file", "kind", "old", "new", "lets")


class ListError(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Mutant:
    number: int
    file: str
    kind: str
    old: str
    new: str
    lets: str
    killer: str = ""
    survives: str = ""
    machine: str = ""

    @property
    def change(self) -> str:
        return f"{folded(self.old)} -> {folded(self.new) or '(nothing)'}"


def folded(text: str) -> str:
    return " ".join(text.split())


def parse(text: str) -> list[Mutant]:
    blocks = [block for block in re.split(r"\n\s*\n", "\n".join(
        line for line in text.splitlines() if not line.startswith("#"))) if block.strip()]
    return [mutant_of(number, block) for number, block in enumerate(blocks, start=1)]


def mutant_of(number: int, block: str) -> Mutant:
    values: dict[str, str] = {}
    name = ""
    for line in block.strip("\n").splitlines():
        if line.startswith("    ") and name:
            values[name] += "\n" + line.strip()
            continue
        name, colon, value = line.partition(":")
        if not colon or name not in FIELDS or name in values:
            raise ListError(f"mutant {number}: '{line}': need one of {', '.join(FIELDS)}, each once")
        values[name] = value.strip()
    missing = [name for name in NEEDED if name not in values]
    if missing:
        raise ListError(f"mutant {number}: has no {', '.join(missing)}")
    if values["kind"] not in KINDS:
        raise ListError(f"mutant {number}: kind '{values['kind']}', need {' or '.join(KINDS)}")
    if bool(values.get("killer")) == bool(values.get("survives")):
        raise ListError(f"mutant {number}: needs either a killer or the reason why it survives")
    return Mutant(number, **values)


def file_of_step(step: str, root: Path) -> Path:
    """The Python module whose name the step of tests/run has, from the root."""
    places = [path.relative_to(root) for path in root.glob(f"tests/*/{step}.py")]
    if len(places) != 1:
        raise ListError(f"{len(places)} files tests/*/{step}.py, need one")
    return places[0]


def require_killers(mutants: list[Mutant], root: Path, unit: list[str] | None) -> None:
    """Throws for the first killer that does not exist. Without the unit tests' names, Python killers alone."""
    for mutant in mutants:
        step, _, tests = mutant.killer.partition(":")
        if step == "unit_tests":
            missing = [one for one in tests.split(":") if unit is not None and not fnmatch.filter(unit, one)]
        elif step:
            text = (root / file_of_step(step, root)).read_text(encoding="utf-8")
            missing = [one for one in tests.split() if not all(re.search(rf"\b(class|def) {name}\b", text)
                                                               for name in one.split("."))]
        else:
            missing = []
        if missing:
            raise ListError(f"mutant {mutant.number}: killer {step}:{missing[0]} does not exist; a test that only one "
                            "machine has needs 'machine: NAME'")


def place_of(mutant: Mutant, text: str) -> tuple[int, int]:
    """Where in its file the mutant's old text stands."""
    pattern = r"\s+".join(re.escape(word) for word in mutant.old.split())
    if re.match(r"\w", mutant.old):
        pattern = r"\b" + pattern
    if re.search(r"\w\Z", mutant.old):
        pattern += r"\b"
    places = [match.span() for match in re.finditer(pattern, text)]
    if len(places) != 1:
        raise ListError(f"mutant {mutant.number}: '{folded(mutant.old)}' stands {len(places)} times in {mutant.file}, "
                        "need once")
    return places[0]


def line_of(mutant: Mutant, text: str) -> int:
    return text.count("\n", 0, place_of(mutant, text)[0]) + 1


def with_mutants(mutants: list[Mutant], text: str) -> str:
    """The file's text with all of its mutants in it; lines stay where they are."""
    places = sorted((*place_of(mutant, text), mutant) for mutant in mutants)
    for (_, end, first), (start, _, second) in zip(places, places[1:]):
        if start < end:
            raise ListError(f"mutants {first.number} and {second.number}: both change the same text")
    for start, end, mutant in reversed(places):
        changed = KINDS[mutant.kind].format(number=mutant.number, new=folded(mutant.new), old=text[start:end])
        text = text[:start] + changed + text[end:]
    return text


def mutated_files(mutants: list[Mutant], root: Path) -> dict[str, str]:
    """The text of each file that has mutants, with them in it."""
    by_file: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    return {file: with_mutants(of_file, (root / file).read_text(encoding="utf-8"))
            for file, of_file in sorted(by_file.items())}
