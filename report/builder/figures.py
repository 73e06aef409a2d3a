"""The figures: their names, the facts of their captions, and their SVG text, which is the same wherever the pinned
matplotlib draws them, except for the positions of texts, which follow the machine's fonts."""
from __future__ import annotations

import importlib
import io
import re
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

from .courses import over_length
from .measured import metric
from .spread import Spread
from .words import count_of, counts

REPORT = Path(__file__).resolve().parent.parent

# Functions of the modules in report/charts.
MODULES = {
    "drawings": ("blocking", "tile_life", "data_flow", "digits"),
    "ladders": ("ladder", "fixed_ladder", "half_ladder"),
    "profile": ("bank_conflicts", "stalls", "roofline"),
    "pipeline": ("pipeline",),
    "curves": ("speedup_over_seq", "error_over_length", "lab5_length", "speed_against_error"),
}
NAMES = [name for names in MODULES.values() for name in names]


def module_of(name):
    module = next(module for module, names in MODULES.items() if name in names)
    return importlib.import_module(f"charts.{module}")


# ---- Captions


def captions():
    """{name: (a short description, caption)} from captions.md, with the holes of the template language."""
    text = (REPORT / "captions.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## (\w+)\n\n(.*?)\n\n(.*?)(?=\n\n##|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: (" ".join(alt.split()), " ".join(caption.split())) for name, alt, caption in parts}


def of_roofline(data):
    flop, memory = data.device["peak_flop_per_second"], data.device["peak_dram_bytes_per_second"]
    corner, corner_of_fixed = flop / memory, data.peak("fixed") * 1e12 / memory
    found = module_of("roofline").points(data)
    right = sum(dram > (corner_of_fixed if kernel in data.launches("fixed") else corner) for kernel, *_, dram in found)
    busiest, share, _ = module_of("roofline").l2_roof(data)
    return {"busiest": busiest, "share": share, "right": count_of(right, len(found), "kernels")}


def of_tile_life(data):
    top = data.ladder("f32")[-1].kernel
    launch = data.launch("f32", top)
    return {"kernel": top, "kib": metric(launch, "shared_bytes_per_block") / 1024,
            "registers": metric(launch, "registers")}


def samples(contract):
    return lambda data: {"samples": counts(rung.seconds for rungs in data.ladders(contract).values() for rung in rungs
                                           if rung.seconds)}


# The facts that a figure's caption names by `here`, in addition to all others.
HERE = {
    "ladder": samples("f32"), "fixed_ladder": samples("fixed"), "half_ladder": samples("bf16"),
    "speedup_over_seq": lambda data: {
        "processor": data["sequential"]["machine"]["processor"],
        "samples": counts(Spread.of(case["seconds"]["hw4"]) for case in data.file_cases),
        "shortened": sum(case["measured_batches"] < case["batches"] for case in data["sequential"]["cases"])},
    "lab5_length": lambda data: {"samples": counts(row.seconds() for causal in (False, True) for rows in
                                                   over_length(data, causal).values() for row in rows.values()
                                                   if row.seconds())},
    "error_over_length": lambda data: {"count": len(data["accuracy"]["cases"]),
                                       "torch": data["accuracy"]["torch"].partition("+")[0]},
    "roofline": of_roofline, "tile_life": of_tile_life,
}


def here(name, data):
    return HERE.get(name, lambda _: {})(data)


# ---- Pictures


def pinned_version():
    return re.search(r"^matplotlib==(\S+)$", (REPORT / "requirements.txt").read_text(), re.MULTILINE)[1]


def found_version():
    """The installed matplotlib's version, or None."""
    try:
        import matplotlib
    except ImportError:
        return None
    return matplotlib.__version__


def svg(name, data):
    import matplotlib

    from charts import style
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # overrides the user's own settings
        matplotlib.rcParams.update(style.RC)
        text = io.StringIO()
        getattr(module_of(name), name)(data).savefig(text, format="svg", metadata={"Date": None, "Creator": None,
                                                                         "Format": None, "Type": None})
    return tidy(text.getvalue())


NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d+")
TAG = re.compile(r"<[a-zA-Z][^>]*>")
MADE_UP_NAME = re.compile(r"\b[mph][0-9a-f]{10}\b")  # names of markers, clipping paths and hatches


def _two_decimals(match):
    rounded = Decimal(match[0]).quantize(Decimal("0.01"), ROUND_HALF_EVEN).normalize()
    return "0" if rounded == 0 else format(rounded, "f")


def _tidy_tag(match):
    tag = NUMBER.sub(_two_decimals, re.sub(r"\s+", " ", match[0]))
    tag = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", tag)
    tag = re.sub(r' id="[\w.]+_\d+"', "", tag)  # groups' ids, which nothing refers to
    return re.sub(r' +"', '"', tag)


def tidy(text):
    """Rounds coordinates to a hundredth of a point and numbers names in order, because the last digits of a computation
    may differ between processors. Leaves the text between tags alone."""
    text = TAG.sub(_tidy_tag, text)
    names = {}
    for name in MADE_UP_NAME.findall(text):
        names.setdefault(name, f"{name[0]}{len(names) + 1}")
    text = MADE_UP_NAME.sub(lambda match: names[match[0]], text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def without_places(text):
    """The elements of an SVG and the texts between them, without attributes."""
    return re.sub(r"<(/?[a-zA-Z]+)[^>]*>", r"<\1>", text)
