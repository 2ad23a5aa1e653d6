"""What `kizami doctor` finds out about this machine: SQLite, the database's file and the clock."""

from __future__ import annotations

import http.client
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from kizami.core.errors import KizamiError
from kizami.core.targets.target import Target

SAFE_SQLITE = (3, 51, 3)  # the first without the WAL-reset bug, which can corrupt a file with two writers
CLOCK_TOLERANCE_SECONDS = 2.0
_CLOCK_HOSTS = 3
_CLOCK_TIMEOUT_SECONDS = 3


class Health(Enum):
    """How a check went; a warning is for the reader to judge."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, what was found, and what to do about it (nothing, if all is well)."""

    name: str
    health: Health
    finding: str
    remedy: str = ""


def check_sqlite() -> Check:
    """Whether the SQLite in use is free of the WAL-reset bug."""
    import apsw

    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) < SAFE_SQLITE:
        return Check("sqlite", Health.FAILED, f"{version} can corrupt a database", "pip install --upgrade apsw")
    return Check("sqlite", Health.OK, version)


def check_database(path: Path) -> Check:
    """Whether the file can be used, or made, and whether there is room."""
    from kizami.local.store.database import LITTLE_ROOM_BYTES, open_database, require_intact
    from kizami.local.store.write_ahead_log import describe_large_log

    directory = path.absolute().parent
    if not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
        return Check("database", Health.FAILED, f"{directory} cannot be written", "use another --database")
    free = shutil.disk_usage(directory).free
    if free < LITTLE_ROOM_BYTES:
        finding = f"only {free // 2**20} MB are free in {directory}"
        return Check("database", Health.FAILED, finding, "make room, or use another --database")
    if not path.exists():
        return Check("database", Health.OK, f"{path} does not exist yet; `kizami up` makes it")
    try:
        require_intact(path)
        open_database(path).close()
    except KizamiError as error:
        finding, _, remedy = str(error).partition("; ")
        return Check("database", Health.FAILED, finding, remedy or "restore a copy, or use another --database")
    if large_log := describe_large_log(path):
        return Check("database", Health.WARNING, large_log, "end the program that reads; it is emptied then")
    return Check("database", Health.OK, f"{path}, {path.stat().st_size // 2**20} MB")


def check_clock(targets: Iterable[Target]) -> Check:
    """Whether the wall clock agrees with the targets' servers, as far as they tell the time."""
    hosts = list(dict.fromkeys(target.url for target in targets if not (target.tls or target.proxy)))
    for url in hosts[:_CLOCK_HOSTS]:
        ahead = _seconds_ahead(url)
        if ahead is None:
            continue
        host = urlsplit(url).netloc
        if abs(ahead) > CLOCK_TOLERANCE_SECONDS:
            finding = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} {host}"
            return Check("clock", Health.FAILED, finding, "let NTP set the clock (timedatectl set-ntp true)")
        return Check("clock", Health.OK, f"agrees with {host}")
    if datetime.now(UTC).year < 2025:
        return Check("clock", Health.FAILED, f"it is not {datetime.now(UTC).year}", "set the clock")
    return Check("clock", Health.OK, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}; no server to compare it with")


def _seconds_ahead(url: str) -> float | None:
    """How far our clock is ahead of a server's, from the middle of the request; None if it does not tell."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_CLOCK_TIMEOUT_SECONDS)
    try:
        before = time.time()
        connection.request("HEAD", parts.path.partition("{")[0] or "/")
        date = connection.getresponse().getheader("Date")
        after = time.time()
        # The header is cut to the second: on average it lags half of one behind.
        return (before + after) / 2 - (parsedate_to_datetime(date or "").timestamp() + 0.5)
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return None
    finally:
        connection.close()
