"""hw4's listing of itself (hw4 --list-kernels --json): the contracts for outputs, and the kernels."""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile

from case_table import Case

BYTES, BOUND = "bytes", "bound"  # how a contract's outputs are compared
ALL = "all"
PATIENCE_S = 20


class NoListing(Exception):
    """The program does not exist, or does not list anything."""


class WrongContract(Exception):
    """The requested contract does not exist, or cannot be compared in the requested way."""


@dataclasses.dataclass(frozen=True)
class Contract:
    name: str
    is_default: bool  # hw4's default
    compared: str = BYTES
    most_columns: int | None = None  # limit of Q, K and V; None: none
    revisions: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)  # by operation and mask
    element: str = "float32"  # type it computes with
    windows: frozenset[str] = frozenset()  # operations that take a window
    lengths: frozenset[str] = frozenset()  # operations that take lengths
    pads: frozenset[str] = frozenset()  # operations that take d_v other than d

    def revision_for(self, case: Case) -> str | None:
        """None where it does not compute the case."""
        if self.lacks(case) or not self.takes(case.dim):
            return None
        return self.revisions.get((case.operation, case.mask))

    @property
    def is_by_bound(self) -> bool:
        return self.compared == BOUND

    def lacks(self, case: Case) -> bool:
        """Whether it lacks the case's operation, window, lengths, d_v or element, where its operations are known."""
        lacks_operation = all(computed != case.operation for computed, _ in self.revisions)
        takes_element = self.element == "float32" or case.element in ("float32", self.element)
        lacks_window = case.window > 0 and case.operation not in self.windows
        lacks_lengths = bool(case.lengths) and case.operation not in self.lengths
        lacks_columns = case.value_dim > 0 and case.operation not in self.pads
        return bool(self.revisions) and (lacks_operation or lacks_window or lacks_lengths or lacks_columns or
                                         not takes_element)

    def takes(self, dim: int) -> bool:
        return self.most_columns is None or dim <= self.most_columns


@dataclasses.dataclass(frozen=True)
class Kernel:
    device: str
    name: str
    operation: str
    contract: str


@dataclasses.dataclass(frozen=True)
class Listing:
    contracts: list[Contract]  # the default first
    kernels: list[Kernel]  # in the order of their table for each operation, contract and device


def _contract(listed: dict, is_default: bool) -> Contract:
    revisions = {(computed["operation"], mask): computed["revision"]
                 for computed in listed["computes"] for mask in computed["masks"]}

    def with_flag(name: str) -> frozenset[str]:
        return frozenset(computed["operation"] for computed in listed["computes"] if computed.get(name))

    return Contract(listed["name"], is_default, listed["compared"], listed["most_columns"], revisions,
                    listed.get("element", "float32"), with_flag("windows"), with_flag("lengths"), with_flag("pads"))


def _printed_by(command: list[str]) -> str:
    """Runs in a fresh folder: an external program may take the last word for its output's name."""
    with tempfile.TemporaryDirectory(prefix="hw4-list-") as folder:
        try:
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                                  errors="replace", timeout=PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoListing(f"{command[0]}: cannot be asked for its contracts: {error}") from error
    if done.returncode != 0:
        said = "".join(f": {line}" for line in done.stderr.splitlines()[-1:])
        raise NoListing(f"{' '.join(command)}: ended with {done.returncode}{said}")
    return done.stdout


def listing_of(program: str) -> Listing:
    """Raises NoListing."""
    printed = _printed_by([os.path.abspath(program), "--list-kernels", "--json"])
    try:
        document = json.loads(printed)
        contracts = [_contract(listed, place == 0) for place, listed in enumerate(document["contracts"])]
        kernels = [Kernel(*(listed[field.name] for field in dataclasses.fields(Kernel)))
                   for listed in document["kernels"]]
    except (ValueError, KeyError, TypeError) as error:
        raise NoListing(f"{program} --list-kernels --json: not a list of contracts and kernels") from error
    return Listing(contracts, kernels)


def choose(known: list[Contract], asked: str | None, compared: str | None = None) -> list[Contract]:
    """The contracts for --contract: a name, all, or None for the default; `compared` restricts them to one kind."""
    if compared is not None:
        if any(contract.name == asked and contract.compared != compared for contract in known):
            raise WrongContract(f"contract {asked} is not compared by {compared}: need one that is")
        known = [contract for contract in known if contract.compared == compared]
    if asked is None or asked == ALL:
        return known if asked else known[:1]
    chosen = [contract for contract in known if contract.name == asked]
    if not chosen:
        raise WrongContract(f"--contract '{asked}': need {', '.join(contract.name for contract in known)} or all")
    return chosen
