"""Programs that tests start on this machine: run, heard out, waited for and ended."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

Words = Callable[[], str]


@contextmanager
def running(command: list[str], environment: Mapping[str, str]) -> Iterator[Words]:
    """Run a program; gives what reads its words so far, from a file: a pipe that nobody empties would fill."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield lambda: os.pread(output.fileno(), 10_000_000, 0).decode()
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait_for(condition: Callable[[], T | None], words: Words, seconds: float = 120) -> T:
    """What `condition` gives as soon as it gives anything."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not ready after {seconds} s; the program said: {words()}")


@contextmanager
def hold_port() -> Iterator[int]:
    """A port on the loopback for a program that cannot pick its own, kept from everybody else until the end.

    It is bound and not listened on, so whoever connects is refused until the program, which as servers do asks to
    reuse the address, listens there; and again whenever it does not.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
