"""A training step: hw4's alone, as `hw4 bench step` measures it, and beside PyTorch's (`python -m hw4.step`)."""
from __future__ import annotations

from statistics import mean, stdev

from .schema import PHASES
from .words import NOT_KNOWN, known, markdown, significant


def warm(data, **wanted) -> list[dict]:
    """The rows of one rank after warm-ups that have times."""
    wanted |= {"ranks": 1, "warmup": 5, "status": "ok"}
    return [row for row in data["training"]["rows"] if all(row[name] == value for name, value in wanted.items())]


def times(seconds, deviation):
    """Mean and standard deviation in ms."""
    return NOT_KNOWN if seconds is None else f"{significant(1e3 * seconds)} ± {significant(1e3 * deviation, 2)}"


def steps(data):
    sizes = "in_use_in_forward_bytes", "in_use_in_step_bytes", "peak_bytes"
    lines = [(row["model"], f"`{row['contract']}`", f"{row['batch_size']}, {row['seq_len']}", row["attention"],
              f"{row['warmup']}", f"{row['ranks']}{', sharded' if row['shard'] else ''}",
              *(times(row[name]["mean"], row[name]["std"]) for name in PHASES), known(row.get("of_peak"), ".0f", 100),
              *(known(row.get(size), ".0f", 2.0 ** -20) for size in sizes)) for row in data["training"]["rows"]]
    return markdown(("model", "contract", "B, N", "attention", "warm-ups", "ranks", *(f"{name}, ms" for name in PHASES),
                     "of peak, %", "forward alone, MiB", "step, MiB", "hw4, MiB"), lines, "llrlrl" + "r" * 8)


def step_operations(data):
    """Shares of the time of forward and backward, in percent."""
    found = [(phase, row, row[phase]["operations"]) for phase in PHASES[:2]
             for row in warm(data, seq_len=512, attention="ours")]
    names = list(dict.fromkeys(name for *_, operations in found for name in operations))
    seconds = [[of.get(name, {"seconds": 0})["seconds"] for name in names] for *_, of in found]
    lines = [(phase, row["model"], f"`{row['contract']}`", *(f"{100 * one / sum(of):.1f}" for one in of))
             for (phase, row, _), of in zip(found, seconds)]
    return markdown(("pass", "model", "contract", *names), lines, "lll" + "r" * len(names))


def step_beside(data):
    """hw4's steps are those before and after PyTorch's."""
    lines = []
    for row in data["training_beside"]["rows"]:
        both = [(sum((run[name] for run in row["hw4_milliseconds"]), []), row["milliseconds"][name]) for name in PHASES]
        cells = [" / ".join(times(1e-3 * mean(some), 1e-3 * stdev(some)) for some in pair) for pair in both]
        lines.append((row["model"], row["precision"], row["program"], *cells, f"{row['ratio']:.2f}"))
    return markdown(("model", "precision", "PyTorch", *(f"{name}, ms" for name in PHASES), "ratio"), lines, "lllrrrrr")


TABLES = {function.__name__: function for function in (steps, step_operations, step_beside)}
