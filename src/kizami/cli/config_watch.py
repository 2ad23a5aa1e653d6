"""A configuration file that is edited while `kizami up` runs: noticed on save and on SIGHUP."""

from __future__ import annotations

import logging
from pathlib import Path

from kizami.cli.settings import read_config
from kizami.config import Config
from kizami.errors import ConfigurationError

logger = logging.getLogger(__name__)

Stamp = tuple[int, int, int] | None


class ConfigWatch:
    """Tells of a changed file once; a broken one is refused with a line in the log."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp = stamp_of(path)
        self._asked = False

    def ask(self) -> None:
        """Read the file again even if it looks the same (a secret may have changed)."""
        self._asked = True

    def new_config(self) -> Config | None:
        """What the file says now, if that is news."""
        stamp = stamp_of(self._path)
        if self._path is None or (stamp == self._stamp and not self._asked):
            return None
        self._stamp, self._asked = stamp, False
        try:
            return read_config(self._path)
        except ConfigurationError as error:
            logger.error("the new configuration is refused; the old one goes on", extra={"reason": str(error)})
            return None


def stamp_of(path: Path | None) -> Stamp:
    """What tells one version of a file from the next; None if there is none."""
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None
