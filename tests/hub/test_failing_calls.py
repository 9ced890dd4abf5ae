"""A download when the system fails it once: the model runs, or an error says why, and the next run goes on to a
whole file."""

from __future__ import annotations

import errno

import pytest
from tests.failing_calls import FailingCalls, chosen
from tests.hub.clients import Client
from tests.hub.fake_hub import FakeHub

FAULTS = {
    "pwrite": (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR),
    "pread": (errno.EIO, errno.EINTR),
    "fsync": (errno.EIO,),
    "rename": (errno.EIO, errno.ENOSPC),
    "recv": (errno.ECONNRESET, errno.EINTR),
    "send": (errno.EPIPE, errno.EINTR),
    "poll": (errno.ENOMEM, errno.EINTR),
    "mmap": (errno.ENOMEM,),
    "pthread_create": (errno.EAGAIN,),
}
MODEL = "hf:o/r/tiny.gguf"


@pytest.mark.parametrize("call", FAULTS)
def test_any_call_fails(call: str, binary: Client, hub: FakeHub, tiny: bytes, failing_calls: FailingCalls) -> None:
    def forget() -> None:
        for path in sorted(binary.cache.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    hub.add("o/r", {"tiny.gguf": tiny})
    expected = binary.text(MODEL, **failing_calls.environment(call, 0, 0))
    total = failing_calls.count()
    for error in FAULTS[call]:
        for at in chosen(total, ends=3):
            forget()
            ended = binary.run(MODEL, **failing_calls.environment(call, error, at))
            where = f"{call} number {at} fails with {errno.errorcode[error]}: {ended}"
            if ended.returncode == 1:
                assert ended.stderr.splitlines()[-1].startswith("specdec generate: "), where
                assert error != errno.EINTR, where
            else:
                assert (ended.returncode, ended.stdout) == (0, expected), where
            for path in binary.cache.glob("models--o--r/snapshots/*/*"):
                assert path.read_bytes() == tiny, where
            assert binary.text(MODEL) == expected, where
