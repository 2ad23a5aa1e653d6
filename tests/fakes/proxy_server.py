"""An HTTP proxy on the loopback, for tests: it tunnels by CONNECT and passes plain requests on."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit

from fakes.fault_server import SeenRequest, read_request


class ProxyServer:
    """`requests` is what it was asked; with `authorization` it serves only who sends that."""

    def __init__(self, authorization: str | None = None) -> None:
        self.requests: list[SeenRequest] = []
        self._authorization = authorization
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ProxyServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb", buffering=0) as stream:
            request = read_request(stream)  # type: ignore[arg-type]
            if request is None:
                return
            self.requests.append(request)
            if self._authorization and request.headers.get("proxy-authorization") != self._authorization:
                connection.sendall(b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n")
            elif request.method == "CONNECT":
                self._tunnel(connection, request.target)
            else:
                self._pass_on(connection, request)

    def _tunnel(self, connection: socket.socket, target: str) -> None:
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            connection.sendall(b"HTTP/1.1 200 Connected\r\nX-Total: 99\r\n\r\n")
            back = threading.Thread(target=_copy, args=[server, connection], daemon=True)
            back.start()
            _copy(connection, server)
            back.join()

    def _pass_on(self, connection: socket.socket, request: SeenRequest) -> None:
        parts = urlsplit(request.target)
        with socket.create_connection((parts.hostname or "", parts.port or 80)) as server:
            head = f"{request.method} {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            server.sendall(f"{head}Connection: close\r\n\r\n".encode())
            server.shutdown(socket.SHUT_WR)
            _copy(server, connection)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Until the source has ended."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return
