"""The options that verbs share, and where a verb finds its configuration: flags over environment over files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kizami.config import Config, parse_config
from kizami.errors import ConfigurationError

DEFAULT_CONFIG = Path("kizami.toml")
DEFAULT_DATABASE = Path("kizami.db")

Stamp = tuple[int, int, int] | None
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

config_option: Decorator = click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="KIZAMI_CONFIG",
    show_envvar=True,
    help="The targets; without it ./kizami.toml, and without that the mock API alone.",
)
database_option: Decorator = click.option(
    "--database",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="KIZAMI_DATABASE",
    show_envvar=True,
    default=DEFAULT_DATABASE,
    show_default=True,
    help="The SQLite file with queue and store.",
)


def listen_options(default_host: str, default_port: int) -> Decorator:
    """Give a verb that serves something the options that say where."""
    host = click.option("--host", default=default_host, show_default=True, help="The address to listen on.")
    port = click.option(
        "--port",
        default=default_port,
        show_default=True,
        type=click.IntRange(0, 65535),
        help="The port to listen on; 0 lets the system choose.",
    )
    return lambda verb: host(port(verb))


@dataclass(frozen=True, slots=True)
class Settings:
    """What was configured, and the file that says so (None: no file, the seed target), in which version."""

    config: Config
    path: Path | None
    stamp: Stamp = None


def load_settings(config: Path | None) -> Settings:
    """The settings of the file `config`, else of ./kizami.toml, else the seed target."""
    if config is None and not DEFAULT_CONFIG.exists():
        return Settings(Config(), None)
    path = config or DEFAULT_CONFIG
    stamp = stamp_of(path)  # before it is read: a change meanwhile is news to whoever watches the file
    return Settings(read_config(path), path, stamp)


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
    return parse_config(text, str(path))
