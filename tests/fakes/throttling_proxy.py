"""A proxy before an AWS on this machine, which answers as a throttled service does for as long as it is told."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What is signed, the name that the caller knows the service by among it.
HEADERS = ("Host", "Authorization", "Content-Type", "X-Amz-Target", "X-Amz-Date", "X-Amz-Security-Token")
CODES = {"secretsmanager": "ThrottlingException"}  # of others the table's own


class ThrottlingProxy:
    """Refuses the first so many calls of an operation, and hands on the others."""

    def __init__(self, upstream: str, certificate: str, refuse: dict[str, int]) -> None:
        self.url = ""
        self.refused: Counter[str] = Counter()
        self._upstream = upstream
        self._tls = ssl.create_default_context(cafile=certificate)
        self._refuse = refuse
        self._guard = threading.Lock()

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        service, _, operation = headers.get("X-Amz-Target", "").partition(".")
        with self._guard:
            if self.refused[operation] < self._refuse.get(operation, 0):
                self.refused[operation] += 1
                code = CODES.get(service, "ProvisionedThroughputExceededException")
                return 400, json.dumps({"__type": f"com.amazonaws#{code}", "message": "slow down"}).encode()
        request = urllib.request.Request(f"{self._upstream}/", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@contextmanager
def throttling(proxy: ThrottlingProxy) -> Iterator[ThrottlingProxy]:
    """The proxy on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sent = {name: self.headers[name] for name in HEADERS if name in self.headers}
            status, answer = proxy.answer(sent, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
