"""The API that a deployed system polls in tests: the deployed mock API behind a switch, or its responder."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

from kizami.core.messages import ApiAnswer
from kizami.core.slots import format_instant
from kizami.mock_api.responder import respond


def write_answer(answer: ApiAnswer) -> str:
    """The answer as the API would send it."""
    window = answer.window
    return json.dumps(
        {"from": format_instant(window.start), "to": format_instant(window.end), "count": answer.count}
    )


class PolledApi:
    """Answers as the mock API does, unless it is told to fail.

    `upstream` is a deployed mock API to pass every request on to; without it, the responder answers here.
    """

    def __init__(self, upstream: str | None = None, certificate: str | None = None) -> None:
        self.upstream = upstream
        self.outage = threading.Event()
        self.broken_slots: set[str] = set()
        self.refused = 0
        self.keys: dict[str, str] = {}
        self._tls = ssl.create_default_context(cafile=certificate) if certificate else None
        self.url = ""

    def answer(self, target: str, key: str | None) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        tenant = parts.path.split("/")[1]
        if tenant in self.keys and self.keys[tenant] != key:
            return 403, b'{"error": "a key is required"}'
        if self.outage.is_set() or query.get("from", [""])[0] in self.broken_slots:
            self.refused += 1
            return 500, b'{"error": "on purpose"}'
        return self._pass_on(target) if self.upstream else self._respond(parts.path, query)

    def _pass_on(self, target: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"{self.upstream}{target}", timeout=60, context=self._tls) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def _respond(self, path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        parameters = {name: tuple(values) for name, values in query.items()}
        response = respond("GET", "/" + path.rpartition("/")[2], parameters)
        return response.status, response.body


Served = TypeVar("Served", bound=PolledApi)


@contextmanager
def serving(api: Served) -> Iterator[Served]:
    """The API on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = api.answer(self.path, self.headers.get("x-api-key"))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 1024  # many connect at once

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
