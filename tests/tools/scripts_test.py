#!/usr/bin/env python3
"""The project's own scripts: no shell is given text from outside, nothing from outside is run as a program's text.

    python3 tests/tools/scripts_test.py [-v]
"""
import ast
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "judge", "profile", "report", "testcases", "tests")
# What takes a line for a shell or a text to run or unpack, or a name that somebody else can take first.
FORBIDDEN = {"eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput",
             "tempfile.mktemp", "pickle.load", "pickle.loads", "marshal.loads"}


def scripts(language):
    """The files whose first line names the language, and Python's modules."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.suffix not in ("", ".py"):
                continue
            first = path.read_bytes().partition(b"\n")[0].decode(errors="replace")
            if first.startswith("#!") and language in first or path.suffix == ".py" and language == "python":
                yield path


def dangers(text):
    """Line and reason of each call that could run what somebody else wrote."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func) in FORBIDDEN:
            found.append((node.lineno, ast.unparse(node.func)))
        found += [(node.lineno, "shell=") for keyword in node.keywords if keyword.arg == "shell"]
    return found


class ScriptsTest(unittest.TestCase):
    def test_what_counts_as_dangerous(self):
        for line, reason in (("subprocess.run(f'rm {name}', shell=True)", "shell="), ("os.system(line)", "os.system"),
                             ("x = eval(text)", "eval"), ("tempfile.mktemp()", "tempfile.mktemp")):
            self.assertEqual(dangers(line), [(1, reason)])
        self.assertEqual(dangers("subprocess.run(['rm', name])\nloader.exec_module(module)"), [])

    def test_python_scripts(self):
        paths = list(scripts("python"))
        self.assertLessEqual({ROOT / name for name in ("judge/judge", "judge/child.py", "report/bench_gpu", "tests/run",
                                                       "testcases/update", "tests/program/cli_test.py")}, set(paths))
        for path in paths:
            with self.subTest(path.relative_to(ROOT)):
                self.assertEqual(dangers(path.read_text(encoding="utf-8")), [])

    def test_shell_scripts(self):
        paths = list(scripts("bash"))
        self.assertLessEqual({ROOT / ".ci/need", ROOT / ".ci/run"}, set(paths))
        for path in paths:
            with self.subTest(path.relative_to(ROOT)):
                self.assertNotRegex(path.read_text(encoding="utf-8"), r"(?m)^[^#]*\b(eval|bash -c|sh -c)\b")
                subprocess.run(["bash", "-n", path], check=True)


if __name__ == "__main__":
    unittest.main()
