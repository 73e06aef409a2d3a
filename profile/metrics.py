"""The metrics of profile/profile: their names, their Nsight Compute columns, and how they are derived.

ncu 2025.3 has these names on an H200 (gh100). Where the chip or the version lacks a column, the value is None,
never 0. A rate is a sum over the duration of the launch: collecting ncu's own rate beside the sum would only take
longer.
"""
from __future__ import annotations

import dataclasses
from typing import Callable

WAVEFRONT_BYTES = 128  # throughput of shared memory per cycle: 32 banks of 4 bytes
WARP_THREADS = 32

DURATION = "gpu__time_duration.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
SHARED_LOADS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
SHARED_STORES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
DRAM_READ = "dram__bytes_read.sum"
DRAM_WRITE = "dram__bytes_write.sum"

Number = Callable[[str], "float | None"]  # the value in the named column


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    label: str
    unit: str
    ncu: tuple[str, ...]  # columns
    derive: Callable[..., "float | None"]  # from the columns' values, in their order
    note: str = ""

    def value(self, number: Number) -> float | None:
        values = [number(name) for name in self.ncu]
        return None if None in values else self.derive(*values)

    def description(self) -> dict:
        return {"key": self.key, "label": self.label, "unit": self.unit, "ncu": list(self.ncu), "note": self.note}


def _same(value):
    return value


def quotient(amount: float | None, by: float | None) -> float | None:
    return amount / by if amount is not None and by else None


def _wavefront_rate(wavefronts, seconds):
    return quotient(WAVEFRONT_BYTES * wavefronts, seconds)


METRICS = (
    Metric("duration_seconds", "duration", "s", (DURATION,), _same,
           "of one launch with cold caches, clocks not locked; hw4 bench is what times a kernel"),
    Metric("achieved_occupancy_pct", "achieved occupancy", "%",
           ("sm__warps_active.avg.pct_of_peak_sustained_active",), _same, "warps on a busy multiprocessor"),
    Metric("theoretical_occupancy_pct", "theoretical occupancy", "%", ("sm__maximum_warps_per_active_cycle_pct",),
           _same, "what registers, shared memory and the block's size allow"),
    Metric("sm_efficiency_pct", "SM efficiency", "%", ("smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",),
           _same, "share of the time in which a multiprocessor has a warp"),
    Metric("shared_load_bytes_per_second", "shared load throughput", "byte/s", (SHARED_LOADS, DURATION),
           _wavefront_rate, "wavefronts x 128 bytes: the share of the peak that is used up, conflicts included"),
    Metric("shared_store_bytes_per_second", "shared store throughput", "byte/s", (SHARED_STORES, DURATION),
           _wavefront_rate, "wavefronts x 128 bytes; what cp.async writes is not counted"),
    Metric("shared_load_wavefronts", "shared load wavefronts", "", (SHARED_LOADS,), _same,
           "cycles of the shared memory pipe, of up to 128 bytes"),
    Metric("shared_load_instructions", "shared load instructions", "", ("smsp__inst_executed_op_shared_ld.sum",),
           _same, "of warps"),
    Metric("shared_load_conflicts", "shared load bank conflicts", "",
           ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",), _same, "wavefronts beyond those needed"),
    Metric("shared_store_conflicts", "shared store bank conflicts", "",
           ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",), _same,
           "wavefronts beyond those needed; of cp.async none are counted"),
    # Includes cp.async: on t28 async_tiles (cp.async alone) has 4.314 GB here and register_tiles (without) 4.312 GB.
    Metric("global_load_bytes_per_second", "global load throughput", "byte/s",
           ("l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum", DURATION), quotient,
           "bytes of the sectors asked of L1, so it may exceed the memory's peak; cp.async is included"),
    Metric("global_store_bytes_per_second", "global store throughput", "byte/s",
           ("l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum", DURATION), quotient, "bytes of the sectors given to L1"),
    Metric("dram_read_bytes_per_second", "DRAM read throughput", "byte/s", (DRAM_READ, DURATION), quotient),
    Metric("dram_write_bytes_per_second", "DRAM write throughput", "byte/s", (DRAM_WRITE, DURATION), quotient),
    Metric("dram_bytes", "DRAM traffic", "byte", (DRAM_READ, DRAM_WRITE), lambda read, write: read + write),
    Metric("l2_bytes", "L2 traffic", "byte", ("lts__t_bytes.sum",), _same),
    # ncu 2025.3 calls the column deprecated; older versions have no other.
    Metric("warp_execution_efficiency_pct", "warp execution efficiency", "%",
           ("smsp__thread_inst_executed_per_inst_executed.ratio",), lambda threads: 100 * threads / WARP_THREADS,
           "active threads of 32 in an instruction"),
    Metric("issue_slots_busy_pct", "issue slots busy", "%", ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
           _same),
    Metric("fma_pipe_pct", "FMA pipe used", "%", ("smsp__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",),
           _same, "of its peak, an instruction a cycle; integer multiplications take this pipe too"),
    Metric("fma_share_pct", "FMA pipe's share of instructions", "%",
           ("smsp__inst_executed_pipe_fma.sum", INSTRUCTIONS), lambda fma, all_: quotient(100 * fma, all_),
           "integer multiplications take this pipe too"),
    Metric("ipc", "instructions per cycle", "", ("sm__inst_executed.avg.per_cycle_active",), _same,
           "of a busy multiprocessor; 4 at most"),
    Metric("instructions", "instructions", "", (INSTRUCTIONS,), _same, "of warps"),
    Metric("flop", "floating-point operations", "",
           ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"), lambda ffma, fadd, fmul: 2 * ffma + fadd + fmul,
           "2 ffma + fadd + fmul as counted, so with exp2's, unlike 4*B*N*N*d"),
    Metric("registers", "registers a thread", "", ("launch__registers_per_thread",), _same),
    Metric("shared_bytes_per_block", "shared memory a block", "byte",
           ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
           lambda static, dynamic: static + dynamic, "without the 1 KiB that CUDA keeps in every block"),
    Metric("block_threads", "threads a block", "", ("launch__block_size",), _same),
    Metric("grid_blocks", "blocks", "", ("launch__grid_size",), _same),
    Metric("waves", "waves", "", ("launch__waves_per_multiprocessor",), _same,
           "blocks over the number that fits on the GPU at once"),
    # A load brings at least one byte of each sector, so ncu's 0 means a kernel without such loads.
    Metric("bytes_per_sector_load_pct", "bytes used of a loaded sector", "%",
           ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",), lambda pct: pct or None,
           "coalescing of plain global loads; n/a where there are none, as with cp.async alone"),
    Metric("local_load_instructions", "local load instructions", "", ("smsp__inst_executed_op_local_ld.sum",), _same,
           "of warps; registers spilled, or arrays indexed at run time"),
)

# Additional metrics of kernels on tensor cores.
TENSOR_METRICS = (
    Metric("tensor_pipe_pct", "tensor pipe active", "%",
           ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",), _same,
           "share of a busy multiprocessor's cycles in which its tensor cores work"),
    Metric("gmma_instructions", "asynchronous tensor instructions", "",
           ("smsp__inst_executed_pipe_tensor_op_gmma.sum",), _same, "of warps; mma.sync is not counted"),
    Metric("alu_pipe_pct", "ALU pipe used", "%", ("sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",),
           _same, "of its peak: integers, comparisons, conversions of bits"),
    Metric("l2_throughput_pct", "L2 throughput", "%", ("lts__throughput.avg.pct_of_peak_sustained_elapsed",), _same,
           "of its peak"),
    Metric("dram_throughput_pct", "DRAM throughput", "%", ("dram__throughput.avg.pct_of_peak_sustained_elapsed",),
           _same, "of its peak"),
)

# The reasons why a warp does not issue; `selected`, the warp that issues, is not among them.
STALL_REASONS = ("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle",
                 "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction",
                 "not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait")
READY = "not_selected"  # such a warp could issue, but another one does: it does not wait


def stall_column(reason: str) -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


_BESIDE = dict.fromkeys(("fixed", "fixed16", "bf16", "fp16"), TENSOR_METRICS)  # by contract


def metrics_of(contract: str = "") -> tuple[Metric, ...]:
    return *METRICS, *_BESIDE.get(contract, ())


def metric_values(number: Number, contract: str = "") -> dict[str, float | None]:
    return {metric.key: metric.value(number) for metric in metrics_of(contract)}


def stall_values(number: Number) -> dict[str, float]:
    """Cycles that a warp waits for each reason between two of its instructions (equal to ncu's number of waiting warps
    per issued instruction); reasons that the chip lacks are left out."""
    values = {reason: number(stall_column(reason)) for reason in STALL_REASONS}
    return {reason: value for reason, value in values.items() if value is not None}


def top_stalls(stalls: dict[str, float], count: int) -> list[tuple[str, float]]:
    """The reasons for which warps wait longest, the longest first."""
    waits = [(reason, value) for reason, value in stalls.items() if reason != READY and value > 0]
    return sorted(waits, key=lambda pair: -pair[1])[:count]


def columns(contract: str = "") -> list[str]:
    """Every column that the metrics and the stalls need, once."""
    names = [name for metric in metrics_of(contract) for name in metric.ncu]
    return list(dict.fromkeys([*names, *map(stall_column, STALL_REASONS)]))
