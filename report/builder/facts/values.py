"""Whether the speed depends on the values."""
from __future__ import annotations

from ..measured import WHO_ON_VALUES
from .common import extremes, name_of, timing


BEYOND = "stray:1000000"  # scores that neither contract's fast path takes


def values(data):
    """By head size and kind; for each of the three how much longer than the first kind the others take, those beyond
    the fast paths apart; and hw4's times over PyTorch's."""
    by_dim = data.kinds_of_values
    first = next(iter(by_dim.values()))[0]
    tree = {"kinds": len(data.values["kinds"]), "runs": data.values["runs"], "first": first.title,
            "batches": data.values["cases"][0]["batches"], "tokens": data.values["cases"][0]["tokens"]}
    ratios, beyond, over_torch = ({who: {} for who in WHO_ON_VALUES} for _ in range(3))
    for dim, kinds in by_dim.items():
        tree[f"d{dim}"] = {name_of(case.kind): {who: {**timing(case.seconds[who]), "over_first": case.over_first(who)}
                                                for who in WHO_ON_VALUES} for case in kinds}
        for case in kinds:
            for who in WHO_ON_VALUES:
                name = f"{case.title}, d = {dim}"
                (beyond if case.kind == BEYOND else ratios)[who][name] = case.over_first(who)
                over_torch[who][name] = case.seconds[who].mid / case.seconds["torch"].mid
    return {**tree, **{who: {"over_first": extremes(ratios[who]), "beyond": extremes(beyond[who]),
                             "over_torch": extremes(over_torch[who])} for who in WHO_ON_VALUES}}
