"""What the causal mask saves."""
from __future__ import annotations

from ..measured import CONTRACTS
from .common import extremes, name_of, timing


def causal(data):
    """By shape; and over all of them what the mask saves and how PyTorch compares."""
    tree = {"shapes": len(data.masked), "runs": data.causal["runs"]}
    gains, speed_ups = ({who: {} for who in CONTRACTS} for _ in range(2))
    for case in data.masked:
        tree[name_of(case.name)] = {who: timing(seconds, case.flop) for who, seconds in case.causal.items()}
        for who in CONTRACTS:
            gains[who][case.name.replace(",", "×")] = case.gain(who).mid
            speed_ups[who][case.name.replace(",", "×")] = case.speed_up(who)
            tree[name_of(case.name)][who].update(full_ms=case.full[who].mid * 1e3, gain=case.gain(who).mid,
                                                 speed_up=case.speed_up(who))
    return {**tree, **{who: {"gain": extremes(gains[who]), "speed_up": extremes(speed_ups[who])} for who in CONTRACTS}}
