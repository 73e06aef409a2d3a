#!/usr/bin/env python3
"""The Makefile: the flags that decide bytes, and what it installs; the list of mutants."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
MAKE_SETTINGS = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CXX", "CXXFLAGS", "LDFLAGS", "NVCC", "NVCCFLAGS", "CUDA", "ARCHS",
                 "PTX_ARCH", "MPI", "MPICC", "SANITIZE", "BUILD", "BIN", "V")
LIBRARY_FOLDER = os.environ.get("HW4_BIN") or ROOT
if os.path.realpath(LIBRARY_FOLDER) == ROOT:
    LIBRARY_FOLDER = os.environ.get("HW4_BUILD") or os.path.join(ROOT, "build")
PATIENCE_S = 60
NEEDS_NVCC = unittest.skipUnless(shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc"), "needs nvcc")


class Workplace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="build_test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_command(self, *command):
        environment = {key: value for key, value in os.environ.items() if key not in MAKE_SETTINGS}
        return subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)

    def make(self, *arguments):
        return self.run_command("make", "--no-print-directory", f"BUILD={self.folder}/build", f"BIN={self.folder}/bin",
                                *arguments)


class Flags(Workplace):
    """A user's flags cannot change how the contracts' arithmetic is compiled."""

    def compiling(self, source, *settings):
        done = self.make("-n", "V=1", *settings, "all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return next(line for line in done.stdout.splitlines() if f"-c {source}" in line)

    def test_host_code(self):
        line = self.compiling("src/contracts/f32/reference.cpp", "CUDA=no", "CXXFLAGS=-O0 -ffp-contract=fast")
        self.assertRegex(line, r"-std=c\+\+17 .*-O3 .*-O0 -ffp-contract=fast -ffp-contract=off ")

    @NEEDS_NVCC
    def test_gpu_code(self):
        line = self.compiling("src/gpu/fixed/forward/prepare.cu", "CUDA=yes", "ARCHS=90", "NVCCFLAGS=-fmad=true")
        self.assertRegex(line, r" -fmad=true -fmad=false -ftz=false ")

    @NEEDS_NVCC
    def test_a_kernel_of_ones_own_has_the_contracts_flags(self):
        for file, built in ((), "my_kernel.so"), (("FILE=tests/support/large_tiles.cu",), "large_tiles.so"):
            told = self.make("-n", "V=1", "CUDA=yes", "ARCHS=90", *file, "my-kernel")
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            self.assertRegex(told.stdout.splitlines()[-1], rf" -fmad=false .*/build/{built}")
        with open(f"{ROOT}/profile/my_kernel.cu", encoding="utf-8") as source:
            by_hand = [line for line in source if " nvcc " in line]
        self.assertEqual([" -fmad=false " in line for line in by_hand], [True])


class Install(Workplace):
    """Where the programs exist already, make builds none."""
    PROGRAMS = ("hw4", "seq", "testcases/generate", "judge/compare")
    FILES = sorted(["share/man/man1/" + name + ".1"
                    for name in ("hw4", "hw4-bench", "hw4-train", "hw4-seq", "hw4-compare")] +
                   ["include/hw4.h", "share/man/man3/hw4.3", "lib/pkgconfig/hw4.pc"] +
                   ["lib/libhw4." + ending for ending in ("a", "so", "so.0")] +
                   ["bin/" + name for name in ("hw4", "hw4-seq", "hw4-compare")] +
                   ["share/zsh/site-functions/_hw4"] +
                   [form.format(name) for name in ("hw4", "hw4-seq", "hw4-compare", "judge")
                    for form in ("share/bash-completion/completions/{}", "share/fish/vendor_completions.d/{}.fish")])

    def setUp(self):
        super().setUp()
        self.built = []
        for name in (*self.PROGRAMS, "testcases/cases.tsv"):
            source = os.path.join(ROOT if name.endswith("tsv") else os.environ.get("HW4_BIN") or ROOT, name)
            target = os.path.join(self.folder, "bin", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)
            self.built += ["-o", target]
        for name in ("libhw4.so", "libhw4.a"):
            target = os.path.join(self.folder, "bin", name)
            shutil.copy(os.path.join(LIBRARY_FOLDER, name), target)
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
        self.installed(f"DESTDIR={self.folder}/stage", "PREFIX=/usr")
        self.assertEqual(self.found_under(f"{self.folder}/stage/usr"), self.FILES)

    @unittest.skipUnless(shutil.which("man") and shutil.which("col"), "needs man")
    def test_man_pages_are_filled(self):
        prefix = f"{self.folder}/prefix"
        self.installed(f"PREFIX={prefix}")
        for page, said in (("hw4.1", r"--window W\n"), ("hw4-bench.1", r"--cold\n"), ("hw4.3", r" hw4_run\(.*;\n"),
                           ("hw4-seq.1", r" hw4-seq .*OUTPUT\n")):
            text = self.run_command("bash", "-c", 'MANWIDTH=80 man -l "$1" | col -bx', "bash",
                                    f"{prefix}/share/man/man{page[-1]}/{page}").stdout
            self.assertRegex(text, said)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)

    # What is typed, the word to complete last, and what can be there.
    COMPLETED = ((("hw4", "--list"), {"--list-kernels"}), (("hw4", "--contract", "fixed1"), {"fixed16"}),
                 (("hw4", "trai"), {"train"}), (("hw4-seq", "--contract", "fixed1"), {"fixed16"}),
                 (("hw4", "bench", "step", "--preset", "cs336-d"), {"cs336-ddp"}),
                 (("hw4", "bench", ""), {"accumulate", "start-up", "allreduce", "step"}),
                 (("hw4", "bench", "allreduce", "--si"), {"--sizes"}), (("hw4", "help", "fil"), {"files"}),
                 (("hw4", "train", "--model", "med"), {"medium"}),
                 (("hw4", "bench", "--impl", "naive,f"), {"naive,f32", "naive,fixed", "naive,fixed16", "naive,fp16"}),
                 (("hw4", "--device", ""), {"auto", "gpu", "cpu"}), (("hw4", "--json", "hw4.c"), {"hw4.cu"}),
                 (("hw4", "bench", "--kind", "n"), {"negative", "normal"}), (("hw4", "--threads", ""), set()),
                 (("hw4-seq", "train", "--contract", ""), {"f32", "bf16"}), (("judge", "--students", "hw4.c"), {"hw4.cu"}),
                 (("judge", "--color", "a"), {"auto", "always"}),
                 (("judge", "--fail-fast", "t2"), {f"t2{i}" for i in range(10)}))

    def completion_script(self, name):
        """The installed file; the programs are found first in PATH."""
        prefix = f"{self.folder}/prefix"
        self.installed(f"PREFIX={prefix}")
        path = f"{prefix}/bin:{ROOT}/judge:{os.environ['PATH']}"
        patched = unittest.mock.patch.dict(os.environ, PATH=path)
        patched.start()
        self.addCleanup(patched.stop)
        return f"{prefix}/share/{name}"

    def test_completion_in_bash(self):
        script = self.completion_script("bash-completion/completions/judge")
        asking = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hw4; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        for words, completed in (*self.COMPLETED, (("hw4", "bench", "--impl", "=", "naive,b"), {"naive,bf16"})):
            done = self.run_command("bash", "-c", asking, "bash", script, *words)
            self.assertEqual((set(done.stdout.split()), done.stderr), (completed, ""), words)

    def test_completion_as_zsh_and_fish_ask_for_it(self):
        script = self.completion_script("bash-completion/completions/hw4")
        for words, completed in (*self.COMPLETED, (("hw4", "--json", "src/inst"), {"src/install/"}),
                                 (("hw4", "bench", "--impl=naive,b"), {"--impl=naive,bf16"})):
            done = self.run_command("bash", script, *words)
            self.assertEqual((set(done.stdout.split()), done.stderr), (completed, ""), words)


class Mutants(Workplace):
    def test_the_list_fits_the_sources_and_every_killer_exists(self):
        done = self.run_command(sys.executable, "tests/mutants/run", "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
