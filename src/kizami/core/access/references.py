"""Every secret that a target refers to for being reached (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from kizami.core.access.auth import auth_references
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target


def access_references(target: Target) -> Iterator[tuple[str, SecretReference]]:
    """Those of auth, tls and proxy, each with its place in the file."""
    yield from auth_references(target.auth).items()
    for place, pem in target.tls.parts().items() if target.tls else ():
        if isinstance(pem, SecretReference):
            yield place, pem
    if isinstance(target.proxy, SecretReference):
        yield "proxy", target.proxy
