"""Judging one case: have its input, run hw4 on it, decide by its exit status and its output file alone."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator

import child
from case_table import UNKNOWN_CRC, Case
from expected_table import Expectation, Expectations
from files import crc32_of
from listing import Contract
from session import Session

EXIT_OUT_OF_MEMORY = 71
CHEAP_FLOPS = 2e10  # a second or so of seq

PASSED = "AC"
SKIPPED = "SKIP"
JUDGE_ERROR = "JE"


class CaseError(Exception):
    """The case cannot be judged, and hw4 is not to blame."""


@dataclasses.dataclass(frozen=True)
class Settings:
    launcher: list[str]
    hw4: str
    hw4_options: list[str]
    contract: Contract
    is_told: bool  # whether hw4 is told the contract, or takes its default by itself
    is_ours: bool  # the hw4 that is judged is the one that listed the contract
    expectations: Expectations
    seq: str
    generate: str
    compare: str
    cases_dir: str
    expected_dir: str | None
    atol: float | None  # None: the bytes decide
    limit_factor: float | None  # None: no limit
    runs: int
    keep: bool

    def hw4_command(self, case_input: str, output: str) -> list[str]:
        return [*self.launcher, self.hw4, *self._contract_options, *self.hw4_options, case_input, output]

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

    @property
    def rule(self) -> str:
        return "bytes" if self.atol is None else f"atol {self.atol:g}"

    def limit_of(self, case: Case) -> float | None:
        return None if self.limit_factor is None else case.limit_s * self.limit_factor


@dataclasses.dataclass
class Sample:
    """One run of hw4."""
    wall_s: float
    exit_code: int | None
    signal: int | None
    last_error_line: str
    verdict: str = PASSED
    detail: str = ""
    crc32_out: str | None = None
    explanation: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Result:
    case: Case
    contract: Contract
    expectation: Expectation | None  # None: the table has none
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
    def best_s(self) -> float | None:
        return min((sample.wall_s for sample in self.samples), default=None)

    @property
    def median_s(self) -> float | None:
        return statistics.median(sample.wall_s for sample in self.samples) if self.samples else None


@contextlib.contextmanager
def case_folder(settings: Settings) -> Iterator[str]:
    """Where the judge makes files: the cases folder when they are to stay, else one of its own inside it (large
    files do not belong in /tmp, and a launcher's machine may not share that)."""
    if settings.keep:
        yield settings.cases_dir
        return
    with tempfile.TemporaryDirectory(prefix=".judge-", dir=settings.cases_dir) as folder:
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
        self.limit_s = settings.limit_of(case)
        self._expected: str | None = None

    def judge(self) -> Result:
        settings = self.settings
        result = Result(self.case, settings.contract, self.expectation, PASSED, settings.rule, self.limit_s, "")
        try:
            self._prepare_input()
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
        return result

    def _prepare_input(self) -> None:
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
        asked = f"testcases/update {case.name} makes it"
        if self.expectation is None:
            raise CaseError(f"expected.tsv has no {case.operation} of {case.name} under {contract.name}; {asked}")
        computed = contract.revision_for(case)
        if self.settings.is_ours and computed != self.expectation.revision:
            raise CaseError(f"expected.tsv has {self.expectation.revision}, this hw4 computes {computed or 'none'}; "
                            f"{asked} again")

    def _check_input(self) -> None:
        try:
            size = os.path.getsize(self.input)
            if size != self.case.input_bytes:
                raise CaseError(f"{self.input} has {size} bytes, the case has {self.case.input_bytes}")
            crc = crc32_of(self.input)
        except OSError as error:
            raise CaseError(f"cannot read the input: {error}") from error
        if crc != self.case.crc32_in:
            raise CaseError(f"{self.input} has CRC-32 {crc}, the table says {self.case.crc32_in}")

    def _generate_command(self, path: str) -> list[str]:
        return [self.settings.generate, *self.case.recipe(), path]

    def _run_hw4(self, number: int) -> child.Ended:
        if self.session is None:
            return child.run(self.settings.hw4_command(self.input, self.output), self.limit_s)
        # In one run of hw4 no two cases may have the same output.
        output = f"{self.output}.{number}" if number else self.output
        ended = self.session.run(self.input, output, self.limit_s)
        if number:
            with contextlib.suppress(FileNotFoundError):
                os.replace(output, self.output)
        return ended

    def _run_once(self, number: int) -> Sample:
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.output)
        ended = self._run_hw4(number)
        sample = Sample(ended.wall_s, ended.exit_code, ended.signal, ended.last_error_line)
        if ended.at_limit:
            sample.verdict = "TLE"
            sample.detail = ended.with_last_line(f"killed after {ended.wall_s:.3f} s")
        elif self.limit_s is not None and ended.wall_s > self.limit_s:
            sample.verdict = "TLE"
            sample.detail = ended.with_last_line(f"finished {ended.wall_s - self.limit_s:.3f} s over the limit")
        elif ended.exit_code == EXIT_OUT_OF_MEMORY:
            sample.verdict, sample.detail = "OOM", ended.failure()
        elif not ended.ok:
            sample.verdict, sample.detail = "RE", ended.failure()
        return sample

    def _decide(self, sample: Sample) -> None:
        """The output's part of the verdict, where the run itself was in order."""
        if sample.verdict != PASSED:
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
        if self.settings.atol is None:
            self._decide_by_bytes(sample)
        else:
            self._decide_by_atol(sample)

    def _decide_by_bytes(self, sample: Sample) -> None:
        if sample.crc32_out == self.expectation.crc32:
            sample.detail = f"bytes: CRC-32 {sample.crc32_out}"
            return
        sample.verdict = "WA"
        sample.detail = f"bytes: CRC-32 {sample.crc32_out}, expected {self.expectation.crc32}"
        sample.explanation = self._explain_difference()

    def _decide_by_atol(self, sample: Sample) -> None:
        given = self._given_expected()
        if given is None and sample.crc32_out == self.expectation.crc32:
            sample.detail = f"{self.settings.rule}: the bytes are equal, CRC-32 {sample.crc32_out}"
            return
        same, lines = self._compare(given or self._made_expected(), ["--atol", repr(self.settings.atol)])
        sample.verdict = PASSED if same else "WA"
        sample.detail = f"{self.settings.rule}: {lines[0]}"
        sample.explanation = [] if same else lines[1:]

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
        kept = os.path.dirname(self.input) == self.settings.cases_dir
        case_input = self.input if kept else made
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
        command = [self.settings.compare, *options, self.input, expected, self.output]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
        if done.returncode not in (0, 1) or not done.stdout:
            raise CaseError(f"compare failed with {done.returncode}: {done.stderr.strip()}")
        return done.returncode == 0, done.stdout.splitlines()


def skipped(case: Case, settings: Settings) -> Result:
    return Result(case, settings.contract, settings.expectations.of(case, settings.contract.name), SKIPPED,
                  settings.rule, settings.limit_of(case), "not run after a failure (--fail-fast)")


def missing_programs(cases: list[Case], settings: Settings) -> list[str]:
    """What the judge will need and cannot run, each in one line."""
    needed = [*settings.launcher[:1], settings.hw4]
    if any(not os.path.exists(os.path.join(settings.cases_dir, case.name + ".in")) for case in cases):
        needed.append(settings.generate)
    if settings.atol is not None:
        needed.append(settings.compare)
    return [f"{program}: cannot be run" for program in needed if shutil.which(program) is None]
