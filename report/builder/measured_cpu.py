"""The contracts on the CPU, beside PyTorch."""
from __future__ import annotations

import dataclasses

from .spread import Spread


@dataclasses.dataclass(frozen=True)
class ContractOnCpu:
    record: dict

    def seconds(self, who: str) -> Spread:
        return Spread.of(self.record["seconds"][who])

    def over_torch(self, who: str) -> float:
        """hw4: PyTorch's time over the kernel's, both warm; from_file: over the kernel's in a run from file to file."""
        return self.seconds("torch").mid / self.seconds(who).mid


def contracts_on_cpu(data) -> list[ContractOnCpu]:
    return [ContractOnCpu(record) for record in data.documents["cpu_contracts.json"]["cases"]]
