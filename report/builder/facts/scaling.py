"""A case of 1 M tokens on many cards, on paper."""
from __future__ import annotations

import scaling as model


def scaling(data):
    parts = model.parts_of(data)
    tree = {"case": parts.case, "read_gb_s": parts.read * 1e-9, "write_gb_s": parts.write * 1e-9,
            "start_ms": parts.start * 1e3}
    for heads in model.HEADS:
        for contract in model.CONTRACTS:
            for cards in model.CARDS:
                run = model.run_of(parts, contract, heads, cards, False)
                tree.setdefault(f"heads{heads}", {}).setdefault(contract, {})[f"cards{cards}"] = {
                    "seconds": run.total, "kernel_seconds": run.kernel, "read_seconds": run.read,
                    "write_seconds": run.write, "speed_up": model.speed_up(parts, contract, heads, cards, False),
                    "one_disk_seconds": model.run_of(parts, contract, heads, cards, True).total,
                    "one_disk_speed_up": model.speed_up(parts, contract, heads, cards, True)}
    return tree
