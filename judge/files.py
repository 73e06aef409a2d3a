"""Files, read and written whole: their CRC-32, and replacing one in a single step."""
from __future__ import annotations

import os
import tempfile
import zlib

READ_STEP = 1 << 20


def crc32_of(path: str) -> str:
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(READ_STEP):
            crc = zlib.crc32(block, crc)
    return f"{crc:08x}"


def can_replace(path: str) -> bool:
    place = path if os.path.exists(path) and not os.path.isfile(path) else os.path.dirname(os.path.abspath(path))
    return not os.path.isdir(path) and os.access(place, os.W_OK)


def replace_file(path: str, text: str) -> None:
    """Writes the file so that it is never seen half written."""
    target = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe takes the text, its name stays its own
        with open(path, "w", encoding="utf-8", newline="") as special:
            special.write(text)
        return
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=os.path.basename(target))
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, os.stat(target).st_mode & 0o7777 if os.path.exists(target) else 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.remove(temporary)
        raise
