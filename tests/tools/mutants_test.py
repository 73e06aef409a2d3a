#!/usr/bin/env python3
"""The list of mutants (tests/mutants/list.txt): each still fits the sources, and has a test that is there. Whether that
test fails because of it is for `make mutants`.

    python3 tests/tools/mutants_test.py [-v]
"""
import ast
import fnmatch
import os
import subprocess
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(TESTS)]

from mutants.mutation import (LEAST_KILLED, ListError, file_of_step, line_of, mutated_files, parse,  # noqa: E402
                              with_mutants)

UNIT_TESTS = Path(os.environ.get("HW4_BUILD") or ROOT / "build").resolve() / "unit_tests"

BLOCK = """\
file: a.cpp
kind: {kind}
old: {old}
new: {new}
lets: wrong through
killer: unit_tests:A.B
"""


def block(old, new="", kind="expression"):
    return BLOCK.format(old=old, new=new, kind=kind)


def unit_test_names():
    """Suite.Name of every unit test."""
    lines = subprocess.run([UNIT_TESTS, "--gtest_list_tests"], capture_output=True, text=True, check=True,
                           timeout=60).stdout.splitlines()
    names, suite = [], ""
    for line in lines:
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + name)
        else:
            suite = name
    return names


def python_test_names(step):
    """Class and Class.test of a file of Python tests, also of those that a class inherits in it."""
    classes = {node.name: node for node in ast.parse((ROOT / file_of_step(step, ROOT)).read_text(encoding="utf-8")).body
               if isinstance(node, ast.ClassDef)}

    def tests_of(node):
        own = {f.name for f in node.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test")}
        return own.union(*(tests_of(classes[base.id]) for base in node.bases
                           if isinstance(base, ast.Name) and base.id in classes))
    return set(classes) | {f"{name}.{test}" for name, node in classes.items() for test in tests_of(node)}


class ListOfMutants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mutants = parse((TESTS / "mutants/list.txt").read_text(encoding="utf-8"))

    def test_every_one_fits_the_sources(self):
        mutated_files(self.mutants, ROOT)

    def test_enough_of_them_are_to_be_killed(self):
        killed = sum(bool(mutant.killer) for mutant in self.mutants)
        self.assertGreaterEqual(killed, LEAST_KILLED * len(self.mutants))

    def test_every_killer_is_there(self):
        unit_tests, python_tests = unit_test_names(), {}
        for mutant in self.mutants:
            step, _, tests = mutant.killer.partition(":")
            with self.subTest(mutant=mutant.number, killer=mutant.killer):
                if step == "unit_tests":
                    self.assertTrue(all(fnmatch.filter(unit_tests, one) for one in tests.split(":")))
                elif step:
                    known = python_tests.setdefault(step, python_test_names(step))
                    self.assertLessEqual(set(tests.split()), known)


class ReadingTheList(unittest.TestCase):
    def test_blocks(self):
        first, second = parse(f"# a remark\n{block('a  <', 'a <=')}\n\n{block('f();', '', 'statement')}")
        self.assertEqual((first.number, first.change), (1, "a < -> a <="))
        self.assertEqual((second.number, second.change), (2, "f(); -> (nothing)"))

    def test_values_of_several_lines(self):
        self.assertEqual(parse(block("f();\n    g();", "", "statement"))[0].old, "f();\ng();")

    def test_bad_blocks(self):
        good = block("a")
        for text, wrong in ((good.replace("kind", "sort"), "sort: expression"), (good + "file: b.cpp\n", "each once"),
                            (good.replace("lets: wrong through\n", ""), "has no lets"),
                            (good.replace("expression", "word"), "kind 'word'"),
                            (good.replace("killer: unit_tests:A.B\n", ""), "needs either"),
                            (good + "survives: nobody sees it\n", "needs either")):
            with self.assertRaisesRegex(ListError, wrong):
                parse(text)


class PuttingThemIn(unittest.TestCase):
    TEXT = "int f(int a) {\n    g(a);\n    return a <\n        2;\n}\n"

    def test_an_expression_and_a_statement(self):
        mutants = parse(block("a < 2", "a <= 2") + "\n" + block("g(a);", "", "statement"))
        self.assertEqual(with_mutants(mutants, self.TEXT),
                         "int f(int a) {\n    if (mutant_is(2)) {  } else { g(a); }\n"
                         "    return (mutant_is(1) ? (a <= 2) : (a <\n        2));\n}\n")
        self.assertEqual([line_of(mutant, self.TEXT) for mutant in mutants], [3, 2])

    def test_a_text_that_is_not_there_once(self):
        for old, times in (("b", 0), ("a", 3)):
            with self.assertRaisesRegex(ListError, f"stands {times} times"):
                with_mutants(parse(block(old)), self.TEXT)

    def test_two_in_the_same_place(self):
        with self.assertRaisesRegex(ListError, "mutants 2 and 1: both"):
            with_mutants(parse(block("a < 2", "1") + "\n" + block("return a <", "1")), self.TEXT)


if __name__ == "__main__":
    unittest.main()
