"""Folders for runs: the judge's folder for a case, and in it a fresh folder for each run of an external program. Damage
that a program does to these files decides its own verdict; nothing here raises because of it."""
from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import subprocess

from files import copy_file, crc32_of


class FileChanged(Exception):
    """A file that several programs share has changed since the first program got it."""

    def __init__(self, path: str):
        super().__init__(f"{path} has changed while this case was judged")


def _state(path: str) -> tuple[int, ...] | None:
    """Changes when the file is written to or replaced; None: there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _kind(path: str) -> int:
    """The file type bits, without following a link; 0: there is nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def remove_whatever(path: str) -> None:
    """Removes a file, a link or a folder of any depth and permissions, as far as possible."""
    with contextlib.suppress(OSError):
        if _kind(path) != stat.S_IFDIR:
            os.remove(path)
            return
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if os.path.lexists(path):
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def is_file(path: str) -> bool:
    """A regular file that the judge can read, not a link to one."""
    return _kind(path) == stat.S_IFREG and os.access(path, os.R_OK)


class CaseFolder:
    """The judge's own folder for a case, removed at the end; it stores the CRC-32 of the files that programs share."""

    def __init__(self, parent: str):
        self._parent = parent
        self._parent_mode = stat.S_IMODE(os.stat(parent).st_mode)
        self._crcs: dict[str, tuple[tuple[int, ...] | None, str]] = {}
        self._sealed: dict[str, str] = {}
        self.path = os.path.join(parent, f".judge-{secrets.token_hex(4)}")

    def __enter__(self) -> CaseFolder:
        self.ensure()
        return self

    def __exit__(self, *_) -> None:
        remove_whatever(self.path)

    def ensure(self) -> None:
        """Makes the folder, even where a program has removed, replaced or locked it or its parent."""
        os.makedirs(self._parent, exist_ok=True)
        if stat.S_IMODE(os.stat(self._parent).st_mode) != self._parent_mode:
            os.chmod(self._parent, self._parent_mode)
        if _kind(self.path) == stat.S_IFDIR:
            os.chmod(self.path, 0o700)
        else:
            remove_whatever(self.path)
            os.mkdir(self.path, 0o700)
            with open(os.path.join(self.path, ".gitignore"), "w", encoding="ascii") as ignore:
                ignore.write("*\n")

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def crc32(self, path: str) -> str:
        """Reads the file again only where its status has changed. A program can restore a file's time, but not the time
        of its last status change."""
        state = _state(path)
        if path not in self._crcs or self._crcs[path][0] != state:
            self._crcs[path] = state, crc32_of(path)
        return self._crcs[path][1]

    def seal(self, path: str) -> str:
        """The CRC-32 of an external file; raises FileChanged where it differs from the first one."""
        crc = self.crc32(path)
        if self._sealed.setdefault(path, crc) != crc:
            raise FileChanged(path)
        return crc

    def differs(self, path: str, crc: str) -> bool:
        try:
            return self.crc32(path) != crc
        except OSError:
            return True


class OwnRun:
    """A run of the hw4 in --bin: it reads the original input and may share its process with other runs."""

    folder = None  # it runs in the judge's folder

    def __init__(self, case_folder: CaseFolder, original: str, output: str):
        self.input = original
        self.output = case_folder.file(output)
        self._before: tuple[int, ...] | None = None

    def __enter__(self) -> OwnRun:
        remove_whatever(self.output)
        self._before = _state(self.input)
        return self

    def __exit__(self, *_) -> None:
        remove_whatever(self.output)

    def harm(self) -> str | None:
        """The program's damage to files that are not its own."""
        after = _state(self.input)
        if after == self._before:
            return None
        return f"{'removed' if after is None else 'written to'} its input file"


class Sandbox:
    """A run of an external program: it gets a copy of the input in its own folder, and runs there."""

    def __init__(self, case_folder: CaseFolder, shared: dict[str, str], names: tuple[str, str]):
        """shared: the CRC-32 of each file that programs share, the original input first."""
        self._case_folder = case_folder
        self._shared = shared
        self._original = next(iter(shared))
        self.folder = case_folder.file(f"run-{secrets.token_hex(4)}")
        self.input, self.output = (os.path.join(self.folder, name) for name in names)

    def __enter__(self) -> Sandbox:
        """Raises FileChanged or OSError where the copy is not complete."""
        os.mkdir(self.folder, 0o700)
        try:
            if copy_file(self._original, self.input) != self._shared[self._original]:
                raise FileChanged(self._original)
        except BaseException:
            remove_whatever(self.folder)
            raise
        return self

    def __exit__(self, *_) -> None:
        self._case_folder.ensure()
        remove_whatever(self.folder)

    def harm(self) -> str | None:
        """The program's damage to files that are not its own."""
        self._case_folder.ensure()
        if self._case_folder.differs(self.input, self._shared[self._original]):
            return "written to its input file, or removed it"
        return next((f"written to {path}, or removed it" for path, crc in self._shared.items()
                     if self._case_folder.differs(path, crc)), None)
