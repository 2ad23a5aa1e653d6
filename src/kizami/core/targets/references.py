"""References in place of secrets: where one is kept, never the secret itself (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kizami.core.errors import InvalidInput

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_REFERENCE = re.compile(r"(env|file|secretsmanager|ssm):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is kept (`env:NAME`, `file:PATH`, `secretsmanager:ID`, `ssm:NAME`), never the secret.

    `secretsmanager:ID#KEY` is what the JSON in a secret has under the key: many targets may share one secret.
    """

    kind: str
    name: str

    @property
    def id(self) -> str:
        """The name of the secret itself."""
        return self.name.partition("#")[0] if self.kind == "secretsmanager" else self.name

    @property
    def key(self) -> str | None:
        """The key in the secret, if one is named."""
        return self.name.partition("#")[2] if self.id != self.name else None

    @property
    def is_on_aws(self) -> bool:
        """Whether a function on AWS can read it."""
        return self.kind in ("secretsmanager", "ssm")

    @property
    def whole(self) -> str:
        """The secret itself, whichever key is meant."""
        return f"{self.kind}:{self.id}"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def read_reference(text: str) -> SecretReference | None:
    """The reference that `text` writes; None if it is none."""
    match = _REFERENCE.fullmatch(text)
    return SecretReference(match[1], match[2]) if match else None


def parse_reference(value: object, place: str) -> SecretReference:
    """The place of a secret; the secret itself, written there by mistake, is not quoted."""
    reference = read_reference(value) if isinstance(value, str) else None
    if reference is None:
        raise InvalidInput(place, "must be a reference like env:NAME or file:PATH, not the value itself")
    require_reference(reference, place)
    return reference


def require_reference(reference: SecretReference, place: str) -> None:
    """InvalidInput if nothing can be kept there; not quoted, for the secret itself may stand behind the colon."""
    if reference.kind == "env" and not _VARIABLE.fullmatch(reference.name):
        raise InvalidInput(place, "must name a variable after env: (letters, digits and _)")
    if not reference.name.isprintable():
        raise InvalidInput(place, f"must not have control characters after {reference.kind}:")
