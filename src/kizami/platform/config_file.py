"""Where the configuration is found and how its file is read: `--config`, else ./kizami.toml, else no file."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path

from kizami.core.config import Config, parse_config
from kizami.core.errors import ConfigurationError
from kizami.platform.user_files import Stamp, read_file, stamp_of

DEFAULT_CONFIG = Path("kizami.toml")


DEFAULT_DATABASE = Path("kizami.db")

CONFIG_BYTES = 64 * 2**20  # 100,000 targets of 600 bytes


class MissingFile(ConfigurationError):
    """There is no configuration file at this path."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """What was configured, and the file that says so (None: no file, the seed target), in which version."""

    config: Config
    path: Path | None
    stamp: Stamp = None
    digest: str | None = None  # of the file's content


def load_config(config: Path | None) -> LoadedConfig:
    """The settings of the file `config`, else of ./kizami.toml, else the seed target."""
    try:
        return read_config_file(config or DEFAULT_CONFIG)
    except MissingFile:  # one that is there but cannot be read must not be taken for the mock API
        if config is None:
            return LoadedConfig(Config(), None)
        raise


def read_schema() -> str:
    """The JSON Schema of the file, for editors."""
    return resources.files(__package__).joinpath("kizami.schema.json").read_text(encoding="utf-8")


def read_config(path: Path) -> Config:
    """What the file says, else ConfigurationError with the place in it."""
    return read_config_file(path).config


def read_config_file(path: Path) -> LoadedConfig:
    """The same, with the version of the file that says so."""
    return parse_content(path, *read_content(path))


def parse_content(path: Path, content: bytes, stamp: Stamp) -> LoadedConfig:
    """What a file with this content says, else ConfigurationError with the place in it."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), f"is not UTF-8 at byte {error.start}") from None
    config = parse_config(text, str(path)).below(str(path.parent))
    return LoadedConfig(config, path, stamp, sha256(content).hexdigest())


def read_content(path: Path) -> tuple[bytes, Stamp]:
    """The bytes of a configuration file and the version they are of, else ConfigurationError."""
    try:
        stamp = stamp_of(path)  # before it is read: a change meanwhile is news to whoever watches the file
        return read_file(path, CONFIG_BYTES), stamp
    except FileNotFoundError:
        raise MissingFile(str(path), "there is no such file; `kizami init` writes one") from None
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from None
