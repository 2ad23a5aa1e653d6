"""`kizami dashboard`: the page and its API over a database, daemon or no daemon, or over AWS."""

from __future__ import annotations

import signal
import threading

import click

from kizami.cli.backends import BackendOptions, OpenBackend, backend_options
from kizami.cli.options import listen_options
from kizami.cli.page_options import OpenAccess, page_options
from kizami.cli.terminal.unblocked_output import unblock_stderr
from kizami.core.logs import use_logs
from kizami.platform.clock import SystemClock
from kizami.web import DEFAULT_HOST, DEFAULT_PORT
from kizami.web.live import TICK_SECONDS
from kizami.web.server import DashboardServer


@click.command(short_help="Serve the dashboard over a database or a deployed stack.")
@backend_options
@listen_options(DEFAULT_HOST, DEFAULT_PORT)
@page_options
def command(backend_options: BackendOptions, host: str, port: int, access: OpenAccess) -> None:
    """Serve the dashboard until Ctrl-C.

    With `--backend aws` it shows a deployed stack; targets are paused in its configuration, not here.
    Without a token it only listens on this machine's own addresses. With one, every page and every
    request asks for it.
    """
    unblock_stderr()
    use_logs()
    let_in = access(host)
    open_backend, look_seconds = backend_options.opener()
    _try_out(open_backend)
    server = DashboardServer(open_backend, host, port, access=let_in, look_seconds=look_seconds or TICK_SECONDS)
    with server:
        click.echo(f"kizami: the dashboard is on {server.url} (Ctrl-C ends it)", err=True)
        _wait_for_the_end()


def _try_out(open_backend: OpenBackend) -> None:
    """A wrong file or stack is told here, not on the page."""
    backend = open_backend()
    backend.queue_depth(SystemClock().now())
    backend.targets(recent=True)
    backend.close()


def _wait_for_the_end() -> None:
    """Wait until SIGTERM; Ctrl-C raises KeyboardInterrupt."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
