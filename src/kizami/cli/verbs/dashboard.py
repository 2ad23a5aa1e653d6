"""`kizami dashboard`: the page and its API over a database, daemon or no daemon, or over AWS."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.cli.homes import HomeOptions, backend_options, require_aws_packages
from kizami.cli.options import listen_options
from kizami.cli.terminal.unblocked_output import unblock_stderr
from kizami.core.errors import ConfigurationError
from kizami.core.logs import use_logs
from kizami.core.redaction import KNOWN
from kizami.home.port import Home
from kizami.local.home import Expectations, LocalHome
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import (
    DEFAULT_CONFIG,
    DEFAULT_DATABASE,
    LoadedConfig,
    load_config,
    read_config,
    stamp_of,
)
from kizami.web import DEFAULT_HOST, DEFAULT_PORT
from kizami.web.live import TICK_SECONDS
from kizami.web.server import DashboardServer


@click.command(short_help="Serve the dashboard over a database or a deployed stack.")
@backend_options
@listen_options(DEFAULT_HOST, DEFAULT_PORT)
@click.option("--token-env", metavar="NAME", help="The environment variable with the token to ask for.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A further name by which it is reached.")
def command(
    home: HomeOptions,
    host: str,
    port: int,
    token_env: str | None,
    allow_host: tuple[str, ...],
) -> None:
    """Serve the dashboard until Ctrl-C.

    With `--backend aws` it shows a deployed stack; targets are paused in its configuration, not here.
    Without a token it only listens on this machine's own addresses. With one, every page and every
    request asks for it.
    """
    unblock_stderr()
    use_logs()
    token = read_token(token_env)
    open_source, look_seconds = _source_of(home)
    _try_out(open_source)
    server = DashboardServer(
        open_source, host, port, token=token, allowed_hosts=allow_host, look_seconds=look_seconds
    )
    with server:
        click.echo(f"kizami: the dashboard is on {server.url} (Ctrl-C ends it)", err=True)
        _wait_for_the_end()


def _source_of(home: HomeOptions) -> tuple[Callable[[], Home], float]:
    """What opens the home, and how often open pages look at it."""
    if home.backend == "local":
        return local_source(home.database, load_config(home.config)), TICK_SECONDS
    require_aws_packages()
    from kizami.aws.home import LOOK_SECONDS
    from kizami.cli.aws_dashboard import aws_source

    source = aws_source(home)
    return lambda: source, LOOK_SECONDS


def _try_out(open_source: Callable[[], Home]) -> None:
    """A wrong file or stack is told here, not on the page."""
    source = open_source()
    source.queue_depth(SystemClock().now())
    source.targets()
    source.close()


def _wait_for_the_end() -> None:
    """Wait until SIGTERM; Ctrl-C raises KeyboardInterrupt."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()


def read_token(name: str | None) -> str | None:
    """The token that the environment variable holds; None without a name."""
    if name is None:
        return None
    token = os.environ.get(name)
    if not token:
        raise ConfigurationError(name, "is not set; it should hold the dashboard's token (--token-env)")
    KNOWN.add(token)
    return token


def local_source(database: Path, settings: LoadedConfig) -> Callable[[], LocalHome]:
    """What opens the dashboard's view of a database; it follows the configuration file as that changes."""
    configured = FollowedConfiguration(settings)
    options = {} if database == DEFAULT_DATABASE else {"--database": str(database)}
    if settings.path not in (None, DEFAULT_CONFIG):
        options["--config"] = str(settings.path)
    return lambda: LocalHome(database, configured, options)


class FollowedConfiguration:
    """What the configuration file says, read again when it has changed."""

    def __init__(self, settings: LoadedConfig) -> None:
        self._path = settings.path
        self._config = settings.config
        self._stamp = settings.stamp
        self._zone = require_zone(os.environ.get("AGGREGATION_TZ") or DEFAULT_ZONE, "AGGREGATION_TZ")

    def __call__(self) -> Expectations:
        if self._path is not None and (stamp := stamp_of(self._path)) != self._stamp:
            self._stamp = stamp
            self._reread(self._path)
        targets = {target.name: target.enabled for target in self._config.targets} if self._path else None
        schedule = self._config.aggregation
        if schedule is None:
            return Expectations(targets, zone=self._zone)
        return Expectations(targets, [company.company_id for company in schedule.companies], schedule.zone)

    def _reread(self, path: Path) -> None:
        # A broken one the daemon refuses too, with a line in its log, and goes on with the old one.
        with suppress(ConfigurationError):
            self._config = read_config(path)
