"""report/data, read and checked, and the few views of it that facts, tables and charts share."""
from __future__ import annotations

import dataclasses
import json
import re

from run_trace import Trace

from . import schema
from .errors import Failed, shown
from .spread import Spread

LADDER_CASES = ("t28", "t29")
FIXED_LADDER_CASES = ("t28", "t29", "4,16384,128")  # that have a figure
CONTRACTS = ("hw4", "hw4_fixed")  # by whose name their times are
WHO_ON_VALUES = ("hw4", "hw4_fixed", "torch")  # in values.json
# NVIDIA's figure for the dense 8-bit products of an H200's tensor cores, which is theirs at 1830 MHz.
INTEGER_OPERATIONS = 1979e12
BYTE_PRODUCTS = 6  # in the place of one product of floats, under the contract fixed
INTEGER_ROOF = INTEGER_OPERATIONS / BYTE_PRODUCTS * 1e-12  # TFLOP/s, counted as everywhere


@dataclasses.dataclass(frozen=True)
class Timed:
    """A shape and the kernel's time on it, beside PyTorch's. Seconds."""
    name: str
    batches: int
    tokens: int
    dim: int
    kernel: str
    hw4: Spread
    torch: dict[str, Spread]  # by backend
    torch_backend: str  # the fastest but for naive

    flop = property(lambda self: flop(self.batches, self.tokens, self.dim))
    text = property(lambda self: f"{self.batches}, {self.tokens}, {self.dim}")
    torch_best = property(lambda self: self.torch[self.torch_backend])
    speed_up = property(lambda self: self.torch_best.mid / self.hw4.mid)

    def tflops(self, seconds: Spread) -> Spread:
        return seconds.under(self.flop * 1e-12)


@dataclasses.dataclass(frozen=True)
class OfKind:
    """The times on values of a kind, and on those of the first kind in the same run. Seconds, by who took them."""
    kind: str
    title: str
    dim: int
    seconds: dict[str, Spread]
    first: dict[str, Spread]

    def over_first(self, who) -> float:
        return self.seconds[who].mid / self.first[who].mid


@dataclasses.dataclass(frozen=True)
class Masked:
    """The times on a shape under the causal mask, and of each contract without it in the same run. Seconds."""
    batches: int
    tokens: int
    dim: int
    causal: dict[str, Spread]  # by who took them
    full: dict[str, Spread]  # by contract

    name = property(lambda self: f"{self.batches},{self.tokens},{self.dim}")
    flop = property(lambda self: flop(self.batches, self.tokens, self.dim) / 2)  # under the mask

    def tflops(self, who) -> Spread:
        return self.causal[who].under(self.flop * 1e-12)

    def gain(self, contract) -> Spread:
        """What the mask saves: the time without it over that with it."""
        return self.causal[contract].under(self.full[contract].mid)

    def speed_up(self, contract) -> float:
        """Over PyTorch."""
        return self.causal["torch"].mid / self.causal[contract].mid


@dataclasses.dataclass(frozen=True)
class Rung:
    kernel: str
    seconds: Spread
    flop: int

    tflops = property(lambda self: self.seconds.under(self.flop * 1e-12))


def flop(batches, tokens, dim):
    return 4 * batches * tokens * tokens * dim


def _on_shape(lines, shape):
    return [line for line in lines if all(line[size] == shape[size] for size in ("batches", "tokens", "dim"))]


def is_course_case(name):
    return re.fullmatch(r"t\d\d", name) is not None


def read_document(folder, name):
    path = folder / name
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Failed(f"{shown(path)}: missing; make measure writes it") from error
    except OSError as error:
        raise Failed(f"{shown(path)}: {error.strerror}") from error
    except ValueError as error:
        raise Failed(f"{shown(path)}: not JSON: {error}") from error
    schema.check(document, schema.DOCUMENTS[name], name)
    return document


def revisions_of(value) -> list[str]:
    """The revisions of contracts that a document says it was measured under, like f32.forward/1, each once."""
    if isinstance(value, list):
        return list(dict.fromkeys(revision for part in value for revision in revisions_of(part)))
    if not isinstance(value, dict):
        return []
    here = [value["revision"]] if "revision" in value else list(value.get("revisions", {}).values())
    return list(dict.fromkeys([*here, *revisions_of(list(value.values()))]))


class Measured:
    """Raises Failed where a file is missing or is not as expected."""

    def __init__(self, folder):
        self.documents = {name: read_document(folder, name) for name in schema.DOCUMENTS}
        for name in ("kernels", "kernels_fixed", "lengths", "tilings", "files", "steps", "accuracy", "distributions",
                     "rounds", "half_errors", "values", "causal", "backward", "cpu", "sequential", "collectives"):
            setattr(self, name, self.documents[f"{name}.json"])
        self.profile = self.documents["profile_ladder.json"]
        self.profile_of_cases = self.documents["profile_cases.json"]
        self.profile_of_fixed = self.documents["profile_fixed.json"]

    def trace(self, streams: int) -> Trace:
        """The trace of t22."""
        name = f"t22_streams{streams}.trace.json"
        try:
            return Trace(self.documents[name]["traceEvents"])
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"{name}: traceEvents: not a trace of hw4: {error}") from error

    # ---- Kernels

    @staticmethod
    def _timed(record, ladder=()):
        """A kernel that the ladder has too is timed twice in a run; its time is the median of all of that, wherever it
        stands."""
        torch = {name: Spread.of(timing["seconds"]) for name, timing in record["torch"].items() if timing["seconds"]}
        kernel = record["hw4"]["kernel"]
        again = [second for line in _on_shape(ladder, record) if line["kernel"] == kernel for second in line["seconds"]]
        return Timed(record["name"], record["batches"], record["tokens"], record["dim"], kernel,
                     Spread.of([*record["hw4"]["seconds"], *again]), torch, record["torch_best"])

    @property
    def shapes(self) -> list[Timed]:
        return [self._timed(record, self.kernels["ladder"]) for record in self.kernels["shapes"]]

    @property
    def cases(self) -> list[Timed]:
        """The course's."""
        return [shape for shape in self.shapes if is_course_case(shape.name)]

    def case(self, name) -> Timed:
        return named(name, ((case.name, case) for case in self.shapes), "kernels.json: shapes")

    @property
    def length_shapes(self) -> list[Timed]:
        return [self._timed(record) for record in self.lengths["shapes"]]

    @staticmethod
    def _ladder(case, lines) -> list[Rung]:
        return [Rung(line["kernel"], case.hw4 if line["kernel"] == case.kernel else Spread.of(line["seconds"]), case.flop)
                for line in _on_shape(lines, dataclasses.asdict(case))]

    def ladder(self, name) -> list[Rung]:
        return self._ladder(self.case(name), self.kernels["ladder"])

    @property
    def rungs(self) -> list[str]:
        return [rung.kernel for rung in self.ladder("t28")]

    @property
    def chosen(self) -> str:
        """The kernel that hw4 takes for t28."""
        return self.case("t28").kernel

    @property
    def naive(self) -> Spread:
        return self.case("t28").torch["naive"]

    # ---- Kernels of the contract fixed

    @property
    def fixed_shapes(self) -> list[Timed]:
        fixed = self.kernels_fixed["fixed"]
        return [self._timed(record, fixed["ladder"]) for record in fixed["shapes"]]

    def fixed_case(self, name) -> Timed:
        return named(name, ((case.name, case) for case in self.fixed_shapes), "kernels_fixed.json: shapes")

    @property
    def fixed_course_cases(self) -> list[Timed]:
        """Those of the course's on which fixed was measured, in their order."""
        return sorted((shape for shape in self.fixed_shapes if is_course_case(shape.name)), key=lambda shape: shape.name)

    def f32_beside(self, name) -> Spread:
        """The time of the chosen kernel of f32 in the same run."""
        shapes = ((record["name"], record) for record in self.kernels_fixed["fixed"]["shapes"])
        return Spread.of(named(name, shapes, "kernels_fixed.json: shapes")["f32"]["seconds"])

    def fixed_ladder(self, name) -> list[Rung]:
        return self._ladder(self.fixed_case(name), self.kernels_fixed["fixed"]["ladder"])

    @property
    def fixed_rungs(self) -> list[str]:
        return [rung.kernel for rung in self.fixed_ladder("t28")]

    # ---- Kinds of values

    @property
    def kinds_of_values(self) -> dict[int, list[OfKind]]:
        """Kinds by head size."""
        found = {}
        for case in self.values["cases"]:
            seconds = {who: Spread.of(case[who]["seconds"]) for who in WHO_ON_VALUES}
            of_dim = found.setdefault(case["dim"], [])
            of_dim.append(OfKind(case["kind"], self.values["kinds"][case["kind"]], case["dim"], seconds,
                                 of_dim[0].seconds if of_dim else seconds))
        return dict(sorted(found.items()))

    # ---- The causal mask

    @property
    def masked(self) -> list[Masked]:
        def times(case, mask):
            return {who: Spread.of(case[who][mask]["seconds"]) for who in CONTRACTS}

        return [Masked(case["batches"], case["tokens"], case["dim"],
                       {**times(case, "causal"), "torch": Spread.of(case["torch"]["seconds"])}, times(case, "none"))
                for case in self.causal["cases"]]

    @property
    def masked_lengths(self) -> dict[int, list[Masked]]:
        """Cases by head size, where the length grows at a constant number of rows."""
        rows = self.masked[0].batches * self.masked[0].tokens
        found = {}
        for case in self.masked:
            if case.batches * case.tokens == rows:
                found.setdefault(case.dim, []).append(case)
        return {dim: sorted(cases, key=lambda case: case.tokens) for dim, cases in sorted(found.items())}

    @property
    def fixed_over_length(self) -> dict[int, dict[int, Spread]]:
        """TFLOP/s of fixed without a mask, by head size and length."""
        return {dim: {case.tokens: case.full["hw4_fixed"].under(flop(case.batches, case.tokens, case.dim) * 1e-12)
                      for case in cases} for dim, cases in self.masked_lengths.items()}

    def masked_case(self, name) -> Masked:
        return named(name, ((case.name, case) for case in self.masked), "causal.json: cases")

    # ---- Profiles

    def launch(self, kernel, file="profile_ladder.json") -> dict:
        """The profile of a rung on t28."""
        launches = self.documents[file]["launches"]
        return named(f"{kernel} on t28", ((f"{launch['kernel']} on {launch['case']}", launch) for launch in launches),
                     f"{file}: launches")

    def fixed_launch(self, kernel) -> dict:
        return self.launch(kernel, "profile_fixed.json")

    @property
    def profiled_cases(self) -> list[tuple[str, int, int]]:
        """(name, batches, tokens), in the course's order: N grows among the small cases, then among the larger."""
        return sorted({(launch["case"], launch["batches"], launch["tokens"])
                       for launch in self.profile_of_cases["launches"]})

    @property
    def profiled_kernels(self) -> list[str]:
        seen = {launch["kernel"] for launch in self.profile_of_cases["launches"]}
        return [kernel for kernel in self.rungs if kernel in seen]

    def metric_of_cases(self, kernel, key) -> list[float | None]:
        """For each of profiled_cases."""
        values = {launch["case"]: launch["metrics"].get(key) for launch in self.profile_of_cases["launches"]
                  if launch["kernel"] == kernel}
        return [values.get(name) for name, *_ in self.profiled_cases]

    # ---- From file to file, sequential, CPU

    @property
    def file_cases(self) -> list[dict]:
        return [record for record in self.files["cases"] if is_course_case(record["name"])]

    def file_case(self, name) -> dict:
        return named(name, ((record["name"], record) for record in self.files["cases"]), "files.json: cases")

    def sequential_seconds(self, name) -> Spread:
        """Seconds of all batches, from those that were measured."""
        cases = ((record["name"], record) for record in self.sequential["cases"])
        record = named(name, cases, "sequential.json: cases")
        return Spread.of(record["seconds"]).times(record["batches"] / record["measured_batches"])


def contracts_on_cpu(data) -> list[tuple[dict, dict[str, float]]]:
    """(record, PyTorch's time over it) by contract. hw4: both warm; from_file: the kernel's time from file to file."""
    return [(record, {who: Spread.of(record["seconds"]["torch"]).mid / Spread.of(record["seconds"][who]).mid
                      for who in ("hw4", "from_file")}) for record in data.documents["cpu_contracts.json"]["cases"]]


def metric(launch, key, file="profile_ladder.json"):
    """A metric that a chart or a fact cannot do without."""
    value = launch["metrics"].get(key)
    if not value:
        raise Failed(f"{file}: {launch['kernel']} on {launch['case']}: metrics.{key}: missing, null or 0")
    return value


def named(name, found, where):
    """The first of that name of (name, value)."""
    for other, value in found:
        if other == name:
            return value
    raise Failed(f"{where}: no {name}")
