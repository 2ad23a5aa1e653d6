"""`kizami mock`: the mock AI employee API as a program of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import click

from kizami.aggregation.signing import ApiKey
from kizami.cli.options import listen_options
from kizami.cli.terminal.unblocked_output import unblock_stderr
from kizami.core.logs import use_logs
from kizami.mock_api.server import DEFAULT_HOST, DEFAULT_PORT, MockServer
from kizami.mock_api.users import users_key


@click.command(short_help="Serve the mock AI employee API.")
@listen_options(DEFAULT_HOST, DEFAULT_PORT)
def command(host: str, port: int) -> None:
    """Serve the mock AI employee API until Ctrl-C.

    GET /response_count?from=…&to=… answers with a count from 0 to 10 that only depends on the minute of
    `to`; GET /users lists a company's users for who signs with the key `mock-aggregation-key` or that of
    KIZAMI_MOCK_USERS_KEY; GET /health says whether it is there; GET /openapi.json describes it all.
    """
    unblock_stderr()
    use_logs()
    asyncio.run(_serve(host, port, users_key(os.environ)))


async def _serve(host: str, port: int, key: ApiKey) -> None:
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows has no SIGTERM to wait for
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with MockServer(host, port, key) as server:
        announce(server)
        await stop.wait()


def announce(server: MockServer) -> None:
    """Say where it listens, and warn where that is not only this machine."""
    if not server.address.is_loopback:
        click.echo(
            f"kizami: warning: {server.address} is not a loopback address: everyone who can reach it may ask, "
            "there is no authentication",
            err=True,
        )
    click.echo(f"kizami: the mock API is on {server.url} (Ctrl-C ends it)", err=True)
