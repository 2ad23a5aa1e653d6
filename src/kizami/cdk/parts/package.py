"""The Lambda package: what its handlers import, few time zones, what targets need; the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import tzdata

import kizami
from kizami.aggregation.points import DEFAULT_ZONE
from kizami.cdk.parts.modules import needed_files
from kizami.core.errors import ConfigurationError

CONFIG_NAME = "kizami.toml"
HANDLER_MODULES = (
    "kizami.aws.sender",
    "kizami.aws.collector",
    "kizami.aws.reconciler",
    "kizami.aws.mock_api",
    "kizami.aws.aggregation",
    "kizami.aws.aggregation_dispatcher",
)


def package_files(configuration: Mapping[str, bytes], *zones: str) -> dict[str, bytes]:
    """What the package holds, by its name in it, in a fixed order."""
    source = Path(kizami.__file__).parents[1]
    parts = needed_files(source, HANDLER_MODULES)
    files = {part.relative_to(source).as_posix(): part.read_bytes() for part in parts}
    for zone in zones or (DEFAULT_ZONE,):
        files |= zone_files(zone)
    files |= configuration
    return dict(sorted(files.items()))


def require_packaged(handler: str) -> str:
    """The handler, if the package is made for its module: what is missing there would fail only once deployed."""
    if handler.rpartition(".")[0] not in HANDLER_MODULES:
        raise ConfigurationError(handler, "is not among HANDLER_MODULES of src/kizami/cdk/parts/package.py")
    return handler


def zone_files(name: str) -> dict[str, bytes]:
    """The one zone whose days count, where `zoneinfo` looks if the system has none: Lambda promises none."""
    root = Path(tzdata.__file__).parent
    zone = root / "zoneinfo" / name
    if not zone.is_file():
        raise ConfigurationError("context aggregation_time_zone", f"{name!r} is not in the time zone database")
    packages = [parent / "__init__.py" for parent in zone.parents if parent.is_relative_to(root)]
    return {part.relative_to(root.parent).as_posix(): part.read_bytes() for part in (*packages, zone)}


def package_hash(files: dict[str, bytes]) -> str:
    """A hash of names and contents alone, so that the same source is the same asset on every machine."""
    digest = hashlib.sha256()
    for name, body in files.items():
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()


def write_zip(files: dict[str, bytes], path: Path) -> None:
    """The files as a zip without times of day; readable to all, for Lambda runs as another user."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, body in files.items():
            entry = ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, body, ZIP_DEFLATED)
