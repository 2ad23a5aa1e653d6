"""A configuration file that appears, changes or goes while `kizami up` or the page runs; also on SIGHUP."""

from __future__ import annotations

import logging
from contextlib import suppress

from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.platform.config_file import DEFAULT_CONFIG, LoadedConfig, parse_content, read_content
from kizami.platform.user_files import Stamp, stamp_of

logger = logging.getLogger(__name__)


_UNKNOWN: Stamp = (0, 0, 0)


class ConfigWatch:
    """Reports each new version of the file once. A broken one is refused with one line in the log.

    Where there was no file at the start, the watched place is that where one would have been found.
    """

    def __init__(self, settings: LoadedConfig) -> None:
        self.in_force = settings
        self.refusal: str | None = None  # why the file as it is now is not in force
        self.path = settings.path or DEFAULT_CONFIG
        self._stamp = settings.stamp
        self._newest = settings  # what was read last, in force or not
        self._suspect: tuple[Stamp, str] | None = None  # broken at the last look: it may be half written
        self._asked = False

    def ask(self) -> None:
        """Read the file again even if it looks the same (a secret may have changed)."""
        self._asked = True

    def new_config(self) -> Config | None:
        """Return what the file says now, if that is news.

        A version that waits to be used when a later one is refused is dropped: then what is in force is the news.
        """
        asked, before = self._asked, self._newest
        try:
            return self.changed_config()
        except ConfigurationError as error:
            self._doubt(str(error), asked=asked)
            return None if self._newest is before else self.in_force.config

    def changed_config(self) -> Config | None:
        """The same, but ConfigurationError if the file is broken."""
        stamp = self._look()
        if stamp == self._stamp and not self._asked and self._suspect is None:
            return None
        self._stamp, self._asked = stamp, False
        if stamp is not None:
            self._stamp = _UNKNOWN  # what cannot be read is tried again at each look
            content, self._stamp = read_content(self.path)
            self._newest = parse_content(self.path, content, self._stamp)
        elif self.in_force.path is None:
            self._newest, self.refusal = self.in_force, None  # there is still, or again, no file
        else:
            raise ConfigurationError(
                str(self.path), "was removed; put it back, or stop `kizami up` and start it again"
            )
        self._suspect = None
        return self._newest.config

    def accept(self) -> None:
        """What was read last is in force."""
        if self._newest is not self.in_force:
            self.in_force, self.refusal = self._newest, None

    def refuse(self, reason: str) -> None:
        """What was read last cannot be used; the configuration before it stays in force."""
        self._newest, self.refusal = self.in_force, reason

    def _look(self) -> Stamp:
        try:
            return stamp_of(self.path)
        except TimeoutError as error:
            self._stamp, self._asked = _UNKNOWN, False  # it is read as soon as it answers
            raise ConfigurationError(str(self.path), f"cannot be read: {error.strerror}") from None

    def _doubt(self, reason: str, *, asked: bool) -> None:
        """Refuse a file that is broken at two looks in the same way: at the first it may be half written."""
        seen = self._stamp, reason
        is_certain = asked or self._suspect == seen
        self._suspect = None if is_certain else seen
        if is_certain and (asked or self.refusal != reason or self._newest is not self.in_force):
            self.refuse(reason)
            logger.error(
                "the new configuration is refused; the old one goes on",
                extra={"event": "config.refused", "reason": reason},
            )


class FollowedConfig:
    """The configuration as the file says it at each call; while it is broken, as it was before."""

    def __init__(self, settings: LoadedConfig) -> None:
        self._watch = ConfigWatch(settings)

    def __call__(self) -> LoadedConfig:
        # A broken one the daemon refuses too, with a line in its log, and goes on with the old one.
        with suppress(ConfigurationError):
            if self._watch.changed_config():
                self._watch.accept()
        return self._watch.in_force
