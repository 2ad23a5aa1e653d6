"""How the one SQLite file of queue and store is opened, and what is refused to be opened."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from kizami.core.errors import KizamiError, StoreError
from kizami.local.store.schema import SCHEMA, VERSION

APPLICATION_ID = 0x6B7A6D69  # "kzmi"
BUSY_TIMEOUT_MS = 10_000
PRIVATE_MODE = 0o600
LITTLE_ROOM_BYTES = 200 * 1024 * 1024  # below it there is hardly room to write that there is none
LOG_BYTES = 64 * 1024 * 1024  # what is left of the log when it begins anew

_HEADER_BYTES = 100
_READ_VERSION, _WAL_VERSION = 19, 2  # the byte that says how the file is read, and what it is in WAL mode
_BUSY_PAUSE_SECONDS = 0.05
_MAGIC = b"SQLite format 3\0"
# Up to this size a whole quick_check takes less than a second; of a larger file a damaged page is found when read.
_CHECKED_BYTES = 64 * 1024 * 1024
_RESTORE = "`kizami restore` a backup, or move it away; what is missing is then backfilled"
_SHARED_LOCK = 510, 0x40000002  # the bytes that whoever has a database open keeps locked (os_unix.c)


def open_database(path: Path, *, create: bool = False) -> apsw.Connection:
    """A connection to the database at `path`.

    `create` is for those that work on it: it makes a missing file and has it keep a write-ahead log. A file that
    may not be written, such as a backup on a read-only mount, is opened for reading. A file that is not kizami's,
    is damaged or was made by another version is refused with StoreError and left as it is. Each thread needs a
    connection of its own.
    """
    with sqlite_errors(StoreError, path):
        if create and not _is_there(path):
            _create(path.resolve())
        connection = _connected(path)
        try:
            # The header may be older than what the write-ahead log holds.
            _require_this_version(path, _schema_version(connection))
            if create and not connection.readonly("main"):
                _use_log(connection)
            _configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def open_unchanged(path: Path) -> apsw.Connection:
    """A connection to the file as it is, for reading: it is not configured. Refusals are as above."""
    with sqlite_errors(StoreError, path):
        return _connected(path)


def _connected(path: Path) -> apsw.Connection:
    """A connection that waits for locks, for reading alone where the file may not be written."""
    header = _require_kizami_header(path)
    if _is_unchanging(path, header):
        connection = _immutable(path)
    else:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    # Before anything is read: a daemon that is just ending locks the whole file for a moment.
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def _is_unchanging(path: Path, header: bytes) -> bool:
    """Return True for a file in WAL mode on a read-only file system that has no log: all that there is, is in it.

    SQLite would make files beside it even to read it. Anywhere else a daemon may begin to write at any moment,
    which a reader that takes no locks would not see.
    """
    uses_log = header[_READ_VERSION] == _WAL_VERSION
    return uses_log and not _has_log(path) and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _has_log(path: Path) -> bool:
    return any(beside(path, ending).exists() for ending in ("-wal", "-journal"))


def _immutable(path: Path) -> apsw.Connection:
    """A connection for which the file is all there is; so opened, SQLite puts nothing beside it."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_copy(path: Path) -> apsw.Connection:
    """A connection to a copy that nobody uses, for reading; nothing is put beside it if it is all there is."""
    with sqlite_errors(StoreError, path):
        _require_kizami_header(path)
        return _opened_to_check(path)


def open_new(path: Path) -> apsw.Connection:
    """A connection to a new file, empty and its owner's alone; OSError where there is one or none can be made."""
    _touch_private(path)
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)


def open_nowhere() -> apsw.Connection:
    """A connection to no file at all, for tables that are made of something else."""
    return apsw.Connection(":memory:")


@contextmanager
def sole_user(path: Path) -> Iterator[None]:
    """Let no program open the file for the length of a `with`; StoreError if one has it open.

    To be used where this process has no connection to it: the end drops all locks that it has on the file.
    """
    with sqlite_errors(StoreError, path):
        handle = os.open(path.resolve(), os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SHARED_LOCK)
        yield
    except BlockingIOError:
        raise StoreError(f"{path}: another program has it open (a dashboard, a shell); end that first") from None
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Have the disk keep the names in a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def sqlite_errors(kind: type[KizamiError], path: Path | str) -> Iterator[None]:
    """Whatever SQLite or the file system refuses becomes `kind`: one line with the file and a remedy."""
    try:
        yield
    except apsw.Error as error:
        raise kind(f"{path}: {explain(error)}") from error
    except OSError as error:
        folder = Path(path).absolute().parent
        # Of a directory that may not be looked into nobody knows what is there.
        is_missing = not isinstance(error, PermissionError) and not os.path.exists(folder)
        missing = f"there is no directory {folder}; make it first"
        raise kind(f"{path}: {missing if is_missing else error.strerror or error}") from error


def is_locked(error: KizamiError) -> bool:
    """Return True for an error whose only reason is that another process has the file locked."""
    return isinstance(error.__cause__, apsw.BusyError)


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All or nothing, and the write lock from the start: what is read inside cannot change before the write."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite may have rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def rewrite_page(connection: apsw.Connection) -> None:
    """Write one page as it is, to see whether the disk takes it."""
    with transaction(connection):
        connection.execute(f"PRAGMA user_version = {_schema_version(connection)}")


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """What is read inside is of one moment; to be kept short, because the log grows meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def require_intact(path: Path) -> None:
    """Read the whole of a file of ordinary size; StoreError if it is damaged or not ours. It is not changed."""
    if not path.exists() or not 0 < path.stat().st_size <= _CHECKED_BYTES:
        return
    with sqlite_errors(StoreError, path):
        _require_kizami_header(path)
        connection = _opened_to_check(path)
        try:
            finding = str(connection.execute("PRAGMA quick_check(1)").get)
        finally:
            connection.close()
    if finding != "ok":
        raise StoreError(f"{path}: is damaged ({finding.splitlines()[-1]}); {_RESTORE}")


def _opened_to_check(path: Path) -> apsw.Connection:
    if not _has_log(path):
        return _immutable(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # Closing would carry the write-ahead log into a file that may be damaged.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def beside(path: Path, ending: str) -> Path:
    """The file that goes with the database at `path`, by whatever name that is reached."""
    real = path.resolve()
    return real.with_name(real.name + ending)


def _create(path: Path) -> None:
    # Made beside and moved into place whole, so that a crash in here leaves no half-made database.
    _refuse_orphaned_log(path)
    new = path.with_name(f"{path.name}-{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        _touch_private(new)
        connection = apsw.Connection(str(new), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before all else, or it takes a VACUUM
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        with transaction(connection):
            connection.execute(SCHEMA)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        _put_in_place(new, path)
    finally:
        new.unlink(missing_ok=True)


def _touch_private(new: Path) -> None:
    # SQLite would let everybody read it. What it puts beside a database has the mode of that.
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_MODE))


def mode_of(path: Path) -> int:
    """Who may read and write the database at `path`, or will when it is made: its owner, and whom he has let."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return PRIVATE_MODE


def _put_in_place(new: Path, path: Path) -> None:
    try:
        os.link(new, path)  # which, unlike a rename, leaves alone what another process has just made
    except OSError:  # one is there, or the file system has no links
        if not _is_there(path):
            new.chmod(mode_of(path))
            new.replace(path)


def _is_there(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _refuse_orphaned_log(path: Path) -> None:
    # SQLite would take it for the new database's own, and write another one's pages into that.
    log = beside(path, "-wal")
    if _is_there(log) and not _is_there(path):
        raise StoreError(
            f"{log}: has rows of a database that is no longer beside it; put that one back, or move the log away"
        )


def is_foreign(path: Path) -> bool:
    """Whether it is the SQLite database of another application."""
    header = _read_header(path) if path.is_file() else b""
    return _is_sqlite(header) and not _is_kizami(header)


def _is_sqlite(header: bytes) -> bool:
    return len(header) >= _HEADER_BYTES and header.startswith(_MAGIC)


def _is_kizami(header: bytes) -> bool:
    return int.from_bytes(header[68:72], "big") == APPLICATION_ID


def _require_kizami_header(path: Path) -> bytes:
    if not path.exists():
        raise StoreError(f"{path}: there is no database yet; `kizami up` makes one")
    header = _read_header(path) if path.is_file() else b""
    if not _is_sqlite(header):
        raise StoreError(f"{path}: is not an SQLite database; it is left untouched, use another --database")
    if not _is_kizami(header):
        raise StoreError(f"{path}: belongs to another application; it is left untouched, use another --database")
    _require_this_version(path, int.from_bytes(header[60:64], "big"))
    return header


def _read_header(path: Path) -> bytes:
    """The file's first bytes; a connection would put its side files beside a stranger's database.

    They are read by SQLite, which keeps the descriptor while a connection of this process has a lock: whoever
    else closes one drops all locks that the process has on the file, and then another program takes the log
    away under the daemon (sqlite.org/howtocorrupt.html, 2.2).
    """
    file = apsw.VFSFile("", str(path.resolve()), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        return file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()


def _require_this_version(path: Path, version: int) -> None:
    if version != VERSION:
        raise StoreError(
            f"{path}: was made by another version of kizami (schema {version}, this one has {VERSION}); "
            "use another --database, or export its records with that version"
        )


def _configure(connection: apsw.Connection) -> None:
    for pragma in (
        "synchronous = FULL",  # NORMAL loses acknowledged rows on power loss
        "cache_size = -16384",
        "temp_store = MEMORY",
        f"journal_size_limit = {LOG_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _use_log(connection: apsw.Connection) -> None:
    """Have the file keep a log: without one, as in a backup, every read holds up the daemon."""
    if connection.execute("PRAGMA journal_mode").get == "wal":
        return
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE_SECONDS)


def _schema_version(connection: apsw.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").get)


def explain(error: apsw.Error) -> str:
    """What went wrong and what helps, in a few words."""
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return f"is damaged ({error}); {_RESTORE}"
    if isinstance(error, apsw.FullError):
        return "the disk is full; make room"
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)):
        return f"cannot be written ({error}); check the directory's permissions or use another --database"
    if isinstance(error, apsw.BusyError):
        return "another process has kept it locked for too long; try again"
    return str(error)
