"""What the report is measured from: a step for each file report/data/NAME.json, in the order of `report/measure`.

A step names its runner, a function of runners.py, and the cells that the runner measures: shapes (test cases, globs,
B,N,d or B,H,N,d), contracts, kernels, devices, samples. Plain data.
"""
from __future__ import annotations

import dataclasses

# Files of which the program is no longer there. They carry the commit that they were measured at, and the report is
# built from them until its figures are taken again. tilings: every size of the tiles of register_rows. The others have
# times of PyTorch beside ours; only `python -m hw4.neighbours` takes such times now.
HISTORICAL = ("tilings", "kernels", "kernels_fixed", "rounds", "half_rounds", "half_backward", "half_lengths", "lengths",
              "values", "causal", "backward", "cpu", "cpu_contracts", "lab5", "lab5_sweep", "cs336_attention",
              "cs336_flash", "warmups")

# PyTorch's implementation and the type of its numbers, by the names in the files of errors.
PEERS = {"flash2 bf16": ("flash2", "bf16"), "cudnn bf16": ("cudnn", "bf16"), "flash2 fp16": ("flash2", "fp16"),
         "efficient": ("efficient", "float32"), "naive": ("naive", "float32"), "naive tf32": ("naive", "tf32")}

HALF_LADDER = ("64,8192,64", "32,8192,128")
FIXED16_LADDER = ("4,16384,64", "4,16384,128")


@dataclasses.dataclass(frozen=True)
class Step:
    what: str
    runner: str
    cells: dict
    goals: tuple[str, ...] = ("all",)  # what make brings up to date before
    gpu: bool = True
    traces: tuple[str, ...] = ()  # files beside its own


def profile(what, *words):
    return Step(what, "profile", {"words": words})


STEPS = {
    "half_ladder": Step("the kernels of bf16 from tensors of its type", "ladder",
                        {"contract": "bf16", "shapes": HALF_LADDER, "runs": 10}),
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
    "sequential": Step("seq on some batches of every case", "sequential", {"shapes": ("t*",)}, gpu=False),
    "files": Step("hw4 from file to file, beside two plain programs", "files",
                  {"shapes": ("t*",), "variants_on": ("t12", "t22", "t28"),
                   "variants": {"1 stream": ("--streams", "1"), "linear copies": ("--copies", "linear")},
                   "memory_of": "t22", "trace_of": "t22", "trace_streams": (4, 1), "device": "gpu", "runs": 5},
                  ("all", "references"), traces=("t22_streams4.trace.json", "t22_streams1.trace.json")),
    "memory": Step("CS336: memory over time, with the scores and without", "memory",
                   {"words": ("--impl", "naive,f32", "--memory_limit", "8G", "--repeats", "3", "--limit", "0.3",
                              "--batch_size", "8", "--num_heads", "1", "--emb_dim", "64", "--seq_len", "8k,16k"),
                    "device": "gpu"}),
    "accumulate": Step("CS336: sums in low precision and in chains, on the GPU and the CPU", "accumulate",
                       {"devices": ("gpu", "cpu")}),
    # Ranks share this machine's cards and processors: the figures compare the ways, and say nothing of a network.
    "collectives": Step("hw4 bench: vectors and gradients added up by ranks that share this machine", "collectives",
                        {"ranks": (1, 2, 4, 6), "sizes": "1m..1g*10",
                         "rules": ("--warmup", "2", "--repeats", "10", "--limit", "2"),
                         "devices": {"cpu": "mpi,ordered", "gpu": "mpi,nccl,ordered"}, "gradients": (
                             (2, ("--model", "71m", "--warmup", "2")), (4, ("--model", "71m", "--warmup", "2")))},
                        ("hw4-mpi",)),
}
