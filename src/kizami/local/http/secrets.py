"""Secrets on one machine: read from where the configuration points, and read again when a file has changed."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.platform.user_files import SECRET_BYTES, Stamp, read_file, stamps_of

LOOKS_A_TURN = 500  # files that are looked at in one look, at most; there is about one a second
_REREAD_SECONDS = 1.0  # who is refused again and again reads a file no more often

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    value: str
    stamp: Stamp
    read_at: float
    before: str | None = None


class SecretValues:
    """What references lead to. A file that has gone or cannot be used leaves its last value in use.

    One thread reads files; `value` and `is_fresh` may be asked on another.
    """

    def __init__(self) -> None:
        self._kept: dict[SecretReference, _Kept] = {}
        self._told: set[SecretReference] = set()
        self.news: deque[SecretReference] = deque()  # what was read and was not as before, whoever had it read

    def use(self, reference: SecretReference, place: str) -> str:
        """The secret as it is now, or as it was read last; ConfigurationError if it was never read."""
        try:
            value = self.read(reference, place)
        except ConfigurationError as error:
            if reference not in self._kept:
                raise
            self._tell(reference, error)
            return self.value(reference)
        self._told.discard(reference)
        return value

    def read(self, reference: SecretReference, place: str) -> str:
        """The secret as it is now, else ConfigurationError that names the place and the reference."""
        (stamp,) = _stamps([reference])  # before it is read: a change meanwhile is noticed later
        value = one_line(read_secret(reference, place), reference, place)
        KNOWN.add_header(value)
        kept = self._kept.get(reference)
        if kept is None or kept.value != value:
            self._kept[reference] = _Kept(value, _known(stamp), time.monotonic(), kept.value if kept else None)
            if kept:
                self.news.append(reference)
                self._forget(kept.before)
        else:
            kept.stamp, kept.read_at = _known(stamp), time.monotonic()
        return value

    def value(self, reference: SecretReference) -> str:
        """What was read last."""
        return self._kept[reference].value

    def changed(self, references: Sequence[SecretReference]) -> set[SecretReference]:
        """Those whose files look different and say something else than before."""
        seen = zip(references, _stamps(references), strict=True)
        return {each for each, stamp in seen if stamp != self._kept[each].stamp and self._read_again(each)}

    def is_fresh(self, reference: SecretReference) -> bool:
        """Whether its file was read a moment ago: to read it again would be in vain."""
        return time.monotonic() - self._kept[reference].read_at < _REREAD_SECONDS

    def reread(self, references: Iterable[SecretReference]) -> set[SecretReference]:
        """Read the files though they look the same; those that say something else than before."""
        return {each for each in references if not self.is_fresh(each) and self._read_again(each)}

    def _read_again(self, reference: SecretReference) -> bool:
        before = self._kept[reference].value
        try:
            value = self.read(reference, str(reference))
        except ConfigurationError as error:
            self._tell(reference, error)
            return False
        self._told.discard(reference)
        return value != before

    def _tell(self, reference: SecretReference, error: ConfigurationError) -> None:
        self._kept[reference].read_at = time.monotonic()
        if reference not in self._told:
            self._told.add(reference)
            details = {"event": "secret.unreadable", "reason": str(error)}
            logger.warning("a secret cannot be read again; the last one stays in use", extra=details)

    def _forget(self, value: str | None) -> None:
        """It was replaced twice: nobody sends it any more, unless another reference leads to it."""
        if value is not None and all(value not in (kept.value, kept.before) for kept in self._kept.values()):
            KNOWN.forget_header(value)


def _stamps(references: Sequence[SecretReference]) -> list[Stamp | TimeoutError]:
    """The version of each one's file, None for what is kept elsewhere."""
    seen = iter(stamps_of([Path(each.name) for each in references if each.kind == "file"]))
    return [next(seen) if each.kind == "file" else None for each in references]


def _known(stamp: Stamp | TimeoutError) -> Stamp:
    return None if isinstance(stamp, TimeoutError) else stamp


def one_line(secret: str, reference: SecretReference, place: str) -> str:
    """The secret, if a header can carry it: a line break would let its rest become a header of its own."""
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ConfigurationError(place, f"{reference} is not one line of printable ASCII text")
    return secret


def read_secret(reference: SecretReference, place: str, limit: int = SECRET_BYTES) -> str:
    """What an environment variable or a file holds, else ConfigurationError naming `place`."""
    if reference.kind == "env":
        if reference.name not in os.environ:
            raise ConfigurationError(place, f"the environment variable {reference.name} is not set")
        return _not_empty(os.environ[reference.name], f"the environment variable {reference.name}", place)
    if reference.kind == "file":
        try:
            text = read_file(Path(reference.name), limit).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise ConfigurationError(place, f"{reference} cannot be read: {reason}") from None
        return _not_empty(text, f"the file {reference.name}", place)
    raise ConfigurationError(place, f"{reference.kind}: works on AWS only; use env:NAME or file:PATH here")


def _not_empty(text: str, what: str, place: str) -> str:
    if not text.strip():
        raise ConfigurationError(place, f"{what} is empty; put the secret into it")
    return text.strip()
