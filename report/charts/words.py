"""What captions share."""
from __future__ import annotations

from builder.template import significant

FLOP = "4·B·N²·d FLOP"
BACKWARD_FLOP = "10·B·N²·d FLOP"


def gpu(data):
    return data.kernels["gpu"]["at_start"][0]["name"]


def processor(document):
    machine = document["machine"]
    return f"{machine['processor']}, {machine['processors']} processors"


def shape(case):
    return f"B = {case.batches}, N = {case.tokens}, d = {case.dim}"


def short(tokens):
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def counts(spreads):
    """'20', '3 to 20'."""
    numbers = sorted({spread.count for spread in spreads})
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def median_of(spreads):
    return f"median of {counts(spreads)} samples, whiskers from p20 to p80"


def milliseconds(seconds, digits=3):
    return significant(seconds * 1e3, digits)


def scientific(value):
    """3.1·10⁻⁴"""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
