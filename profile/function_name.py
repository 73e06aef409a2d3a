"""The name of a kernel's function, from its signature as Nsight Compute shows it."""
from __future__ import annotations

import re

_INNERMOST = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|<[^<>()]*>")


def function_name(signature: str) -> str:
    """Without result, namespaces, arguments and what a template was made for: flash of void ns::flash<64>(float *)."""
    name, count = signature.replace("->", ""), 1
    while count:
        name, count = _INNERMOST.subn("", name)
    return (re.findall(r"([\w$.]+)(?: const)?\s*$", name) or [signature.strip() or "?"])[0]
