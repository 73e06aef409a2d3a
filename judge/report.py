"""What the judge says: a line a case, the summary, and the same as JSON and JUnit XML."""
from __future__ import annotations

import dataclasses
import json
import os
import re
import xml.etree.ElementTree as ElementTree

from case_table import Case
from session import Session
from terminal import one_line
from verdict import JUDGE_ERROR, PASSED, SKIPPED, Result

COURSE_CASES = 30
COURSE_POINTS = 60
POINTS_PER_CASE = 3
USING_THE_CPU = "using the CPU: "  # how hw4 begins when it was free to choose and found no GPU
VERDICT_WIDTH = len("NO-OUT")

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


def case_lines(result: Result, cases: list[Case], contract_width: int, color: bool) -> str:
    """One line, with columns wide enough for all the cases, and the explanation indented under it. The contract is
    named where its column has a width."""
    name_width = max(len(case.name) for case in cases)
    contract = f"{result.contract.name:{contract_width}}  " if contract_width else ""
    shape_width = max(len(case.shape) for case in cases)
    limit = "no limit" if result.limit_s is None else f"limit {result.limit_s:g} s"
    line = (f"{_colored_verdict(result.verdict, color)}  {result.case.name:{name_width}}  "
            f"{contract}{result.case.shape:{shape_width}}  {_time_text(result):>9}  {limit:8}  "
            f"{one_line(result.detail)}")
    return "\n".join([line, *("        " + one_line(text) for text in result.explanation)])


def list_lines(cases: list[Case]) -> str:
    width = max(20, *(len(case.shape) for case in cases))
    return "\n".join(one_line(f"{case.name}  {case.shape:{width}}  {case.kind:9}  limit {case.limit_s:g} s  "
                              f"{case.flops:.3g} FLOP") for case in cases)


def counts(results: list[Result]) -> tuple[int, int, int]:
    passed = sum(result.passed for result in results)
    not_run = sum(result.verdict == SKIPPED for result in results)
    return passed, len(results) - passed - not_run, not_run


def points(results: list[Result]) -> int | None:
    """By the course's rule; None unless all of its cases ran. A case passes under all contracts it was judged under."""
    of_course = [result for result in results if re.fullmatch("t[0-9]+", result.case.name)]
    names = {result.case.name for result in of_course}
    if len(names) != COURSE_CASES or any(not result.samples or result.verdict == JUDGE_ERROR for result in of_course):
        return None
    failed = {result.case.name for result in of_course if not result.passed}
    return max(0, COURSE_POINTS - POINTS_PER_CASE * len(failed))


def cpu_remarks(results: list[Result], separate: bool) -> list[str]:
    """Why hw4 took the CPU where it did: such times say nothing about a GPU. A process that has many cases says it once
    for all to come, so only separate ones can be counted."""
    cases_by_line: dict[str, set[str]] = {}
    for result in results:
        for sample in result.samples:
            if USING_THE_CPU in sample.last_error_line:
                cases_by_line.setdefault(sample.last_error_line, set()).add(result.case.name)
    cases = {result.case.name for result in results}
    return [line + (f" ({len(names)} of {len(cases)} cases)" if separate else "")
            for line, names in cases_by_line.items()]


def summary_lines(results: list[Result], session: Session | None) -> str:
    lines = cpu_remarks(results, session is None)
    if session:
        lines += [*session.troubles, "times are the cases' own, in one process, its start-up with the first (--separate: "
                                     "with each)"]
    timed = [result for result in results if result.samples]
    if timed:
        slowest = max(timed, key=lambda result: result.best_s)
        total_s = sum(result.best_s for result in timed)
        lines.append(f"total {total_s:.3f} s, slowest {slowest.case.name} with {slowest.best_s:.3f} s")
    earned = points(results)
    if earned is not None:
        lines.append(f"points: {earned} of {COURSE_POINTS}")
    passed, failed, not_run = counts(results)
    lines.append(f"{passed} passed, {failed} failed" + (f", {not_run} skipped" if not_run else ""))
    return "\n".join(lines)


def _case_document(result: Result) -> dict:
    case, expected = result.case, result.expectation
    return {"name": case.name, "operation": case.operation, "contract": result.contract.name,
            "revision": expected and expected.revision, "mask": case.mask, "B": case.batches, "N": case.tokens,
            "d": case.dim, "heads": case.heads, "kv_heads": case.kv_heads, "keys": case.keys, "kind": case.kind,
            "verdict": result.verdict, "rule": result.rule,
            "limit_s": result.limit_s, "best_s": result.best_s, "median_s": result.median_s,
            "crc32_out_expected": expected and expected.crc32, "detail": result.detail,
            "explanation": result.explanation, "samples": [dataclasses.asdict(sample) for sample in result.samples]}


def json_text(results: list[Result], argv: list[str], surroundings: dict) -> str:
    passed, failed, not_run = counts(results)
    summary = {"passed": passed, "failed": failed, "skipped": not_run, "points": points(results)}
    document = {"argv": argv, **surroundings, "summary": summary, "cases": list(map(_case_document, results))}
    return json.dumps(document, indent=2) + "\n"


def junit_text(results: list[Result]) -> str:
    _, failed, not_run = counts(results)
    errors = sum(result.verdict == JUDGE_ERROR for result in results)
    suite = ElementTree.Element("testsuite", name="hw4", tests=str(len(results)), failures=str(failed - errors),
                                errors=str(errors), skipped=str(not_run),
                                time=f"{sum(result.best_s or 0 for result in results):.6f}")
    for result in results:
        classname = "hw4" if result.contract.is_default else f"hw4.{result.contract.name}"
        element = ElementTree.SubElement(suite, "testcase", classname=classname, name=result.case.name,
                                         time=f"{result.best_s or 0:.6f}")
        if result.passed:
            continue
        tag = {SKIPPED: "skipped", JUDGE_ERROR: "error"}.get(result.verdict, "failure")
        outcome = ElementTree.SubElement(element, tag, message=one_line(f"{result.verdict}: {result.detail}"))
        outcome.text = "\n".join(map(one_line, result.explanation))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"
