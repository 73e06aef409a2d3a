"""The steps of report/measure: what each measures, with which program, into which files."""
import dataclasses

TOKENS = 65536  # batches times length in the step `lengths`
LENGTHS = [128 << doubling for doubling in range(9)]
LENGTH_SHAPES = [f"{max(2, TOKENS // length)},{length},{dim}" for dim in (32, 64, 128) for length in LENGTHS]
# d = 64, N from 128 to 16384
PROFILED_CASES = ("t02", "t04", "t06", "t08", "t10", "t18", "t20", "t26", "t28")
# Presets of hw4 bench
SWEEPS = {"lab5": "lab5.py's sizes with 32 heads", "cs336-attention": "CS336's table of attention within 8 GiB",
          "cs336-flash": "CS336's table of its kernel", "fa2": "FlashAttention-2's sizes",
          "course": "the course's cases"}


@dataclasses.dataclass(frozen=True)
class Step:
    name: str  # NAME.json is its file
    what: str
    goals: tuple[str, ...]  # what make brings up to date before
    command: tuple[str, ...]  # in the project's folder; --json FILE is added
    needs_gpu: bool = True
    traces: tuple[str, ...] = ()  # files beside its own, which it writes to --trace-folder
    measured: tuple[int, ...] = (0,)  # exit codes after which the file counts

    @property
    def file(self) -> str:
        return f"{self.name}.json"


STEPS = (
    Step("kernels", "the kernels on every case, beside PyTorch and cuBLAS", ("time-kernels",),
         ("report/bench_gpu", "--contract", "f32")),
    Step("kernels_fixed", "the kernels of the contract fixed, beside f32, PyTorch and cuBLAS", ("time-kernels",),
         ("report/bench_gpu", "--contract", "fixed")),
    Step("kernels_fixed16", "the kernels of the contract fixed16, beside f32, PyTorch and cuBLAS", ("time-kernels",),
         ("report/bench_gpu", "--contract", "fixed16")),
    Step("rounds", "fixed and fixed16 beside FlashAttention-2 and cuDNN in bf16, in turns", ("time-kernels",),
         ("report/bench_rounds",)),
    Step("lengths", "the chosen kernel from N = 128 to 32768, beside PyTorch", ("time-kernels",),
         ("report/bench_gpu", "--contract", "f32", "--no-ladder", "--shapes", *LENGTH_SHAPES)),
    Step("tilings", "one kernel with every size of its tiles", ("time-tilings",), ("report/bench_tilings",)),
    Step("steps", "whole runs of t28, one thing changed at a time", ("all",), ("report/bench_steps",)),
    Step("profile_ladder", "the counters of every kernel on t28", ("time-kernels",),
         ("profile/profile", "--case", "t28", "--kernel", "all")),
    Step("profile_cases", "the counters of three kernels on cases of growing N", ("time-kernels",),
         ("profile/profile", "--case", *PROFILED_CASES, "--kernel", "padded_tiles", "register_rows", "chosen")),
    Step("profile_fixed", "the counters of every kernel of the contract fixed on t28", ("time-kernels",),
         ("profile/profile", "--contract", "fixed", "--case", "t28", "--kernel", "all")),
    Step("profile_fixed16", "the counters of every kernel of the contract fixed16 on t28", ("time-kernels",),
         ("profile/profile", "--contract", "fixed16", "--case", "t28", "--kernel", "all")),
    # 1: an error is beyond the course's limit, which is a result too.
    Step("accuracy", "the largest error against float64, beside PyTorch's", ("all",), ("report/accuracy",),
         measured=(0, 1)),
    Step("distributions", "the errors on values of several distributions, beside PyTorch's", ("all",),
         ("report/distributions",)),
    Step("half_errors", "the errors on such values beside those of half precision and TF32", ("all",),
         ("report/distributions", "--beside", "half")),
    Step("values", "the chosen kernels on values of many kinds, beside PyTorch", ("time-kernels", "all"),
         ("report/bench_values",)),
    Step("causal", "the chosen kernels under the causal mask and without it, beside PyTorch", ("time-kernels",),
         ("report/bench_causal",)),
    Step("backward", "the backward kernels, beside PyTorch's and gradients in float64", ("time-kernels", "all"),
         ("report/bench_backward",)),
    Step("sequential", "seq on some batches of every case", ("all",), ("report/bench_seq",), needs_gpu=False),
    Step("cpu", "the CPU engine, beside seq and PyTorch", ("all",), ("report/bench_cpu",), needs_gpu=False),
    Step("files", "hw4 from file to file, beside two plain programs", ("all", "references", "start-up"),
         ("report/bench_files",), traces=("t22_streams4.trace.json", "t22_streams1.trace.json")),
    *(Step(f"bench_{preset.replace('-', '_')}", f"hw4 bench: {what}, by every implementation", ("all",),
           ("report/bench_sweep", preset)) for preset, what in SWEEPS.items()),
    Step("bench_accumulate", "hw4 bench: sums in low precision and in chains, on the GPU and the CPU", ("all",),
         ("report/bench_sweep", "accumulate")),
)
