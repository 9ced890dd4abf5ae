"""A disk with one file that fails when it is told to: a file system in user space (FUSE), on Linux for root.

Reading a part that fails is EIO, and touching it where it is mapped is SIGBUS, as with a disk that breaks.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pathlib
import stat
import struct
import threading
from collections.abc import Iterator

import pytest

# linux/fuse.h: requests, and what the answers consist of.
LOOKUP, FORGET, GETATTR, OPEN, READ = 1, 2, 3, 14, 15
RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 18, 25, 26, 36, 42
KEEP_CACHE = 2  # opened again, a file need not be read again
INVALIDATE = 2  # a note to the system: forget what it has of a file
IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
INIT_REPLY = struct.Struct("<IIIIHHIIHHI28x")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
FOREVER = 1 << 30  # seconds that the system need not ask again
ROOT, FILE = 1, 2  # nodes
MNT_DETACH, READ_ONLY = 2, 1

libc = ctypes.CDLL(None, use_errno=True)


class FailingDisk:
    def __init__(self, content: bytes, folder: pathlib.Path) -> None:
        self.path = folder / "m.gguf"
        self.reads = 0  # so far
        self.fails_at = -1  # the read from which on they fail; -1: none does
        self._content, self._folder = content, folder
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0"
        if libc.mount(b"failing", str(folder).encode(), b"fuse", READ_ONLY, options.encode()) != 0:
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "cannot mount")
        self._thread = threading.Thread(target=self._answer_all, daemon=True)
        self._thread.start()

    def fail(self) -> None:
        """From now on, also what the system has read and mapped already."""
        self.fails_at = self.reads
        os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size + 24, INVALIDATE, 0) + struct.pack("<Qqq", FILE, 0, -1))

    def close(self) -> None:
        libc.umount2(str(self._folder).encode(), MNT_DETACH)
        self._thread.join(30)
        os.close(self._device)

    def _answer_all(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError as error:
                if error.errno == errno.ENODEV:  # not mounted any more
                    return
                if error.errno not in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    raise
                continue
            _, operation, unique, node, *_ = IN_HEADER.unpack_from(request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = self._answer(operation, node, request[IN_HEADER.size :])
            problem, body = (answer, b"") if isinstance(answer, int) else (0, answer)
            with contextlib.suppress(OSError):  # nobody waits for it any more
                os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size + len(body), -problem, unique) + body)

    def _answer(self, operation: int, node: int, body: bytes) -> bytes | int:
        """What is asked for, or an error."""
        if operation == INIT:
            return INIT_REPLY.pack(7, 31, 1 << 17, 0, 16, 12, 1 << 17, 1, 32, 0, 0)
        if operation == LOOKUP:
            if node != ROOT or body.rstrip(b"\0").decode() != self.path.name:
                return errno.ENOENT
            return struct.pack("<QQQQII", FILE, 0, FOREVER, FOREVER, 0, 0) + self._attributes(FILE)
        if operation == GETATTR:
            return struct.pack("<QII", FOREVER, 0, 0) + self._attributes(node)
        if operation == OPEN:
            return struct.pack("<QII", 0, KEEP_CACHE, 0)
        if operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.reads += 1
            return errno.EIO if 0 <= self.fails_at < self.reads else self._content[offset : offset + size]
        return b"" if operation in (RELEASE, FLUSH) else errno.ENOSYS

    def _attributes(self, node: int) -> bytes:
        mode, size = (stat.S_IFDIR | 0o755, 0) if node == ROOT else (stat.S_IFREG | 0o644, len(self._content))
        return ATTRIBUTES.pack(node, size, -(-size // 512), 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


@contextlib.contextmanager
def mounted(content: bytes, folder: pathlib.Path) -> Iterator[FailingDisk]:
    try:
        disk = FailingDisk(content, folder)
    except OSError as error:
        pytest.skip(f"this process cannot mount a file system: {error}")
    try:
        yield disk
    finally:
        disk.close()
