"""The certificates beside a kizami.toml that go into the Lambda package; keys do not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from kizami.cdk.settings import Settings
from kizami.core.errors import ConfigurationError
from kizami.core.targets.target import Target

FOLDERS_OF_CODE = ("kizami", "tzdata")


def packed_certificates(targets: Iterable[Target], settings: Settings) -> dict[str, bytes]:
    """The files that the targets' `tls` names, by their paths from where the file is."""
    directory = Path(settings.config).parent if settings.config else Path()
    found: dict[str, bytes] = {}
    for target in targets:
        for name, pem in target.tls.parts().items() if target.tls else ():
            if isinstance(pem, str):
                place = f"{settings.config or 'kizami.toml'}: target {target.name}: {name}"
                packed_name = _packed_name(pem, name, place)
                found[packed_name] = _read(directory / pem, place)
    return found


def _packed_name(path: str, name: str, place: str) -> str:
    if name == "tls.key":
        problem = "a key is not packed with the code; keep it in secretsmanager:ID or ssm:NAME and refer to that"
        raise ConfigurationError(place, problem)
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or parts[0] in FOLDERS_OF_CODE:
        problem = f"{path} must stand beside kizami.toml or in a folder below it, to be packed with the functions"
        raise ConfigurationError(place, problem)
    return str(PurePosixPath(path))


def _read(path: Path, place: str) -> bytes:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(place, f"{path} cannot be read: {error.strerror}") from None
    if b"PRIVATE KEY-----" in body:
        problem = f"{path} has a key in it, which is not packed with the code; keep it in secretsmanager:ID"
        raise ConfigurationError(place, problem)
    return body
