"""Takes facts about the code from the code: the kernels' ideas, some of their lines, and the sizes of tiles and
buffers."""
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
    "blocks_per_multiprocessor": ("src/gpu/f32/forward/tile_kernel.cuh",
                                  r"Tiling64 = Tiling<64, kWhole, \d+, \d+, (\d+)>"),
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
    found["keys"] = found["segment_keys"]  # per tile
    found["warp_rows"] = found["rows_per_thread"] * found["lanes_down"]
    found["rows"] = found["warps"] // found["team_warps"] * found["warp_rows"]  # per block
    found["threads"] = 32 * found["warps"]
    found["keys_per_thread"] = found["keys"] // found["team_warps"] // found["lanes_across"]
    found["columns_per_thread"] = 64 // found["team_warps"] // found["lanes_across"]
    found["ring_buffers"] = found["ring_mib"] // found["piece_mib"]
    return found


# A row of the table of kernels begins with name and idea. The field names may be omitted.
_KERNEL = re.compile(r'\{\s*(?:\.name = )?"(\w+)",\s*(?:\.idea = )?((?:"[^"]*"\s*)+),')


def ideas() -> dict[str, str]:
    """Each GPU kernel's new idea, from the table of kernels. Not from hw4 --list-kernels: `make report` also runs
    without nvcc, where the built hw4 has no GPU kernels."""
    found = {name: "".join(re.findall('"([^"]*)"', idea)) for path in sorted((ROOT / "src/gpu").glob("*/kernels.cu"))
             for name, idea in _KERNEL.findall(_text(path))}
    if not found:
        raise Failed("src/gpu/*/kernels.cu: no table of kernels found")
    return found


def no_help(kernel) -> str:
    """The text of the kernel's card about failed attempts; empty without one."""
    cards = "".join(_text(path) for path in sorted((ROOT / "src/gpu/f32/forward").glob("*.cu")))
    card = re.search(rf"^// {kernel}: .*\n(?://.*\n)*", cards, re.MULTILINE)
    if not card:
        raise Failed(f"src/gpu/f32/forward: no card of {kernel}")
    match = re.search(r"^// No help {3}(.*\n(?://  {9}.*\n)*)", card[0], re.MULTILINE)
    return re.sub(r"\s*\n//\s*", " ", match[1]).strip() if match else ""


def idea(kernel) -> str:
    table = ideas()
    if kernel not in table:
        raise Failed(f"{kernel} is not in the tables of src/gpu/*/kernels.cu")
    return table[kernel].replace(" x ", " × ")


# ---- Lines of code

F32, FIXED, FIXED16 = "src/gpu/f32/forward/", "src/gpu/fixed/forward/", "src/gpu/fixed16/forward/"
HALF, BACKWARD = "src/gpu/half/forward/", "src/gpu/f32/backward/"

# The characteristic lines of a kernel: file, a text of the first line, a text of the last one.
EXCERPTS = {
    "plain_rows": (F32 + "plain_rows.cu", "const float* k = m.k + ", "s += block;\n            }"),
    "shared_tiles": (F32 + "row_rungs.cu", "const auto load_chunks = [&]",
                     "__syncthreads(); // kv is complete; before the first key so is q\n    };"),
    "padded_tiles": (F32 + "row_rungs.cu", "// For the scores lane j reads kv[j][t]", "kKeyFloats = kTile +"),
    "coalesced_tiles": (F32 + "row_rungs.cu", "const int row = T::kCoalesced",
                        "matrix.first[static_cast<size_t>(first_row"),
    "unrolled_tiles": (F32 + "row_rungs.cu", "__device__ __forceinline__ void add_values(",
                       "o = fused(p[j], v[j][column], o);\n}"),
    "register_rows": (F32 + "row_rungs.cu", "{ return running_[chunk]; }", "float totals_[kChunks] = {};\n};"),
    "register_tiles": (F32 + "register_tile.cuh", "__device__ __forceinline__ void outer_by_columns(",
                       "acc[i][j] = fused(a[i], b[j], from_zero ? 0.0f : acc[i][j]);\n        }\n}"),
    "async_tiles": (F32 + "tile_copies.cuh", "__device__ __forceinline__ void copy_in(",
                    "*pointer_to(to) = there ? *reinterpret_cast<const float*>(from) : 0.0f;\n    }\n}"),
    "woven_tiles": (F32 + "register_tile.cuh", "const auto round = [&](bool from_zero)",
                    "Steps::multiply(acc, f.a[u % 2], f.b[u % 2], from_zero && u == 0);\n        }"),
    "drawn_tiles": (F32 + "tile_pieces.cuh", "const unsigned drawn = draws.drawn;",
                    "draws.queue.ends[part - 1], draws"),
    "mma_groups": (FIXED + "mma_groups.cu", "multiply<kSigned>(l0, a[2], b[2][0]",
                   "multiply<kSigned>(l2, a[0], b[2][0]"),
    "wgmma_group": (FIXED + "wgmma_kernel.cuh", "P::template high<true>(s.l, q.plus(2 * kPlane), k);",
                    "P::low(s.l, q.plus(at), k.plus(2 * kPlane + at));\n    }"),
    "wgmma_groups": (FIXED + "wgmma_kernel.cuh", "using Alone32 =", "using Joint128 ="),
    "wgmma_shares": (FIXED + "wgmma_shares.cu", "void launch_wgmma_shares(",
                     "launch_shares<Joint128>(launch, stream);\n    }\n}"),
    "table_pairs": (FIXED16 + "table_powers.cuh", "uint32_t weight_word(float exponent, int more) {",
                    "fixed16::weight_at(n, entry(n)) + more);\n    }"),
    "mma_pairs": (FIXED16 + "powers.cuh", "float of(float x) {", "return y;\n    }"),
    "wgmma_pairs": (FIXED16 + "wgmma_kernel.cuh", "for (uint32_t at = 0; at < T::kDim; at += kStepBytes)",
                    "commit_products();"),
    "mma_bf16": (HALF + "mma_half.cu", "load_matrices<false>(a, &memory.queries[warp_row",
                 "Number::multiply(s + key / 2 + 4, a, b[2], b[3]);\n            }"),
    "wgmma_stage": (HALF + "wgmma_kernel.cuh",
                    "for (int tile = tiles - 1; tile >= 0; --tile) {\n            wait_for_keys();",
                    "begin_values();\n            end_values();\n        }"),
    "wgmma_ring": (HALF + "wgmma_kernel.cuh", "wait_for_phase(released, static_cast<int>(turn.phase ^ 1));",
                   "turn = turn.plus<T::kStages>(1);"),
    "wgmma_ahead": (HALF + "wgmma_kernel.cuh", "take_turn();\n            begin_scores();",
                    "const bool raised = __any_sync(kAllLanes, changed);"),
    "wgmma_bf16": (HALF + "wgmma_kernel.cuh", "__device__ uint32_t next() const {",
                   "return gridDim.x + atomicAdd(counter, 1u);\n    }"),
    "plain_gradients": (BACKWARD + "plain_gradients.cu", "for (int sum = 0; sum < Sums::kSums; ++sum) {",
                        "sums.chain[sum][chunk]);\n        }"),
    "shared_gradients": (BACKWARD + "shared_gradients.cu", "bring<T>(tiles, others, operand, tile, chunk, dim);",
                         "sum += chain;"),
    "kept_pairs": (BACKWARD + "pairs.cu", "if (step % 2 == 0) {", "store_pairs<T>(s, place + args.ds_from_p);"),
}


def excerpt(kernel) -> str:
    """Those lines, as in the source, in a code fence."""
    file, first, last = EXCERPTS[kernel]
    text = _text(file)
    at = text.find(first)
    to = text.find(last, at + 1)
    if text.count(first) != 1 or to < 0:
        raise Failed(f"{file}: '{first}' to '{last}', the lines that stand for {kernel}: not there, or not once")
    lines = text[text.rfind("\n", 0, at) + 1:text.find("\n", to + len(last))].split("\n")
    kept = [line.lstrip() if line.lstrip().startswith("#") else line for line in lines]
    indent = min(len(line) - len(line.lstrip()) for line in kept if line and not line.startswith("#"))
    return "```cpp\n" + "\n".join(line if line.startswith("#") else line[indent:] for line in kept) + "\n```"
