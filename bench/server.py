"""The polled side of the benchmark: answers any window at once and notes when each request arrived.

    python -m bench.server KIND PORT ARRIVALS [CERTIFICATE]

It prints `ready PORT`, and on SIGTERM writes one line a request to ARRIVALS: target, slot (epoch s), arrival
(epoch ms with fraction). It listens for every address of the loopback (layout.py says who lives where and who
fails) and is as cheap as Python allows, so that the clients are what is measured. Several may share a PORT.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import time
from pathlib import Path
from typing import cast

import uvloop

from bench.layout import fails, hangs, server_context

_REQUEST = re.compile(rb"GET /t(\d+)\?from=([^&]+)&to=([^ ]+) ")
_METRICS = re.compile(rb"GET /metrics/t(\d+) ")
_SUCCESS = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n"
_FAILURE = b"HTTP/1.1 500 Whatever\r\nContent-Length: 0\r\n%b\r\n"

arrivals: list[tuple[bytes, bytes, float]] = []


class Api(asyncio.Protocol):
    """One connection; a request always fits one read here."""

    def __init__(self, *, closes: bool) -> None:
        self._closes = closes
        self._more = b"Connection: close\r\n" if closes else b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is one by what it can do
        if not transport.get_extra_info("peername")[0].startswith("127."):
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        arrived = time.time()
        match = _REQUEST.match(data)
        if match:
            target, start, end = match.groups()
            arrivals.append((target, start, arrived))
            body = b'{"from": "%b", "to": "%b", "count": 7}' % (_text(start), _text(end))
            kind = b"application/json"
        else:
            scraped = _METRICS.match(data)
            if scraped is None:
                self.transport.close()
                return
            target = scraped[1]
            arrivals.append((target, b"", arrived))
            body, kind = b"response_count 7\n", b"text/plain; version=0.0.4"
        number = int(target)
        if hangs(number):
            return
        head = _SUCCESS % (kind, len(body), self._more)
        self.transport.write(_FAILURE % self._more if fails(number) else head + body)
        if self._closes:
            self.transport.close()


def _text(quoted: bytes) -> bytes:
    return quoted.replace(b"%3A", b":")


async def serve(kind: str, port: int, output: Path, certificate: Path | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("0.0.0.0", port))  # all of 127.0.0.0/8; who comes from elsewhere is hung up on
    server = await loop.create_server(
        lambda: Api(closes=kind in ("closing", "names")),
        sock=listener,
        backlog=4096,
        ssl=server_context(certificate) if certificate else None,
    )
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    with output.open("w") as file:
        for target, start, arrived in arrivals:
            file.write(f"t{target.decode()} {_text(start).decode()} {arrived * 1000:.3f}\n")


if __name__ == "__main__":
    kind, port, output, *certificate = sys.argv[1:]
    uvloop.run(serve(kind, int(port), Path(output), Path(certificate[0]) if certificate else None))
