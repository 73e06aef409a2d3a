"""Prepares text with external names for a terminal."""
from __future__ import annotations

import argparse
import os
import re

import provenance

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# Control characters, also in their 8-bit form; line and paragraph separators; characters that change the text
# direction; and bytes of names that are not UTF-8, as Python stores them.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")


def one_line(text: str) -> str:
    """Like src/base/error.h: characters that break the line or control the terminal become \\x0a and the like, byte by
    byte."""
    return _STEERING.sub(lambda found: "".join(map("\\x{:02x}".format, found[0].encode("utf-8", "surrogateescape"))),
                         text)


class Version(argparse.Action):
    """-V: the program's version, and the commit where the sources are a git working tree; git runs only on -V."""

    def __init__(self, option_strings, dest, **more):
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser, namespace, values, option_string=None):
        state = provenance.git_state(ROOT)
        print(f"{parser.prog} of hw4" + (f", commit {state['commit'][:12]}" if state else ""))
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-V", "--version", action=Version, help="the commit of this program")


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose error is one line."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {one_line(message).replace('argument ', '', 1)}; see --help\n")
