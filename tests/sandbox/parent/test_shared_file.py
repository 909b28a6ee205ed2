from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from egg_mcp.sandbox.shared_file import SharedFile

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="sealing is Linux's")


def test_what_is_written_is_read_through_the_other_descriptor() -> None:
    with SharedFile("inbox", 4_096) as file:
        with mmap.mmap(file.writable_fd, 4_096) as memory:
            memory[:5] = b"hello"
        assert os.pread(file.readable_fd, 5, 0) == b"hello"
        assert os.fstat(file.readable_fd).st_size == 4_096


def test_readable_descriptor_cannot_write() -> None:
    with SharedFile("inbox", 16) as file:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(file.readable_fd, b"x")
        with pytest.raises(PermissionError):
            mmap.mmap(file.readable_fd, 16, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def test_size_can_change_until_it_is_sealed() -> None:
    with SharedFile("inbox") as file:
        os.ftruncate(file.writable_fd, 100)
        assert os.fstat(file.writable_fd).st_size == 100


@only_linux
def test_sealed_size_can_neither_grow_nor_shrink() -> None:
    with SharedFile("outbox", 100) as file:
        file.seal_size()
        for size in (0, 99, 101, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(file.writable_fd, size)
        assert os.pwrite(file.writable_fd, b"x", 99) == 1
        with pytest.raises(PermissionError):
            os.pwrite(file.writable_fd, b"x", 100)
        assert os.fstat(file.writable_fd).st_size == 100


@only_linux
def test_seal_holds_for_who_opens_the_file_anew() -> None:
    with SharedFile("outbox", 100) as file:
        file.seal_size()
        again = os.open(f"/proc/self/fd/{file.writable_fd}", os.O_RDWR)
        try:
            with pytest.raises(PermissionError):
                os.ftruncate(again, 10)
        finally:
            os.close(again)


def test_descriptors_are_not_inherited_and_close_with_the_file() -> None:
    with SharedFile("inbox", 8) as file:
        descriptors = (file.writable_fd, file.readable_fd)
        assert not any(os.get_inheritable(one) for one in descriptors)
    for one in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(one)


def test_file_has_no_name_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SharedFile("inbox", 8):
        assert list(tmp_path.iterdir()) == []
