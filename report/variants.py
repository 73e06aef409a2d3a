"""Kernels with one part removed: the sources with a few texts changed, in a copy with its own build. A text that does
not occur exactly once in its file ends the step, and a test checks that too.
"""
from __future__ import annotations

import dataclasses
import os
import re
import subprocess

from document import ROOT, Failed, say

TILES = "src/gpu/f32/forward/tile_kernel.cuh"
FIXED = "src/gpu/fixed/forward/wgmma_kernel.cuh"
HALF = "src/gpu/half/forward/wgmma_half.cu"


@dataclasses.dataclass(frozen=True)
class Without:
    """A kernel without `what`: changed texts in files, {(file, old): new}, or another kernel, the one before it."""
    what: str
    edits: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    kernel: str | None = None


@dataclasses.dataclass(frozen=True)
class Ablation:
    contract: str
    shape: str
    removals: tuple[Without, ...]


WOVEN, ASYNC, AHEAD = ((TILES, f"k{name} = true;") for name in ("Woven", "Async", "Ahead"))
FOR_64 = HALF, "For64 = Variant<64, 3, 4>;"

ABLATIONS = {
    "drawn_tiles": Ablation("f32", "t28", (
        Without("the queue of rows", kernel="woven_tiles"),
        Without("copies woven into the arithmetic", {WOVEN: "kWoven = false;"}),
        Without("operands loaded a step ahead", {AHEAD: "kAhead = false;"}),
        Without("copies in the background, woven or not", {WOVEN: "kWoven = false;", ASYNC: "kAsync = false;"}))),
    "wgmma_shares": Ablation("fixed", "t28", (
        Without("equal shares and joint groups", kernel="wgmma_groups"),
        Without("code for tiles that count alike", {(FIXED, "kMaySteady = T::kJoint;"): "kMaySteady = false;"}),
        Without("four of the six stages", {(FIXED, "Joint64 = Variant<64, 3, 6, 1>;"):
                                           "Joint64 = Variant<64, 3, 2, 1>;"}))),
    "wgmma_bf16": Ablation("bf16", "64,8192,64", (
        Without("turns of the groups", {FOR_64: "For64 = Variant<64, 3, 4, Overlap::scores>;"}),
        Without("scores of the next tile, and turns", {FOR_64: "For64 = Variant<64, 3, 4, Overlap::copies>;"}),
        Without("three of the four stages", {FOR_64: "For64 = Variant<64, 3, 1>;"}),
        Without("blocks that stay", {(HALF, "launch_half_kernel<Number, For64>(args, multiprocessors, stream);"):
                                     "launch_half_kernel<Number, For64>(args, int64_t{1} << 40, stream);"}))),
}


def variant(kernel, removal):
    """The name of its sources; empty where they are hw4's own."""
    return re.sub(r"\W+", "_", f"{kernel} {removal.what}") if removal.edits else ""


VARIANTS = {variant(kernel, removal): removal.edits for kernel, found in ABLATIONS.items() for removal in found.removals
            if removal.edits}
OBJECTS = ("src", "hw4.cu.o", "hw4.cu.d", "headers", "setting", "cpp-command", "cu-command")  # of make's folder


def edited(edits):
    """{file: its text with the edits}."""
    texts = {}
    for (file, old), new in edits.items():
        text = texts.setdefault(file, (ROOT / file).read_text(encoding="utf-8"))
        if text.count(old) != 1:
            raise Failed(f"{file}: '{old.strip()}' occurs {text.count(old)} times, not once")
        texts[file] = text.replace(old, new)
    return texts


def copied(folder, edits, objects):
    """The sources with the edits, in a folder that begins with the objects of `objects`, make's folder, so that make
    compiles only what the edits change."""
    first = not folder.exists()
    (folder / "build").mkdir(parents=True, exist_ok=True)
    sources = [path for path in ROOT.iterdir() if path.name not in (".git", "build", "hw4")]
    subprocess.run(["cp", "-au", *sources, folder], check=True)
    if first:
        subprocess.run(["cp", "-a", *(path for path in objects.iterdir() if path.name in OBJECTS), folder / "build"],
                       check=True)
    for file, text in edited(edits).items():
        if (folder / file).read_text(encoding="utf-8") != text:
            (folder / file).write_text(text, encoding="utf-8")
    return folder


def all_built(build):
    """{name: hw4 with these edits}; all are compiled at the same time. A second call finds them there."""
    variants = {name: copied(build / "variants" / name, edits, build) for name, edits in VARIANTS.items()}
    without_jobserver = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    command = ["make", "--no-print-directory", f"-j{max(2, os.cpu_count() // 4)}", "hw4"]
    running = [subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, env=without_jobserver)
               for folder in variants.values()]
    if any([make.wait() for make in running]):
        raise Failed("make hw4 of the edited sources failed")
    return {name: folder / "hw4" for name, folder in variants.items()}


def ablation(bench, runs):
    """Seconds of each whole kernel, and without each of its parts."""
    document, records, programs = bench.open(runs=runs), [], {"": bench.hw4, **all_built(bench.build)}
    for kernel, found in ABLATIONS.items():
        for removal in (Without("nothing"), *found.removals):
            bench.hw4 = programs[variant(kernel, removal)]
            say(f"ablation: {kernel} without {removal.what}")
            row, = bench.bench_rows(
                "--device", "gpu", "--impl", found.contract, "--kernel", removal.kernel or kernel, "--passes",
                "forward", "--kind", "uniform", "--repeats", runs, "--shape", found.shape, "--quiet")["results"]
            if row["hw4"]["status"] != "ok":
                raise Failed(f"{kernel} without {removal.what}: {row['hw4']['reason']}")
            records.append({"kernel": kernel, "without": removal.what, "shape": found.shape,
                            "flop": row["hw4"]["forward"]["flop"], "seconds": row["hw4"]["forward"]["samples"]})
            document.write(cells=records)
