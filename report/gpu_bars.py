"""What report/bench_gpu makes of its measurements: shapes, bars, whether they are met, and the table."""
from __future__ import annotations

import dataclasses
import re
import statistics

from case_table import Case, TableError, select

SMALL_CASES = tuple(f"t{number:02}" for number in range(1, 11))
LONG_HEADS = "4,16384,128"  # no test case has d = 128
SHORT_HEADS = "512,1024,64"  # nor 16 batches of 32 heads
NAIVE = "naive"  # PyTorch with the scores in memory: shown, but nobody's measure


@dataclasses.dataclass(frozen=True)
class Problem:
    name: str  # of the test case, else its shape
    shape: tuple[int, int, int]  # heads count as batches
    heads: int = 1  # of a batch

    @property
    def text(self) -> str:
        return ",".join(map(str, self.shape))

    @property
    def flop(self) -> int:
        batches, tokens, dim = self.shape
        return 4 * batches * tokens * tokens * dim


@dataclasses.dataclass(frozen=True)
class Bar:
    """What is asked of a shape on an H200. None, False: not asked."""
    tflops: float | None = None
    sgemm_share: float | None = None
    torch_time: bool = False  # no slower than PyTorch
    f32_time: bool = False  # no slower than the kernel that hw4 takes under f32

    def text(self) -> str:
        parts = [f">= {self.tflops:g} TFLOP/s" if self.tflops is not None else "",
                 f">= {self.sgemm_share:g} SGEMM" if self.sgemm_share is not None else "",
                 "<= PyTorch's time" if self.torch_time else "", "<= f32's time" if self.f32_time else ""]
        return ", ".join(part for part in parts if part)

    def met(self, result: dict) -> bool | None:
        """None where something that it needs was not measured."""
        answers = []
        if self.tflops is not None:
            answers.append(_at_least(result["tflops"], self.tflops))
        if self.sgemm_share is not None:
            answers.append(_at_least(result["of_sgemm"], self.sgemm_share))
        if self.torch_time:
            answers.append(_at_least(result["speed_up"], 1.0))
        if self.f32_time:
            answers.append(_at_least(result["over_f32"], 1.0))
        if False in answers:
            return False
        return None if None in answers else True


BARS = {
    **dict.fromkeys(("t22", "t24", "t28", "t30"), Bar(tflops=47, sgemm_share=0.92)),
    **dict.fromkeys(("t21", "t27", "t29"), Bar(tflops=42)),
    LONG_HEADS: Bar(tflops=46),
    **dict.fromkeys(("t11", "t13"), Bar(tflops=34)),
    **dict.fromkeys(SMALL_CASES, Bar(torch_time=True)),
}
FIXED_BARS = {
    **dict.fromkeys(("t28", "t30"), Bar(tflops=180)),
    **dict.fromkeys(("t22", "t24"), Bar(tflops=165)),
    "t29": Bar(tflops=110),
    LONG_HEADS: Bar(tflops=190),
    **dict.fromkeys(("t11", "t12"), Bar(f32_time=True)),
}
FIXED16_BARS = {
    "t28": Bar(tflops=370),
    "t30": Bar(tflops=380),
    "t22": Bar(tflops=320),
    SHORT_HEADS: Bar(tflops=255),
    "t29": Bar(tflops=245),
    LONG_HEADS: Bar(tflops=435),
}


@dataclasses.dataclass(frozen=True)
class Contract:
    """Of hw4's arithmetic, and what is measured of it."""
    name: str
    bars: dict[str, Bar] = dataclasses.field(hash=False)
    shapes: tuple[str, ...]
    ladder: tuple[str, ...]  # the shapes on which every kernel is measured

    @property
    def options(self) -> tuple[str, ...]:
        """Of time_kernels."""
        return "--contract", self.name

    @property
    def field(self) -> str:
        """Its times in a record that has those of others beside them."""
        return "hw4" if self.name == "f32" else f"hw4_{self.name}"


F32 = Contract("f32", BARS, ("t*", LONG_HEADS), ("t28", "t29"))
FIXED = Contract("fixed", FIXED_BARS, tuple(FIXED_BARS), tuple(FIXED_BARS))
FIXED16 = Contract("fixed16", FIXED16_BARS, tuple(FIXED16_BARS), tuple(FIXED16_BARS))
MEASURED = (F32, FIXED, FIXED16)
AS_ACCURATE_AS_FLOAT32 = (F32, FIXED)


def _at_least(value: float | None, bar: float) -> bool | None:
    return None if value is None else value >= bar


def problem_with_heads(word: str) -> Problem:
    """That of B,H,N,d."""
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*){3}", word):
        raise TableError(f"shape '{word}': need B,H,N,d from 1")
    batches, heads, tokens, dim = map(int, word.split(","))
    return Problem(word, (batches * heads, tokens, dim), heads)


def problems_of(words: list[str], cases: list[Case]) -> list[Problem]:
    """The shapes that names, globs and B,N,d mean, each once, in the order given."""
    named = {(case.batches, case.tokens, case.dim): case.name for case in reversed(cases)}
    shapes = []
    for word in (part for argument in words for part in argument.split()):
        if re.fullmatch(r"\d+,\d+,\d+", word):
            shapes.append(tuple(map(int, word.split(","))))
            if 0 in shapes[-1]:
                raise TableError(f"shape '{word}': need B,N,d from 1")
        else:
            shapes += [(case.batches, case.tokens, case.dim)
                       for name in word.split(",") for case in select(cases, [name])]
    return [Problem(named.get(shape, ",".join(map(str, shape))), shape) for shape in dict.fromkeys(shapes)]


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def _fastest(backends: dict) -> str | None:
    measured = {name: timing["median_seconds"] for name, timing in backends.items()
                if timing["seconds"] and name != NAIVE}
    return min(measured, key=measured.get) if measured else None


def _median(line: dict) -> float | None:
    return statistics.median(line["seconds"]) if line.get("seconds") else None


def evaluate(problem: Problem, hw4: dict, torch: dict, sgemm_tflops: float | None, contract: Contract = F32,
             f32: dict | None = None) -> dict:
    """The record of a shape. hw4 is a line of time_kernels, or {"why": ...} where there is none; torch has a timing
    for each of PyTorch's backends. Of a shape under another contract, f32 is the line under that one."""
    seconds = _median(hw4)
    torch_best = _fastest(torch)
    torch_seconds = torch[torch_best]["median_seconds"] if torch_best else None
    tflops = _quotient(problem.flop * 1e-12, seconds)
    result = {"name": problem.name, "batches": problem.shape[0], "tokens": problem.shape[1], "dim": problem.shape[2],
              "flop": problem.flop, "hw4": hw4, "torch": torch, "median_seconds": seconds, "tflops": tflops,
              "torch_best": torch_best, "torch_seconds": torch_seconds,
              "torch_tflops": _quotient(problem.flop * 1e-12, torch_seconds),
              "speed_up": _quotient(torch_seconds, seconds), "of_sgemm": _quotient(tflops, sgemm_tflops)}
    if f32 is not None:
        f32_seconds = _median(f32)
        result |= {"f32": f32, "f32_seconds": f32_seconds, "f32_tflops": _quotient(problem.flop * 1e-12, f32_seconds),
                   "over_f32": _quotient(f32_seconds, seconds)}
    bar = contract.bars.get(problem.name)
    result["bar"] = bar.text() if bar else None
    result["met"] = bar.met(result) if bar else None
    return result


def not_met(results: list[dict]) -> list[str]:
    """The shapes whose bar is missed, or could not be judged."""
    return [result["name"] for result in results if result["bar"] and result["met"] is not True]


COLUMNS = (("case", "<5"), ("B,N,d", "<13"), ("kernel", "<16"), ("ms", ">9"), ("TFLOP/s", ">8"), ("PyTorch ms", ">11"),
           ("TFLOP/s", ">8"), ("speed-up", ">9"), ("of SGEMM", ">9"), ("bar", "<31"), ("", "<8"))
OVER_F32 = ("over f32", ">9")  # before the bar, under the other contracts


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else format(value * scale, form)


def _columns(result: dict) -> tuple[tuple[str, str], ...]:
    return (*COLUMNS[:-2], OVER_F32, *COLUMNS[-2:]) if "f32" in result else COLUMNS


def _line(columns: tuple[tuple[str, str], ...], fields: list[str]) -> str:
    return " ".join(f"{field:{width}}" for field, (_, width) in zip(fields, columns)).rstrip()


def _row(result: dict) -> str:
    shape = f"{result['batches']},{result['tokens']},{result['dim']}"
    name = "" if result["name"] == shape else result["name"]
    verdict = {True: "met", False: "MISSED", None: "?"}[result["met"]] if result["bar"] else ""
    over_f32 = [_number(result["over_f32"], ".3f")] if "f32" in result else []
    fields = [name, shape, result["hw4"].get("kernel", "-"), _number(result["median_seconds"], ".4f", 1e3),
              _number(result["tflops"], ".2f"), _number(result["torch_seconds"], ".4f", 1e3),
              _number(result["torch_tflops"], ".2f"), _number(result["speed_up"], ".3f"),
              _number(result["of_sgemm"], ".3f"), *over_f32, result["bar"] or "", verdict]
    return _line(_columns(result), fields)


def table(results: list[dict]) -> str:
    """All of one contract."""
    columns = _columns(results[0]) if results else COLUMNS
    return "\n".join([_line(columns, [name for name, _ in columns]), *map(_row, results)])


def summary(results: list[dict]) -> str:
    barred = [result for result in results if result["bar"]]
    counts = [sum(result["met"] is answer for result in barred) for answer in (True, False, None)]
    return "{} bars met, {} missed, {} not judged".format(*counts)


def ladder_table(lines: list[dict], names: dict[tuple[int, int, int], str]) -> str:
    """Every kernel on some shapes, in the order of the table of kernels."""
    rows = [f"{'case':12} {'kernel':16} {'ms':>10} {'TFLOP/s':>8} {'samples':>8}"]
    for line in lines:
        seconds = statistics.median(line["seconds"])
        name = names.get((line["batches"], line["tokens"], line["dim"]), "")
        rows.append(f"{name:12} {line['kernel']:16} {seconds * 1e3:10.4f} {line['flop'] / seconds * 1e-12:8.2f} "
                    f"{len(line['seconds']):8}{'  chosen' if line['chosen'] else ''}")
    return "\n".join(rows)
