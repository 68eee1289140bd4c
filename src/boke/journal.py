"""A file of JSON lines that one process at a time appends to, and that no fault can leave half changed.

    [length, crc32, record]        both of the record's own bytes, and the sum begins with the line's position

A line that a crash left half written fails its checksum. At the end of the file that is what a crash looks like: the
rest is dropped. Anywhere else it is damage, and the file is refused. The lock is the kernel's (flock): it goes with
the process, however that ends. With its position in the sum, a line that is lost, doubled or moved is damage too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import signal
import stat
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

Path = str | os.PathLike[str]
Record = dict[str, Any]

MORE = "more"  # a record with this key counts only together with the next one
ROOM = 1 << 20  # bytes that may always be appended before the whole is written anew
WAIT = 2.0  # seconds for which a locked file is waited for: a process that is being killed needs a moment to die
LINE = re.compile(rb"\[(\d{1,12}), (\d{1,10}), (.*)\]\n", re.DOTALL)


def pack(record: Record, at: int = 0) -> bytes:
    """A record as the line at a position of the file."""
    content = json.dumps(record, allow_nan=False).encode()
    return b"[%d, %d, %b]\n" % (len(content), zlib.crc32(content, at % 2**32), content)


def unpack(line: bytes, at: int = 0) -> Any:
    """The record of the line at a position of the file, or None if it is not whole, or not from there."""
    match = LINE.fullmatch(line)
    content = b"" if match is None else match[3]
    if match is None or len(content) != int(match[1]) or zlib.crc32(content, at % 2**32) != int(match[2]):
        return None
    return json.loads(content, parse_constant=_refuse)


def _looks_whole(line: bytes) -> bool:
    match = LINE.fullmatch(line)
    return match is not None and len(match[3]) == int(match[1])


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def records(file: IO[bytes]) -> Iterator[tuple[Any, int]]:
    """The whole records from here on, each with the position behind it; groups come whole or not at all.

    Raises ValueError where a damaged record is followed by a whole one.
    """
    position = end = file.tell()
    group: list[Any] = []
    torn = False
    for line in file:
        record = None if torn else unpack(line, position)
        position += len(line)
        if torn and _looks_whole(line):
            raise ValueError(f"it is damaged at byte {end}, and there are whole records behind the damage")
        if record is None:
            torn = True
        else:
            group.append(record)
            if MORE not in record:
                end = position
                yield from ((each, end) for each in group)
                group = []


class Journal:
    """An open file that this process alone may write to.

    Args:
        path: Its name.
        file: The open and locked file.
        base: Where the part ends that was written as a whole.
        end: Where the next record goes. Whatever lies behind is what a fault left there.
    """

    def __init__(self, path: Path, file: IO[bytes], base: int, end: int) -> None:
        self.path, self._file, self._base, self._end = os.path.realpath(path), file, base, end
        self._clean = os.fstat(file.fileno()).st_size == end
        _journals.add(self)

    @property
    def long(self) -> bool:
        """Whether so much was appended that writing the whole anew pays: never more than a constant per record."""
        return self._end - self._base > max(ROOM, self._base // 4)

    @classmethod
    def create(cls, path: Path, content: Iterable[Record]) -> Journal:
        file = _write(path, content)
        journal = cls(path, file, file.tell(), file.tell())
        _sync_folder(journal.path)
        return journal

    def append(self, added: Iterable[Record], *, sync: bool) -> None:
        """Add records behind the last one, all or none; with ``sync`` they are on the disk on return."""
        if self._file.closed:
            raise ValueError(f"The log {self.path!r} is closed, or was opened by the process that forked this one.")
        handle, at = self._file.fileno(), self._end
        if not self._clean:
            os.ftruncate(handle, at)
        self._clean = False
        try:
            for record in added:
                at += _write_all(handle, pack(record, at), at)
            if sync:
                os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):  # where not even this works, the next append tries again
                os.ftruncate(handle, self._end)
                self._clean = True
            raise
        self._end, self._clean = at, True

    def replace(self, content: Iterable[Record]) -> None:
        """Put a new content in the place of the old one, atomically."""
        file = _write(self.path, content)
        self._file, old = file, self._file
        self._base = self._end = file.tell()
        self._clean = True
        old.close()
        _sync_folder(self.path)

    def close(self) -> None:
        self._file.close()


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    for journal in _journals:
        journal.close()  # or a child that lives longer would keep the lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def open_locked(path: Path) -> IO[bytes]:
    """Open an existing file for reading and writing, and lock it."""
    deadline = time.monotonic() + WAIT
    while True:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        file = os.fdopen(handle, "r+b")
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "It is not a regular file", os.fspath(path))
            _lock(file, path, deadline)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()  # it was replaced while we waited for its lock


def save(path: Path, content: Iterable[Record]) -> None:
    """Write a whole file: the target is what it was before or all of the new content, never between."""
    _write(path, content).close()
    _sync_folder(os.path.realpath(path))


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until a step is whole."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    caught: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if caught:
            raise KeyboardInterrupt


def _write(path: Path, content: Iterable[Record]) -> IO[bytes]:
    """A new file under this name, open and locked since before it had the name."""
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "It is not a regular file", os.fspath(path))
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", folder)
    temporary = os.path.join(folder, f".{name[:64]}.{secrets.token_hex(6)}.tmp")
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else None
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(temporary, flags, 0o666 if mode is None else mode & 0o600)  # nobody reads it who must not
    file = os.fdopen(handle, "r+b")
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        for record in content:
            file.write(pack(record, file.tell()))
        file.flush()
        os.fsync(handle)
        if mode is not None:
            os.chmod(temporary, mode)
        if fcntl is None:
            file.close()  # Windows does not rename open files
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        with contextlib.suppress(OSError):  # what could not be written is still in the buffer
            file.close()
        raise
    return file


def _write_all(handle: int, content: bytes, at: int) -> int:
    done = 0
    while done < len(content):
        done += os.pwrite(handle, content[done:], at + done)
    return done


def _lock(file: IO[bytes], path: Path, deadline: float) -> None:
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "Logs need file locks, which this system does not have", os.fspath(path))
    while True:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                text = "It is in use: another optimizer, of this or another process, has it open"
                raise BlockingIOError(errno.EWOULDBLOCK, text, os.fspath(path)) from None
        time.sleep(0.05)


def _sync_folder(path: str) -> None:
    if os.name == "posix":
        handle = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
