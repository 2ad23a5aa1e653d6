"""The polled side of the benchmark: answers any window at once and notes when each request arrived.

    python bench/server.py PORT ARRIVALS

It prints `ready PORT`, and on SIGTERM writes one line a request to ARRIVALS: target, slot (epoch s), arrival
(epoch ms with fraction). It is as cheap as Python allows, so that the clients are what is measured.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from pathlib import Path
from typing import cast

import uvloop

_REQUEST = re.compile(rb"GET /(\w+)\?from=([^&]+)&to=([^ ]+) ")
_METRICS = re.compile(rb"GET /metrics/(\w+) ")

arrivals: list[tuple[bytes, bytes, float]] = []


class Api(asyncio.Protocol):
    """One connection; a request always fits one read here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is one by what it can do

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
            arrivals.append((scraped[1], b"", arrived))
            body, kind = b"response_count 7\n", b"text/plain; version=0.0.4"
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)
        )


def _text(quoted: bytes) -> bytes:
    return quoted.replace(b"%3A", b":")


async def serve(port: int, output: Path) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(Api, "127.0.0.1", port, backlog=4096)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    with output.open("w") as file:
        for target, start, arrived in arrivals:
            file.write(f"{target.decode()} {_text(start).decode()} {arrived * 1000:.3f}\n")


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
