"""Judges one case: provides its input, runs a program on it, decides by its exit status and its output file alone."""
from __future__ import annotations

import dataclasses
import math
import os
import shlex
import shutil
import statistics
import subprocess

import child
import given_cases
from case_table import LONG_HEADER_BYTES, SHORT_HEADER_BYTES, UNKNOWN_CRC, Case
from decision_tables import Bound, Decisions, Expectation
from files import crc32_of
from listing import Contract
from references import NoReference, References
from session import Session
from students import Program
from tsv import TableError
from workplace import CaseFolder, FileChanged, OwnRun, Sandbox, is_file, remove_whatever

EXIT_OUT_OF_MEMORY, EXIT_NO_GPU, EXIT_BAD_DATA = 71, 69, 65
CHEAP_FLOPS = 2e10  # a second or so of seq

PASSED = "AC"
SKIPPED = "SKIP"
JUDGE_ERROR = "JE"
NOT_BUILT = "BUILD"
NOT_JUDGED = (JUDGE_ERROR, SKIPPED)
LARGEST = "largest absolute difference: "  # how compare's line about it begins


class CaseError(Exception):
    """The case cannot be judged, and hw4 is not to blame."""


class NoGpu(Exception):
    """Our own hw4 lacks the GPU that it is asked to use, and so fails on every case."""


class CannotRun(Exception):
    """The system cannot execute the file."""


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """|expected - got| <= atol + rtol |expected|"""
    atol: float | None
    rtol: float | None

    @property
    def options(self) -> list[str]:
        return [word for name, value in self._given for word in ("--" + name, repr(value))]

    @property
    def rule(self) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in self._given)

    @property
    def _given(self) -> list[tuple[str, float]]:
        return [(name, value) for name, value in (("atol", self.atol), ("rtol", self.rtol)) if value is not None]


COURSE_RULE = Tolerance(5e-3, None)


@dataclasses.dataclass(frozen=True)
class Settings:
    launcher: list[str]
    judged: Program
    is_from_elsewhere: bool  # not the hw4 of --bin: it gets only input and output, and is not trusted
    is_alone: bool  # the only judged program
    hw4_options: list[str]
    contract: Contract
    is_told: bool  # whether our hw4 and seq get the contract as an option, or use their default
    is_ours: bool  # the judged hw4 is the one that listed the contract
    expectations: Decisions
    bounds: Decisions
    references: References
    seq: str
    generate: str
    compare: str
    cases_dir: str
    work_dir: str  # folder for the judge's files
    expected_dir: str | None
    tolerance: Tolerance | None  # None: the bytes decide
    limit_factor: float | None  # None: no limit
    limit_of_unknown: float | None  # for cases without one in the table
    runs: int

    @property
    def program(self) -> str:
        return self.judged.name

    @property
    def hw4(self) -> str:
        return self.judged.path

    def hw4_command(self, case_input: str, output: str) -> list[str]:
        options = [] if self.is_from_elsewhere else [*self._contract_options, *self.hw4_options]
        return [*self.launcher, self.hw4, *options, case_input, output]

    @property
    def pairs_command(self) -> list[str]:
        """The command; input and output names follow on its standard input."""
        return [self.hw4, *self._contract_options, *self.hw4_options, "--pairs", "-"]

    def seq_command(self, case_input: str, output: str) -> list[str]:
        return [self.seq, *self._contract_options, case_input, output]

    @property
    def _contract_options(self) -> list[str]:
        return ["--contract", self.contract.name] if self.is_told else []

    def file_name(self, case: Case, suffix: str) -> str:
        """The name of an output: t01.out, t01.fixed.out."""
        return case.name + ("" if self.contract.is_default else "." + self.contract.name) + suffix

    def rule_for(self, case: Case) -> str:
        if self.tolerance is not None:
            return self.tolerance.rule
        if not self.contract.is_by_bound:
            return "bytes"
        bound = self.bounds.of(case, self.contract.name)
        return f"bound {bound}" if bound else "no bound"

    def limit_of(self, case: Case) -> float | None:
        if case.limit_s == math.inf:
            return self.limit_of_unknown
        return None if self.limit_factor is None else case.limit_s * self.limit_factor


@dataclasses.dataclass
class Sample:
    """One run of hw4."""
    wall_s: float
    exit_code: int | None
    signal: int | None
    last_error_line: str
    last_lines: list[str]  # of both streams, for an external program
    verdict: str = PASSED
    detail: str = ""
    crc32_out: str | None = None
    largest_error: float | None = None  # where a tolerance or a bound decides
    explanation: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Result:
    case: Case
    program: str
    contract: Contract
    expectation: Expectation | None  # None: the table has none, or it does not decide
    bound: Bound | None  # None in the same cases
    verdict: str
    rule: str
    limit_s: float | None
    detail: str
    explanation: list[str] = dataclasses.field(default_factory=list)
    samples: list[Sample] = dataclasses.field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.verdict == PASSED

    @property
    def was_judged(self) -> bool:
        return self.verdict not in NOT_JUDGED

    @property
    def best_s(self) -> float | None:
        return min((sample.wall_s for sample in self.samples), default=None)

    @property
    def largest_error(self) -> float | None:
        return max((sample.largest_error for sample in self.samples if sample.largest_error is not None), default=None)

    @property
    def median_s(self) -> float | None:
        return statistics.median(sample.wall_s for sample in self.samples) if self.samples else None


class CaseJudge:
    def __init__(self, case: Case, settings: Settings, folder: CaseFolder, session: Session | None = None):
        self.case = case
        self.session = session  # None: its own process
        self.settings = settings
        self.folder = folder
        self.expectation = settings.expectations.of(case, settings.contract.name)
        self.bound = settings.bounds.of(case, settings.contract.name)
        self.limit_s = settings.limit_of(case)
        self.given = self._given_output()
        self.shared: dict[str, str] = {}  # CRC-32 of the original input and of the given output
        self._output_name = settings.file_name(case, ".out")

    def judge(self) -> Result:
        result = _result(self.case, self.settings, PASSED, "")
        if self.settings.judged.why_not_built:
            result.verdict, result.detail = NOT_BUILT, f"did not build: {self.settings.judged.why_not_built}"
            return result
        try:
            self._prepare()
            result.expectation, result.bound = self.expectation, self.bound
            for number in range(self.settings.runs):
                self._run_once(number, result)
                sample = result.samples[-1]
                result.verdict, result.detail, result.explanation = sample.verdict, sample.detail, sample.explanation
                if not result.passed:
                    break
        except (CaseError, FileChanged, OSError) as error:
            result.verdict, result.detail, result.explanation = JUDGE_ERROR, str(error), []
            if result.samples:
                result.samples[-1].verdict = JUDGE_ERROR
        except CannotRun as error:
            result.verdict, result.detail = "RE", str(error)
        return result

    def _prepare(self) -> None:
        """Finds or makes the original input, and checks whether the table or a given output applies to it."""
        self.folder.ensure()
        found = self._found_input()
        if found is None and self.settings.expected_dir is not None:
            raise CaseError(f"no input {self.case.name}.in or {self.case.name} in {self.settings.cases_dir}; with "
                            "--expected the judge makes none")
        if found and self.given and not self._is_the_tables(found):
            self.expectation = self.bound = None
        else:
            self._require_expectation()
            if self.case.crc32_in == UNKNOWN_CRC:
                raise CaseError(f"the table has no crc32_in; testcases/update {self.case.name} makes it")
            found = found or self._made_input()
            self._require_the_tables(found)
        self.shared = {path: self.folder.seal(path) for path in (found, self.given) if path}

    def _found_input(self) -> str | None:
        return given_cases.input_path(self.settings.cases_dir, self.case.name)

    def _is_the_tables(self, path: str) -> bool:
        """Whether a given output belongs to the table's own input."""
        crc = self.folder.seal(path)
        try:
            given_cases.case_of(self.case.name, path)
        except TableError as error:
            raise CaseError(str(error)) from error
        size, headers = os.path.getsize(path), (SHORT_HEADER_BYTES, LONG_HEADER_BYTES)
        if size - self.case.data_bytes not in headers:
            needed = " or ".join(str(header + self.case.data_bytes) for header in headers)
            raise CaseError(f"{path} has {size} bytes, {self.case.shape} needs {needed}")
        return self.expectation is not None and crc == self.case.crc32_in

    def _made_input(self) -> str:
        """It exists if the case was judged before, for another program or contract."""
        path = self.folder.file(self.case.name + ".in")
        if self.folder.differs(path, self.case.crc32_in):
            remove_whatever(path)
            ended = child.run(self._generate_command(path))
            if not ended.ok:
                raise CaseError(f"cannot generate the input: {ended.failure()}")
        return path

    def _require_expectation(self) -> None:
        """The table's entry for the revision that this hw4 computes, where it is ours and reports one."""
        case, contract = self.case, self.settings.contract
        if not contract.takes(case.dim):
            raise CaseError(f"d = {case.dim}, and {contract.name} takes d up to {contract.most_columns}")
        if contract.is_by_bound:
            if self.settings.tolerance is None:
                self._require(self.bound, "no bound yet: bounds.tsv", "testcases/bounds")
        else:
            self._require(self.expectation, "expected.tsv", "testcases/update")

    def _require(self, row: Expectation | Bound | None, table: str, maker: str) -> None:
        case, contract = self.case, self.settings.contract
        asked = f"{maker} {case.name} makes it"
        if row is None:
            raise CaseError(f"{table} has no {case.operation} of {case.name} under {contract.name}; {asked}")
        computed = contract.revision_for(case)
        if self.settings.is_ours and computed != row.revision:
            raise CaseError(f"{table} has {row.revision}, this hw4 computes {computed or 'none'}; {asked} again")

    def _require_the_tables(self, path: str) -> None:
        size = os.path.getsize(path)
        if size != self.case.input_bytes:
            raise CaseError(f"{path} has {size} bytes, the case has {self.case.input_bytes}")
        crc = self.folder.crc32(path)
        if crc != self.case.crc32_in:
            raise CaseError(f"{path} has CRC-32 {crc}, the table says {self.case.crc32_in}; with --expected DIR "
                            f"an output {self._output_name} decides instead")

    def _generate_command(self, path: str) -> list[str]:
        return [self.settings.generate, *self.case.recipe(), path]

    def _place(self, number: int) -> OwnRun | Sandbox:
        """A separate output for each run: in one process of hw4 no two outputs may have the same name."""
        if self.settings.is_from_elsewhere:
            return Sandbox(self.folder, self.shared, (self.case.name + ".in", self._output_name))
        return OwnRun(self.folder, next(iter(self.shared)), self._output_name + (f".{number}" if number else ""))

    def _run_once(self, number: int, result: Result) -> None:
        with self._place(number) as place:
            ended = self._run_program(place)
            if ended.exit_code == EXIT_NO_GPU and not self.settings.is_from_elsewhere:
                raise NoGpu(ended.last_error_line.replace(f"{place.input}: ", ""))
            sample = Sample(ended.wall_s, ended.exit_code, ended.signal, ended.last_error_line, ended.last_lines)
            result.samples.append(sample)
            self._decide_by_end(sample, ended, place.harm())
            self._decide(sample, place)

    def _run_program(self, place: OwnRun | Sandbox) -> child.Ended:
        if self.session is not None:
            return self.session.run(place.input, place.output, self.limit_s)
        command = self.settings.hw4_command(place.input, place.output)
        try:
            return child.run(command, self.limit_s, keep_streams=self.settings.is_from_elsewhere, cwd=place.folder)
        except OSError as error:
            raise CannotRun(f"cannot be run: {error.strerror}") from error

    def _decide_by_end(self, sample: Sample, ended: child.Ended, harm: str | None) -> None:
        if harm is not None:
            sample.verdict, sample.detail = "INPUT", f"the program has {harm}"
        elif ended.at_limit:
            sample.verdict = "TLE"
            sample.detail = ended.with_last_line(f"killed after {ended.wall_s:.3f} s")
        elif self.limit_s is not None and ended.wall_s > self.limit_s:
            sample.verdict = "TLE"
            sample.detail = ended.with_last_line(f"finished {ended.wall_s - self.limit_s:.3f} s over the limit")
        elif ended.exit_code == EXIT_OUT_OF_MEMORY:
            sample.verdict, sample.detail = "OOM", ended.failure()
        elif ended.exit_code == EXIT_BAD_DATA and self._is_to_be_refused:
            sample.detail = f"refused, as it has to be: {ended.failure()}"
        elif not ended.ok:
            sample.verdict, sample.detail = "RE", ended.failure()

    @property
    def _is_to_be_refused(self) -> bool:
        return self.settings.contract.is_by_bound and self.bound is not None and self.bound.largest is None

    def _decide(self, sample: Sample, place: OwnRun | Sandbox) -> None:
        if sample.verdict == PASSED:
            self._decide_by_output(sample, place)
        if sample.verdict not in (PASSED, "WA"):  # its output, where there is more than the quoted part
            quoted = [f"stderr: {sample.last_error_line}"]
            sample.explanation = [] if sample.last_lines == quoted else sample.last_lines

    def _decide_by_output(self, sample: Sample, place: OwnRun | Sandbox) -> None:
        """Decides a run that ended well."""
        if self._is_to_be_refused:
            if sample.exit_code == 0:
                sample.verdict = "WA"
                sample.detail = f"exit code 0, need {EXIT_BAD_DATA}: the type lacks a number of it"
            return
        if not is_file(place.output):
            unreadable = " that can be read" if os.path.lexists(place.output) else ""
            sample.verdict, sample.detail = "NO-OUT", f"exit code 0, but no output file{unreadable}"
            return
        size = os.path.getsize(place.output)
        if size != self.case.output_bytes:
            sample.verdict, sample.detail = "SIZE", f"the output has {size} bytes, need {self.case.output_bytes}"
            return
        sample.crc32_out = crc32_of(place.output)
        if self.settings.contract.is_by_bound and self.given is None:
            self._decide_by_bound(sample, place)
        elif self.settings.tolerance is not None:
            self._decide_by_tolerance(sample, place, self.settings.tolerance)
        elif self.expectation is None:
            self._decide_by_given(sample, place)
        else:
            self._decide_by_bytes(sample, place)

    def _decide_by_bytes(self, sample: Sample, place: OwnRun | Sandbox) -> None:
        if sample.crc32_out == self.expectation.crc32:
            sample.detail = f"bytes: CRC-32 {sample.crc32_out}"
            return
        sample.verdict = "WA"
        sample.detail = f"bytes: CRC-32 {sample.crc32_out}, expected {self.expectation.crc32}"
        sample.explanation = self._explain_difference(place)

    def _decide_by_given(self, sample: Sample, place: OwnRun | Sandbox) -> None:
        same, lines = self._compare(self.given, place, [])
        sample.verdict = PASSED if same else "WA"
        sample.detail = f"bytes: {lines[0]}"
        sample.explanation = lines[1:]

    def _decide_by_tolerance(self, sample: Sample, place: OwnRun | Sandbox, tolerance: Tolerance) -> None:
        if self.given is None and sample.crc32_out == self.expectation.crc32:
            sample.detail = f"{tolerance.rule}: the bytes are equal, CRC-32 {sample.crc32_out}"
            sample.largest_error = 0.0
            return
        expected = self.given or self._reference(place)
        self._tell_nearness(sample, tolerance.rule, *self._compare(expected, place, tolerance.options))

    def _decide_by_bound(self, sample: Sample, place: OwnRun | Sandbox) -> None:
        """Compares with float64 results that compare computes from the input."""
        settings = self.settings
        allowed = settings.tolerance.options if settings.tolerance else ["--atol", ",".join(map(repr, self.bound.largest))]
        options = ["--exact", settings.contract.element, *allowed]
        self._tell_nearness(sample, settings.rule_for(self.case),
                            *self._run_compare([*options, place.input, place.output]))

    @staticmethod
    def _tell_nearness(sample: Sample, rule: str, near: bool, lines: list[str]) -> None:
        largest = [line.removeprefix(LARGEST) for line in lines if line.startswith(LARGEST)]
        sample.verdict = PASSED if near else "WA"
        sample.largest_error = max((float(text.split()[0]) for text in largest), default=0.0 if near else None)
        sample.detail = f"{rule}: {LARGEST + '; '.join(largest) if near and largest else lines[0]}"
        sample.explanation = [] if near else lines[1:]

    def _reference(self, place: OwnRun | Sandbox, folder: str | None = None) -> str:
        settings = self.settings
        try:
            return settings.references.of(self.case, settings.contract.name, self.expectation, place.input, folder)
        except NoReference as error:
            raise CaseError(str(error)) from error

    def _explain_difference(self, place: OwnRun | Sandbox) -> list[str]:
        if self.given is None and self.case.flops > CHEAP_FLOPS:
            return ["to see where: " + self._explaining_commands()]
        if not os.path.exists(self.settings.compare):
            return [f"no {self.settings.compare} to show where; make builds it"]
        expected = self.given or self._reference(place, self.folder.path)
        if self.folder.differs(expected, self.expectation.crc32):
            raise CaseError(f"the expected output {os.path.basename(expected)} has CRC-32 "
                            f"{self.folder.crc32(expected)}, the table says {self.expectation.crc32}")
        return self._compare(expected, place, [])[1]

    def _explaining_commands(self) -> str:
        name = self.case.name
        made = name + ".in"
        output, expected = (self.settings.file_name(self.case, suffix) for suffix in (".out", ".expected"))
        there = self._found_input()
        case_input = there or made
        commands = [] if there else [self._generate_command(made)]
        commands += [self.settings.hw4_command(case_input, output), self.settings.seq_command(case_input, expected),
                     [self.settings.compare, case_input, expected, output]]
        return " && ".join(map(shlex.join, commands))

    def _given_output(self) -> str | None:
        if self.settings.expected_dir is None:
            return None
        path = os.path.join(self.settings.expected_dir, self.settings.file_name(self.case, ".out"))
        return path if os.path.exists(path) else None

    def _compare(self, expected: str, place: OwnRun | Sandbox, options: list[str]) -> tuple[bool, list[str]]:
        size = os.path.getsize(expected)
        if size != self.case.output_bytes:
            raise CaseError(f"the expected output {os.path.basename(expected)} has {size} bytes, need "
                            f"{self.case.output_bytes}")
        return self._run_compare([*options, place.input, expected, place.output])

    def _run_compare(self, arguments: list[str]) -> tuple[bool, list[str]]:
        command = [self.settings.compare, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
        if done.returncode not in (0, 1) or not done.stdout:
            raise CaseError(f"compare failed with {done.returncode}: {done.stderr.strip()}")
        return done.returncode == 0, done.stdout.splitlines()


def _result(case: Case, settings: Settings, verdict: str, detail: str) -> Result:
    return Result(case, settings.program, settings.contract, settings.expectations.of(case, settings.contract.name),
                  settings.bounds.of(case, settings.contract.name), verdict, settings.rule_for(case),
                  settings.limit_of(case), detail)


def skipped(case: Case, settings: Settings) -> Result:
    return _result(case, settings, SKIPPED, "not run after a failure (--fail-fast)")


def missing_programs(cases: list[Case], settings: Settings) -> list[str]:
    """Missing tools and programs, each in one line. Where one of several judged programs is missing, only its cases
    fail, and the others are judged."""
    needed = [*settings.launcher[:1], *([settings.hw4] if settings.is_alone else [])]
    makes_inputs = settings.expected_dir is None
    if makes_inputs and not all(given_cases.input_path(settings.cases_dir, case.name) for case in cases):
        needed.append(settings.generate)
    if settings.tolerance is not None or settings.expected_dir is not None or settings.contract.is_by_bound:
        needed.append(settings.compare)
    return [f"{program}: cannot be run" for program in needed if shutil.which(program) is None]
