"""A configuration file that is edited while `kizami up` or the page runs: noticed on save and on SIGHUP."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

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
        try:
            return self.changed_config()
        except ConfigurationError as error:
            logger.error(
                "the new configuration is refused; the old one goes on",
                extra={"event": "config.refused", "reason": str(error)},
            )
            return None

    def changed_config(self) -> Config | None:
        """The same, but ConfigurationError if it is broken."""
        if self._path is None:
            return None
        stamp = stamp_of(self._path)
        if stamp == self._stamp and not self._asked:
            return None
        self._stamp, self._asked = stamp, False
        return read_config(self._path)


class FollowedConfig:
    """The configuration as the file says it at each call; while it is broken, as it was before."""

    def __init__(self, settings: LoadedConfig) -> None:
        self._settings = settings
        self._watch = ConfigWatch(settings)

    def __call__(self) -> LoadedConfig:
        # A broken one the daemon refuses too, with a line in its log, and goes on with the old one.
        with suppress(ConfigurationError):
            if config := self._watch.changed_config():
                self._settings = replace(self._settings, config=config)
        return self._settings
