"""The mock API's own port in tests: one test at a time has it, in whatever process that test runs."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sole_use_of_port(port: int) -> Iterator[None]:
    """Wait until no other test uses the port, and keep it for the length of a `with`."""
    path = Path(tempfile.gettempdir()) / f"kizami-tests-port-{port}"
    if not path.exists():  # another user's may be locked as well as ours, but not written to
        path.touch()
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
