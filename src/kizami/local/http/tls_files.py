"""The files of a target's certificates: there, readable, fitting each other, not expired."""

from __future__ import annotations

import atexit
import os
import shutil
import ssl
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from kizami.core.access.certificates import valid_until
from kizami.core.access.tls import Pem, Tls
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference
from kizami.local.http.handle import TlsFiles
from kizami.local.http.secrets import read_secret


def tls_files(tls: Tls, place: str) -> TlsFiles:
    """The files, else ConfigurationError that names the setting and what is wrong."""
    found = {name: _path(pem, f"{place}: {name}") for name, pem in tls.parts().items()}
    files = TlsFiles(found.get("tls.ca"), found.get("tls.cert"), found.get("tls.key"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if files.ca:
        _load_authority(context, files.ca, f"{place}: tls.ca")
    if files.cert:
        _load_pair(context, files, place)
    return files


def expired(files: TlsFiles) -> dict[str, str]:
    """What has expired, by its setting."""
    now = datetime.now(UTC)
    read = {f"tls.{name}": Path(path).read_bytes() for name, path in files._asdict().items() if path}
    ends = {name: end for name, pem in read.items() if (end := valid_until(pem)) and end < now}
    return {name: f"{files._asdict()[name[4:]]} has expired on {end:%Y-%m-%d}" for name, end in ends.items()}


def _path(pem: Pem, place: str) -> str:
    path = pem if isinstance(pem, str) else pem.name if pem.kind == "file" else _written(pem, place)
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise ConfigurationError(place, f"{path} cannot be read: {error.strerror}") from None


def _load_authority(context: ssl.SSLContext, path: str, place: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise ConfigurationError(place, f"{path} has no certificate in PEM form") from None


def _load_pair(context: ssl.SSLContext, files: TlsFiles, place: str) -> None:
    try:
        context.load_cert_chain(files.cert or "", files.key, password="")
    except ssl.SSLError as error:
        if "mismatch" in (error.reason or "").lower():
            problem = f"{files.key or files.cert} is not the key of {files.cert}"
            raise ConfigurationError(f"{place}: tls.key", problem) from None
        problem = "must be a certificate and its key in PEM form, the key without a passphrase"
        raise ConfigurationError(f"{place}: tls.cert", problem) from None


def _written(reference: SecretReference, place: str) -> str:
    """The text of an environment variable as a file: OpenSSL reads nothing else."""
    text = read_secret(reference, place)
    path = _directory() / f"{reference.kind}-{reference.name}.pem"
    with os.fdopen(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text + "\n")
    os.replace(f"{path}.new", path)  # whoever connects meanwhile finds the old one
    return str(path)


@cache
def _directory() -> Path:
    """One that is ours alone and is removed when the process ends."""
    path = tempfile.mkdtemp(prefix="kizami-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)
