"""Judging one case: have its input, run hw4 on it, decide by its exit status and its output file alone."""
from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator

import child
from bounds_table import Bound, Bounds
from case_table import LONG_HEADER_BYTES, SHORT_HEADER_BYTES, UNKNOWN_CRC, Case
from expected_table import Expectation, Expectations
from files import crc32_of
from listing import Contract
from references import NoReference, References
from session import Session

EXIT_OUT_OF_MEMORY, EXIT_BAD_DATA = 71, 65
CHEAP_FLOPS = 2e10  # a second or so of seq

PASSED = "AC"
SKIPPED = "SKIP"
JUDGE_ERROR = "JE"
NOT_JUDGED = (JUDGE_ERROR, SKIPPED)
LARGEST = "largest absolute difference: "  # how compare begins the line about it


class CaseError(Exception):
    """The case cannot be judged, and hw4 is not to blame."""


class CannotRun(Exception):
    """The system does not take the file for a program."""


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """|expected - got| <= atol + rtol |expected|"""
    atol: float | None
    rtol: float | None

    @property
    def options(self) -> list[str]:
        """For compare."""
        return [word for name, value in self._given for word in ("--" + name, repr(value))]

    @property
    def rule(self) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in self._given)

    @property
    def _given(self) -> list[tuple[str, float]]:
        return [(name, value) for name, value in (("atol", self.atol), ("rtol", self.rtol)) if value is not None]


@dataclasses.dataclass(frozen=True)
class Settings:
    launcher: list[str]
    program: str  # as it was named
    hw4: str  # its path
    is_from_elsewhere: bool  # not the hw4 of --bin: it is told its input and its output, and nothing else
    is_alone: bool  # no other program is judged
    hw4_options: list[str]
    contract: Contract
    is_told: bool  # whether our hw4 and seq are told the contract, or take their default by themselves
    is_ours: bool  # the hw4 that is judged is the one that listed the contract
    expectations: Expectations
    bounds: Bounds
    references: References
    seq: str
    generate: str
    compare: str
    cases_dir: str
    work_dir: str  # where the judge makes files
    expected_dir: str | None
    tolerance: Tolerance | None  # None: the bytes decide
    limit_factor: float | None  # None: no limit
    limit_of_unknown: float | None  # of cases that have none in the table
    runs: int
    keep: bool

    def hw4_command(self, case_input: str, output: str) -> list[str]:
        options = [] if self.is_from_elsewhere else [*self._contract_options, *self.hw4_options]
        return [*self.launcher, self.hw4, *options, case_input, output]

    @property
    def pairs_command(self) -> list[str]:
        """Which is told the names of inputs and outputs."""
        return [self.hw4, *self._contract_options, *self.hw4_options, "--pairs", "-"]

    def seq_command(self, case_input: str, output: str) -> list[str]:
        return [self.seq, *self._contract_options, case_input, output]

    @property
    def _contract_options(self) -> list[str]:
        return ["--contract", self.contract.name] if self.is_told else []

    def file_name(self, case: Case, suffix: str) -> str:
        """Of an output: t01.out, t01.fixed.out."""
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


def _written_state(path: str) -> tuple[int, int, int] | None:
    """Changes when the file is written to, or another takes its place; None: there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@dataclasses.dataclass
class Sample:
    """One run of hw4."""
    wall_s: float
    exit_code: int | None
    signal: int | None
    last_error_line: str
    last_lines: list[str]  # of both streams, of a program from elsewhere
    verdict: str = PASSED
    detail: str = ""
    crc32_out: str | None = None
    explanation: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Result:
    case: Case
    program: str
    contract: Contract
    expectation: Expectation | None  # None: the table has none, or does not decide
    bound: Bound | None  # likewise
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
    def median_s(self) -> float | None:
        return statistics.median(sample.wall_s for sample in self.samples) if self.samples else None


@contextlib.contextmanager
def case_folder(settings: Settings) -> Iterator[str]:
    """Where the judge makes files: the cases folder when they are to stay, else one of its own inside it, or where it
    was called if that folder is not its to write in (large files do not belong in /tmp, and a launcher's machine may
    not share that)."""
    if settings.keep:
        yield settings.cases_dir
        return
    with tempfile.TemporaryDirectory(prefix=".judge-", dir=settings.work_dir) as folder:
        with open(os.path.join(folder, ".gitignore"), "w", encoding="ascii") as ignore:
            ignore.write("*\n")
        yield folder


class CaseJudge:
    def __init__(self, case: Case, settings: Settings, folder: str, session: Session | None = None):
        self.case = case
        self.session = session  # None: a process of its own
        self.settings = settings
        self.folder = folder
        self.input = os.path.join(settings.cases_dir, case.name + ".in")
        self.output = os.path.join(folder, settings.file_name(case, ".out"))
        self.expectation = settings.expectations.of(case, settings.contract.name)
        self.bound = settings.bounds.of(case, settings.contract.name)
        self.limit_s = settings.limit_of(case)
        self._expected: str | None = None
        self._given: str | None = None  # the output to compare with, where it and not the table decides

    def judge(self) -> Result:
        settings = self.settings
        result = _result(self.case, settings, PASSED, "")
        try:
            self._prepare_input()
            if self._given:
                self.expectation = result.expectation = None
            for number in range(settings.runs):
                sample = self._run_once(number)
                result.samples.append(sample)
                self._decide(sample)
                result.verdict, result.detail, result.explanation = sample.verdict, sample.detail, sample.explanation
                if not result.passed:
                    break
        except CaseError as error:
            result.verdict, result.detail, result.explanation = JUDGE_ERROR, str(error), []
            if result.samples:
                result.samples[-1].verdict = JUDGE_ERROR
        except CannotRun as error:
            result.verdict, result.detail = "RE", str(error)
        return result

    def _prepare_input(self) -> None:
        os.makedirs(self.folder, exist_ok=True)  # a program from elsewhere before this one may have removed it
        self._given = self._given_for_other_input()
        if not self._given:
            self._have_the_tables_input()
        if self.settings.is_from_elsewhere and not self.settings.keep:
            self._take_copy()

    def _take_copy(self) -> None:
        """Of an input that is somebody's: what a program from elsewhere does to it is done to the copy."""
        copy = os.path.join(self.folder, self.case.name + ".in")
        try:
            if not os.path.exists(copy):
                shutil.copy2(self.input, copy)
        except OSError as error:
            raise CaseError(f"cannot copy the input: {error}") from error
        self.input = copy

    def _have_the_tables_input(self) -> None:
        self._require_expectation()
        if self.case.crc32_in == UNKNOWN_CRC:
            raise CaseError(f"the table has no crc32_in; testcases/update {self.case.name} makes it")
        if not os.path.exists(self.input):
            self.input = os.path.join(self.folder, self.case.name + ".in")
        if not os.path.exists(self.input):  # it is there when the case was judged under another contract before
            ended = child.run(self._generate_command(self.input))
            if not ended.ok:
                raise CaseError(f"cannot generate the input: {ended.failure()}")
        self._check_input()

    def _require_expectation(self) -> None:
        """One that is about what this hw4 computes, where it is ours and says that."""
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

    def _given_for_other_input(self) -> str | None:
        """An output was given, and the input is not the table's: what that has to say is not about them."""
        given = self._given_expected()
        if given is None or not os.path.exists(self.input):
            return None
        try:
            size, headers = os.path.getsize(self.input), (SHORT_HEADER_BYTES, LONG_HEADER_BYTES)
            if size - self.case.data_bytes not in headers:
                needed = " or ".join(str(header + self.case.data_bytes) for header in headers)
                raise CaseError(f"{self.input} has {size} bytes, {self.case.shape} needs {needed}")
            is_the_tables = self.case.crc32_in != UNKNOWN_CRC and crc32_of(self.input) == self.case.crc32_in
        except OSError as error:
            raise CaseError(f"cannot read the input: {error}") from error
        return None if is_the_tables and self.expectation else given

    def _check_input(self) -> None:
        try:
            size = os.path.getsize(self.input)
            if size != self.case.input_bytes:
                raise CaseError(f"{self.input} has {size} bytes, the case has {self.case.input_bytes}")
            crc = crc32_of(self.input)
        except OSError as error:
            raise CaseError(f"cannot read the input: {error}") from error
        if crc != self.case.crc32_in:
            raise CaseError(f"{self.input} has CRC-32 {crc}, the table says {self.case.crc32_in}; with --expected DIR "
                            f"an output {self.settings.file_name(self.case, '.out')} decides instead")

    def _generate_command(self, path: str) -> list[str]:
        return [self.settings.generate, *self.case.recipe(), path]

    def _run_hw4(self, number: int) -> child.Ended:
        if self.session is None:
            return self._run_program()
        # In one run of hw4 no two cases may have the same output.
        output = f"{self.output}.{number}" if number else self.output
        ended = self.session.run(self.input, output, self.limit_s)
        if number:
            with contextlib.suppress(FileNotFoundError):
                os.replace(output, self.output)
        return ended

    def _run_program(self) -> child.Ended:
        command = self.settings.hw4_command(self.input, self.output)
        try:
            return child.run(command, self.limit_s, keep_streams=self.settings.is_from_elsewhere)
        except OSError as error:
            if self.settings.is_alone:
                raise
            raise CannotRun(f"cannot be run: {error.strerror}") from error

    def _run_once(self, number: int) -> Sample:
        if os.path.isdir(self.output) and not os.path.islink(self.output):
            shutil.rmtree(self.output)  # a program from elsewhere may make anything of the name
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.output)
        before = _written_state(self.input)
        ended = self._run_hw4(number)
        sample = Sample(ended.wall_s, ended.exit_code, ended.signal, ended.last_error_line, ended.last_lines)
        after = _written_state(self.input)
        if after != before:
            sample.verdict = "INPUT"
            sample.detail = f"the program has {'removed' if after is None else 'written to'} its input file"
            self._give_up_input()
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
        return sample

    @property
    def _is_to_be_refused(self) -> bool:
        return self.settings.contract.is_by_bound and self.bound is not None and self.bound.largest is None

    def _give_up_input(self) -> None:
        """The next program gets one as it was. With --keep it is left as it is, for whoever is to look at it."""
        if not self.settings.keep and os.path.dirname(self.input) == self.folder:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.input)

    def _decide(self, sample: Sample) -> None:
        if sample.verdict == PASSED:
            self._decide_by_output(sample)
        if sample.verdict not in (PASSED, "WA"):  # what it said of itself, where it said more than is quoted
            quoted = [f"stderr: {sample.last_error_line}"]
            sample.explanation = [] if sample.last_lines == quoted else sample.last_lines

    def _decide_by_output(self, sample: Sample) -> None:
        """Where the run itself was in order."""
        if self._is_to_be_refused:
            if sample.exit_code == 0:
                sample.verdict, sample.detail = "WA", f"exit code 0, need {EXIT_BAD_DATA}: the type lacks a number of it"
            return
        if not os.path.isfile(self.output):
            sample.verdict, sample.detail = "NO-OUT", "exit code 0, but no output file"
            return
        size = os.path.getsize(self.output)
        if size != self.case.output_bytes:
            sample.verdict, sample.detail = "SIZE", f"the output has {size} bytes, need {self.case.output_bytes}"
            return
        try:
            sample.crc32_out = crc32_of(self.output)
        except OSError as error:
            sample.verdict, sample.detail = "NO-OUT", f"the output cannot be read: {error.strerror}"
            return
        if self.settings.contract.is_by_bound and self._given_expected() is None:
            self._decide_by_bound(sample)
        elif self.settings.tolerance is not None:
            self._decide_by_tolerance(sample, self.settings.tolerance)
        elif self._given:
            self._decide_by_given(sample, self._given)
        else:
            self._decide_by_bytes(sample)

    def _decide_by_bytes(self, sample: Sample) -> None:
        if sample.crc32_out == self.expectation.crc32:
            sample.detail = f"bytes: CRC-32 {sample.crc32_out}"
            return
        sample.verdict = "WA"
        sample.detail = f"bytes: CRC-32 {sample.crc32_out}, expected {self.expectation.crc32}"
        sample.explanation = self._explain_difference()

    def _decide_by_given(self, sample: Sample, given: str) -> None:
        same, lines = self._compare(given, [])
        sample.verdict = PASSED if same else "WA"
        sample.detail = f"bytes: {lines[0]}"
        sample.explanation = lines[1:]

    def _decide_by_tolerance(self, sample: Sample, tolerance: Tolerance) -> None:
        given = self._given_expected()
        if given is None and sample.crc32_out == self.expectation.crc32:
            sample.detail = f"{tolerance.rule}: the bytes are equal, CRC-32 {sample.crc32_out}"
            return
        self._tell_nearness(sample, tolerance.rule, *self._compare(given or self._reference(), tolerance.options))

    def _decide_by_bound(self, sample: Sample) -> None:
        """Beside float64, which compare makes of the input."""
        settings = self.settings
        allowed = settings.tolerance.options if settings.tolerance else ["--atol", ",".join(map(repr, self.bound.largest))]
        options = ["--exact", settings.contract.element, *allowed]
        self._tell_nearness(sample, settings.rule_for(self.case), *self._run_compare([*options, self.input, self.output]))

    @staticmethod
    def _tell_nearness(sample: Sample, rule: str, near: bool, lines: list[str]) -> None:
        largest = [line.removeprefix(LARGEST) for line in lines if line.startswith(LARGEST)]
        sample.verdict = PASSED if near else "WA"
        sample.detail = f"{rule}: {LARGEST + '; '.join(largest) if near and largest else lines[0]}"
        sample.explanation = [] if near else lines[1:]

    def _reference(self) -> str:
        settings = self.settings
        try:
            return settings.references.of(self.case, settings.contract.name, self.expectation, self.input)
        except NoReference as error:
            raise CaseError(str(error)) from error

    def _explain_difference(self) -> list[str]:
        given = self._given_expected()
        if given is None and self.case.flops > CHEAP_FLOPS:
            return ["to see where: " + self._explaining_commands()]
        if not os.path.exists(self.settings.compare):
            return [f"no {self.settings.compare} to show where; make builds it"]
        if given is not None:
            self._require_expected_crc(given)
        return self._compare(given or self._made_expected(), [])[1]

    def _explaining_commands(self) -> str:
        name = self.case.name
        made = name + ".in"
        output, expected = (self.settings.file_name(self.case, suffix) for suffix in (".out", ".expected"))
        there = os.path.join(self.settings.cases_dir, made)
        kept = os.path.exists(there)
        case_input = there if kept else made
        commands = [] if kept else [self._generate_command(made)]
        commands += [self.settings.hw4_command(case_input, output), self.settings.seq_command(case_input, expected),
                     [self.settings.compare, case_input, expected, output]]
        return " && ".join(map(shlex.join, commands))

    def _given_expected(self) -> str | None:
        if self.settings.expected_dir is None:
            return None
        path = os.path.join(self.settings.expected_dir, self.settings.file_name(self.case, ".out"))
        return path if os.path.exists(path) else None

    def _made_expected(self) -> str:
        if self._expected is None:
            path = os.path.join(self.folder, self.settings.file_name(self.case, ".expected"))
            try:
                ended = child.run(self.settings.seq_command(self.input, path))
            except OSError as error:
                raise CaseError(f"cannot run seq: {error}") from error
            if not ended.ok:
                raise CaseError(f"seq could not make the expected output: {ended.failure()}")
            self._require_expected_crc(path)
            self._expected = path
        return self._expected

    def _require_expected_crc(self, path: str) -> None:
        """hw4 is not wrong by a table that seq does not confirm."""
        try:
            crc = crc32_of(path)
        except OSError as error:
            raise CaseError(f"cannot read the expected output: {error}") from error
        if crc != self.expectation.crc32:
            raise CaseError(f"the expected output {os.path.basename(path)} has CRC-32 {crc}, "
                            f"the table says {self.expectation.crc32}")

    def _compare(self, expected: str, options: list[str]) -> tuple[bool, list[str]]:
        size = os.path.getsize(expected)
        if size != self.case.output_bytes:
            raise CaseError(f"the expected output {os.path.basename(expected)} has {size} bytes, need "
                            f"{self.case.output_bytes}")
        return self._run_compare([*options, self.input, expected, self.output])

    def _run_compare(self, arguments: list[str]) -> tuple[bool, list[str]]:
        command = [self.settings.compare, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
        if done.returncode not in (0, 1) or not done.stdout:
            raise CaseError(f"compare failed with {done.returncode}: {done.stderr.strip()}")
        return done.returncode == 0, done.stdout.splitlines()


def _result(case: Case, settings: Settings, verdict: str, detail: str) -> Result:
    return Result(case, settings.program, settings.contract, settings.expectations.of(case, settings.contract.name),
                  settings.bounds.of(case, settings.contract.name), verdict, settings.rule_for(case), settings.limit_of(case), detail)


def skipped(case: Case, settings: Settings) -> Result:
    return _result(case, settings, SKIPPED, "not run after a failure (--fail-fast)")


def missing_programs(cases: list[Case], settings: Settings) -> list[str]:
    """What the judge will need and cannot run, each in one line. One program of several that is not there has failed,
    and the others are judged."""
    needed = [*settings.launcher[:1], *([settings.hw4] if settings.is_alone else [])]
    if any(not os.path.exists(os.path.join(settings.cases_dir, case.name + ".in")) for case in cases):
        needed.append(settings.generate)
    if settings.tolerance is not None or settings.expected_dir is not None or settings.contract.is_by_bound:
        needed.append(settings.compare)
    return [f"{program}: cannot be run" for program in needed if shutil.which(program) is None]
