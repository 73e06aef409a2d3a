"""The judge's output: a line per case, a summary, and the same as JSON and, a line per program, CSV."""
from __future__ import annotations

import collections
import csv
import dataclasses
import io
import json
import math
import os

from case_table import Case
from listing import Contract
from session import Session
from terminal import one_line
from verdict import JUDGE_ERROR, NOT_BUILT, PASSED, SKIPPED, Result, Settings

COURSE_CASES = {f"t{number:02}" for number in range(1, 31)}
COURSE_POINTS = 60
POINTS_PER_CASE = 3
USING_THE_CPU = "using the CPU: "  # hw4's first words when it chose the CPU for lack of a GPU
VERDICT_WIDTH = len("NO-OUT")
FORMULA_STARTS = tuple("=+-@\t\r")  # a spreadsheet would evaluate such a cell

GREEN, RED, YELLOW, PLAIN = "\033[32m", "\033[31m", "\033[33m", "\033[0m"


def wants_color(choice: str, stream) -> bool:
    if choice == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def _colored_verdict(verdict: str, color: bool) -> str:
    padded = verdict.ljust(VERDICT_WIDTH)
    if not color:
        return padded
    paint = {PASSED: GREEN, SKIPPED: YELLOW, JUDGE_ERROR: YELLOW}.get(verdict, RED)
    return paint + padded + PLAIN


def _time_text(result: Result) -> str:
    if not result.samples:
        return "-"
    if len(result.samples) == 1:
        return f"{result.best_s:.3f} s"
    return f"best {result.best_s:.3f} s, median {result.median_s:.3f} s of {len(result.samples)}"


class Columns:
    """The columns of the lines about cases, wide enough for all. Program and contract are shown where there are several
    programs, or where a contract was asked for."""

    def __init__(self, cases: list[Case], judged: list[Settings]):
        programs = {one_line(settings.program) for settings in judged}
        self.name = max(len(case.name) for case in cases)
        self.shape = max(len(case.shape) for case in cases)
        self.program = max(map(len, programs)) if len(programs) > 1 else 0
        self.contract = max(len(settings.contract.name) if settings.is_told else 0 for settings in judged)

    def text(self, result: Result) -> str:
        cells = [(result.case.name, self.name), (one_line(result.program), self.program),
                 (result.contract.name, self.contract), (result.case.shape, self.shape)]
        return "  ".join(f"{text:{width}}" for text, width in cells if width)


def case_lines(result: Result, columns: Columns, color: bool) -> str:
    """One line, with the explanation indented under it."""
    limit = "no limit" if result.limit_s is None else f"limit {result.limit_s:g} s"
    line = (f"{_colored_verdict(result.verdict, color)}  {columns.text(result)}  {_time_text(result):>9}  {limit:8}  "
            f"{one_line(result.detail)}")
    return "\n".join([line, *("        " + one_line(text) for text in result.explanation)])


def list_lines(cases: list[Case]) -> str:
    width = max(20, *(len(case.shape) for case in cases))
    return "\n".join(one_line(f"{case.name}  {case.shape:{width}}  {case.kind:9}  "
                              f"{'no limit' if case.limit_s == math.inf else f'limit {case.limit_s:g} s'}  "
                              f"{case.flops:.3g} FLOP") for case in cases)


def counts(results: list[Result]) -> tuple[int, int, int]:
    passed = sum(result.passed for result in results)
    not_run = sum(result.verdict == SKIPPED for result in results)
    return passed, len(results) - passed - not_run, not_run


@dataclasses.dataclass(frozen=True)
class Points:
    """Points by the course's rule. A case passes where it passes under all of its contracts."""
    judged: int  # number of the course's cases
    failed: int

    @classmethod
    def of(cls, results: list[Result]) -> Points:
        of_course = [result for result in results if result.case.name in COURSE_CASES and result.was_judged]
        return cls(len({result.case.name for result in of_course}),
                   len({result.case.name for result in of_course if not result.passed}))

    @property
    def _left(self) -> int:
        return max(0, COURSE_POINTS - POINTS_PER_CASE * self.failed)

    @property
    def earned(self) -> int | None:
        """None where not all cases of the course were judged."""
        return self._left if self.judged == len(COURSE_CASES) else None

    def __str__(self) -> str:
        rest = len(COURSE_CASES) - self.judged
        return f"{self._left} of {COURSE_POINTS}" + (f" if the {rest} cases that were not judged pass" if rest else "")


def total_s(results: list[Result]) -> float:
    return sum(result.best_s for result in results if result.samples)


def by_program(results: list[Result]) -> dict[str, list[Result]]:
    """The results by program, in the order of the command line."""
    programs: dict[str, list[Result]] = {}
    for result in results:
        programs.setdefault(result.program, []).append(result)
    return programs


def _program_row(program: str, results: list[Result]) -> dict:
    passed, failed, not_run = counts(results)
    earned = Points.of(results)
    worst = {result.case.name: result.verdict for result in results if not result.passed}
    return {"program": program, "points": earned.earned, "course_cases": earned.judged, "passed": passed,
            "failed": failed, "skipped": not_run, "total_s": total_s(results), "not_passed": worst}


def _is_unbuilt(results: list[Result]) -> bool:
    return all(result.verdict == NOT_BUILT for result in results)


def _not_passed_text(results: list[Result], not_passed: dict[str, str]) -> str:
    if _is_unbuilt(results):
        return results[0].detail
    return " ".join(f"{name}:{verdict}" for name, verdict in not_passed.items())


def _case_columns(case: Case, contract: Contract) -> list[str]:
    name = case.name + ("" if contract.is_default else "." + contract.name)
    return [name, f"{name}_s", f"{name}_error"]


def column_named_twice(cases: list[Case], contracts: list[Contract]) -> str | None:
    """A case can have the name of another CSV column."""
    columns = [*_program_row("", []), *(column for case in cases for contract in contracts
                                        for column in _case_columns(case, contract))]
    return next((column for column, times in collections.Counter(columns).items() if times > 1), None)


def _case_cells(result: Result) -> dict[str, str]:
    return dict(zip(_case_columns(result.case, result.contract), (
        result.verdict, "" if result.best_s is None else f"{result.best_s:.3f}",
        "" if result.largest_error is None else f"{result.largest_error:.3g}")))


def _cell(value):
    """Marks text so that a spreadsheet takes it for text."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return "'" + text if text.startswith(FORMULA_STARTS) else text


def csv_text(results: list[Result]) -> str:
    """A row for each program, with three columns for each case: verdict, seconds, largest error."""
    text = io.StringIO()
    rows = []
    for program, of_program in by_program(results).items():
        row = _program_row(program, of_program)
        row.update(total_s=f"{row['total_s']:.3f}", not_passed=_not_passed_text(of_program, row["not_passed"]))
        for result in of_program:
            row.update(_case_cells(result))
        rows.append({name: _cell(value) for name, value in row.items()})
    table = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def progress_line(case: Case, results: list[Result]) -> str:
    """How many programs have passed the case, where many are judged."""
    of_case = [result for result in results if result.case is case]
    return f"{case.name}  {case.shape}  {counts(of_case)[0]} of {len(of_case)} passed"


def failures_by_program(results: list[Result], columns: Columns, color: bool) -> str:
    """The failures, program by program."""
    lines = []
    for program, of_program in by_program(results).items():
        failed = [result for result in of_program if not result.passed]
        if failed:
            lines += ["", one_line(program)]
            lines += ([one_line(failed[0].detail)] if _is_unbuilt(failed) else
                      [case_lines(result, columns, color) for result in failed])
    return "\n".join([*lines, ""])


def cpu_remarks(results: list[Result], separate: bool) -> list[str]:
    """Why hw4 used the CPU, if it did: such times say nothing about a GPU. A process with many cases reports it once
    for all later ones, so only separate processes can be counted."""
    cases_by_line: dict[str, set[str]] = {}
    for result in results:
        for sample in result.samples:
            if USING_THE_CPU in sample.last_error_line:
                cases_by_line.setdefault(sample.last_error_line, set()).add(result.case.name)
    cases = {result.case.name for result in results}
    return [line + (f" ({len(names)} of {len(cases)} cases)" if separate else "")
            for line, names in cases_by_line.items()]


def summary_lines(results: list[Result], session: Session | None, default_rule: str | None) -> str:
    lines = cpu_remarks(results, session is None)
    if default_rule:
        lines.append(f"{default_rule} decides about programs from elsewhere (--bytes: the bytes)")
    if session:
        lines += [*session.troubles, "one process runs all cases: only the first time includes its start-up (--separate: "
                                     "every time)"]
    programs = by_program(results)
    timed = [result for result in results if result.samples]
    if timed and len(programs) == 1:
        slowest = max(timed, key=lambda result: result.best_s)
        lines.append(f"total {total_s(timed):.3f} s, slowest {slowest.case.name} with {slowest.best_s:.3f} s")
    width = max(len(one_line(program)) for program in programs)
    for program, of_program in programs.items():
        earned = Points.of(of_program)
        named = f"{one_line(program):{width}}  " if len(programs) > 1 else ""
        passed = f"  {counts(of_program)[0]} of {len(of_program)} passed, {total_s(of_program):.3f} s" if named else ""
        if _is_unbuilt(of_program) and earned.earned is None:
            lines.append(f"{named}did not build")
        elif earned.judged:
            lines.append(f"{named}points: {earned}{passed}")
        elif named:
            lines.append(named + passed.strip())
    passed, failed, not_run = counts(results)
    lines.append(f"{passed} passed, {failed} failed" + (f", {not_run} skipped" if not_run else ""))
    return "\n".join(lines)


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is None or math.isfinite(value) else None


def _case_document(result: Result) -> dict:
    case, expected, bound = result.case, result.expectation, result.bound
    return {"name": case.name, "program": result.program, "operation": case.operation, "contract": result.contract.name,
            "revision": (expected or bound) and (expected or bound).revision, "mask": case.mask, "B": case.batches, "N": case.tokens,
            "d": case.dim, "heads": case.heads, "kv_heads": case.kv_heads, "keys": case.keys, "element": case.element,
            "kind": case.kind,
            "verdict": result.verdict, "rule": result.rule,
            "limit_s": result.limit_s, "best_s": result.best_s, "median_s": result.median_s,
            "crc32_out_expected": expected and expected.crc32, "bound": bound and bound.for_json, "detail": result.detail,
            "explanation": result.explanation, "largest_error": _finite(result.largest_error),
            "samples": [{**dataclasses.asdict(sample), "largest_error": _finite(sample.largest_error)}
                        for sample in result.samples]}


def json_text(results: list[Result], argv: list[str], surroundings: dict, complete: bool) -> str:
    passed, failed, not_run = counts(results)
    programs = [_program_row(*item) for item in by_program(results).items()]
    points = programs[0]["points"] if len(programs) == 1 else None
    summary = {"passed": passed, "failed": failed, "skipped": not_run, "points": points}
    document = {"argv": argv, **surroundings, "complete": complete, "summary": summary, "programs": programs,
                "cases": list(map(_case_document, results))}
    return json.dumps(document, indent=2) + "\n"
