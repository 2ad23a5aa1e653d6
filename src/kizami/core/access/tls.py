"""Who vouches for a target's server, and which certificate it is shown: files, or references to texts (pure)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kizami.core.errors import InvalidInput
from kizami.core.targets.references import SecretReference, parse_reference, read_reference
from kizami.core.targets.unknown_names import shown_key, unknown_setting

Pem = str | SecretReference  # the path of a file, or where its text is kept


@dataclass(frozen=True, slots=True)
class Tls:
    """Who vouches for the server (`ca`, in place of the system's authorities), and who we are (`cert`, `key`).

    `cert` may hold its key, too.
    """

    ca: Pem | None = None
    cert: Pem | None = None
    key: Pem | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.cert is None:
            raise InvalidInput("tls.key", "needs tls.cert beside it")

    def parts(self) -> dict[str, Pem]:
        """What is set, by its place in the file."""
        stated = {f"tls.{entry.name}": getattr(self, entry.name) for entry in fields(self)}
        return {place: pem for place, pem in stated.items() if pem is not None}


def parse_tls(value: object) -> Tls:
    """What the table says."""
    known = tuple(entry.name for entry in fields(Tls))
    for name in value if isinstance(value, dict) else ():
        if name not in known:
            raise InvalidInput(f"tls.{shown_key(name)}", unknown_setting(name, known))
    if not isinstance(value, dict) or not value:
        raise InvalidInput("tls", 'must be a table like { ca = "ca.pem" } or { cert = "my.pem", key = "my.key" }')
    return Tls(**{name: _parse_pem(text, f"tls.{name}") for name, text in value.items()})


def _parse_pem(value: object, place: str) -> Pem:
    """A key that was pasted here is not quoted."""
    if isinstance(value, str) and read_reference(value):
        return parse_reference(value, place)
    if not isinstance(value, str) or not value or not value.isprintable() or "-----BEGIN" in value:
        raise InvalidInput(place, "must be the path of a PEM file, or a reference like env:NAME")
    return value


def tls_fields(tls: Tls | None) -> dict[str, str] | None:
    """As the file writes it."""
    return {place.partition(".")[2]: str(pem) for place, pem in tls.parts().items()} if tls else None


def below(tls: Tls, directory: str) -> Tls:
    """With the paths as they are from `directory`, where kizami.toml is."""
    found = {place.partition(".")[2]: _place(pem, directory) for place, pem in tls.parts().items()}
    return replace(tls, **found)


def _place(pem: Pem, directory: str) -> Pem:
    return f"{directory}/{pem}" if isinstance(pem, str) and not pem.startswith("/") and directory else pem
