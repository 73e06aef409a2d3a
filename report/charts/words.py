"""What captions share."""
from __future__ import annotations

from builder.template import significant

FLOP = "4·B·N²·d FLOP"
BACKWARD_FLOP = "10·B·N²·d FLOP"


# Who measures what, by their names in rounds and sweeps; hw4's own have the names of their contracts.
PEOPLE = {"pytorch": "PyTorch naive", "flash2": "FlashAttention-2", "cudnn": "cuDNN", "efficient": "PyTorch efficient",
          "naive": "naive"}
TYPES = {"tf32": "TF32"}  # others as they are


def in_words(who):
    """'flash2 bf16' as 'FlashAttention-2, bf16'; 'f32' as it is, 'naive' in float32."""
    impl, _, dtype = who.partition(" ")
    if impl not in PEOPLE:
        return f"hw4, {who}"
    return f"{PEOPLE[impl]}, {TYPES.get(dtype, dtype) or 'float32'}"


def short_name(who):
    """Where the type is said elsewhere: 'FlashAttention-2', 'f32'."""
    impl = who.partition(" ")[0]
    return PEOPLE.get(impl, who)


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
