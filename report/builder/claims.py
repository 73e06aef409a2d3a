"""Phrases that say more than a number, computed so that they change with the data."""
from __future__ import annotations

import functools

import bars

from . import facts
from .measured_backward import GRADIENTS, Backward
from .measured_half import CUDNN, FLASH2, Half
from .words import count_of, with_crosses


def ends_of(ends):
    """'from 1.10 times (t02) to 2.20 times (4×16384×128)'"""
    first, last = (f"{end['value']:.2f} times ({with_crosses(end['case'])})" for end in (ends["least"], ends["most"]))
    return f"from {first} to {last}"


def faster_than_torch(data):
    return count_of(sum(case.speed_up > 1 for case in data.cases), len(data.cases), "cases")


def speed_up_over_torch(data):
    return ends_of(facts.extremes({case.name: case.speed_up for case in data.cases}))


def speed_up_over_seq(data):
    """'2820 (t02) to 5410 (t30) times'"""
    ends = facts.sequential(data)["kernel"]
    return (f"{ends['least']['value']:.0f} ({ends['least']['case']}) to {ends['most']['value']:.0f} "
            f"({ends['most']['case']}) times")


def below_naive(data, who="hw4"):
    errors = [case["largest_errors"] for case in data.accuracy["cases"]]
    return count_of(sum(case[who] < case["naive"] for case in errors), len(errors), "cases")


def not_above_efficient(data, who="hw4"):
    errors = [case["largest_errors"] for case in data.accuracy["cases"]]
    return count_of(sum(case[who] <= case["efficient"] for case in errors), len(errors), "cases")


def fixed_over_f32(data):
    return ends_of(facts.fixed(data)["over_f32"])


def fixed16_faster_than(data, other, mask):
    """'all 6 shapes', '5 of 6 shapes (not 512×1024×64)', '1 of 6 shapes (t29)', 'none of 6 shapes'"""
    half = Half(data)
    faster, every = half.faster_than(other, mask), half.under(mask)
    count = count_of(len(faster), len(every), "shapes")
    if not 0 < len(faster) < len(every):
        return count
    few = 2 * len(faster) < len(every)
    named = faster if few else [case for case in every if case not in faster]
    return f"{count} ({'' if few else 'not '}{', '.join(with_crosses(case.name) for case in named)})"


def fixed16_not_above(data, form):
    half = Half(data)
    return count_of(len(half.not_above(form)), len(half.errors), "cases")


def gradients_not_above_efficient(data):
    """'99 of 114 gradients'"""
    verdicts = [errors.not_above(gradient) for errors in Backward(data).compared.values() for gradient in GRADIENTS]
    return count_of(sum(verdicts), len(verdicts), "gradients")


def bars_met(verdicts):
    """'all 20 are met', '18 of 20 are met (not t12, total)'. `verdicts`: whether each is, by name."""
    missed = [with_crosses(name) for name, met in verdicts.items() if not met]
    return f"{count_of(len(verdicts) - len(missed), len(verdicts), '').rstrip()} are met" + (
        f" (not {', '.join(missed)})" if missed else "")


def bars_of(file):
    return lambda data: bars_met(bars.VERDICTS[file](data.documents[file]))


def measured_at(data):
    """'at one commit, abc, with a clean tree' or what else it was."""
    states = {(document["git"]["commit"][:10], document["git"]["dirty"])
              for document in data.documents.values() if "git" in document}
    commits = sorted({commit for commit, _ in states})
    dirty = any(changed for _, changed in states)
    where = f"at one commit, {commits[0]}" if len(commits) == 1 else f"at {len(commits)} commits, {', '.join(commits)}"
    return f"{where}, {'with changes that were not committed' if dirty else 'with nothing uncommitted'}"


CLAIMS = {function.__name__: function for function in (
    faster_than_torch, speed_up_over_torch, speed_up_over_seq, below_naive, not_above_efficient, fixed_over_f32,
    gradients_not_above_efficient, measured_at)}
CLAIMS |= {"kernel_bars": bars_of("kernels.json"), "fixed_bars": bars_of("kernels_fixed.json"),
           "file_bars_met": bars_of("files.json"),
           "fixed_below_naive": functools.partial(below_naive, who="hw4_fixed"),
           "fixed_not_above_efficient": functools.partial(not_above_efficient, who="hw4_fixed")}
CLAIMS |= {f"fixed16_faster_than_{name}{'_causal' if mask == 'causal' else ''}":
           functools.partial(fixed16_faster_than, other=peer, mask=mask)
           for name, peer in (("flash2", FLASH2), ("cudnn", CUDNN)) for mask in ("none", "causal")}
CLAIMS |= {f"fixed16_not_above_{form}": functools.partial(fixed16_not_above, form=form)
           for form in ("bf16", "fp16", "tf32")}
