"""The name of a kernel's function, from its signature as Nsight Compute shows it."""
from __future__ import annotations

import re

_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}
_PARTS = re.compile(r"->|[<>()\[\]{}]|[^-<>()\[\]{}]+|-")


def _outer_parts(signature: str) -> list[str]:
    """Text, and each bracket with all that is in it, one after the other. An angle bracket inside others that nothing
    closes is a comparison, as in f<(bool)(3 < 4)>."""
    parts, open_brackets = [], []
    for part in _PARTS.findall(signature):
        if open_brackets or (parts and parts[-1][0] not in _CLOSING and part[0] not in _CLOSING):
            parts[-1] += part
        else:
            parts.append(part)
        if part in _CLOSING:
            open_brackets.append(part)
        elif part in _CLOSING.values():
            closed = [place for place, bracket in enumerate(open_brackets) if _CLOSING[bracket] == part]
            if closed and (part != ">" or closed[-1] == len(open_brackets) - 1):
                del open_brackets[closed[-1]:]
    return parts


def function_name(signature: str) -> str:
    """Without result, namespaces, arguments and what a template was made for: flash of void ns::flash<64>(float *)."""
    parts = _outer_parts(signature)
    while parts and parts[-1][0] != "(":  # what follows the arguments: const, [clone .part.0]
        parts.pop()
    parts = parts[:-1] or _outer_parts(signature)
    if parts and parts[-1][0] == "<" and parts[:-1]:
        parts.pop()
    return (re.findall(r"[\w$.]+$", "".join(parts).strip()) or [signature.strip() or "?"])[0]
