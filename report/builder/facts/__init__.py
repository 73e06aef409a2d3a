"""The facts: a tree of numbers, texts and counts from the data, which templates name by dotted paths.

A time is ms, with ms_p20, ms_p80, best_ms, samples and spread_pct beside it; a rate tflops; a share ..._pct; a ratio
has no unit. The ends of a list of numbers are least and most, each with case and value, and median.

    machine.gpu  machine.driver  machine.cuda  machine.commit ...          peak.tflops  peak.sgemm.tflops ...
    ladder.t28.padded_tiles.ms  .tflops  .speed_up (over the rung before)  .over_first  .of_peak_pct  .idea
    ladder.t28.gain.most.case            the rung that brings most
    cases.t28.ms  .tflops  .torch_ms  .speed_up  .torch.naive.ms           cases.speed_up.least.case ...
    lengths.d64.n4096.tflops             lengths.d64.speed_up.most.value   tilings.128x64.tflops
    profile.padded_tiles.wavefronts_per_load  .stall1.name  .registers ... and every metric, on t28
    profile_of_cases.t10.drawn_tiles.issue_slots_busy_pct
    files.t22.hw4.ms  .context.ms  .plain.ms  .1_stream.ms  .of_plain  .stage_ms.write  .work_ms  .outside_ms
    pipeline.streams4.after_context_ms   steps.1.ms  steps.last.kernel_ms  steps.gain
    accuracy.t28.hw4  accuracy.hw4.most.value  accuracy.hw4_below_naive    cpu.t10.over_torch
    fixed.cases.t28.tflops  .over_f32    fixed.ladder.t28.wgmma_group.ms   fixed.profile.mma_groups.tensor_pipe_pct
    fixed.roof.tflops                    distributions.normal.d64.hw4_fixed.largest_of_row
    rounds.t28.none.fixed16.tflops  .over_flash2                           rounds.causal.fixed16.over_cudnn.least.case
    half_errors.normal.n1024.d64.hw4_fixed16   .bf16_over_fixed16          half_errors.normal.fp16.least.value
    fixed16_ladder.d64.wgmma_pairs.speed_up
    half_ladder.d64.wgmma_ring.tflops  .speed_up  .tensor_pipe_pct         half_rounds.bf16.over_cudnn.least.value
    half_gradients.bf16.over_cudnn.least.value  half_gradients.any_order.most.value
    half_lengths.d64.causal.n1024.bf16.tflops  half_own_errors.bf16.most.value  exactness.fixed16.over_fastest
    lab5.base.flash2_fp16.forward.ms  .tflops  .peak_mib                   lab5.length.none.n512.f32.backward.tflops
    cs336.d64.n4096.naive.forward.peak_mib  cs336_memory.naive.forward.n8192.peak_mib  warmups.f32.w0.first_over_rest
    values.d64.stray_60.hw4.over_first   values.hw4_fixed.over_first.most.case   (over normal values of deviation 1)
    causal.4x16384x64.hw4.ms  .tflops  .full_ms  .gain  .speed_up          causal.hw4_fixed.gain.least.case
    backward.shapes.4x16384x64.causal.hw4.tflops  .speed_up                backward.ladder.kept_pairs.speed_up
    backward.memory.256.tflops           backward.errors.dQ.not_above      backward.lengths.n4096.hw4.dK
    seq.t28.kernel_speed_up  .files_speed_up  .seconds                     seq.kernel.least.case
    scaling.heads16.f32.cards64.seconds  .speed_up  .one_disk_speed_up     on paper, from measured parts
    collectives.ordered_over_mpi.most.case  collectives.overlapped_over_flat.least.value
    code.rows  code.keys  code.threads   sizes in the sources

`report/build --facts` prints all of them with their values.
"""
from __future__ import annotations

from .. import sources
from ..needs import are_there
from . import backward, causal, collectives, courses, fixed, half, kernels, machine, profiles, runs, scaling, values

OPTIONAL = {**runs.FACTS, **half.FACTS, **courses.FACTS, **collectives.FACTS}


def all_facts(data) -> dict:
    return {"machine": machine.machine(data), "peak": machine.peaks(data), "ladder": kernels.ladder(data),
            "cases": kernels.cases(data), "lengths": kernels.lengths(data), "tilings": kernels.tilings(data),
            "accuracy": kernels.accuracy(data), "profile": profiles.profile(data),
            "profile_of_cases": profiles.profile_of_cases(data), "files": runs.files(data),
            "pipeline": runs.pipeline(data), "steps": runs.steps(data), "seq": runs.sequential(data),
            "cpu": runs.cpu(data), "fixed": fixed.fixed(data), "distributions": fixed.distributions(data),
            "values": values.values(data), "causal": causal.causal(data), "backward": backward.backward(data),
            "scaling": scaling.scaling(data), "code": sources.constants(),
            **{name: function(data) for name, function in OPTIONAL.items() if are_there(function, data)}}


def listed(facts, prefix=""):
    """(path, value) of every fact, in order."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from listed(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
