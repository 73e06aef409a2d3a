"""The steps of report/measure: what each measures, with which program, into which files."""
import dataclasses

TOKENS = 65536  # batches times length in the step `lengths`
LENGTHS = [128 << doubling for doubling in range(9)]
LENGTH_SHAPES = [f"{max(2, TOKENS // length)},{length},{dim}" for dim in (32, 64, 128) for length in LENGTHS]
# d = 64, N from 128 to 16384
PROFILED_CASES = ("t02", "t04", "t06", "t08", "t10", "t18", "t20", "t26", "t28")
# Half precision: heads of 64 and 128 of 1024 columns, 8192 tokens or one batch.
HALF_LENGTHS = [f"{max(1, 8192 >> doubling)},{1024 // dim},{1 << doubling},{dim}" for dim in (64, 128)
                for doubling in range(9, 15)]
HALF_LADDER = ("64,8192,64", "32,8192,128")
CPU_CONTRACTS = ("f32", "fixed", "fixed16", "bf16", "fp16")
FIXED16_LADDER = ("4,16384,64", "4,16384,128")
# Of hw4 bench
SWEEPS = {"lab5": "Lab5: time, rate and memory over length, batch, heads and width",
          "lab5_sweep": "Lab5: every combination that students measure",
          "cs336_attention": "CS336: attention within 8 GiB", "cs336_flash": "CS336: its table of kernels, caches cold",
          "warmups": "CS336: 0, 1, 2 and 5 launches before the first sample",
          "memory": "CS336: memory over time, with the scores and without"}


@dataclasses.dataclass(frozen=True)
class Step:
    name: str  # NAME.json is its file
    what: str
    goals: tuple[str, ...]  # what make brings up to date before
    command: tuple[str, ...]  # in the project's folder; --json FILE is added
    needs_gpu: bool = True
    traces: tuple[str, ...] = ()  # files beside its own, which it writes to --trace-folder
    measured: tuple[int, ...] = (0,)  # exit codes after which the file counts
    takes_seconds: bool = False  # --seconds is the time that it may take

    @property
    def file(self) -> str:
        return f"{self.name}.json"


STEPS = (
    Step("kernels", "the kernels on every case, beside PyTorch and cuBLAS", ("time-kernels",),
         ("report/bench_gpu", "--contract", "f32")),
    Step("kernels_fixed", "the kernels of the contract fixed, beside f32, PyTorch and cuBLAS", ("time-kernels",),
         ("report/bench_gpu", "--contract", "fixed")),
    Step("rounds", "fixed and fixed16 beside FlashAttention-2 and cuDNN in bf16, in turns", ("time-kernels",),
         ("report/bench_rounds", "--contracts", "fixed", "fixed16", "fixed16:bf16"), takes_seconds=True),
    Step("half_rounds", "bf16 and fp16 beside FlashAttention-2 and cuDNN, in turns", ("time-kernels",),
         ("report/bench_rounds", "--contracts", "bf16", "fp16"), takes_seconds=True),
    Step("half_backward", "gradients of bf16 and fp16 beside FlashAttention-2's and cuDNN's, in turns",
         ("time-kernels",), ("report/bench_rounds", "--backward", "--contracts", "bf16", "fp16"), takes_seconds=True),
    Step("half_lengths", "bf16 from N = 512 to 16384, beside FlashAttention-2 and cuDNN", ("time-kernels",),
         ("report/bench_rounds", "--contracts", "bf16", "--rounds", "2", "--runs", "5", *HALF_LENGTHS),
         takes_seconds=True),
    Step("half_ladder", "the kernels of bf16 from operands of its type", ("time-kernels",),
         ("report/bench_ladder", "bf16", *HALF_LADDER)),
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
    Step("fixed16_ladder", "the kernels of the contract fixed16", ("time-kernels",),
         ("report/bench_ladder", "fixed16", *FIXED16_LADDER)),
    Step("profile_fixed16", "the counters of every kernel of the contract fixed16", ("time-kernels",),
         ("profile/profile", "--contract", "fixed16", "--case", *FIXED16_LADDER, "--kernel", "all")),
    Step("profile_half", "the counters of every kernel of the contract bf16", ("time-kernels",),
         ("profile/profile", "--contract", "bf16", "--case", *HALF_LADDER, "--kernel", "all")),
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
    Step("cpu_contracts", "the CPU engine under each contract on t20, beside PyTorch in float32", ("all",),
         ("report/bench_cpu", "--contract", *CPU_CONTRACTS, "--need-torch", "--no-seq", "t20"), needs_gpu=False),
    Step("files", "hw4 from file to file, beside two plain programs", ("all", "references", "start-up"),
         ("report/bench_files",), traces=("t22_streams4.trace.json", "t22_streams1.trace.json")),
    *(Step(name, what, ("all",), ("report/bench_sweep", name), takes_seconds=True) for name, what in SWEEPS.items()),
    Step("accumulate", "CS336: sums in low precision and in chains, on the GPU and the CPU", ("all",),
         ("report/bench_sweep", "accumulate")),
    Step("collectives", "hw4 bench: vectors and gradients added up by ranks that share this machine", ("hw4-mpi",),
         ("report/bench_collectives",)),
)
