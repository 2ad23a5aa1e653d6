"""Files that a setting names: regular ones of a limited size are read, and nothing is waited for without end."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from kizami.platform import user_files
from kizami.platform.user_files import read_file, stamp_of, stamps_of
from programs.daemon import wait_for
from programs.hanging_mount import hanging_mount


def reason_of(path: Path, limit: int = 100) -> str:
    with pytest.raises(OSError) as refusal:
        read_file(path, limit)
    return refusal.value.strerror or ""


def test_a_file_is_read_also_by_a_link_and_one_of_proc_whose_size_says_nothing(tmp_path: Path) -> None:
    path, link = tmp_path / "token", tmp_path / "link"
    path.write_bytes(b"t0ken")
    link.symlink_to(path)
    assert read_file(path, 5) == read_file(link, 5) == b"t0ken"
    assert stamp_of(path) == stamp_of(link)
    if Path("/proc/self/status").exists():
        assert b"Pid:" in read_file(Path("/proc/self/status"), 100_000)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_named_pipe_is_refused_at_once(tmp_path: Path, is_written: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR) if is_written else None
    try:
        assert reason_of(path) == "it is a named pipe, not a regular file"
    finally:
        if writer is not None:
            os.close(writer)


def test_a_device_a_socket_and_a_directory_are_refused(tmp_path: Path) -> None:
    assert reason_of(Path("/dev/zero")) == "it is a device, not a regular file"
    assert reason_of(tmp_path) == "Is a directory"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert reason_of(tmp_path / "socket") == "No such device or address"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**34)  # sixteen gigabytes would be noticed
    assert reason_of(path, 2**20) == "it is larger than 1 MiB"
    assert reason_of(path, 64 * 2**10) == "it is larger than 64 KiB"


def test_what_is_not_there_has_no_stamp_and_is_said_to_be_not_there(tmp_path: Path) -> None:
    assert stamp_of(tmp_path / "none") is None
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 1)
    assert reason_of(tmp_path / "no\0ne") == "embedded null byte"


def test_a_mount_that_hangs_is_left_and_tried_again_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_files, "PATIENCE_SECONDS", 0.3)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for name in ("a", "b"):
        (mounted / name).write_text(name)
    here = tmp_path / "here"
    here.write_text("here")
    with hanging_mount(mounted) as mount:
        mount.hang()
        a, beside, b = stamps_of([mounted / "a", here, mounted / "b"])
        assert isinstance(a, TimeoutError)
        assert beside == stamp_of(here)
        assert isinstance(b, TimeoutError)
        started = time.monotonic()
        for _ in range(20):  # what hangs is not tried again and again, each time in another thread
            with pytest.raises(TimeoutError, match="no answer within 10 s"):
                read_file(mounted / "b", 100)
        assert time.monotonic() - started < 5
        assert sum(thread.name == "kizami-files" for thread in threading.enumerate()) == 1
        mount.answer()
        wait_for(lambda: not user_files._hanging, "the call that hung")
        assert read_file(mounted / "b", 100) == b"b"
