"""What the report is measured from: a step for each file report/data/NAME.json, in the order of `report/measure`.

A step names its runner, a function of runners.py, and the cells that the runner measures: shapes (test
cases, globs, B,N,d or B,H,N,d), masks, contracts, elements, kernels, passes, devices, samples. Plain data.
"""
from __future__ import annotations

import dataclasses

import bars

MASKS = ("none", "causal")
# PyTorch: the implementation of torch_cell.py and the type of its numbers.
PEERS = {"flash2 bf16": ("flash2", "bf16"), "cudnn bf16": ("cudnn", "bf16"), "flash2 fp16": ("flash2", "fp16"),
         "cudnn fp16": ("cudnn", "fp16"), "efficient": ("efficient", "float32"), "naive": ("naive", "float32"),
         "naive tf32": ("naive", "tf32")}
# hw4: contract, element of the tensors (float32 where it is empty) and kernel ("" is the chosen one).
OURS = {"f32": ("f32", "", ""), "fixed": ("fixed", "", ""), "fixed16": ("fixed16", "", ""),
        "fixed16:bf16": ("fixed16", "bf16", ""), "bf16": ("bf16", "bf16", ""), "fp16": ("fp16", "fp16", "")}
# PyTorch's implementations beside the kernels, and the cases on which they are measured; None: on all. The naive form
# is shown and never counts as PyTorch's best.
IMPLS = {"efficient": None, "default": bars.SMALL_CASES, "naive": ("t28",)}

HALF_SHAPES = ("4,16,8192,64", "2,16,8192,128", "16,32,1024,64", "1,16,16384,64", "1,16,16384,128")
HALF = ("bf16", "fp16", "flash2 bf16", "cudnn bf16", "flash2 fp16", "cudnn fp16")
HALF_LADDER = ("64,8192,64", "32,8192,128")
FIXED16_LADDER = ("4,16384,64", "4,16384,128")
# batches times length: 65536 in kernels of float32, 8192 in those of half precision, whose heads have 1024 columns
LENGTHS = tuple(f"{max(2, 65536 >> doubling)},{1 << doubling},{dim}" for dim in (32, 64, 128)
                for doubling in range(7, 16))
CAUSAL_LENGTHS = tuple(f"{65536 >> doubling},{1 << doubling},{dim}" for dim in (64, 128) for doubling in range(9, 16))
HALF_LENGTHS = tuple(f"{max(1, 8192 >> doubling)},{1024 // dim},{1 << doubling},{dim}" for dim in (64, 128)
                     for doubling in range(9, 15))
# As hw4 bench and testcases/generate spell them, and in words.
KINDS = {"normal:1": "normal, σ = 1", "normal:2": "normal, σ = 2", "normal:3": "normal, σ = 3",
         "normal:3.5": "normal, σ = 3.5", "normal:4": "normal, σ = 4", "normal:6": "normal, σ = 6",
         "normal:10": "normal, σ = 10", "normal:30": "normal, σ = 30", "stray:60": "every 500th query × 60",
         "stray:1000000": "every 500th query × 10⁶", "sink:0": "first key × 100", "sink:0.5": "middle key × 100",
         "sink:1": "last key × 100", "low": "scores near −112"}

SHORT = ("--repeats", "5", "--limit", "0.3")
LONGER = ("--repeats", "10", "--limit", "0.3")
FORWARD = ("--passes", "forward")
LAB5 = ("--impl", "pytorch,flash2,cudnn,f32,fixed,fixed16,bf16", *SHORT)
CS336 = ("--preset", "cs336-attention", "--memory_limit", "8G", *LONGER)
FLASH = ("--preset", "cs336-flash", *LONGER, "--seq_len", "128,512,2k,8k,32k,64k", "--emb_dim", "16,64,128")
ONE_HEAD = ("--batch_size", "8", "--num_heads", "1", "--emb_dim", "64")


# Measured by a program that is no longer there: every size of the tiles of register_rows. The file and its figure stay.
HISTORICAL = ("tilings",)


@dataclasses.dataclass(frozen=True)
class Step:
    what: str
    runner: str
    cells: dict
    goals: tuple[str, ...] = ("all",)  # what make brings up to date before
    gpu: bool = True
    traces: tuple[str, ...] = ()  # files beside its own


def sweep(what, *runs, **cells):
    """Runs of hw4 bench, each with all its cells in one process: a process for each would take longer than the cell."""
    return Step(what, "sweep", {"runs": runs, "device": "gpu", **cells})


def profile(what, *words):
    return Step(what, "profile", {"words": words})


STEPS = {
    "kernels": Step("the kernels on every case, beside PyTorch and cuBLAS", "beside_torch",
                    {"contract": "f32", "shapes": ("t*", bars.LONG_HEADS), "ladder": ("t28", "t29"), "runs": 20}),
    "kernels_fixed": Step("the kernels of the contract fixed, beside f32, PyTorch and cuBLAS", "beside_torch",
                          {"contract": "fixed", "shapes": tuple(bars.FIXED), "ladder": tuple(bars.FIXED), "runs": 20}),
    "rounds": Step("fixed and fixed16 beside FlashAttention-2 and cuDNN in bf16, in turns", "turns",
                   {"who": ("fixed", "fixed16", "fixed16:bf16", "flash2 bf16", "cudnn bf16"),
                    "shapes": ("t28", "t30", "t22", "512,1024,64", bars.LONG_HEADS, "t29"), "rounds": 5, "runs": 7,
                    # for a picture of speed against error
                    "on_first": ("f32", "bf16", "fp16", "flash2 fp16", "efficient", "naive tf32")}),
    "half_rounds": Step("bf16 and fp16 beside FlashAttention-2 and cuDNN, in turns", "turns",
                        {"who": HALF, "shapes": HALF_SHAPES, "rounds": 5, "runs": 7}),
    "half_backward": Step("gradients of bf16 and fp16 beside FlashAttention-2's and cuDNN's, in turns", "turns",
                          {"who": HALF, "shapes": HALF_SHAPES[:3], "rounds": 5, "runs": 7,
                           "backward": True}),
    "half_lengths": Step("bf16 from N = 512 to 16384, beside FlashAttention-2 and cuDNN", "turns",
                         {"who": ("bf16", "flash2 bf16", "cudnn bf16"), "shapes": HALF_LENGTHS, "rounds": 2,
                          "runs": 5}),
    "half_ladder": Step("the kernels of bf16 from tensors of its type", "ladder",
                        {"contract": "bf16", "shapes": HALF_LADDER, "runs": 10}),
    "lengths": Step("the chosen kernel from N = 128 to 32768, beside PyTorch", "beside_torch",
                    {"contract": "f32", "shapes": LENGTHS, "ladder": (), "runs": 20}),
    "steps": Step("whole runs of t28, one thing changed at a time", "steps",
                  {"shapes": ("t28",), "streams": 4, "device": "gpu", "runs": 7}),
    "profile_ladder": profile("the counters of every kernel on t28", "--case", "t28", "--kernel", "all"),
    "profile_cases": profile("the counters of three kernels on cases of growing N", "--case", "t02", "t04", "t06",
                             "t08", "t10", "t18", "t20", "t26", "t28", "--kernel", "padded_tiles", "register_rows",
                             "chosen"),
    "profile_fixed": profile("the counters of every kernel of the contract fixed on t28", "--contract", "fixed",
                             "--case", "t28", "--kernel", "all"),
    "fixed16_ladder": Step("the kernels of the contract fixed16", "ladder",
                           {"contract": "fixed16", "shapes": FIXED16_LADDER, "runs": 10}),
    "profile_fixed16": profile("the counters of every kernel of the contract fixed16", "--contract", "fixed16",
                               "--case", *FIXED16_LADDER, "--kernel", "all"),
    "profile_half": profile("the counters of every kernel of the contract bf16", "--contract", "bf16", "--case",
                            *HALF_LADDER, "--kernel", "all"),
    "accuracy": Step("the largest error against float64, beside PyTorch's", "accuracy",
                     {"shapes": ("t*",), "peers": ("efficient", "naive")}),
    "distributions": Step("the errors on values of several distributions, beside PyTorch's", "distributions",
                          {"seeds": {"8,1024,64": 0, "2,4096,128": 1}, "by_bound": False, "device": "gpu",
                           "kinds": ("uniform", "normal", "student", "outliers", "powers"),
                           "peers": ("efficient", "naive")}),
    # Without powers, which are beyond fp16's range.
    "half_errors": Step("the errors on such values beside those of half precision and TF32", "distributions",
                        {"seeds": {"8,1024,64": 0, "8,1024,128": 2, "2,4096,64": 3, "2,4096,128": 1,
                                   "1,16384,64": 4, "1,16384,128": 5}, "by_bound": True, "device": "gpu",
                         "kinds": ("uniform", "normal", "student", "outliers", "sink", "offset"),
                         "peers": ("efficient", "flash2 bf16", "cudnn bf16", "flash2 fp16", "naive tf32")}),
    "values": Step("the chosen kernels on values of many kinds, beside PyTorch", "values",
                   {"contracts": ("f32", "fixed"), "shapes": ("16,4096,64", "16,4096,128", "16,4096,32"),
                    "kinds": KINDS, "runs": 20}),
    "causal": Step("the chosen kernels under the causal mask and without it, beside PyTorch", "causal",
                   {"contracts": ("f32", "fixed"), "shapes": (*CAUSAL_LENGTHS, "4,32768,32", "512,1024,64"),
                    "runs": 20}),
    "backward": Step("the backward kernels, beside PyTorch's and gradients in float64", "backward",
                     {"ladder": "4,4096,64", "shapes": ("4,16384,64", "512,1024,64", "4,16384,128", "4,32768,32"),
                      "memory": "4,8192,64", "budgets": ("64", "128", "256", "512", "1024", "2048", "all"),  # MiB
                      "cpu": "4,4096,64", "cpu_runs": 5, "errors": ("g*",),
                      "lengths": tuple(256 << doubling for doubling in range(7)), "runs": 20}),
    "sequential": Step("seq on some batches of every case", "sequential", {"shapes": ("t*",)}, gpu=False),
    "cpu": Step("the CPU engine, beside seq and PyTorch", "cpu",
                {"contracts": ("f32",), "shapes": ("t08", "t10", "t20"), "seq": True, "runs": 7}, gpu=False),
    "cpu_contracts": Step("the CPU engine under each contract on t20, beside PyTorch in float32", "cpu",
                          {"contracts": ("f32", "fixed", "fixed16", "bf16", "fp16"), "shapes": ("t20",), "seq": False,
                           "runs": 7}, gpu=False),
    "files": Step("hw4 from file to file, beside two plain programs", "files",
                  {"shapes": ("t*",), "variants_on": ("t12", "t22", "t28"),
                   "variants": {"1 stream": ("--streams", "1"), "linear copies": ("--copies", "linear")},
                   "memory_of": "t22", "trace_of": "t22", "trace_streams": (4, 1), "device": "gpu", "runs": 5},
                  ("all", "references"), traces=("t22_streams4.trace.json", "t22_streams1.trace.json")),
    # Lab5's sizes where nothing else is said: B 32, N 1024, H 32, 2048 columns. A size at a time around B 16, and all
    # passes over the length, with 16384 tokens.
    "lab5": sweep("Lab5: time, rate and memory over length, batch, heads and width",
                  (*LAB5, *FORWARD, "--batch_size", "4,8,16,32,64"),
                  (*LAB5, *FORWARD, "--batch_size", "16", "--num_heads", "8,16,64"),
                  (*LAB5, *FORWARD, "--batch_size", "16", "--emb_dim", "512,1024,4096"),
                  (*LAB5, "--preset", "fa2", "--num_heads", "32")),
    "lab5_sweep": sweep("Lab5: every combination that students measure",
                        ("--impl", "pytorch,flash2,cudnn,f32,fixed16,bf16", *SHORT, *FORWARD, "--batch_size",
                         "16,32,64", "--seq_len", "512,1k", "--num_heads", "16,32", "--emb_dim", "1024,2048",
                         "--causal=both")),
    "cs336_attention": sweep("CS336: attention within 8 GiB", (*CS336, "--impl", "naive,f32,flash2"),
                             (*CS336, "--impl", "pytorch", "--dtype", "float32")),
    "cs336_flash": sweep("CS336: its table of kernels, caches cold",
                         (*FLASH, "--dtype", "bf16", "--impl", "pytorch,flash2,bf16"),
                         (*FLASH, "--dtype", "float32", "--impl", "pytorch,f32")),
    # Each cell in a process of its own, where the first launch is the first.
    "warmups": sweep("CS336: 0, 1, 2 and 5 launches before the first sample",
                     ("--separate", "--warmup", "0,1,2,5", "--repeats", "10", "--impl", "f32,pytorch", *FORWARD,
                      *ONE_HEAD, "--seq_len", "4096")),
    "memory": sweep("CS336: memory over time, with the scores and without",
                    ("--impl", "naive,f32", "--memory_limit", "8G", "--repeats", "3", "--limit", "0.3", *ONE_HEAD,
                     "--seq_len", "8k,16k"), tracks=True),
    "accumulate": Step("CS336: sums in low precision and in chains, on the GPU and the CPU", "accumulate",
                       {"devices": ("gpu", "cpu")}),
    # Ranks share this machine's cards and processors: the figures compare the ways, and say nothing of a network. A
    # step of the larger model takes seconds, and its gradients 8 GB a rank.
    "collectives": Step("hw4 bench: vectors and gradients added up by ranks that share this machine", "collectives",
                        {"ranks": (1, 2, 4, 6), "sizes": "1m..1g*10",
                         "rules": ("--warmup", "2", "--repeats", "10", "--limit", "2"),
                         "devices": {"cpu": "mpi,ordered", "gpu": "mpi,nccl,ordered"}, "gradients": (
                             (2, ("--model", "71m", "--via", "mpi,ordered", "--warmup", "2", "--repeats", "10",
                                  "--limit", "2")),
                             (4, ("--model", "71m", "--via", "mpi,ordered", "--warmup", "2", "--repeats", "10",
                                  "--limit", "2")),
                             (2, ("--model", "cs336-xl", "--via", "mpi", "--warmup", "1", "--repeats", "1", "--limit",
                                  "2", "--buckets", "100m,1000m")))}, ("hw4-mpi",)),
}
