"""A configuration file that is edited while `kizami up` runs: noticed on save and on SIGHUP."""

from __future__ import annotations

import logging

from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.platform.config_file import LoadedConfig, read_config, stamp_of

logger = logging.getLogger(__name__)


class ConfigWatch:
    """Tells of a changed file once; a broken one is refused with a line in the log."""

    def __init__(self, settings: LoadedConfig) -> None:
        self._path = settings.path
        self._stamp = settings.stamp
        self._asked = False

    def ask(self) -> None:
        """Read the file again even if it looks the same (a secret may have changed)."""
        self._asked = True

    def new_config(self) -> Config | None:
        """What the file says now, if that is news."""
        if self._path is None:
            return None
        stamp = stamp_of(self._path)
        if stamp == self._stamp and not self._asked:
            return None
        self._stamp, self._asked = stamp, False
        try:
            return read_config(self._path)
        except ConfigurationError as error:
            logger.error(
                "the new configuration is refused; the old one goes on",
                extra={"event": "config.refused", "reason": str(error)},
            )
            return None
