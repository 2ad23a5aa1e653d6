"""What the functions call in the benchmark: SQS, DynamoDB and the API with answers from the can, on one port.

python bench/canned_aws.py       prints `ready PORT` and serves until it is ended
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

WINDOW = re.compile(rb"GET /response_count\?from=([^& ]+)&to=([^& ]+) ")
TARGET = re.compile(rb"x-amz-target: *\w+\.(\w+)", re.IGNORECASE)
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Canned(asyncio.Protocol):
    """One connection; requests may come in pieces."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            length = int(match[1]) if (match := LENGTH.search(head)) else 0
            if len(rest) < length:
                return
            self._answer(head, rest[:length])
            self._buffer = rest[length:]

    def _answer(self, head: bytes, body: bytes) -> None:
        if window := WINDOW.match(head):
            fields: dict[str, Any] = {"from": unquote(window[1].decode()), "to": unquote(window[2].decode())}
            answer = {**fields, "count": 7}
        else:
            operation = TARGET.search(head)
            assert operation is not None, head
            answer = ANSWERS[operation[1].decode()](json.loads(body))
        content = json.dumps(answer).encode()
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
            b"x-amzn-RequestId: 00000000-0000-0000-0000-000000000000\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
        )


def taken(body: str) -> dict[str, str]:
    """SQS's word for a message; the SDKs compare the digest."""
    digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    return {"MessageId": "00000000-0000-0000-0000-000000000000", "MD5OfMessageBody": digest}


ANSWERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "SendMessage": lambda asked: taken(asked["MessageBody"]),
    "SendMessageBatch": lambda asked: {
        "Successful": [{"Id": entry["Id"], **taken(entry["MessageBody"])} for entry in asked["Entries"]]
    },
    "PutItem": lambda asked: {},
}


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", 0)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
