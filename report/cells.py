"""The measurements for the report: a step for each file report/data/NAME.json, in the order of `report/measure`.

A step names its runner, a function of runners.py, and the cells that the runner measures: shapes (test cases, globs,
B,N,d or B,H,N,d), contracts, kernels, devices, samples. All of it is plain data.
"""
from __future__ import annotations

import dataclasses

# PyTorch's implementations and their types, by the names in the files of errors.
PEERS = {"flash2 bf16": ("flash2", "bf16"), "cudnn bf16": ("cudnn", "bf16"), "flash2 fp16": ("flash2", "fp16"),
         "efficient": ("efficient", "float32"), "naive": ("naive", "float32"), "naive tf32": ("naive", "tf32")}

HALF_LADDER = ("64,8192,64", "32,8192,128")
FIXED16_LADDER = ("4,16384,64", "4,16384,128")
# B, H, N, d of the results table, of the comparison with PyTorch, and of the sections about Lab5 and CS336.
RESULTS, T28 = ("4,16,8192,64", "2,16,8192,128"), "4,1,16384,64"
LENGTHS = ("32,32,512,64", "16,32,1024,64", RESULTS[0], "1,16,16384,64", "32,16,512,128", "16,16,1024,128", RESULTS[1],
           "1,16,16384,128")
LAB5 = ("32,32,512,64", "16,32,1024,64", "4,32,4096,64", "1,32,16384,64")
CS336_SHORT, CS336_FLASH = ("8,1,256,64", "8,1,1024,64", "8,1,4096,64"), ("1,1,1024,64", "1,1,8192,64", "1,1,65536,64")
# B, H, heads of K and V, N, d
CACHES = tuple(f"64,{heads},8192,128" for heads in ("32,32", "32,8", "64,8")) + tuple(
    f"1,{heads},131072,128" for heads in ("32,32", "32,8", "64,8")) + ("1,32,32,1024,128",)


@dataclasses.dataclass(frozen=True)
class Step:
    what: str
    runner: str
    cells: dict
    goals: tuple[str, ...] = ("all",)  # make targets to build before
    gpu: bool = True
    about: int = 0  # seconds on an H200, estimated
    traces: tuple[str, ...] = ()  # additional files


def profile(what, *words):
    return Step(what, "profile", {"words": words})


def ladder(what, contract, shapes, passes="forward"):
    return Step(what, "ladder", {"contract": contract, "shapes": shapes, "passes": passes, "runs": 20})


def sweep(what, about, *runs):
    """Each run is the arguments of one `hw4 bench`."""
    return Step(what, "sweep", {"runs": runs, "device": "gpu"}, about=about)


def beside(what, about, *runs):
    """Each run is the arguments of one measurement of `python -m hw4.neighbours`."""
    return Step(what, "beside", {"words": tuple(word for run in runs for word in ("--and", *run))[1:]}, ("all", "lib"),
                about=about)


def run(section, dtype, contracts, peers, cells, *others):
    return ("--section", section, "--dtype", dtype, "--contracts", *contracts, "--peers", *peers, "--cells", *cells,
            *others)


BOTH_WAYS = ("--passes", "forward", "backward")
ALL_WAYS = (*BOTH_WAYS, "both")
GRAPHS = ("--graphs", "--passes", "forward", "both")  # where Python would be what is timed
CUDNN = ("cudnn", "fa2")
DECODE = ("--decode", "--graphs")
LAB5_BASE = ("--batch_size", "16", "--seq_len", "1k", "--num_heads", "32", "--emb_dim", "2048")
LAB5_IMPLS = ("--impl", "f32,fixed,fixed16,bf16", "--repeats", "10", "--limit", "1")
LAB5_LENGTHS = tuple(word for tokens in (512, 1024, 2048, 4096, 8192, 16384)
                     for word in ("--shape", f"{16384 // tokens},32,{tokens},64"))

STEPS = {
    "beside": beside(
        "the contracts beside PyTorch's attention, in turns (python -m hw4.neighbours)", 75,
        run("results", "float32", ("f32", "fixed", "fixed16"), ("efficient",), (T28,)),
        run("results", "float32", ("fixed", "fixed16"), ("efficient",), RESULTS),
        run("results", "bf16", ("bf16", "fixed16"), CUDNN, (T28,)),
        run("results", "fp16", ("fp16",), CUDNN, RESULTS, *BOTH_WAYS),
        run("lab5", "fp16", ("fp16",), ("naive", *CUDNN), LAB5, *ALL_WAYS),
        run("cs336", "float32", ("f32",), ("naive",), CS336_SHORT, *GRAPHS),
        run("cs336", "bf16", ("bf16",), ("fa2",), CS336_FLASH, *GRAPHS)),
    "beside_cudnn": beside(
        "bf16 beside cuDNN and FlashAttention-2, f32 beside efficient attention, over the length", 165,
        run("lengths", "bf16", ("bf16",), CUDNN, LENGTHS, *BOTH_WAYS, "--regime", "sustained", "burst", "--values",
            "normal", "uniform"),
        run("lengths", "float32", ("f32",), ("efficient",), LENGTHS[:-1], *BOTH_WAYS)),
    "beside_decode": beside(
        "decoding from caches, pages and packed sequences, beside PyTorch's attention", 40,
        run("decode", "float32", ("f32",), ("efficient", "paged"), CACHES, *DECODE),
        run("decode", "bf16", ("f32", "bf16"), (*CUDNN, "efficient", "paged"), CACHES, *DECODE),
        run("decode", "float32", ("f32",), ("efficient",), ("1,1,16384,64", "1,4,16384,64")),
        run("packed", "bf16", ("bf16",), ("lengths",), ("16,16,1024,128", "4,16,8192,64")),
        run("packed", "float32", ("f32",), ("lengths",), ("16,16,1024,128",))),
    "ladder": ladder("the kernels of f32", "f32", ("t28", "t29")),
    "fixed_ladder": ladder("the kernels of fixed", "fixed", ("t28", "t29", "t11", "4,16384,128")),
    "fixed16_ladder": ladder("the kernels of fixed16", "fixed16", FIXED16_LADDER),
    "half_ladder": ladder("the kernels of bf16 from tensors of its type", "bf16", HALF_LADDER),
    "backward_ladder": ladder("the kernels of f32's backward", "f32", ("4,4096,64",), "backward"),
    "cpu": Step("every contract on the CPU", "cpu", {"case": "t20", "runs": 7}, gpu=False),
    "ablation": Step("the fastest kernels with one part removed from each (report/variants.py)", "ablation",
                     {"runs": 20}, about=80),
    "profile_ladder": profile("the counters of every kernel on t28", "--case", "t28", "--kernel", "all"),
    "profile_cases": profile("the counters of the chosen kernel on a small and a large case", "--case", "t02", "t28",
                             "--kernel", "chosen"),
    "profile_fixed": profile("the counters of every kernel of the contract fixed on t28", "--contract", "fixed",
                             "--case", "t28", "--kernel", "all"),
    "profile_fixed16": profile("the counters of every kernel of the contract fixed16", "--contract", "fixed16",
                               "--case", *FIXED16_LADDER, "--kernel", "all"),
    "profile_half": profile("the counters of the kernels of bf16 for many rows", "--contract", "bf16", "--case",
                            *HALF_LADDER, "--kernel", "mma_bf16", "wgmma_stage", "wgmma_ring", "wgmma_ahead",
                            "wgmma_bf16"),
    "accuracy": Step("the largest error against float64, beside PyTorch's", "accuracy",
                     {"shapes": ("t*",), "peers": ("efficient", "naive")}),
    "distributions": Step("the errors on values of several distributions, beside PyTorch's", "distributions",
                          {"seeds": {"8,1024,64": 0, "2,4096,128": 1}, "by_bound": False, "device": "gpu",
                           "kinds": ("uniform", "normal", "student", "outliers", "powers"),
                           "peers": ("efficient", "naive")}),
    # Without the distribution `powers`, which exceeds fp16's range.
    "half_errors": Step("the errors on such values beside those of half precision and TF32", "distributions",
                        {"seeds": {"8,1024,64": 0, "8,1024,128": 2, "2,4096,64": 3, "2,4096,128": 1,
                                   "1,16384,64": 4, "1,16384,128": 5}, "by_bound": True, "device": "gpu",
                         "kinds": ("uniform", "normal", "student", "outliers", "sink", "offset"),
                         "peers": ("efficient", "flash2 bf16", "cudnn bf16", "flash2 fp16", "naive tf32")}),
    "sequential": Step("seq on some batches of every case", "sequential", {"shapes": ("t*",)}, gpu=False),
    "files": Step("hw4 from file to file, beside two plain programs", "files",
                  {"shapes": ("t*",), "variants_on": ("t12", "t22", "t28"),
                   "variants": {"1 stream": ("--streams", "1"), "linear copies": ("--copies", "linear")},
                   "memory_of": "t22", "trace_of": "t22", "trace_streams": (4, 1), "device": "gpu", "runs": 5},
                  ("all", "references"), traces=("t22_streams4.trace.json", "t22_streams1.trace.json")),
    # Where an option is repeated, the last one counts.
    "lab5": sweep("Lab5: hw4 over batch, heads, width and length, and its memory", 80,
                  *((*LAB5_BASE, *LAB5_IMPLS, "--passes", "forward", *words) for words in (
                      ("--batch_size", "4,8,16,32,64"), ("--num_heads", "8,16,64"), ("--emb_dim", "512,1k,4k"))),
                  (*LAB5_LENGTHS, *LAB5_IMPLS), (*LAB5_LENGTHS, *LAB5_IMPLS, "--causal", "--passes", "forward")),
    "half_lengths": sweep("bf16 at d = 128 over the length, beside published figures", 15,
                          ("--impl", "bf16", "--causal=both", "--passes", "forward", "--repeats", "10", *(
                              word for tokens in (1024, 4096, 8192, 16384)
                              for word in ("--shape", f"{16384 // tokens},16,{tokens},128")))),
    "cs336_attention": sweep("CS336: the grid of attention within 8 GiB, with the scores in memory and without", 40,
                             ("--impl", "naive,f32", "--memory_limit", "8G", "--batch_size", "8", "--num_heads", "1",
                              "--emb_dim", "16,32,64,128", "--seq_len", "256,1k,4k,8k,16k", "--repeats", "10",
                              "--limit", "0.3")),
    "warmups": sweep("CS336: samples after 0, 1, 2 and 5 warm-up launches", 6,
                     *(("--impl", "f32", "--batch_size", "8", "--num_heads", "1", "--emb_dim", "64", "--seq_len", "4k",
                        "--repeats", "10", "--passes", "forward", "--warmup", str(count)) for count in (0, 1, 2, 5))),
    "memory": Step("CS336: memory over time, with the scores and without", "memory",
                   {"words": ("--impl", "naive,f32", "--memory_limit", "8G", "--repeats", "3", "--limit", "0.3",
                              "--batch_size", "8", "--num_heads", "1", "--emb_dim", "64", "--seq_len", "8k,16k"),
                    "device": "gpu"}),
    "accumulate": Step("CS336: sums in low precision and in chains, on the GPU and the CPU", "accumulate",
                       {"devices": ("gpu", "cpu")}),
    # The ranks share this machine's GPUs and processors: the figures compare the ways and say nothing of a network.
    "collectives": Step("hw4 bench: vectors and gradients added up by ranks that share this machine", "collectives",
                        {"ranks": (2, 4, 6), "sizes": "1m..1g*10",
                         "rules": ("--warmup", "1", "--repeats", "10", "--limit", "1"),
                         "devices": {"cpu": "mpi,ordered", "gpu": "mpi,ordered"}, "gradients": tuple(
                             (ranks, ("--device", "gpu", "--model", "71m", "--ways", "naive,flat,overlapped",
                                      "--buckets", "1m..100m*10", "--warmup", "2", "--repeats", "5"))
                             for ranks in (2, 4))},
                        ("hw4-mpi",), about=105),
    "training": Step("CS336: hw4's training step (hw4 bench step)", "training", {"device": "gpu", "runs": (
        (1, ("--preset", "cs336-precision", "--limit", "1")),
        (1, ("--model", "small,medium", "--seq_len", "128,256,1k", "--limit", "1")),
        (1, ("--preset", "cs336-naive", "--attention", "naive", "--limit", "1")),
        (1, ("--preset", "cs336-warmup", "--warmup", "0,1,2", "--limit", "1")),
        (2, ("--seq_len", "128", "--ways", "flat", "--shard=both", "--limit", "1")))}, ("hw4-mpi",), about=120),
    "training_beside": Step("CS336: hw4's training step beside PyTorch's (python -m hw4.step)", "training_beside",
                            {"words": ("--models", "small", "medium")}, ("all", "lib"), about=95),
}
