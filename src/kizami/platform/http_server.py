"""An ASGI application on a socket, as a part of another program: the mock API's server and the dashboard's.

async with HttpServer(application, host, port) as server: ...    # in a running event loop
with HttpServer(application, host, port) as server: ...          # in a thread of its own
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

import uvicorn

from kizami.core.errors import ConfigurationError
from kizami.platform.http_connection import ServerLimits, ServerSettings
from kizami.platform.http_refusals import Refusals

MAX_HEAD_BYTES = 16 * 1024
# Longer than any interval: a poller's connection must not close just as it asks again.
KEEP_ALIVE_SECONDS = 75
SHUTDOWN_GRACE_SECONDS = 1

_REMEDIES = {
    errno.EADDRINUSE: "the port is in use; stop the program that has it or choose another with --port",
    errno.EACCES: "the port may not be used; choose one from 1024 up with --port",
    errno.EADDRNOTAVAIL: "is not an address of this machine; choose another with --host",
}

# What ends the answers that would go on for ever.
Farewell = Callable[[], Awaitable[None]]


class HttpServer:
    """Listens from the start of its `with` or `async with` block, at `url`, until the end of it.

    Signals stay with the program that it is a part of. ConfigurationError where it can't listen.
    """

    def __init__(
        self,
        application: Any,
        host: str,
        port: int,
        *,
        name: str,
        lifespan: Literal["on", "off"] = "off",
        farewell: Farewell | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self.host, self.port = host, port
        self._application = application
        self._name = name
        self._lifespan: Literal["on", "off"] = lifespan
        self._farewell = farewell
        self._limits = limits or ServerLimits()

    @property
    def url(self) -> str:
        """Where it listens; `port` is by now the one that the system chose in place of 0."""
        address = self.address
        return f"http://[{address}]:{self.port}" if address.version == 6 else f"http://{address}:{self.port}"

    def _listen(self) -> None:
        self._socket = listen(self.host, self.port)
        address, self.port = self._socket.getsockname()[:2]
        self.address = ipaddress.ip_address(address)
        self._uvicorn = _Server(self._settings(), self._farewell)

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(Refusals())
        with self._socket:
            await self._uvicorn.serve([self._socket])

    async def __aenter__(self) -> Self:
        self._listen()
        self._task = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._uvicorn.should_exit = True
        await self._task

    def __enter__(self) -> Self:
        self._listen()
        self._thread = threading.Thread(target=asyncio.run, args=[self._serve()], name=self._name)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._uvicorn.should_exit = True
        self._thread.join()

    def _settings(self) -> uvicorn.Config:
        return ServerSettings(
            self._application,
            self._limits,
            ws="none",
            lifespan=self._lifespan,
            interface="asgi3",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the host's first address (IPv4 before IPv6), else ConfigurationError."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not 0 <= port <= 65535:
        raise ConfigurationError(place, "a port is a number from 0 to 65535; choose one with --port")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ConfigurationError(place, "there is no such host; choose another with --host") from None
    family, _, _, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
    try:
        listener = socket.create_server(address, family=family, backlog=1024)
        # Connections inherit it. asyncio would set it only if it saw that this is TCP, which it does not here; and
        # without it an answer in two parts waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        problem = _REMEDIES.get(error.errno or 0, f"can't be listened on: {error.strerror}")
        raise ConfigurationError(place, problem) from None


class _Server(uvicorn.Server):
    """uvicorn as a guest: it leaves signals alone and no client can hold up its end."""

    def __init__(self, settings: uvicorn.Config, farewell: Farewell | None) -> None:
        super().__init__(settings)
        self._farewell = farewell

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        abort = asyncio.get_running_loop().call_later(SHUTDOWN_GRACE_SECONDS, self._abort_connections)
        try:
            if self._farewell is not None:
                await self._farewell()
            await super().shutdown(sockets)
        finally:
            abort.cancel()

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
