"""The files of a target's certificates: there, readable, fitting each other, not expired.

libcurl reads such a file when it connects, on the thread of all polls. What it is given are copies, so that no
pipe, device or hanging mount at a configured path can hold that thread up.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path

from kizami.core.access.certificates import valid_until
from kizami.core.access.tls import Pem, Tls
from kizami.core.errors import ConfigurationError
from kizami.local.http.handle import TlsFiles
from kizami.local.http.secrets import read_secret
from kizami.platform.user_files import CERTIFICATE_BYTES, Stamp, read_file, stamps_of

_IN_MEMORY = Path("/dev/shm")

logger = logging.getLogger(__name__)


class CertificateFiles:
    """Copies of the files, made again when these change; ones that cannot be used leave the last copies in use."""

    def __init__(self) -> None:
        self._seen: dict[
            Tls, tuple[str, list[Stamp | TimeoutError]]
        ] = {}  # the place in the configuration, versions
        self._told: set[Tls] = set()

    def read(self, tls: Tls, place: str) -> TlsFiles:
        """The copies, or those made last; ConfigurationError that names the setting if there are none yet."""
        stamps = stamps_of(_paths(tls))  # before they are read: a change meanwhile is noticed later
        try:
            files = _copied(tls, place)
        except ConfigurationError as error:
            if tls not in self._seen:
                raise
            self._tell(tls, error)
            return _files(_copies(tls))
        self._seen[tls] = place, stamps
        self._told.discard(tls)
        return files

    def keep(self, used: set[Tls]) -> None:
        """Look at the files of these from now on, and at no others."""
        self._seen = {tls: seen for tls, seen in self._seen.items() if tls in used}

    def refresh(self) -> None:
        """Copy again what has changed."""
        for tls, (place, stamps) in list(self._seen.items()):
            now = stamps_of(_paths(tls))
            if now == stamps or any(isinstance(stamp, TimeoutError) for stamp in now):
                continue
            try:
                _copied(tls, place)
            except ConfigurationError as error:
                self._tell(tls, error)  # and try again at the next look
            else:
                self._seen[tls] = place, now
                self._told.discard(tls)

    def _tell(self, tls: Tls, error: ConfigurationError) -> None:
        if tls not in self._told:
            self._told.add(tls)
            details = {"event": "secret.unreadable", "reason": str(error)}
            logger.warning("a certificate cannot be read again; the last one stays in use", extra=details)


def expired(tls: Tls, files: TlsFiles) -> dict[str, str]:
    """What has expired, by its setting."""
    now = datetime.now(UTC)
    copies = {f"tls.{name}": Path(path).read_bytes() for name, path in files._asdict().items() if path}
    ends = {name: end for name, pem in copies.items() if (end := valid_until(pem)) and end < now}
    return {name: f"{_shown(tls.parts()[name])} has expired on {end:%Y-%m-%d}" for name, end in ends.items()}


def _copied(tls: Tls, place: str) -> TlsFiles:
    """New copies in the place of the old ones, once they are seen to be right."""
    texts = {name: _read(pem, f"{place}: {name}") for name, pem in tls.parts().items()}
    copies = _copies(tls)
    for name, text in texts.items():
        _write(_new(copies[name]), text, f"{place}: {name}")
    shown = {name: _shown(pem) for name, pem in tls.parts().items()}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "tls.ca" in copies:
        _load_authority(context, _new(copies["tls.ca"]), shown["tls.ca"], f"{place}: tls.ca")
    if "tls.cert" in copies:
        _load_pair(context, {name: _new(path) for name, path in copies.items()}, shown, place)
    for path in copies.values():
        os.replace(_new(path), path)  # whoever connects meanwhile finds the old one
    return _files(copies)


def _copies(tls: Tls) -> dict[str, Path]:
    """Where the copies of its parts are."""
    mark = sha256(repr(tls).encode()).hexdigest()[:16]
    return {name: _directory() / f"{mark}-{name.partition('.')[2]}.pem" for name in tls.parts()}


def _files(copies: Mapping[str, Path]) -> TlsFiles:
    return TlsFiles(**{name.partition(".")[2]: str(path) for name, path in copies.items()})


def _paths(tls: Tls) -> list[Path]:
    """The files among its parts."""
    found = (
        pem if isinstance(pem, str) else pem.name if pem.kind == "file" else None for pem in tls.parts().values()
    )
    return [Path(path) for path in found if path is not None]


def _shown(pem: Pem) -> str:
    """How a message names it."""
    return pem if isinstance(pem, str) else pem.name if pem.kind == "file" else str(pem)


def _read(pem: Pem, place: str) -> bytes:
    if not isinstance(pem, str) and pem.kind != "file":
        return read_secret(pem, place).encode() + b"\n"
    path = _shown(pem)
    try:
        return read_file(Path(path), CERTIFICATE_BYTES)
    except OSError as error:
        raise ConfigurationError(place, f"{path} cannot be read: {error.strerror}") from None


def _load_authority(context: ssl.SSLContext, path: str, shown: str, place: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise ConfigurationError(place, f"{shown} has no certificate in PEM form") from None


def _load_pair(context: ssl.SSLContext, copies: Mapping[str, str], shown: Mapping[str, str], place: str) -> None:
    try:
        context.load_cert_chain(copies["tls.cert"], copies.get("tls.key"), password="")
    except ssl.SSLError as error:
        if "mismatch" in (error.reason or "").lower():
            problem = f"{shown.get('tls.key', shown['tls.cert'])} is not the key of {shown['tls.cert']}"
            raise ConfigurationError(f"{place}: tls.key", problem) from None
        problem = "must be a certificate and its key in PEM form, the key without a passphrase"
        raise ConfigurationError(f"{place}: tls.cert", problem) from None


def _new(path: Path) -> str:
    return f"{path}.new"


def _write(path: str, text: bytes, place: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(place, f"cannot be copied to {path}: {error.strerror}") from None


@cache
def _directory() -> Path:
    """One that is ours alone and is removed when the process ends; in memory, where the system has a place."""
    in_memory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else None
    path = tempfile.mkdtemp(prefix="kizami-", dir=in_memory)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)
