"""What the report says of the code it takes from the code: the kernels' ideas, and the sizes of tiles and buffers."""
from __future__ import annotations

import re

from .errors import ROOT, Failed

# fact: (file, pattern with one group)
CONSTANTS = {
    "segment_keys": ("src/contracts/f32/forward.h", r"kSegmentKeys = (\d+);"),
    "score_columns": ("src/contracts/f32/forward.h", r"kScoreColumns = (\d+);"),
    "key_tile": ("src/contracts/f32/forward.h", r"kKeyTile = (\d+);"),
    "fixed_tile_keys": ("src/contracts/fixed/forward.h", r"kTileKeys = (\d+);"),
    "gradient_segment": ("src/contracts/f32/backward.h", r"kSegmentRows = (\d+);"),
    "gradient_group": ("src/contracts/f32/backward.h", r"kGroupRows = (\d+);"),
    "rows_per_thread": ("src/gpu/f32/forward/register_tile.cuh", r"kRowsPerThread = (\d+);"),
    "lanes_across": ("src/gpu/f32/forward/register_tile.cuh", r"kAcross = (\d+);"),
    "lanes_down": ("src/gpu/f32/forward/register_tile.cuh", r"kDown = (\d+);"),
    "team_warps": ("src/gpu/f32/forward/tile_kernel.cuh", r"Tiling64 = Tiling<64, kWhole, (\d+), \d+, \d+>"),
    "warps": ("src/gpu/f32/forward/tile_kernel.cuh", r"Tiling64 = Tiling<64, kWhole, \d+, (\d+), \d+>"),
    "blocks_per_multiprocessor": ("src/gpu/f32/forward/tile_kernel.cuh", r"Tiling64 = Tiling<64, kWhole, \d+, \d+, (\d+)>"),
    "readers": ("src/run/staging_plan.h", r"int readers = (\d+);"),
    "writers": ("src/run/staging_plan.h", r"int writers = (\d+);"),
    "piece_mib": ("src/run/staging_plan.h", r"piece_bytes = size_t\{(\d+)\} << 20;"),
    "ring_mib": ("src/run/staging_plan.h", r"ring_bytes = size_t\{(\d+)\} << 20;"),
    "scratch_gib": ("src/run/engine.h", r"scratch_budget = size_t\{(\d+)\} << 30;"),
    "streams": ("src/run/engine.h", r"int streams = (\d+);"),
}


def _text(file):
    try:
        return (ROOT / file).read_text(encoding="utf-8")
    except OSError as error:
        raise Failed(f"{file}: {error.strerror}") from error


def constants() -> dict[str, int]:
    """The sizes of the tiling for d = 64 and of the pipeline."""
    found = {}
    for name, (file, pattern) in CONSTANTS.items():
        match = re.search(pattern, _text(file))
        if not match:
            raise Failed(f"{file}: nothing there like {pattern}, where the report takes {name} from")
        found[name] = int(match[1])
    found["keys"] = found["segment_keys"]  # of a tile
    found["warp_rows"] = found["rows_per_thread"] * found["lanes_down"]
    found["rows"] = found["warps"] // found["team_warps"] * found["warp_rows"]  # of a block
    found["threads"] = 32 * found["warps"]
    found["keys_per_thread"] = found["keys"] // found["team_warps"] // found["lanes_across"]
    found["columns_per_thread"] = 64 // found["team_warps"] // found["lanes_across"]
    found["ring_buffers"] = found["ring_mib"] // found["piece_mib"]
    return found


# A row of the table of kernels begins with both. The names of the fields may be left out.
_KERNEL = re.compile(r'\{\s*(?:\.name = )?"(\w+)",\s*(?:\.idea = )?((?:"[^"]*"\s*)+),')


def kernels_in(text) -> dict[str, str]:
    """The idea of each kernel of a table of kernels, by its name."""
    return {name: "".join(re.findall('"([^"]*)"', idea)) for name, idea in _KERNEL.findall(text)}


def ideas() -> dict[str, str]:
    """What each GPU kernel does differently, from the table of kernels. Not from hw4 --list-kernels: `make report` also
    runs where there is no nvcc, and what is built there has no GPU kernels."""
    found = kernels_in(_text("src/gpu/kernels.cu"))
    if not found:
        raise Failed("src/gpu/kernels.cu: no table of kernels found")
    return found


def no_help(kernel) -> str:
    """What its card says was tried and did not help; empty where it says nothing of the kind."""
    cards = "".join(_text(path) for path in sorted((ROOT / "src/gpu/f32/forward").glob("*.cu")))
    card = re.search(rf"^// {kernel}: .*\n(?://.*\n)*", cards, re.MULTILINE)
    if not card:
        raise Failed(f"src/gpu/f32/forward: no card of {kernel}")
    match = re.search(r"^// No help {3}(.*\n(?://  {9}.*\n)*)", card[0], re.MULTILINE)
    return re.sub(r"\s*\n//\s*", " ", match[1]).strip() if match else ""


def idea(kernel) -> str:
    table = ideas()
    if kernel not in table:
        raise Failed(f"kernels.json: ladder: {kernel} is not in the table of src/gpu/kernels.cu")
    return table[kernel].replace(" x ", " × ")
