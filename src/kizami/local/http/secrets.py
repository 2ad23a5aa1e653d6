"""Header values for requests: literal ones as they are, secrets read from where the configuration points."""

from __future__ import annotations

import os
from pathlib import Path

from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.targets.target import SecretReference, Target


def resolve_headers(target: Target) -> tuple[str, ...]:
    """The target's headers as `Name: value` lines, else ConfigurationError that names the reference only."""
    return tuple(f"{name}: {_resolve(name, value, target)}" for name, value in target.headers.items())


def _resolve(header: str, value: str | SecretReference, target: Target) -> str:
    if isinstance(value, str):
        return value
    place = f"{target.name}: headers.{header}"
    secret = read_secret(value, place)
    # A line break would let the secret's rest become a header of its own; libcurl takes ASCII only.
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ConfigurationError(place, f"{value} is not one line of printable ASCII text")
    KNOWN.add_header(secret)
    return secret


def read_secret(reference: SecretReference, place: str) -> str:
    """What an environment variable or a file holds, else ConfigurationError naming `place`."""
    if reference.kind == "env":
        if reference.name not in os.environ:
            raise ConfigurationError(place, f"the environment variable {reference.name} is not set")
        return os.environ[reference.name].strip()
    if reference.kind == "file":
        try:
            return Path(reference.name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise ConfigurationError(place, f"{reference} cannot be read: {reason}") from None
    raise ConfigurationError(place, f"{reference.kind}: works on AWS only; use env:NAME or file:PATH here")
