#!/usr/bin/env python3
"""The Makefile, .ci/need and tests/run, tried with fake tools; nothing is compiled but one object."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from program_module import program_as_module

ROOT = str(pathlib.Path(__file__).resolve().parents[2])
SOURCES = ("Makefile", ".ci", ".clang-format", "hw4.cu", "seq.cpp", "src", "tests", "testcases", "judge")
MAKE_SETTINGS = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CXX", "CXXFLAGS", "LDFLAGS", "NVCC", "NVCCFLAGS", "CUDA", "ARCHS",
                 "PTX_ARCH", "MPI", "MPICC", "SANITIZE", "COVERAGE", "BUILD", "BIN", "V")
PATIENCE_S = 60


class Workplace(unittest.TestCase):
    """A folder with fake programs that come first in PATH."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="build_test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.tools = os.path.join(self.folder, "tools")
        os.mkdir(self.tools)
        self.fake("nvidia-smi", "exit 9")
        self.fake("nvcc", "echo compute_80; echo compute_90; echo compute_100")

    def fake(self, name, body):
        path = os.path.join(self.tools, name)
        with open(path, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)
        return path

    def run_command(self, *command, folder=ROOT, path=None):
        environment = {key: value for key, value in os.environ.items() if key not in MAKE_SETTINGS}
        environment["PATH"] = path or self.tools + os.pathsep + os.environ["PATH"]
        return subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)

    def make(self, *arguments, folder=ROOT):
        return self.run_command("make", "--no-print-directory", f"BUILD={self.folder}/build", f"BIN={self.folder}/bin",
                                *arguments, folder=folder)


class Architectures(Workplace):
    def built_for(self, *arguments):
        done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", *arguments, "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        compiling = next(line for line in done.stdout.splitlines() if "-c src/gpu/fixed/forward/prepare.cu" in line)
        self.remark = "\n".join(re.findall("^echo .*", done.stdout, re.MULTILINE))
        self.ptx = re.findall(r"code=compute_(\d+)", compiling)
        archs = re.findall(r"code=sm_(\d+)", compiling)
        self.assertIn(f'"{" ".join(archs)}"', compiling)
        return archs

    def test_the_gpus_present(self):
        self.fake("nvidia-smi", "echo 10.0; echo 9.0; echo 9.0")
        self.assertEqual((self.built_for(), self.ptx), (["90", "100"], ["100"]))

    def test_errors_of_nvidia_smi_are_no_architectures(self):
        self.fake("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch 9.0'; exit 18")
        self.assertEqual((self.built_for(), self.ptx), (["90"], ["80"]))
        self.fake("nvidia-smi", "echo '[N/A]'; echo 9.0")
        self.assertEqual(self.built_for(), ["90"])
        self.assertEqual(self.remark, "")

    def test_without_a_gpu_code_for_one_and_what_any_other_can_run(self):
        self.assertEqual((self.built_for(), self.ptx), (["90"], ["80"]))
        self.assertIn("No GPU here: hw4 has code for compute capability 90 and runs on any from 80 on; make ARCHS=",
                      self.remark)

    def test_a_gpu_that_nvcc_does_not_know_gets_what_any_can_run_and_a_remark(self):
        self.fake("nvidia-smi", "echo 12.1")
        self.assertEqual((self.built_for(), self.ptx), (["90"], ["80"]))
        self.assertIn("cannot build for the GPU here (121)", self.remark)

    def test_an_nvcc_of_other_times(self):
        self.fake("nvcc", "echo compute_70; echo compute_80")
        self.assertEqual((self.built_for(), self.ptx), (["80"], ["80"]))
        self.fake("nvcc", "echo compute_100; echo compute_120")
        self.assertEqual((self.built_for(), self.ptx), (["120"], ["120"]))

    def test_code_is_compressed_where_nvcc_can(self):
        def compiling():
            done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", "all")
            return next(line for line in done.stdout.splitlines() if "-c src/gpu/fixed/forward/prepare.cu" in line)
        self.assertNotIn("compress-mode", compiling())
        self.fake("nvcc", "echo --compress-mode; echo compute_90")
        self.assertIn(" --compress-mode=size ", compiling())

    def test_those_asked_for(self):
        self.fake("nvidia-smi", "echo 12.1")
        self.assertEqual((self.built_for("ARCHS=100 75"), self.ptx, self.remark), (["100", "75"], ["100"], ""))
        for wrong in ("sm_90", "9.0", ""):
            done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", f"ARCHS={wrong}", "all")
            self.assertEqual(done.returncode, 2)
            self.assertIn("ARCHS ", done.stderr)

    def test_ptx_of_the_one_asked_for(self):
        self.assertEqual((self.built_for("ARCHS=90", "PTX_ARCH=75"), self.ptx), (["90"], ["75"]))
        self.assertEqual((self.built_for("PTX_ARCH=75"), self.ptx), (["90"], ["75"]))
        self.assertIn("runs on any from 75 on", self.remark)
        done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", "PTX_ARCH=7.5", "all")
        self.assertIn("PTX_ARCH must be numbers like 80 or 90, got: 7.5.", done.stderr)

    def test_ptx_of_f32_is_made_once_for_all_that_have_the_same(self):
        done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", "ARCHS=75 80 86 90 100", "PTX_ARCH=90", "all")
        compiling = next(line for line in done.stdout.splitlines() if "-c src/gpu/f32/forward/woven_tiles.cu" in line)
        self.assertEqual(re.findall(r"arch=compute_(\d+),code=(\w+)", compiling),
                         [("75", "sm_75"), ("80", "sm_80"), ("80", "sm_86"), ("80", "sm_90"), ("100", "sm_100"),
                          ("80", "compute_80")])

    def test_nothing_is_asked_without_cuda(self):
        tell = f"touch {self.folder}/asked"
        self.fake("nvidia-smi", tell)
        self.fake("nvcc", tell)
        done = self.make("-n", "CUDA=no", "ARCHS=nonsense", "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("asked", os.listdir(self.folder))


class Flags(Workplace):
    OBJECT = "src/run/engine.cpp.o"

    def compiled(self, *arguments):
        done = self.make("CUDA=no", "V=1", f"{self.folder}/build/{self.OBJECT}", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_users_come_on_top_and_a_change_rebuilds(self):
        self.fake("c++-fake", 'while [ "$1" != -o ]; do shift; done; touch "$2"')
        plain = self.compiled("CXX=c++-fake")
        self.assertRegex(plain, r"-std=c\+\+17 .*-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 .*-ffp-contract=off")
        self.assertNotIn("-c ", self.compiled("CXX=c++-fake"))
        with_flags = self.compiled("CXX=c++-fake", "CXXFLAGS=-O0 -DNAME='\"x y\"' -ffp-contract=fast")
        self.assertRegex(with_flags, r"-std=c\+\+17 .*-O3 .*-O0 .*-ffp-contract=fast -ffp-contract=off ")
        self.assertIn("-c ", self.compiled("CXX=c++-fake"))
        self.assertIn("-c ", self.compiled("CXX=c++-fake", "LDFLAGS=-Wl,-z,now"))
        shutil.copy(os.path.join(self.tools, "c++-fake"), os.path.join(self.tools, "c++-other"))
        self.assertIn("c++-other ", self.compiled("CXX=c++-other", "LDFLAGS=-Wl,-z,now"))

    def test_hardening_goes_through_nvcc(self):
        """What readelf finds in the finished programs (hardening_test.py), for an nvcc that is not there too."""
        done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", "all")
        compiling = next(line for line in done.stdout.splitlines() if "-c src/gpu/fixed/forward/prepare.cu" in line)
        linking = next(line for line in done.stdout.splitlines() if f"-o {self.folder}/bin/hw4" in line)
        passed_on = re.search(r"-Xcompiler (\S+)", compiling)[1].split(",")
        self.assertLessEqual({"-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-fPIE"}, set(passed_on))
        for flag in ("-Xcompiler -pie", "-Xlinker -z,relro", "-Xlinker -z,now", "-Xlinker -z,noexecstack"):
            self.assertIn(f" {flag} ", linking)

    def test_the_table_is_put_beside_generate(self):
        done = self.make("-n", "CUDA=no", "all")
        self.assertIn(f"cp testcases/cases.tsv {self.folder}/bin/testcases/cases.tsv\n", done.stdout)

    def test_what_is_profiled(self):
        build = f"{self.folder}/build"
        self.fake("nvidia-smi", "echo 9.0")
        cuda = ("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc")
        some = self.make(*cuda, "profile", "CASES=t28 t10", "KERNEL=plain_rows chosen").stdout
        self.assertIn(f"profile/profile --time-kernels {build}/time_kernels --json {build}/profile.json "
                      "--kernel plain_rows chosen \\\n    --case t28 t10\n", some)
        self.assertNotIn("--case", self.make(*cuda, "profile", "CASES=").stdout)

    def test_what_nvcc_passes_on_to_the_linker(self):
        done = self.make("-n", "CUDA=yes", f"NVCC={self.tools}/nvcc", "LDFLAGS=-Wl,-z,now -L/x", "NVCCFLAGS=-fmad=true", "all")
        linking = next(line for line in done.stdout.splitlines() if f"-o {self.folder}/bin/hw4" in line)
        # The contract's flags come last, so nothing a user adds can undo them.
        self.assertRegex(linking, r" -fmad=true -fmad=false -ftz=false .*-Xlinker -z,now .*-Xcompiler -L/x ")


class Saying(Workplace):
    """What make prints, and what it says of targets that it cannot make here."""

    def test_a_short_line_for_each_file(self):
        self.fake("c++-fake", 'while [ "$1" != -o ]; do shift; done; touch "$2"')
        target = f"{self.folder}/build/src/run/engine.cpp.o"
        self.assertEqual(self.make("CUDA=no", "CXX=c++-fake", target).stdout, "  CXX  src/run/engine.cpp\n")

    def test_targets_that_need_cuda(self):
        for target in ("time-kernels", "time-tilings", "start-up", "bench-gpu", "bench-files", "profile", "gpu-check"):
            with self.subTest(target):
                done = self.make("CUDA=no", target)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, rf"\A.* make {target} needs CUDA: CUDA=no was given\. .*\n\Z")

    def test_targets_that_need_a_gpu(self):
        for target in ("bench-gpu", "bench-files", "profile", "gpu-check"):
            with self.subTest(target):
                done = self.make("CUDA=yes", f"NVCC={self.tools}/nvcc", target)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, rf"\A.* make {target} needs a GPU: nvidia-smi finds none\. .*\n\Z")

    def test_why_there_is_no_gpu_engine(self):
        told = self.make("-n", "CUDA=no", "all").stdout
        self.assertIn('"Built without the GPU engine: CUDA=no was given."', told)
        self.assertIn('"Built without the GPU engine: nvcc was not found."', self.make("-n", "NVCC=", "all").stdout)

    def test_all_processors_unless_told_otherwise(self):
        nested = f"make --no-print-directory -j{os.cpu_count()} all"
        self.fake("nproc", f"echo {os.cpu_count()}")
        self.assertIn(nested, self.make("-n", "CUDA=no", "run").stdout)
        for told in ("-j1", "-j3"):
            self.assertNotIn(nested, self.make("-n", told, "CUDA=no", "run").stdout)

    def test_goals_with_a_make_of_their_own_come_one_after_the_other(self):
        one_after_the_other = "\n.NOTPARALLEL:"
        built = ("all", "tests", "time-kernels", "my-kernel", "time-tilings", "start-up")
        self.assertNotIn(one_after_the_other, self.make("-np", "CUDA=yes", f"NVCC={self.tools}/nvcc", *built).stdout)
        self.assertIn(one_after_the_other, self.make("-np", "CUDA=no", "run", "test").stdout)


class Layout(Workplace):
    def test_format_check_needs_no_git(self):
        copy = os.path.join(self.folder, "copy")
        os.mkdir(copy)
        for name in SOURCES:
            place = os.path.join(ROOT, name)
            (shutil.copytree if os.path.isdir(place) else shutil.copy)(place, os.path.join(copy, name))
        self.fake("clang-format", f'printf "%s\\n" "$@" > {self.folder}/given')
        self.assertEqual(self.make("CUDA=no", "format-check", folder=copy).returncode, 0)
        with open(f"{self.folder}/given", encoding="utf-8") as given:
            files = given.read().splitlines()
        for name in ("hw4.cu", "seq.cpp", "src/contracts/f32/forward.h", "src/gpu/engine.cu",
                     "tests/unit/engine_test.cpp", "testcases/generate.cpp", "judge/compare.cpp"):
            self.assertIn(name, files)


class Install(Workplace):
    """The programs are there already: make builds none."""
    PROGRAMS = ("hw4", "seq", "testcases/generate", "judge/compare")
    FILES = sorted(["share/man/man1/" + name + ".1" for name in ("hw4", "hw4-bench", "hw4-seq", "hw4-compare")] +
                   ["libexec/hw4/torch_cell.py", "libexec/hw4/sampling_rules.py"] +
                   [folder + name for folder in ("bin/", "share/bash-completion/completions/")
                    for name in ("hw4", "hw4-seq", "hw4-compare")])

    def setUp(self):
        super().setUp()
        self.built = []
        for name in (*self.PROGRAMS, "testcases/cases.tsv"):
            source = os.path.join(ROOT if name.endswith("tsv") else os.environ.get("HW4_BIN") or ROOT, name)
            target = os.path.join(self.folder, "bin", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)
            self.built += ["-o", target]

    def installed(self, *settings):
        done = self.make("CUDA=no", *self.built, *settings, "install")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def found_under(self, folder):
        return sorted(os.path.relpath(os.path.join(place, name), folder)
                      for place, _, names in os.walk(folder) for name in names)

    def test_under_a_prefix_and_gone_again(self):
        prefix = os.path.join(self.folder, "with blank")
        self.installed(f"PREFIX={prefix}")
        self.assertEqual(self.found_under(prefix), self.FILES)
        done = self.run_command(os.path.join(prefix, "bin/hw4-seq"), "-V")
        self.assertRegex(done.stdout, r"\Aseq \d")
        self.make("CUDA=no", *self.built, f"PREFIX={prefix}", "uninstall")
        self.assertEqual(self.found_under(prefix), [])

    def test_in_a_staging_folder(self):
        self.installed(f"DESTDIR={self.folder}/stage", "PREFIX=/usr")
        self.assertEqual(self.found_under(f"{self.folder}/stage/usr"), self.FILES)

    def test_the_man_page_says_what_help_says(self):
        self.installed(f"PREFIX={self.folder}/prefix")
        with open(f"{self.folder}/prefix/share/man/man1/hw4.1", encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(re.findall(r"^\.SH (.*)$", page, re.MULTILINE),
                         ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT CODES"])
        words = page.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\").split("\n")
        said = self.run_command(f"{self.folder}/prefix/bin/hw4", "--help").stdout.splitlines()
        after_usage = said[said.index(""):]
        self.assertEqual([line for line in after_usage if line not in (*words, "options:", "exit codes:")], [])

    def test_bench_finds_pytorchs_helper_and_leaves_nothing_beside_it(self):
        prefix = os.path.join(self.folder, "prefix")
        self.installed(f"PREFIX={prefix}")
        done = self.run_command(f"{prefix}/bin/hw4", "bench", "--device", "cpu", "--impl", "flash2", "--output", "-")
        self.assertRegex(done.stdout, r'"reason": "PyTorch is (not installed|measured on a GPU)')
        self.assertEqual(self.found_under(prefix), self.FILES)

    def test_the_man_page_of_bench(self):
        self.installed(f"PREFIX={self.folder}/prefix")
        with open(f"{self.folder}/prefix/share/man/man1/hw4-bench.1", encoding="utf-8") as file:
            page = file.read().replace("\\-", "-")
        self.assertIn("hw4-bench - attention timed over sizes", page)
        for option in ("--preset NAME", "--resume", "compare OLD NEW"):
            self.assertIn(option, page)

    def test_completion(self):
        self.installed(f"PREFIX={self.folder}/prefix")
        script = f"{self.folder}/prefix/share/bash-completion/completions/hw4"
        program = f"{self.folder}/prefix/bin/hw4"

        def completed(word, before="hw4", words=()):
            asking = ('source "$1"; program=$2; word=$3; before=$4; shift 4; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                      '_hw4 "$program" "$word" "$before"; echo "${COMPREPLY[@]}"')
            words = words or ("hw4", before, word)
            done = self.run_command("bash", "-c", asking, "bash", script, program, word, before, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout.split()
        self.assertEqual(completed("--list"), ["--list-kernels"])
        self.assertLessEqual({"--backward", "--causal", "--contract"}, set(completed("--")))
        self.assertEqual(completed("", "--contract"), ["f32", "fixed", "fixed16", "bf16", "fp16"])
        self.assertIn("generic", completed("g", "--kernel"))
        self.assertEqual(completed("c", "--device"), ["cpu"])
        self.assertEqual(completed(f"{self.folder}/too"), [f"{self.folder}/tools"])

        def of_bench(word, before="bench"):
            return completed(word, before, ("hw4", "bench", *((before,) if before != "bench" else ()), word))
        self.assertEqual(completed("ben", words=("hw4", "ben")), ["bench"])
        self.assertEqual(of_bench(""), ["compare", "accumulate", "allreduce", "gradients"])
        self.assertLessEqual({"--batch_size", "--memory_limit", "--resume", "--threshold"}, set(of_bench("--")))
        self.assertNotIn("--copies", of_bench("--"))
        self.assertEqual(of_bench("", "--impl"),
                         ["naive", "hw4", "f32", "fixed", "fixed16", "bf16", "fp16", "pytorch", "flash2", "cudnn", "efficient"])
        self.assertEqual(of_bench("", "--preset"), ["lab5", "cs336-attention", "cs336-flash", "fa2", "course"])
        self.assertEqual(of_bench("c", "--device"), ["cpu"])


class Mpi(Workplace):
    OPEN_MPI = 'case $1 in --showme:compile) echo -I/my/include -pthread;; --showme:link) echo -L/my/lib -lmpi;; esac'
    MPICH = """case $1 in -compile_info) echo gcc -I/my/include -Wl,-z,relro;; -link_info) echo gcc -L/my/lib -lmpi;;
        *) exit 1;; esac"""

    def commands(self, *arguments):
        """(how mpi.cpp is compiled, how hw4 is linked), where they are."""
        done = self.make("-n", "V=1", "CUDA=no", f"MPICC={self.tools}/mpicc", *arguments, "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        compiled = [line for line in lines if "-c src/ranks/mpi.cpp" in line]
        return compiled, next(line for line in lines if f"-o {self.folder}/bin/hw4 " in line)

    def test_is_in_hw4_where_it_is_asked_for(self):
        for mpicc in (self.OPEN_MPI, self.MPICH):
            self.fake("mpicc", mpicc)
            compiled, linked = self.commands("MPI=yes")
            self.assertIn(" -isystem /my/include ", compiled[0])
            self.assertRegex(linked, r" -L/my/lib -lmpi -Xlinker -rpath -Xlinker /my/lib$")
            compiled, linked = self.commands()
            self.assertEqual(compiled, [])
            self.assertNotIn("mpi", linked.replace("without_mpi", ""))

    def test_is_yes_or_no(self):
        for setting in ("1", "on"):
            done = self.make("-n", "CUDA=no", f"MPI={setting}", "all")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"MPI must be yes or no, got: {setting}.", done.stderr)

    def test_says_what_is_missing(self):
        done = self.make("-n", "CUDA=no", "MPI=yes", "MPICC=no-mpicc", "all")
        self.assertEqual(done.returncode, 2)
        self.assertIn("MPI=yes needs no-mpicc, which was not found (Debian: openmpi-bin, libopenmpi-dev)", done.stderr)


class Measuring(Workplace):
    def test_only_in_the_default_folders(self):
        done = self.run_command("make", "--no-print-directory", "-n", "CUDA=no", "measure", "MEASURE_ARGS=--only cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\npython3 report/measure --only cpu\n$")
        done = self.make("CUDA=no", "PYTHON=false", "measure")
        self.assertEqual(done.returncode, 2)
        self.assertIn("make measure: not with another BUILD or BIN\n", done.stderr)


class Need(Workplace):
    """.ci/need where there is neither a compiler nor apt-get."""

    def need(self, goal="run", **environment):
        for tool in ("bash", "env", "id", "uname"):
            target = os.path.join(self.tools, tool)
            if not os.path.exists(target):
                os.symlink(shutil.which(tool), target)
        settings = [f"{name}={value}" for name, value in environment.items()]
        done = self.run_command("env", *settings, "bash", ".ci/need", goal, path=self.tools)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_names_the_package_of_the_compiler(self):
        self.assertIn("missing: g++ zlib1g-dev ", self.need())
        self.assertIn("missing: clang zlib1g-dev ", self.need(CXX="clang++"))
        self.assertIn("missing: clang-16 zlib1g-dev ", self.need(CXX="clang++-16"))
        self.assertIn("missing: g++-13 zlib1g-dev ", self.need(CXX="g++-13"))

    def test_names_what_another_processors_tests_need(self):
        """On the processor itself that is what make test needs."""
        for goal, processor, packages in (
                ("test-arm", "x86_64", "g++-aarch64-linux-gnu zlib1g-dev:arm64 libgtest-dev:arm64 qemu-user python3 "),
                ("test-x86", "aarch64", "g++-x86-64-linux-gnu zlib1g-dev:amd64 libgtest-dev:amd64 qemu-user python3 "),
                ("test-arm", "aarch64", "g++ zlib1g-dev libgtest-dev python3 ")):
            with self.subTest(goal, processor=processor):
                self.fake("uname", f"echo {processor}")
                self.assertIn(f"missing: {packages}", self.need(goal))

    def test_names_a_compiler_that_is_in_no_package_it_knows(self):
        self.assertEqual(self.need(CXX="/opt/none/icpx -v"), "missing: the compiler /opt/none/icpx (CXX)\n")


class Fuzzers(Workplace):
    def probe(self, compiler):
        done = self.run_command("tests/fuzz/run", "--probe", compiler)
        return done.returncode, done.stderr

    def test_a_compiler_without_libfuzzer_is_named_with_what_to_install(self):
        self.fake("bare-clang++", "echo 'cannot find libclang_rt.fuzzer.a' >&2; exit 1")
        for compiler, problem in (("no-clang++", "not found"), ("bare-clang++", "cannot link libFuzzer")):
            code, said = self.probe(compiler)
            self.assertEqual(code, 69)
            self.assertIn(f"fuzz: {compiler}: {problem}", said)
            self.assertIn("apt-get install clang libclang-rt-dev", said)

    def test_a_compiler_with_it_says_nothing(self):
        self.fake("able-clang++", "exit 0")
        self.assertEqual(self.probe("able-clang++"), (0, ""))


class Coverage(Workplace):
    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.folder, "build"))
        pathlib.Path(self.folder, "build", "x.gcno").touch()

    def report(self, *arguments, counts=(), gcov="gcov-fake"):
        """counts: (file, line, count)"""
        files = [{"file": name, "lines": [{"line_number": line, "count": count}]} for name, line, count in counts]
        self.fake("gcov-fake", f"echo '{json.dumps({'files': files})}'")
        return self.run_command(os.path.join(ROOT, "tests", "coverage"), "--build", f"{self.folder}/build",
                                "--gcov", gcov, *arguments)

    def test_lines_of_all_objects_are_added_up(self):
        counts = [("src/base/numbers.h", 9, 0), ("src/base/numbers.h", 9, 3), ("src/base/numbers.h", 11, 0),
                  ("src/base/numbers.h", 12, 0),
                  ("seq.cpp", 1, 1), ("tests/support/attend.h", 9, 0), ("/usr/include/zlib.h", 1, 0)]
        done = self.report("--least", "50", counts=counts)
        rows = [tuple(line.split()) for line in done.stdout.splitlines()[1:]]
        self.assertEqual((done.returncode, rows), (0, [("1", "1", "100.0", "%", "seq.cpp"),
                                                       ("3", "1", "33.3", "%", "src/base/numbers.h"),
                                                       ("4", "2", "50.0", "%", "all")]))
        self.assertIn(" not 11-12\n", self.report("--uncovered", counts=counts).stdout)

    def test_a_closing_brace_is_no_line(self):
        lines = pathlib.Path(ROOT, "src/base/numbers.h").read_text(encoding="utf-8").splitlines()
        done = self.report(counts=[("src/base/numbers.h", lines.index("}") + 1, 0), ("seq.cpp", 1, 1)])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1].split()[0]), (0, "1"))

    def test_too_little_is_a_failure(self):
        done = self.report(counts=[("seq.cpp", 1, 0), ("seq.cpp", 2, 1)])
        self.assertEqual((done.returncode, done.stderr), (1, "coverage: 50.0 % is less than 90 %\n"))

    def test_without_gcov(self):
        done = self.report(gcov="no-gcov")
        self.assertEqual(done.returncode, 69)
        self.assertIn("coverage: no-gcov not found", done.stderr)


class TestRunner(Workplace):
    def run_programs(self, no_cuda):
        with mock.patch.object(sys, "path", [os.path.join(ROOT, "tests"), *sys.path]):
            runner = program_as_module(pathlib.Path(ROOT, "tests/run"))
        tally = runner.Tally()
        args = argparse.Namespace(build=pathlib.Path(self.tools), no_cuda=no_cuda, step_seconds=PATIENCE_S, runner=[])
        with contextlib.redirect_stdout(io.StringIO()):
            for program in ("unit_tests", "gpu_tests"):
                runner.run_program(program, args, "*", tally)
        return tally

    def test_what_was_not_built_fails(self):
        tally = self.run_programs(no_cuda=False)
        self.assertEqual((tally.passed, tally.failed), (0, ["unit_tests", "gpu_tests"]))

    def test_a_program_without_tests_fails(self):
        """As all would with a filter that nothing matches."""
        self.fake("unit_tests", 'for a; do case $a in --gtest_filter=*) echo "$a";; --gtest_output=json:*) '
                                """echo '{"testsuites": []}' > "${a#--gtest_output=json:}";; esac; done""")
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--build", self.tools, "unit_tests")
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n--gtest_filter=*\n", done.stdout)
        self.assertIn("FAILED unit_tests: it ran no test at all\n", done.stdout)

    def run_with_limit(self, step, seconds, folder=ROOT):
        done = self.run_command(os.path.join(folder, "tests", "run"), "--build", self.tools, "--step-seconds",
                                str(seconds), "--jobs", "1", step)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done

    def assert_ended(self, number_file):
        """The process whose number is in the file: what was started by a test. It may wait to be taken note of."""
        number = pathlib.Path(number_file).read_text(encoding="utf-8").strip()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            self.assertEqual(pathlib.Path(f"/proc/{number}/cmdline").read_bytes(), b"")

    def test_a_program_that_hangs_is_ended_and_has_failed(self):
        sleeper = f"{self.folder}/sleeper"
        self.fake("unit_tests", "trap 'echo; echo \"Some.Test does not end; x\"; exit 1' ALRM\n"
                                f"sleep 600 & echo $! > {sleeper}\nwait")
        done = self.run_with_limit("unit_tests", 3)
        self.assertIn("FAILED unit_tests: Some.Test does not end, was ended after 3 s, no report\n", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed")
        self.assert_ended(sleeper)

    def module(self, text, name="some_test"):
        """A repository whose tests are those of one Python module."""
        copy = os.path.join(self.folder, "copy")
        os.makedirs(os.path.join(copy, "tests/program"))
        for file in ("run", "run_module.py", "child_signals.py"):
            shutil.copy(os.path.join(ROOT, "tests", file), os.path.join(copy, "tests", file))
        with open(os.path.join(copy, f"tests/program/{name}.py"), "w", encoding="utf-8") as file:
            file.write("import subprocess, sys, unittest\nclass Some(unittest.TestCase):\n")
            file.writelines(f"    {line}\n" for line in text.splitlines())
        return copy

    def test_a_module_that_hangs_is_ended_and_the_test_has_failed(self):
        sleeper = f"{self.folder}/sleeper"
        copy = self.module(f"""def test_1(self):
    pass
def test_2(self):
    with self.subTest("which is not the end of it"):
        self.fail()
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        with open({sleeper!r}, "w") as file:
            file.write(str(sleeping.pid))
def test_3(self):
    pass""")
        done = self.run_with_limit("some_test", 5, folder=copy)
        self.assertIn("FAILED some_test.Some.test_2: some_test was ended after 5 s\n", done.stdout)
        self.assertIn("in test_2\n", done.stdout, "it is not said where it hangs")
        self.assertRegex(done.stdout.splitlines()[-1], "^1 passed, [12] failed$")  # Python tells of subtests late
        self.assert_ended(sleeper)

    def test_what_a_module_does_is_counted(self):
        copy = self.module("""def test_1(self):
    pass
def test_2(self):
    self.skipTest("no reason")
def test_3(self):
    with self.subTest(1):
        self.fail()
    with self.subTest(2):
        raise OSError()
def test_4(self):
    pass""")
        done = self.run_with_limit("some_test", PATIENCE_S, folder=copy)
        self.assertIn("skipped 1 program test: no reason\n", done.stdout)
        self.assertIn("failed: some_test.Some.test_3 [1]\n", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "2 passed, 2 failed, 1 skipped")

    def test_each_test_of_a_class_that_is_skipped_counts(self):
        copy = self.module("""@classmethod
def setUpClass(cls):
    raise unittest.SkipTest("no reason")
def test_1(self):
    pass
def test_2(self):
    pass""")
        done = self.run_command(os.path.join(copy, "tests/run"), "some_test")
        self.assertIn("skipped 2 program tests: no reason\n", done.stdout)

    def fake_skipping(self, program, reasons):
        """A GoogleTest program that skips a test for each reason."""
        said = "".join(f"tests/a_test.cpp:3: Skipped\\n{reason}\\n\\n" for reason in reasons)
        tests = ", ".join(f'{{"classname": "A", "name": "B{n}", "status": "RUN", "result": "SKIPPED", "time": "0s"}}'
                          for n in range(len(reasons)))
        self.fake(program, f"printf '{said}kept\\n[  SKIPPED ] {len(reasons)} tests.\\n'\n"
                           'for a; do case $a in --gtest_output=json:*) '
                           f"echo '{{\"testsuites\": [{{\"testsuite\": [{tests}]}}]}}' "
                           '> "${a#--gtest_output=json:}";; esac; done')

    def test_what_was_skipped_has_a_line_for_each_reason(self):
        self.fake_skipping("unit_tests", ["this processor has no a1", "no pipe here", "this processor has no b2"])
        self.fake_skipping("gpu_tests", ["no usable GPU: no driver", "no usable GPU: some other words"])
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--build", self.tools, "--jobs", "1", "unit_tests",
                                "gpu_tests", "--filter", "A*")
        self.assertEqual(re.sub(r"\(\d+ s\)", "", done.stdout).splitlines(),
                         ["== unit_tests ", "kept", "== gpu_tests ", "kept",
                          "skipped 2 CPU kernel tests: this processor has no a1, b2",
                          "skipped 1 unit test: no pipe here", "skipped 2 GPU tests: no usable GPU: no driver",
                          "0 passed, 0 failed, 5 skipped"])

    def test_a_runner_starts_the_programs(self):
        self.fake("unit_tests", 'echo "by $RUNNER"')
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--build", self.tools, "--bin", self.tools,
                                "--runner", "env RUNNER='an emulator'", "unit_tests")
        self.assertIn("\nby an emulator\n", done.stdout)
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--runner", "env", "cli_test")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "run: no step cli_test; there are unit_tests, small_cases\n"))

    def test_every_test_of_a_module_is_in_one_share(self):
        copy = self.module("\n".join(f"def test_{n}(self):\n    print('this is', {n})" for n in range(5)), "cli_test")
        done = self.run_command(os.path.join(copy, "tests/run"), "--jobs", "3", "--slowest", "9", "cli_test")
        self.assertEqual(sorted(re.findall(r"this is (\d)", done.stdout)), list("01234"))
        self.assertEqual(done.stdout.count("== cli_test"), 3)
        self.assertEqual(sorted(re.findall(r" s  cli_test.Some.test_(\d)\n", done.stdout)), list("01234"))
        self.assertEqual(done.stdout.splitlines()[-1], "5 passed, 0 failed")

    def test_tests_are_counted_without_being_run(self):
        copy = self.module("def test_1(self):\n    sys.exit(1)\ndef test_2(self):\n    sys.exit(1)")
        self.fake("unit_tests", '[ "$*" = --gtest_list_tests ] && printf "Suite.\n  One\n  Two\n  Three # of them\n"')
        done = self.run_command(os.path.join(copy, "tests/run"), "--build", self.tools, "--count", "unit_tests",
                                "some_test", "layout")
        self.assertEqual((done.returncode, done.stdout),
                         (0, "     3 unit_tests\n     2 program (Python)\n     1 layout\n     6 all\n"))
        done = self.run_command(os.path.join(copy, "tests/run"), "--build", self.tools, "--count", "gpu_tests", "layout")
        self.assertEqual((done.returncode, done.stdout), (0, "     1 layout\n     1 all\n     - gpu_tests: not built\n"))

    def test_a_module_that_breaks_off_has_failed(self):
        copy = self.module("""def test_1(self):
    pass
def test_2(self):
    import os
    os._exit(3)""")
        done = self.run_with_limit("some_test", PATIENCE_S, folder=copy)
        self.assertIn("FAILED some_test.Some.test_2: some_test ended with 3\n", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "1 passed, 1 failed")
        pathlib.Path(copy, "tests/program/some_test.py").write_text("", encoding="utf-8")
        self.assertIn("FAILED some_test: it ran no test at all\n",
                      self.run_with_limit("some_test", PATIENCE_S, folder=copy).stdout)

    def test_steps_are_chosen_by_name(self):
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--build", self.tools, "--no-cuda", "gpu_tests")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "0 passed, 0 failed, 1 skipped"))
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "gpu_test")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "no step gpu_test; there are unit_tests, gpu_tests, .*cli_test, .*layout")

    def test_shares_of_a_program_are_counted_together(self):
        """Of three parts one has a test, one has none and one fails."""
        self.fake("unit_tests", 'case $* in *--gtest_list_tests*) printf "A.\\n  B\\n  C\\n  D\\n"; exit;; '
                                '*=A.B) tests=\'{"classname": "A", '
                                '"name": "B", "status": "RUN", "result": "COMPLETED", "time": "0s"}\';; '
                                '*=A.C) tests=;; *) exit 3;; esac\n'
                                'for a; do case $a in --gtest_output=json:*) echo \'{"testsuites": [{"testsuite": [\''
                                '"$tests"\']}]}\' > "${a#--gtest_output=json:}";; esac; done')
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--build", self.tools, "--jobs", "3", "unit_tests")
        self.assertIn("FAILED unit_tests: ended with 3, no report\n", done.stdout)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "1 passed, 1 failed"))

    def test_tests_that_differ_in_their_parameter_alone_are_in_one_share(self):
        names = ["Each/Kernel.Is/0", "Each/Kernel.Is/1", "Each/Kernel.Has/0", "Each/Kernel.Has/1", "One.Is"]
        self.fake("unit_tests", 'case $* in *--gtest_list_tests*) printf "Each/Kernel.\\n  Is/0  # GetParam() = a\\n'
                                '  Is/1\\n  Has/0\\n  Has/1\\nOne.\\n  Is\\n"; exit;; esac\necho "run $*"')
        done = self.run_command(os.path.join(ROOT, "tests", "run"), "--build", self.tools, "--jobs", "2", "unit_tests")
        shares = [share.split(":") for share in re.findall(r"^run .*--gtest_filter=(.*)$", done.stdout, re.MULTILINE)]
        self.assertEqual(sorted(name for share in shares for name in share), sorted(names))
        self.assertEqual(len(shares), 2)
        for test in ("Is", "Has"):
            self.assertEqual(len([share for share in shares if f"Each/Kernel.{test}/0" in share
                                  and f"Each/Kernel.{test}/1" in share]), 1)

    def test_what_runs_is_ended_with_the_runner(self):
        sleepers = [f"{self.folder}/sleeper{share}" for share in range(2)]
        self.fake("unit_tests", 'case $* in *--gtest_list_tests*) printf "Share.\\n  0\\n  1\\n"; exit;; esac\n'
                                f"all=$*; sleep 600 & echo $! > {self.folder}/sleeper${{all##*Share.}}\nwait")
        with subprocess.Popen([os.path.join(ROOT, "tests", "run"), "--build", self.tools, "--jobs", "2", "unit_tests"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as runner:
            deadline = time.monotonic() + PATIENCE_S
            while not all(os.path.exists(path) and os.path.getsize(path) for path in sleepers):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            runner.terminate()
            self.assertEqual(runner.wait(PATIENCE_S), 128 + signal.SIGTERM)
        for sleeper in sleepers:
            self.assert_ended(sleeper)

    def test_without_cuda_an_old_gpu_tests_is_not_run(self):
        self.fake("gpu_tests", f"touch {self.folder}/ran")
        tally = self.run_programs(no_cuda=True)
        self.assertEqual((tally.failed, tally.skipped), (["unit_tests"], [("GPU", "this build has no CUDA")]))
        self.assertNotIn("ran", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
