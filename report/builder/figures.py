"""Which figures there are, and their SVG text: the same wherever the pinned matplotlib draws them, but for the places
of texts, which follow the machine's fonts."""
from __future__ import annotations

import importlib
import io
import re
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

from .needs import are_there

REPORT = Path(__file__).resolve().parent.parent

# In the order of the report; each the name of a module in report/charts.
NAMES = ("ladder", "blocking", "tile_life", "data_flow", "pipeline", "breakdown", "streams_and_copies", "steps",
         "bank_conflicts", "stalls", "roofline", "metrics_over_cases", "tilings", "cases", "tflops_over_length",
         "speedup_over_seq", "error_over_length", "cpu", "values", "prefixes", "causal", "backward",
         "backward_errors", "digits", "fixed_ladder", "speed_against_error", "half_ladder", "half_lengths",
         "half_gradients", "half_error", "lab5_length", "lab5_passes", "lab5_sizes", "lab5_memory", "cs336_attention",
         "cs336_memory", "warmups", "scaling")


def module_of(name):
    return importlib.import_module(f"charts.{name}")


def names(data):
    """Of the figures whose data are there."""
    return [name for name in NAMES if are_there(module_of(name), data)]


def pinned_version():
    return re.search(r"^matplotlib==(\S+)$", (REPORT / "requirements.txt").read_text(), re.MULTILINE)[1]


def found_version():
    """Of the matplotlib here, or None."""
    try:
        import matplotlib
    except ImportError:
        return None
    return matplotlib.__version__


def svg(name, data):
    import matplotlib

    from charts import style
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own settings are
        matplotlib.rcParams.update(style.RC)
        text = io.StringIO()
        module_of(name).draw(data).savefig(text, format="svg", metadata={"Date": None, "Creator": None,
                                                                         "Format": None, "Type": None})
    return tidy(text.getvalue())


NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d+")
TAG = re.compile(r"<[a-zA-Z][^>]*>")
MADE_UP_NAME = re.compile(r"\b[mph][0-9a-f]{10}\b")  # of markers, clipping paths and hatches


def _two_decimals(match):
    rounded = Decimal(match[0]).quantize(Decimal("0.01"), ROUND_HALF_EVEN).normalize()
    return "0" if rounded == 0 else format(rounded, "f")


def _tidy_tag(match):
    tag = NUMBER.sub(_two_decimals, re.sub(r"\s+", " ", match[0]))
    tag = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", tag)
    tag = re.sub(r' id="[\w.]+_\d+"', "", tag)  # of groups; nothing refers to them
    return re.sub(r' +"', '"', tag)


def tidy(text):
    """Coordinates to a hundredth of a point, names in the order they come: the last digits of a computation, which may
    differ from one processor to the next, show in neither. What stands between tags is left alone."""
    text = TAG.sub(_tidy_tag, text)
    names = {}
    for name in MADE_UP_NAME.findall(text):
        names.setdefault(name, f"{name[0]}{len(names) + 1}")
    text = MADE_UP_NAME.sub(lambda match: names[match[0]], text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def without_places(text):
    """The elements of an SVG and the texts between them, without attributes."""
    return re.sub(r"<(/?[a-zA-Z]+)[^>]*>", r"<\1>", text)
