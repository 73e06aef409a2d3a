"""The rate of bf16 over the length, beside FlashAttention-2 and cuDNN, without a mask and causal."""
from __future__ import annotations

from builder.measured_half import CUDNN, FLASH2, MASKS, half_lengths

from . import style, sweeps, words

NEEDS = ("half_lengths.json",)
ALT = "TFLOP/s of bf16 over the length N for d = 64 and 128, without a mask and causal: hw4, FlashAttention-2 and cuDNN"
WHO = ("bf16", FLASH2, CUDNN)
LEFTS, BOTTOMS, WIDTH, INNER = (0.62, 5.2), (3.45, 0.6), 2.62, 2.0
HEIGHT = 6.15


def caption(data):
    document = data.documents["half_lengths.json"]
    columns = {case["heads"] * case["dim"] for case in document["cases"]}
    return (f"bf16 over the length, {words.gpu(data)}, {columns.pop()} columns of all heads, 8192 tokens or one batch: "
            f"4·B·H·N²·d FLOP, half of it under the mask, over the median time of {document['rounds']} rounds; "
            f"operands are bf16. FlashAttention-2 and cuDNN are those of PyTorch "
            f"{document['torch']['torch'].partition('+')[0]}.")


def draw(data):
    fig = style.figure(HEIGHT)
    by_dim = half_lengths(data)
    for left, (dim, by_mask) in zip(LEFTS, by_dim.items()):
        for bottom, mask in zip(BOTTOMS, MASKS):
            cases = by_mask[mask]
            ax = sweeps.panel(fig, (left, bottom, WIDTH, INNER), [case.tokens for case in cases], "N (logarithmic)",
                              f"d = {dim}, {'no mask' if mask == 'none' else 'causal'}")
            rates = {who: {case.tokens: case.seconds(who).under(case.record["flop"] * 1e-12) for case in cases}
                     for who in WHO}
            sweeps.scale(ax, [rate.high for case in (one for masks in by_dim[dim].values() for one in masks)
                              for rate in [case.seconds(who).under(case.record["flop"] * 1e-12) for who in WHO]],
                         logarithmic=False)
            ax.set_ylabel("TFLOP/s")
            sweeps.curves(ax, INNER, rates)
    style.heading(fig, HEIGHT - 0.2, "bf16 over the length of the sequence")
    return fig
