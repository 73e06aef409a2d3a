"""Compares two result files of the judge (--json) or hw4 bench (--output) by case: verdicts, times, the change."""
from __future__ import annotations

import json
import math
import statistics

from terminal import one_line
from verdict import PASSED

SAME_WITHIN = 0.05  # relative to the time: smaller changes are mostly noise
BENCH_SAME_WITHIN = 0.03  # relative to a median of many samples
LEAST_S, MOST_S = 1e-9, 1e9  # plausible times of a run
SAME = "about the same"


class NotResults(Exception):
    pass


def read_results(path: str) -> list[dict]:
    """The cases of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        cases = document["cases"] if "cases" in document else _of_bench(document)
        for case in cases:
            texts = [case[field] for field in ("program", "name", "contract", "verdict")]
            seconds = case["best_s"]
            if not all(isinstance(text, str) for text in texts) or not (
                    seconds is None or seconds == 0 or LEAST_S <= seconds <= MOST_S):
                raise TypeError
            "".join(texts).encode("utf-8", "surrogateescape")  # checks that the texts can be printed
    except OSError as error:
        raise NotResults(f"{path}: {error.strerror}") from error
    except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotResults(f"{path}: not a file that judge --json or hw4 bench --output has written") from error
    if not cases:
        raise NotResults(f"{path}: no cases")
    return cases


def _of_bench(document: dict) -> list[dict]:
    """A case for each pass of each cell, with the seconds of every sample."""
    found = []
    for row in document["results"] if "results" in document else [document]:
        cell = row["hw4"]["parameters"]
        heads, keys, warmup = cell["num_heads"], cell["seq_len"], cell["warmup"]
        kv_heads, queries = cell.get("kv_heads", heads), cell.get("queries", keys)  # older files lack these two
        words = [cell["impl"], cell["kernel"], cell["dtype"], f"B {cell['batch_size']}",
                 f"H {heads}" + (f"/{kv_heads}" if kv_heads != heads else ""),
                 "N " + (f"{queries}/" if queries != keys else "") + f"{keys}", f"d {cell['emb_dim'] // heads}",
                 "causal" if cell["causal"] else "", cell["kind"], cell["device"],
                 "" if warmup is None else f"warmup {warmup}", "cold" if cell["cold"] else ""]
        for name in ("forward", "backward", "forward_backward"):
            measured = row["hw4"][name]
            samples = measured.get("samples", [])
            if measured["status"] != "skipped":
                found.append({"program": "hw4 bench", "name": " ".join(filter(None, words)), "contract": name,
                              "verdict": PASSED if measured["status"] == "ok" else measured["status"],
                              "best_s": statistics.median(samples) if samples else None, "passes_s": samples})
    return found


def _seconds(case: dict | None) -> str:
    if case is None or case["best_s"] is None:
        return "-"
    return f"{case['best_s'] * 1e3:.4g} ms" if "passes_s" in case else f"{case['best_s']:.3f} s"


def _overlap(old: list[float], new: list[float]) -> bool:
    """Whether the samples overlap, each range taken from the 20th to the 80th percentile."""
    (old_low, *_, old_high), (new_low, *_, new_high) = (
        statistics.quantiles(samples * 2 if len(samples) == 1 else samples, n=5, method="inclusive")
        for samples in (old, new))
    return old_low <= new_high and new_low <= old_high


def _ratio(old: dict, new: dict) -> float | None:
    """The speed-up, 1 where the difference is noise; None where either has no valid time."""
    if not old["verdict"] == new["verdict"] == PASSED or not old["best_s"] or not new["best_s"]:
        return None
    ratio = old["best_s"] / new["best_s"]
    least = 1 - (BENCH_SAME_WITHIN if "passes_s" in old else SAME_WITHIN)
    noise = least <= ratio <= 1 / least or "passes_s" in old and _overlap(old["passes_s"], new["passes_s"])
    return 1 if noise else ratio


def _change(old: dict | None, new: dict | None) -> str:
    if old is None or new is None:
        return "only new" if old is None else "only old"
    if old["verdict"] != new["verdict"]:
        return "now passes" if new["verdict"] == PASSED else "no longer passes" if old["verdict"] == PASSED else ""
    ratio = _ratio(old, new)
    return "" if ratio is None else SAME if ratio == 1 else f"{ratio:.2f} times as fast"


def _mean_line(pairs: list[tuple[dict, dict]]) -> list[str]:
    ratios = [old["best_s"] / new["best_s"] for old, new in pairs
              if old["verdict"] == new["verdict"] == PASSED and old["best_s"] and new["best_s"]]
    if not ratios:
        return []
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return [f"{mean:.2f} times as fast in the geometric mean of {len(ratios)} cases that passed both times"]


def compare(old_path: str, new_path: str, changed_alone: bool = False) -> tuple[list[str], bool]:
    """Returns the lines, and whether no case that passed now fails, and no pass of hw4 bench is slower.

    changed_alone: omits the lines of unchanged cases."""
    files = [read_results(path) for path in (old_path, new_path)]
    several = any(len({case["program"] for case in cases}) > 1 for cases in files)
    old, new = ({(*([case["program"]] if several else []), case["name"], case["contract"]): case for case in cases}
                for cases in files)
    keys = list(dict.fromkeys([*old, *new]))
    rows = []
    for key in keys:
        before, after = old.get(key), new.get(key)
        each = [one_line(case["verdict"]) if case else "-" for case in (before, after)]
        change = _change(before, after)
        if not changed_alone or each[0] != each[1] or change not in ("", SAME):
            rows.append([*map(one_line, key), " -> ".join(each), _seconds(before), "->", _seconds(after), change])
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]
    both = [(old[key], new[key]) for key in keys if key in old and key in new]
    worse = sum(before["verdict"] == PASSED != after["verdict"] for before, after in both)
    better = sum(after["verdict"] == PASSED != before["verdict"] for before, after in both)
    slower = sum((_ratio(*pair) or 1) < 1 for pair in both if "passes_s" in pair[0])
    count = f", {slower} slower" if any("passes_s" in case for case in files[0]) else ""
    return [*lines, *_mean_line(both), f"{better} now pass, {worse} no longer pass{count}"], worse + slower == 0
