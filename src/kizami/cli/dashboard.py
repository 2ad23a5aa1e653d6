"""`kizami dashboard`: the page and its API over an existing database, with or without a daemon at work on it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click

from kizami.cli.settings import database_option
from kizami.dashboard.local_source import LocalSource
from kizami.dashboard.server import DEFAULT_HOST, DEFAULT_PORT, DashboardServer
from kizami.errors import ConfigurationError
from kizami.logs import use_logs


@click.command(short_help="Serve the dashboard over a database.")
@database_option
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port to listen on; 0 lets the system choose.",
)
@click.option("--token-env", metavar="NAME", help="The environment variable with the token to ask for.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A further name by which it is reached.")
def command(database: Path, host: str, port: int, token_env: str | None, allow_host: tuple[str, ...]) -> None:
    """Serve the dashboard until Ctrl-C.

    Without a token it only listens on this machine's own addresses. With one, every page and every
    request asks for it.
    """
    use_logs()
    LocalSource(database).close()  # a wrong file is told here, not on the page
    token = read_token(token_env)
    server = DashboardServer(LocalSource.opener(database), host, port, token=token, allowed_hosts=allow_host)
    with server:
        click.echo(f"kizami: the dashboard is on {server.url} (Ctrl-C ends it)", err=True)
        wait_for_the_end()


def wait_for_the_end() -> None:
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
    return token
