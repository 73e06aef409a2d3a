"""What report/bench_files makes of its measurements: bars, whether they are met, and the table."""
from __future__ import annotations

import dataclasses

SMALL_CASES = tuple(f"t{number:02}" for number in range(1, 11))
COURSE_CASES = tuple(f"t{number:02}" for number in range(1, 31))
VARIANTS = {"1 stream": ["--streams", "1"], "linear copies": ["--copies", "linear"]}
VARIANT_CASES = ("t12", "t22", "t28")
MEMORY_CASE = "t22"
MEMORY_BAR_BYTES = 128_000_000
TOTAL_BAR = 0.6


@dataclasses.dataclass(frozen=True)
class Bar:
    """hw4's time is to be at most so many times that of the reference."""
    reference: str  # "context" or "plain"
    factor: float

    def text(self) -> str:
        return f"<= {self.factor:.2f} x {self.reference}"


BARS = {
    **dict.fromkeys(SMALL_CASES, Bar("context", 1.10)),
    **dict.fromkeys(("t28", "t30"), Bar("context", 1.25)),
    **dict.fromkeys(("t12", "t22"), Bar("plain", 0.50)),
}


def best(seconds: list[float]) -> float | None:
    return min(seconds, default=None)


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def evaluate(name: str, seconds: dict[str, list[float]]) -> dict:
    """The record of a case; `seconds` has every run of each program."""
    bar = BARS.get(name)
    record = {"name": name, "seconds": seconds,
              "best_seconds": {program: best(runs) for program, runs in seconds.items()},
              "bar": bar.text() if bar else None, "ratio": None, "met": None}
    times = record["best_seconds"]
    record["of_context"] = _quotient(times.get("hw4"), times.get("context"))
    record["of_plain"] = _quotient(times.get("hw4"), times.get("plain"))
    if bar:
        record["ratio"] = record[f"of_{bar.reference}"]
        record["met"] = None if record["ratio"] is None else record["ratio"] <= bar.factor
    return record


def evaluate_total(records: list[dict]) -> dict:
    """All course's cases one after another; judged only where all were measured."""
    chosen = [record for record in records if record["name"] in COURSE_CASES]
    complete = {record["name"] for record in chosen} == set(COURSE_CASES)
    total = {program: sum(record["best_seconds"].get(program) or 0 for record in chosen)
             for program in ("context", "plain", "hw4")}
    ratio = _quotient(total["hw4"], total["plain"])
    return {"cases": len(chosen), "best_seconds": total, "ratio": ratio, "bar": f"<= {TOTAL_BAR:.2f} x plain",
            "met": ratio <= TOTAL_BAR if complete and ratio is not None else None}


def evaluate_memory(hw4_bytes: int, context_bytes: int) -> dict:
    beyond = hw4_bytes - context_bytes
    return {"case": MEMORY_CASE, "hw4_bytes": hw4_bytes, "context_bytes": context_bytes, "beyond_bytes": beyond,
            "bar": f"<= {MEMORY_BAR_BYTES / 1e6:.0f} MB beyond the context's", "met": beyond <= MEMORY_BAR_BYTES}


def not_met(records: list[dict], total: dict, memory: dict | None) -> list[str]:
    """The bars that are missed, or could not be judged."""
    missed = [record["name"] for record in records if record["bar"] and record["met"] is not True]
    missed += ["total"] if total["met"] is not True else []
    return missed + (["memory"] if memory is None or not memory["met"] else [])


COLUMNS = (("case", "<5"), ("context ms", ">11"), ("plain ms", ">9"), ("hw4 ms", ">8"), ("of context", ">11"),
           ("of plain", ">9"), ("bar", "<18"), ("", "<6"))


def _row(values: list[str]) -> str:
    return " ".join(format(value, form) for value, (_, form) in zip(values, COLUMNS)).rstrip()


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _verdict(record: dict) -> str:
    return {True: "met", False: "MISSED", None: "" if not record["bar"] else "not judged"}[record["met"]]


def table(records: list[dict], total: dict | None = None) -> str:
    lines = [_row([title for title, _ in COLUMNS])]
    for record in records:
        times = record["best_seconds"]
        lines.append(_row([record["name"], *(_milliseconds(times.get(p)) for p in ("context", "plain", "hw4")),
                           _ratio(record["of_context"]), _ratio(record["of_plain"]), record["bar"] or "",
                           _verdict(record)]))
    if total:
        times = total["best_seconds"]
        lines.append(_row(["total", *(_milliseconds(times[p]) for p in ("context", "plain", "hw4")), "",
                           _ratio(total["ratio"]), total["bar"], _verdict(total)]))
    return "\n".join(lines)


def variant_lines(records: list[dict]) -> list[str]:
    lines = []
    for record in records:
        times = record["best_seconds"]
        parts = [f"{name} {_milliseconds(times[name])}" for name in VARIANTS if name in times]
        if parts:
            lines.append(f"{record['name']}: 4 streams, 2-D copies {_milliseconds(times.get('hw4'))} ms; "
                         + ", ".join(parts))
    return lines
