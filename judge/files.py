"""Reads and writes whole files: their CRC-32, and replacing a file in a single step; "-" is standard output."""
from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

READ_STEP = 1 << 20
STANDARD_OUTPUT = "-"


def _open_regular(path: str) -> BinaryIO:
    """Opens without waiting for the other end of a pipe that has replaced the file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return os.fdopen(handle, "rb")


def _blocks(path: str) -> Iterator[bytes]:
    with _open_regular(path) as file:
        while block := file.read(READ_STEP):
            yield block


def crc32_of(path: str) -> str:
    crc = 0
    for block in _blocks(path):
        crc = zlib.crc32(block, crc)
    return f"{crc:08x}"


def copy_file(source: str, target: str) -> str:
    """Returns the CRC-32 of the copied bytes. Flushes the copy to disk, so that no later timed run pays for it."""
    crc = 0
    with open(target, "xb") as file:
        for block in _blocks(source):
            crc = zlib.crc32(block, crc)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return f"{crc:08x}"


def shown(path: str) -> str:
    return "standard output" if path == STANDARD_OUTPUT else path


def can_write(path: str) -> bool:
    if path == STANDARD_OUTPUT:
        return sys.stdout is not None  # None where the caller has closed it
    place = path if os.path.exists(path) and not os.path.isfile(path) else os.path.dirname(os.path.abspath(path))
    return not os.path.isdir(path) and os.access(place, os.W_OK)


def can_be_replaced(path: str) -> bool:
    """Whether the file can be written again: standard output and pipes cannot take back what they got."""
    return path != STANDARD_OUTPUT and (os.path.isfile(path) or not os.path.exists(path))


def write_whole(path: str, text: str) -> None:
    """Raises OSError with the file's name, which Python's own lacks where a write fails."""
    try:
        if path != STANDARD_OUTPUT:
            replace_file(path, text)
            return
        # sys.stdout would retry a failed write at the program's end.
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False) as stream:
            stream.write(text)
    except OSError as error:
        raise OSError(f"{shown(path)}: {error.strerror}") from error


def replace_file(path: str, text: str) -> None:
    """Writes the file atomically. A new file has the umask's permissions, an old file keeps its own."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old and not stat.S_ISREG(old.st_mode):  # a device or a pipe is written to, not replaced
        with open(path, "w", encoding="utf-8", newline="") as special:
            special.write(text)
        return
    target = os.path.realpath(path)
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if old else 0o666)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            if old:
                os.fchmod(handle, old.st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException:
        os.remove(temporary)
        raise
