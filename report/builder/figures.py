"""The figures: which there are, what their captions name, and their SVG text: the same wherever the pinned matplotlib
draws them, but for the places of texts, which follow the machine's fonts."""
from __future__ import annotations

import importlib
import io
import re
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import scaling

from .measured import FIXED_LADDER_CASES, INTEGER_ROOF, metric
from .measured_backward import Backward
from .measured_courses import BASE, TOKENS, Cs336, Lab5, Sweep
from .measured_half import half_ladder
from .spread import Spread
from .words import count_of, counts, shape, short, significant

REPORT = Path(__file__).resolve().parent.parent

# Functions of the modules in report/charts.
MODULES = {
    "rows": ("ladder", "fixed_ladder", "half_ladder", "half_gradients", "backward", "steps", "streams_and_copies",
             "cpu", "values"),
    "cases": ("cases", "speedup_over_seq", "breakdown", "cs336_memory"),
    "lengths": ("tflops_over_length", "causal", "error_over_length", "backward_errors", "half_lengths", "lab5_length",
                "lab5_passes", "lab5_sizes", "lab5_memory", "cs336_attention", "warmups", "scaling"),
    "profile": ("bank_conflicts", "stalls", "metrics_over_cases", "roofline", "tilings"),
    "errors": ("speed_against_error", "half_error"),
    "drawings": ("blocking", "tile_life", "data_flow", "prefixes", "digits"),
    "pipeline": ("pipeline",),
}
def module_of(name):
    module = next(module for module, names in MODULES.items() if name in names)
    return importlib.import_module(f"charts.{module}")


NAMES = [name for names in MODULES.values() for name in names]


# ---- Captions


def captions():
    """{name: (what it shows in short, caption)} of captions.md, with the holes of the template language."""
    text = (REPORT / "captions.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## (\w+)\n\n(.*?)\n\n(.*?)(?=\n\n##|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: (" ".join(alt.split()), " ".join(caption.split())) for name, alt, caption in parts}


def processor(document):
    return f"{document['machine']['processor']}, {document['machine']['processors']} processors"


def run_in_words(step):
    copies = {"2d": "2-D copies", "linear": "flat copies"}.get(step["copies"], step["copies"])
    return f"{step['kernel']}, {copies} and {step['streams']} stream{'s' * (step['streams'] != 1)}"


def joined(values):
    return ", ".join(map(str, values))


def torch_of(document):
    return document["torch"]["torch"].partition("+")[0]


def of_roofline(data):
    device, roofline = data.profile["device"], module_of("roofline")
    flop, memory = device["peak_flop_per_second"], device["peak_dram_bytes_per_second"]
    corner, corner_of_fixed = flop / memory, INTEGER_ROOF * 1e12 / memory
    found = roofline.points(data)
    right = sum(dram > (corner_of_fixed if kernel in data.fixed_rungs else corner) for kernel, *_, dram in found)
    busiest, share, l2_peak = roofline.l2_roof(data)
    return {"samples": counts(rung.seconds for rung in [*data.ladder("t28"), *data.fixed_ladder("t28")]),
            "busiest": busiest, "share": share, "l2_peak": l2_peak, "peak": flop * 1e-12, "corner": corner,
            "corner_of_fixed": corner_of_fixed, "right": count_of(right, len(found), "kernels")}


def of_tilings(data):
    every, reasons = data.tilings["tilings"], {}
    spreads = [Spread.of(tiling["seconds"]) for tiling in every]
    for skip in data.tilings["left_out"]:
        reasons.setdefault(skip["why"], []).append(f"{skip['rows']} × {skip['keys']}")
    why = "; ".join(f"{', '.join(sizes)}: {reason}" for reason, sizes in reasons.items())
    return {"title": f"Tile sizes of {every[0]['kernel']}" if "kernel" in every[0] else "Tile sizes",
            "shape": shape(every[0]), "samples": counts(spreads), "left_out": f" Left out: {why}." if why else "",
            "widest": 100 * max((spread.high - spread.low) / spread.mid for spread in spreads)}


def of_lengths(data):
    shapes = data.length_shapes
    rows = sorted({shape.batches * shape.tokens for shape in shapes})
    return {"dims": joined(sorted({shape.dim for shape in shapes})), "rows": rows[0],
            "more": " (more where B is at least 2)" if len(rows) > 1 else "",
            "samples": counts(shape.hw4 for shape in shapes), "fixed": " and ".join(map(str, data.fixed_over_length))}


def of_causal(data):
    cases = [case for of_dim in data.masked_lengths.values() for case in of_dim]
    return {"dims": " and ".join(map(str, data.masked_lengths)), "rows": cases[0].batches * cases[0].tokens,
            "samples": counts(spread for case in cases for spread in (*case.causal.values(), *case.full.values()))}


def of_backward(data):
    found = Backward(data)
    return {"ladder": shape(found.ladder_shape), "memory": shape(found.memory_shape), "kernel": found.ladder[-1].kernel,
            "samples": counts([*(rung.seconds for rung in found.ladder), *(one.rate for one in found.budgets)])}


def of_half_ladder(data):
    shapes = {(line["batches"], line["tokens"], line["dim"]) for line in data.documents["half_ladder.json"]["ladder"]}
    return {"shapes": " and ".join(f"{batches} heads of N = {tokens}, d = {dim}" for batches, tokens, dim in
                                   sorted(shapes, key=lambda shape: shape[2])),
            "samples": counts(rung.seconds for rungs in half_ladder(data).values() for rung in rungs)}


def of_half_turns(data, file):
    document = data.documents[file]
    rounds, columns = document["rounds"], {case["heads"] * case["dim"] for case in document["cases"]}
    return {"torch": torch_of(document), "columns": columns.pop(),
            "rounds": "one round" if rounds == 1 else f"{rounds} rounds"}


def of_lab5(data):
    torch = Lab5(data).sweep.torch
    return {"tokens": TOKENS, "dim": BASE["columns"] // BASE["heads"], "torch": torch, "types": (
        f"FlashAttention-2, cuDNN and PyTorch's naive form (lab5.py's) are those of PyTorch {torch}, in fp16; "
        f"hw4's `bf16` has operands of that type, its others float32.")}


def of_scaling(data):
    parts = scaling.parts_of(data)
    return {"dim": scaling.DIM, "heads": f"{scaling.HEADS[0]} and {scaling.HEADS[-1]}", "cards": scaling.CARDS[-1],
            "read": parts.read * 1e-9, "write": parts.write * 1e-9, "case": parts.case, "assumed": scaling.ASSUMPTIONS,
            "rates": " and ".join(f"`{contract}` {significant(rate * 1e-12)} TFLOP/s (N = "
                                  f"{short(parts.tokens[contract])})" for contract, rate in parts.rate.items())}


def spreads_of(cases, who):
    return counts(Spread.of(case["seconds"][who]) for case in cases)


# What the caption of a figure names by `here`, beside all facts.
HERE = {
    "ladder": lambda data: {"shape": shape(data.case("t28")), "sgemm": data.kernels["sgemm"]["size"],
                            "samples": counts(rung.seconds for rung in data.ladder("t28"))},
    "fixed_ladder": lambda data: {"samples": counts(rung.seconds for name in FIXED_LADDER_CASES
                                                    for rung in data.fixed_ladder(name))},
    "half_ladder": of_half_ladder,
    "half_gradients": lambda data: of_half_turns(data, "half_backward.json"),
    "half_lengths": lambda data: of_half_turns(data, "half_lengths.json"),
    "backward": of_backward,
    "steps": lambda data: {"case": data.steps["case"], "first": run_in_words(data.steps["steps"][0]),
                           "last": run_in_words(data.steps["steps"][-1]),
                           "samples": counts(Spread.of(step["seconds"]) for step in data.steps["steps"])},
    "streams_and_copies": lambda data: {
        "cases": joined(case["name"] for case in module_of("steps").with_variants(data)),
        "samples": counts(Spread.of(samples) for case in module_of("steps").with_variants(data)
                          for samples in case["seconds"].values())},
    "cpu": lambda data: {"processor": processor(data.cpu), "samples": spreads_of(data.cpu["cases"], "hw4"),
                         "kernels": joined(sorted({case["kernel"] for case in data.cpu["cases"]}))},
    "values": lambda data: {**data.values["cases"][0], "count": len(data.values["kinds"]),
                            "first": data.values["kinds"][data.values["cases"][0]["kind"]],
                            "samples": counts(spread for kinds in data.kinds_of_values.values() for kind in kinds
                                              for spread in kind.seconds.values())},
    "cases": lambda data: {"samples": counts(case.hw4 for case in data.cases), "fixed": len(data.fixed_course_cases)},
    "speedup_over_seq": lambda data: {"processor": processor(data.sequential), "shortened": sum(
        record["measured_batches"] < record["batches"] for record in data.sequential["cases"])},
    "breakdown": lambda data: {"samples": spreads_of(data.file_cases, "hw4")},
    "cs336_memory": lambda data: {"shape": shape(next(iter(module_of("cs336_memory").tracks_shown(data).values())))},
    "tflops_over_length": of_lengths,
    "causal": of_causal,
    "error_over_length": lambda data: {"count": len(data.accuracy["cases"]),
                                       "torch": data.accuracy["torch"].partition("+")[0]},
    **dict.fromkeys(("lab5_length", "lab5_passes", "lab5_sizes", "lab5_memory"), of_lab5),
    "cs336_attention": lambda data: {
        "naive": "our plain form on cuBLAS, and PyTorch's, both in float32"
        if any(who.startswith("pytorch") for who in Cs336(data).attention.everybody) else
        "our plain form on cuBLAS, in float32"},
    "warmups": lambda data: {"shape": shape(Sweep(data, "warmups.json").rows[0])},
    "scaling": of_scaling,
    "bank_conflicts": lambda data: {"ncu": data.profile["ncu"]["version"]},
    "stalls": lambda data: {"ncu": data.profile["ncu"]["version"],
                            "reasons": joined(f"{text} = {reason}" for reason, text in
                                              module_of("stalls").REASONS.items())},
    "metrics_over_cases": lambda data: {
        "dims": joined(sorted({launch["dim"] for launch in data.profile_of_cases["launches"]})),
        "kernels": joined(data.profiled_kernels), "ncu": data.profile_of_cases["ncu"]["version"]},
    "roofline": of_roofline,
    "tilings": of_tilings,
    "tile_life": lambda data: {"kernel": data.chosen,
                               "kib": metric(data.launch(data.chosen), "shared_bytes_per_block") / 1024,
                               "registers": metric(data.launch(data.chosen), "registers")},
}


def here(name, data):
    return HERE.get(name, lambda _: {})(data)


# ---- Pictures


def pinned_version():
    return re.search(r"^matplotlib==(\S+)$", (REPORT / "requirements.txt").read_text(), re.MULTILINE)[1]


def found_version():
    """The version of the matplotlib here, or None."""
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
        getattr(module_of(name), name)(data).savefig(text, format="svg", metadata={"Date": None, "Creator": None,
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
