"""A disk that remembers what was synced, fills up, fails, and loses at a crash what it may lose.

SQLite works on real files, in memory where there is such a directory; every write goes through here. At a crash
the files are rebuilt as the disk would have them: after a kill with all that was written, after a loss of power
with what was synced and, of the rest, whatever the seed draws, in pieces. So it is with names: one that was given,
changed or taken away since its directory was synced is there after a loss of power, or is not.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw

_SECTOR = 512
_SHARED_MEMORY = Path("/dev/shm")
_NOT_KEPT = "-shm"  # what only those who have the database open share
_ONLY_HELD = getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(slots=True)
class _File:
    """`handle` keeps its number from being given to another file, and none of SQLite's locks depends on it."""

    handle: int
    synced: bytearray = field(default_factory=bytearray)
    since: list[tuple[str, int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.since:
            _apply(self.synced, *change)
        self.since.clear()


class SimulatedDisk:
    """The directory of one simulated machine; `on_write` is called at each write, for crashes in the middle, and
    `on_new` with the name of each file that SQLite opens for the first time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._files: dict[int, _File] = {}  # by their numbers
        self._synced_names: dict[str, int] = {}
        self._writing: int | None = None
        self.root = Path(
            tempfile.mkdtemp(prefix="kizami-", dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)
        )
        self._number = 0
        self._image: dict[str, bytes | bytearray] | None = None
        self.is_full = self.is_failing = False
        self.slow_seconds = 0.0
        self.writes = 0
        self.on_write: Callable[[], None] = lambda: None
        self.on_new: Callable[[str], None] = lambda name: None
        self.directory = self._new_directory()
        self._vfs = _SimulatedFiles(self)
        apsw.randomness(0)  # SQLite draws anew, from here: else it goes on with what an earlier seed has left

    @property
    def path(self) -> Path:
        return self.directory / "kizami.db"

    def adopt(self) -> None:
        """Everything that is there was there all along."""
        self._forget(self._files.keys())
        self._synced_names = self._names()
        for name in self._synced_names:
            self._track(self.directory / name)

    def crash(self, *, power: bool) -> None:
        """What is on the disk from now on is what is there after a restart."""
        if self._image is not None:
            return
        now = self._names()
        names = self._synced_names if power and self._chance.random() < 0.5 else now
        self._image = {
            name: self._survived(inode, power=power) if inode in self._files else self._as_it_is(name)
            for name, inode in sorted(names.items())
            if inode in self._files or name in now
        }

    def _as_it_is(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def restart(self) -> None:
        """The files as the crash has left them, in another directory: whoever had them open has the old ones."""
        image, self._image = self._image or {}, None
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory = self._new_directory()
        for name, content in image.items():
            (self.directory / name).parent.mkdir(exist_ok=True)
            (self.directory / name).write_bytes(content)
        self.is_full = self.is_failing = False
        self.slow_seconds = 0.0
        self.adopt()

    def close(self) -> None:
        self._vfs.unregister()
        self._forget(self._files.keys())
        shutil.rmtree(self.root, ignore_errors=True)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """For who looks at it from outside of the world."""
        before = self.is_full, self.is_failing, self.on_write
        self.is_full, self.is_failing, self.on_write = False, False, lambda: None
        try:
            yield
        finally:
            self.is_full, self.is_failing, self.on_write = before

    def holds(self, text: bytes) -> bool:
        """Whether any file has it."""
        return any(text in (self.directory / name).read_bytes() for name in self._names())

    def opened(self, path: str) -> int | None:
        """The number of a file of this machine; what it has when it is opened first is on the disk."""
        if not self.has(path) or path.endswith(_NOT_KEPT):
            return None
        inode = os.stat(path).st_ino
        if inode not in self._files:
            self._track(Path(path))
            self.on_new(Path(path).name)
        return inode

    def has(self, name: str) -> bool:
        """Whether a file is of this machine."""
        return name.startswith(self._inside)

    def _track(self, path: Path) -> None:
        self._files[path.stat().st_ino] = _File(os.open(path, _ONLY_HELD), bytearray(path.read_bytes()))

    def note(self, inode: int, kind: str, offset: int, data: bytes) -> None:
        """A change of a file; refused while the disk is full or fails."""
        if self.is_failing:
            raise apsw.IOError("simulated")
        if kind == "write" and self.is_full:
            raise apsw.FullError("simulated")
        self.writes += 1
        if inode in self._files:
            self._files[inode].since.append((kind, offset, data))
        self._writing = inode
        self.on_write()
        self._writing = None

    def sync(self, inode: int) -> None:
        """Also the name of a file that is new, as SQLite does."""
        if self.is_failing:
            raise apsw.IOError("simulated")
        if inode in self._files:
            self._files[inode].sync()
            if inode not in self._synced_names.values():
                self.sync_names()

    def sync_names(self) -> None:
        self._synced_names = self._names()
        self._forget(self._files.keys() - self._synced_names.values())

    def fsync(self, handle: int) -> None:
        """In place of `os.fsync`."""
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            self.sync_names()
        else:
            self.sync(status.st_ino)

    def randomness(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    def _names(self) -> dict[str, int]:
        """The number of the file that each name has now, from the machine's directory on."""
        return {
            str(path.relative_to(self.directory)): path.stat().st_ino
            for path in self.directory.rglob("*")
            if not path.name.endswith(_NOT_KEPT) and path.is_file()
        }

    def _forget(self, inodes: Iterable[int]) -> None:
        for inode in list(inodes):
            os.close(self._files.pop(inode).handle)

    def _survived(self, inode: int, *, power: bool) -> bytearray:
        file = self._files[inode]
        content = bytearray(file.synced)
        for number, (kind, offset, data) in enumerate(file.since):
            if power and self._chance.random() < 0.5:
                continue
            if inode == self._writing and number == len(file.since) - 1 and kind == "write":
                data = data[: self._chance.randrange(len(data) // _SECTOR + 1) * _SECTOR]
            _apply(content, kind, offset, data)
        return content

    def _new_directory(self) -> Path:
        self._number += 1
        directory = self.root / str(self._number)
        directory.mkdir()
        self._inside = f"{directory}/"
        return directory


def _apply(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "truncate":
        del content[offset:]
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class _SimulatedFiles(apsw.VFS):
    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__("simulated", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _SimulatedFile(self._disk, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        if sync and self._disk.has(name):
            self._disk.sync_names()

    def xRandomness(self, count: int) -> bytes:
        return self._disk.randomness(count)


class _SimulatedFile(apsw.VFSFile):
    def __init__(self, disk: SimulatedDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._directory = disk.directory
        self._inode = disk.opened(path) if path else None

    def _noted(self) -> int | None:
        """The number of the file, unless it is one of a machine that has crashed since."""
        return self._inode if self._directory is self._disk.directory else None

    def xWrite(self, data: bytes, offset: int) -> None:
        if (inode := self._noted()) is not None:
            self._disk.note(inode, "write", offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        if (inode := self._noted()) is not None:
            self._disk.note(inode, "truncate", size, b"")
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        if (inode := self._noted()) is not None:
            self._disk.sync(inode)
