"""One case on many cards, on paper: what it would take from the parts that were measured on one.

The case has N = 1 M tokens. Its query rows are divided evenly; a card reads its rows of Q and all rows of the K and V
that they see, computes and writes its rows of O. The assumptions, in words for the report, are ASSUMPTIONS; the bytes are
those of one card by contract, so nothing is sent from card to card but the word that all is done.
"""
from __future__ import annotations

import dataclasses

TOKENS = 1 << 20
DIM = 64
HEADS = (1, 16)
CARDS = (1, 2, 4, 8, 16, 32, 64)
CONTRACTS = ("f32", "fixed")
FLOAT_BYTES = 4
ASSUMPTIONS = ("a rank starts, reads, computes and writes one after the other, nothing hidden; a kernel runs at the "
               "rate of the longest rows measured, on however few of them; all rows take equally long; starting ranks and "
               "agreeing at the end takes no time beyond the start of one")


@dataclasses.dataclass(frozen=True)
class Parts:
    """What was measured on one card."""
    start: float  # seconds until a card computes
    read: float  # bytes a second
    write: float
    rate: dict[str, float]  # FLOP a second, by contract
    case: str  # whose run the first three are of
    tokens: dict[str, int]  # of the shape whose rate it is


@dataclasses.dataclass(frozen=True)
class Run:
    """Seconds."""
    start: float
    read: float
    kernel: float
    write: float

    @property
    def total(self) -> float:
        return self.start + self.read + self.kernel + self.write


def parts_of(data) -> Parts:
    """From the run with the largest input, and from the longest rows of d = 64."""
    record = max(data.file_cases, key=lambda case: case["stages"]["read_bytes"])
    stages = record["stages"]
    longest = max((shape for shape in data.length_shapes if shape.dim == DIM), key=lambda shape: shape.tokens)
    fixed_tokens, fixed_rate = max(data.fixed_over_length[DIM].items())
    return Parts(stages["driver_seconds"] + stages["context_seconds"] + stages["load_seconds"],
                 stages["read_bytes"] / stages["read_seconds"], stages["write_bytes"] / stages["write_seconds"],
                 {"f32": longest.tflops(longest.hw4).mid * 1e12, "fixed": fixed_rate.mid * 1e12}, record["name"],
                 {"f32": longest.tokens, "fixed": fixed_tokens})


def bytes_of_operand(heads):
    """Q, K, V or O."""
    return heads * TOKENS * DIM * FLOAT_BYTES


def bytes_read(heads, cards):
    """A card reads its part of Q, and its heads of K and V, at least one."""
    return bytes_of_operand(heads) / cards + 2 * bytes_of_operand(heads) * max(1 / cards, 1 / heads)


def run_of(parts, contract, heads, cards, one_disk) -> Run:
    """`one_disk`: all cards together read and write at the rate of one; else each at its own."""
    sharing = cards if one_disk else 1
    flop = 4 * heads * TOKENS * TOKENS * DIM
    return Run(parts.start, sharing * bytes_read(heads, cards) / parts.read, flop / cards / parts.rate[contract],
               sharing * bytes_of_operand(heads) / cards / parts.write)


def speed_up(parts, contract, heads, cards, one_disk) -> float:
    alone, together = (run_of(parts, contract, heads, number, one_disk).total for number in (1, cards))
    return alone / together
