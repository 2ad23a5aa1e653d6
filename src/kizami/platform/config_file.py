"""Where the configuration is found and how its file is read: `--config`, else ./kizami.toml, else no file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from kizami.core.config import Config, parse_config
from kizami.core.errors import ConfigurationError

DEFAULT_CONFIG = Path("kizami.toml")


DEFAULT_DATABASE = Path("kizami.db")


Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """What was configured, and the file that says so (None: no file, the seed target), in which version."""

    config: Config
    path: Path | None
    stamp: Stamp = None


def load_config(config: Path | None) -> LoadedConfig:
    """The settings of the file `config`, else of ./kizami.toml, else the seed target."""
    if config is None and not DEFAULT_CONFIG.exists():
        return LoadedConfig(Config(), None)
    path = config or DEFAULT_CONFIG
    stamp = stamp_of(path)  # before it is read: a change meanwhile is news to whoever watches the file
    return LoadedConfig(read_config(path), path, stamp)


def read_schema() -> str:
    """The JSON Schema of the file, for editors."""
    return resources.files(__package__).joinpath("kizami.schema.json").read_text(encoding="utf-8")


def stamp_of(path: Path) -> Stamp:
    """What tells one version of a file from the next; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_config(path: Path) -> Config:
    """What the file says, else ConfigurationError with the place in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(str(path), "there is no such file; `kizami init` writes one") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), f"is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from None
    return parse_config(text, str(path)).below(str(path.parent))
