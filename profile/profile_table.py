"""The tables that profile/profile prints: a table for each group of metrics, with a row per launch."""
from __future__ import annotations

import dataclasses
from typing import Callable

from metrics import top_stalls

NOT_THERE = "n/a"


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    unit: str
    value: Callable[[dict], "float | None"]  # from a launch's metrics
    form: str = ".0f"

    def text(self, metrics: dict) -> str:
        value = self.value(metrics)
        return NOT_THERE if value is None else format(value, self.form)


def _of(key: str, scale: float = 1):
    return lambda metrics: None if metrics[key] is None else metrics[key] * scale


def _ratio(above: str, below: str, scale: float = 1):
    return lambda metrics: (None if metrics[above] is None or not metrics[below]
                            else metrics[above] / metrics[below] * scale)


GROUPS = (
    ("time and instructions", (
        Column("time", "ms", _of("duration_seconds", 1e3), ".3f"),
        Column("counted", "TFLOP/s", _ratio("flop", "duration_seconds", 1e-12), ".2f"),
        Column("counted", "GFLOP", _of("flop", 1e-9), ".1f"),
        Column("SM", "busy %", _of("sm_efficiency_pct"), ".1f"),
        Column("issue slots", "busy %", _of("issue_slots_busy_pct"), ".1f"),
        Column("IPC", "of 4", _of("ipc"), ".2f"),
        Column("FMA pipe", "of peak %", _of("fma_pipe_pct"), ".1f"),
        Column("FMA pipe", "of instr. %", _of("fma_share_pct"), ".1f"),
        Column("instructions", "10^6", _of("instructions", 1e-6), ".0f"),
    )),
    ("launch and occupancy", (
        Column("occupancy", "achieved %", _of("achieved_occupancy_pct"), ".1f"),
        Column("occupancy", "possible %", _of("theoretical_occupancy_pct"), ".1f"),
        Column("registers", "a thread", _of("registers")),
        Column("shared", "B a block", _of("shared_bytes_per_block")),
        Column("threads", "a block", _of("block_threads")),
        Column("blocks", "", _of("grid_blocks")),
        Column("waves", "", _of("waves"), ".2f"),
        Column("warps", "filled %", _of("warp_execution_efficiency_pct"), ".1f"),
    )),
    ("shared memory", (
        Column("load", "GB/s", _of("shared_load_bytes_per_second", 1e-9)),
        Column("store", "GB/s", _of("shared_store_bytes_per_second", 1e-9)),
        Column("loads", "10^6", _of("shared_load_instructions", 1e-6), ".1f"),
        Column("wavefronts", "a load", _ratio("shared_load_wavefronts", "shared_load_instructions"), ".2f"),
        Column("load conflicts", "10^6", _of("shared_load_conflicts", 1e-6), ".3f"),
        Column("store conflicts", "10^6", _of("shared_store_conflicts", 1e-6), ".3f"),
    )),
    ("global memory", (
        Column("load", "GB/s", _of("global_load_bytes_per_second", 1e-9), ".1f"),
        Column("store", "GB/s", _of("global_store_bytes_per_second", 1e-9), ".1f"),
        Column("sectors", "used %", _of("bytes_per_sector_load_pct"), ".1f"),
        Column("L2", "GB", _of("l2_bytes", 1e-9), ".3f"),
        Column("DRAM read", "GB/s", _of("dram_read_bytes_per_second", 1e-9), ".2f"),
        Column("DRAM write", "GB/s", _of("dram_write_bytes_per_second", 1e-9), ".2f"),
        Column("DRAM", "MB", _of("dram_bytes", 1e-6), ".1f"),
        Column("local loads", "10^6", _of("local_load_instructions", 1e-6), ".3f"),
    )),
)
TENSOR_GROUP = ("tensor cores", (
    Column("tensor pipe", "active %", _of("tensor_pipe_pct"), ".1f"),
    Column("issue slots", "busy %", _of("issue_slots_busy_pct"), ".1f"),
    Column("wgmma", "10^6 instr.", _of("gmma_instructions", 1e-6), ".1f"),
    Column("ALU pipe", "of peak %", _of("alu_pipe_pct"), ".1f"),
    Column("L2", "of peak %", _of("l2_throughput_pct"), ".1f"),
    Column("DRAM", "of peak %", _of("dram_throughput_pct"), ".1f"),
))


def aligned(rows: list[list[str]], left: int) -> str:
    """Columns as wide as their widest field, two spaces apart; the first `left` columns are flush left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(f"{field:<{width}}" if place < left else f"{field:>{width}}"
                               for place, (field, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def _name(launch: dict) -> list[str]:
    return [launch["case"], launch["kernel"]]


def _group(title: str, columns: tuple[Column, ...], launches: list[dict]) -> str:
    rows = [["", "", *(column.title for column in columns)], ["case", "kernel", *(column.unit for column in columns)]]
    rows += [[*_name(launch), *(column.text(launch["metrics"]) for column in columns)] for launch in launches]
    return f"{title}\n{aligned(rows, left=2)}"


def _stalls(launches: list[dict]) -> str:
    rows = [["case", "kernel", "most frequent", "second", "third"]]
    for launch in launches:
        tops = [f"{reason} {value:.2f}" for reason, value in top_stalls(launch["stalls"], 3)] or [NOT_THERE]
        rows.append([*_name(launch), *tops, *[""] * (3 - len(tops))])
    return f"stalls: cycles that a warp waits between two of its instructions\n{aligned(rows, left=5)}"


def scaled(value: float | None, scale: float, form: str) -> str:
    return NOT_THERE if value is None else format(value * scale, form)


def _device(device: dict) -> str:
    return (f"{device['name'] or 'GPU'}: {scaled(device['multiprocessors'], 1, 'd')} multiprocessors at "
            f"{scaled(device['clock_hz'], 1e-9, '.3f')} GHz, at most "
            f"{scaled(device['peak_flop_per_second'], 1e-12, '.1f')} TFLOP/s (float32 fma) and "
            f"{scaled(device['peak_dram_bytes_per_second'], 1e-9, '.0f')} GB/s of DRAM")


REMARK = """One launch each, caches cold, clocks free: for speeds see hw4 bench. Shared memory's GB/s are
wavefronts of 128 bytes, without what cp.async writes; global memory's are sectors asked of L1."""


def tables(launches: list[dict], device: dict) -> str:
    of_tensors = any("tensor_pipe_pct" in launch["metrics"] for launch in launches)
    groups = [_group(title, columns, launches) for title, columns in (*GROUPS, *[TENSOR_GROUP] * of_tensors)]
    return "\n\n".join([f"{_device(device)}\n{REMARK}", *groups, _stalls(launches)])
