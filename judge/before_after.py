"""Two result files of the judge (--json), case by case: verdicts, times, what became of them."""
from __future__ import annotations

import json
import math

from terminal import one_line
from verdict import PASSED

SAME_WITHIN = 0.05  # of the time: less is noise more often than not
LEAST_S, MOST_S = 1e-9, 1e9  # no run takes other times


class NotResults(Exception):
    pass


def read_results(path: str) -> list[dict]:
    """The cases."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        cases = document["cases"]
        for case in cases:
            texts = [case[field] for field in ("program", "name", "contract", "verdict")]
            seconds = case["best_s"]
            if not all(isinstance(text, str) for text in texts) or not (
                    seconds is None or seconds == 0 or LEAST_S <= seconds <= MOST_S):
                raise TypeError
            "".join(texts).encode("utf-8", "surrogateescape")  # so that they can be printed
    except OSError as error:
        raise NotResults(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotResults(f"{path}: not a file that judge --json has written") from error
    if not cases:
        raise NotResults(f"{path}: no cases")
    return cases


def _by_key(cases: list[dict], several: bool) -> dict[tuple[str, ...], dict]:
    """Cases by name and contract, and by program where there were several."""
    return {(*([case["program"]] if several else []), case["name"], case["contract"]): case for case in cases}


def _seconds(case: dict | None) -> str:
    return "-" if case is None or case["best_s"] is None else f"{case['best_s']:.3f} s"


def _change(old: dict | None, new: dict | None) -> str:
    if old is None or new is None:
        return "only new" if old is None else "only old"
    if old["verdict"] != new["verdict"]:
        return "now passes" if new["verdict"] == PASSED else "no longer passes" if old["verdict"] == PASSED else ""
    if not old["best_s"] or not new["best_s"] or new["verdict"] != PASSED:
        return ""
    ratio = old["best_s"] / new["best_s"]
    if 1 - SAME_WITHIN <= ratio <= 1 / (1 - SAME_WITHIN):
        return "about the same"
    return f"{ratio:.2f} times as fast"


def _mean_line(pairs: list[tuple[dict, dict]]) -> list[str]:
    ratios = [old["best_s"] / new["best_s"] for old, new in pairs
              if old["verdict"] == new["verdict"] == PASSED and old["best_s"] and new["best_s"]]
    if not ratios:
        return []
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return [f"{mean:.2f} times as fast in the geometric mean of {len(ratios)} cases that passed both times"]


def compare(old_path: str, new_path: str) -> tuple[list[str], bool]:
    """The lines, and whether no case that passed has ceased to."""
    files = [read_results(path) for path in (old_path, new_path)]
    several = any(len({case["program"] for case in cases}) > 1 for cases in files)
    old, new = (_by_key(cases, several) for cases in files)
    keys = list(dict.fromkeys([*old, *new]))
    rows = []
    for key in keys:
        before, after = old.get(key), new.get(key)
        verdicts = " -> ".join(one_line(case["verdict"]) if case else "-" for case in (before, after))
        rows.append([*map(one_line, key), verdicts, _seconds(before), "->", _seconds(after), _change(before, after)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]
    both = [(old[key], new[key]) for key in keys if key in old and key in new]
    worse = sum(before["verdict"] == PASSED != after["verdict"] for before, after in both)
    better = sum(after["verdict"] == PASSED != before["verdict"] for before, after in both)
    return [*lines, *_mean_line(both), f"{better} now pass, {worse} no longer pass"], worse == 0
