"""What is dear to make and serves any number of tests: once a run, in however many processes they run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

_SERVERS = ExitStack()
_PLACES: list[Path] = []


def share_in(directory: Path) -> None:
    """All processes of this run, and of no other, name the same directory."""
    directory.mkdir(exist_ok=True)
    _PLACES[:] = [directory]


def shared_server(name: str, start: Callable[[], AbstractContextManager[str]]) -> str:
    """The address of the run's server of that name; who asks first starts it."""
    return _SERVERS.enter_context(_used(_PLACES[0] / name, start))


def stop_servers() -> None:
    """At the end of a process: those that it started stop as soon as no other process uses them."""
    _SERVERS.close()


def made_once(key: str, make: Callable[[Path], Path]) -> Path:
    """The file that `make` has written into the directory that it is given, now or before."""
    directory = _PLACES[0] / sha256(key.encode()).hexdigest()[:16]
    done = directory.with_suffix(".done")
    with _locked(directory.with_suffix(".lock")):
        if not done.exists():  # it is there only if `make` has come to its end
            done.write_text(str(make(directory)))
    return Path(done.read_text())


@contextmanager
def _used(place: Path, start: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """Whoever uses it holds a shared lock, and who has started it stops it once he can lock it for himself."""
    with place.with_suffix(".users").open("w") as users, ExitStack() as started:
        with _locked(place.with_suffix(".lock")):
            fcntl.flock(users, fcntl.LOCK_SH)
            if not place.exists():
                place.write_text(started.enter_context(start()))
                started.callback(_leave_last, place, users.fileno())
            address = place.read_text()
        yield address


def _leave_last(place: Path, users: int) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)
    place.unlink()
    fcntl.flock(users, fcntl.LOCK_UN)  # who waits here finds no server, and starts another


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
