"""The mock API over real sockets: inside another program, and as the process `kizami mock`."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ipaddress
import json
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from kizami.core.errors import ConfigurationError
from kizami.core.slots import INTERVALS
from kizami.mock_api import application
from kizami.mock_api.server import MockServer
from kizami.platform import http_server
from kizami.platform.http_server import KEEP_ALIVE_SECONDS, MAX_HEAD_BYTES

WINDOW = "/response_count?from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"
COUNT = {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 1}
GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: mock\r\n\r\n"


StartMock = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def mock() -> Iterator[MockServer]:
    with MockServer(port=0) as running:
        yield running


@pytest.fixture
def client(mock: MockServer) -> Iterator[http.client.HTTPConnection]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", mock.port, timeout=90)) as connection:
        yield connection


def exchange(port: int, request: bytes) -> bytes:
    """Send bytes as they are; all that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=90) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_the_server_answers_what_the_responder_says(client: http.client.HTTPConnection) -> None:
    client.request("GET", WINDOW)
    response = client.getresponse()
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert json.load(response) == COUNT


def test_requests_share_a_kept_connection(client: http.client.HTTPConnection) -> None:
    client.connect()
    address = client.sock.getsockname()
    for path, status in [(WINDOW, 200), ("/nope", 404), ("/response_count", 400), ("/health", 200)]:
        client.request("GET", path)
        response = client.getresponse()
        assert (response.status, bool(response.read())) == (status, True)
        assert client.sock.getsockname() == address


def test_an_idle_connection_is_kept_for_longer_than_any_interval_up_to_a_minute() -> None:
    assert max(each for each in INTERVALS if each <= 60) < KEEP_ALIVE_SECONDS


def test_pipelined_requests_are_answered_in_order(mock: MockServer) -> None:
    last = b"GET /nope HTTP/1.1\r\nHost: mock\r\nConnection: close\r\n\r\n"
    answers = exchange(mock.port, GET_HEALTH * 3 + last)
    assert answers.count(b'{"status": "ok"}') == 3
    assert b"HTTP/1.1 404" in answers.rpartition(b'{"status": "ok"}')[2]


def test_head_has_the_headers_of_get_and_no_body(client: http.client.HTTPConnection) -> None:
    client.request("GET", WINDOW)
    get = client.getresponse()
    body = get.read()
    client.request("HEAD", WINDOW)
    head = client.getresponse()
    assert (head.status, head.read()) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"] == str(len(body))
    client.request("GET", "/health")
    assert client.getresponse().status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/response_count?from=2025-12-02T19:23:00+09:00&to=2025-12-02T10:23:05Z", 400),
        ("GET", "/response_count?from=%FF&to=%zz&x=%00", 400),
        ("GET", "/response_count?" + "&".join(["from=1"] * 1000), 400),
        ("GET", "/%ff%00", 404),
        ("GET", "http://mock/health", 200),
        ("GET", "/health?from=", 200),
        ("OPTIONS", "*", 404),
        ("DELETE", "/health", 405),
        ("BREW", "/health", 405),
    ],
)
def test_every_request_gets_its_status(
    client: http.client.HTTPConnection, method: str, path: str, status: int
) -> None:
    client.request(method, path)
    response = client.getresponse()
    assert response.status == status
    assert isinstance(json.load(response), dict)
    assert response.headers["allow"] == ("GET, HEAD" if status == 405 else None)


def test_a_query_is_read_as_it_was_written(client: http.client.HTTPConnection) -> None:
    for query, error in [
        ("from=&to=", "from: is empty; give it a value"),
        ("from=1&from=1", "from: is given 2 times; give it once"),
        ("FROM=1", "from: is missing; give it once"),
    ]:
        client.request("GET", f"/response_count?{query}")
        assert json.load(client.getresponse()) == {"error": error, "parameter": "from"}


def test_a_body_that_nobody_asked_for_is_read_and_the_connection_kept(client: http.client.HTTPConnection) -> None:
    for method, status in [("GET", 200), ("POST", 405), ("GET", 200)]:
        client.request(method, "/health", body=b"x" * application.MAX_BODY_BYTES)
        response = client.getresponse()
        assert (response.status, bool(response.read())) == (status, True)


def test_a_body_that_is_too_large_is_413(mock: MockServer) -> None:
    """At once, not after the ten gigabytes."""
    head = b"POST /health HTTP/1.1\r\nHost: mock\r\nContent-Length: 10000000000\r\n\r\n"
    answer = exchange(mock.port, head + b"x" * (application.MAX_BODY_BYTES + 1))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "the body has more than 65536 bytes"}


def test_a_body_that_does_not_end_is_408(mock: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "BODY_DEADLINE_SECONDS", 0.1)
    answer = exchange(mock.port, b"POST /health HTTP/1.1\r\nHost: mock\r\nContent-Length: 10\r\n\r\nhalf")
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",  # HTTP/1.1 without a Host
        "GET /h\u00e9alth HTTP/1.1\r\nHost: mock\r\n\r\n".encode(),
        b"GET /health HTTP/1.1\r\nHost: mock\r\nContent-Length: -1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: mock\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: mock\r\nTransfer-Encoding: chunked\r\n\r\nnot a chunk\r\n",
        b"GET /health HTTP/1.1\r\nHost: mock\r\nX: " + b"x" * MAX_HEAD_BYTES,
        b"GET /" + b"x" * MAX_HEAD_BYTES,
    ],
)
def test_malformed_http_is_400_and_harms_nobody(mock: MockServer, request_bytes: bytes) -> None:
    assert exchange(mock.port, request_bytes).startswith(b"HTTP/1.1 400 ")
    with urlopen(f"{mock.url}/health", timeout=90) as response:
        assert response.status == 200


def test_malformed_http_behind_a_good_request_leaves_the_good_one_its_answer(mock: MockServer) -> None:
    answers = exchange(mock.port, GET_HEALTH + b"nonsense\r\n\r\n")
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 400 " in answers


def test_a_head_without_end_is_cut_off(mock: MockServer) -> None:
    """How the end looks to the client depends on who is faster; the server must be there afterwards."""
    with (
        socket.create_connection(("127.0.0.1", mock.port), timeout=90) as connection,
        pytest.raises(OSError),
    ):
        connection.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * 100_000_000)
    with urlopen(f"{mock.url}/health", timeout=90) as response:
        assert response.status == 200


def test_embedded_in_an_event_loop_it_leaves_the_signals_alone() -> None:
    async def program() -> None:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        async with MockServer(port=0) as one, MockServer(port=0) as other:
            assert 0 != one.port != other.port != 0
            for running in (one, other):
                assert await asyncio.to_thread(fetch, running.url + WINDOW) == COUNT
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", one.port)

    asyncio.run(program())


def fetch(url: str) -> object:
    with urlopen(url, timeout=90) as response:
        return json.load(response)


def test_a_thread_serves_until_the_block_ends_and_its_port_is_free_at_once() -> None:
    threads = set(threading.enumerate())
    with MockServer(port=0) as first:
        assert first.url == f"http://127.0.0.1:{first.port}"
        assert fetch(first.url + "/health") == {"status": "ok"}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", first.port), timeout=90)
    with MockServer(port=first.port) as second:
        assert fetch(second.url + "/health") == {"status": "ok"}
    assert set(threading.enumerate()) <= threads


def test_a_client_that_does_not_read_cannot_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SHUTDOWN_GRACE_SECONDS", 0.1)
    with socket.socket() as connection:
        with MockServer(port=0) as running:
            connection.connect(("127.0.0.1", running.port))
            fill_up(connection)
        assert b"HTTP/1.1 200 " in connection.recv(65536)


def fill_up(connection: socket.socket) -> None:
    """Ask and never read, until nothing moves any more: all buffers are full."""
    connection.sendall(GET_HEALTH)
    assert select.select([connection], [], [], 90)[0]  # it answers
    connection.settimeout(1)
    with contextlib.suppress(TimeoutError):
        while True:
            connection.send(b"GET /openapi.json HTTP/1.1\r\nHost: mock\r\n\r\n" * 1000)


def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    running = MockServer("::1", 3000)
    running.address = ipaddress.ip_address("::1")
    assert running.url == "http://[::1]:3000"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    "start",
    [lambda mock: mock.__enter__(), lambda mock: asyncio.run(mock.__aenter__())],
    ids=["in a thread", "in an event loop"],
)
def test_a_port_in_use_is_a_configuration_error(taken_port: int, start: Callable[[MockServer], object]) -> None:
    with pytest.raises(ConfigurationError, match=rf"^127\.0\.0\.1:{taken_port}: the port is in use; .* --port$"):
        start(MockServer(port=taken_port))


@pytest.mark.parametrize(
    ("host", "port", "problem"),
    [
        ("host.invalid", 0, "host.invalid:0: there is no such host; choose another with --host"),
        ("", 0, ":0: there is no such host; choose another with --host"),
        ("x" * 300, 0, f"{'x' * 300}:0: there is no such host; choose another with --host"),
        ("192.0.2.1", 0, "192.0.2.1:0: is not an address of this machine; choose another with --host"),
        ("127.0.0.1", 65536, "127.0.0.1:65536: a port is a number from 0 to 65535; choose one with --port"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_a_configuration_error(
    host: str, port: int, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        MockServer(host, port).__enter__()
    assert str(refused.value) == problem


@pytest.fixture
def kizami_mock() -> Iterator[StartMock]:
    """Starts `kizami mock`, and ends what is left of it."""
    started: list[subprocess.Popen[str]] = []
    # A test run in the background of a shell ignores Ctrl-C, and so would the process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kizami.cli.main", "mock", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    signal.signal(signal.SIGINT, before)
    for process in started:
        process.kill()
        process.communicate()


def announced_url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("kizami: the mock API is on http://127.0.0.1:"), line
    return line.split()[6]


def test_requirement_5_4_listens_on_port_3000_by_default(
    kizami_mock: StartMock,
) -> None:
    process = kizami_mock()
    assert process.stderr is not None
    line = process.stderr.readline()
    if "in use" in line:  # by another program, or another test run: then the complaint names the port
        assert line.startswith("kizami: 127.0.0.1:3000: the port is in use")
    else:
        assert line == "kizami: the mock API is on http://127.0.0.1:3000 (Ctrl-C ends it)\n"
        assert fetch("http://127.0.0.1:3000" + WINDOW) == COUNT


@pytest.mark.parametrize(
    ("signals", "code"),
    [([signal.SIGINT], 130), ([signal.SIGTERM], 0), ([signal.SIGINT, signal.SIGINT], 130)],
    ids=["ctrl-c", "sigterm", "ctrl-c twice"],
)
def test_a_signal_ends_kizami_mock_cleanly_even_with_a_client_connected(
    kizami_mock: StartMock, signals: list[signal.Signals], code: int
) -> None:
    process = kizami_mock("--port", "0")
    with contextlib.closing(
        http.client.HTTPConnection(urlsplit(announced_url(process)).netloc, timeout=90)
    ) as idle:
        idle.request("GET", WINDOW)
        assert idle.getresponse().read()
        for number in signals:
            process.send_signal(number)
        output, errors = process.communicate(timeout=90)
    assert (process.returncode, output) == (code, "")
    (line,) = errors.strip().splitlines()  # Click ends the line of a terminal's ^C
    assert json.loads(line)["event"] == "request.answered"


def test_kizami_mock_on_a_port_in_use_says_so_in_a_line(kizami_mock: StartMock, taken_port: int) -> None:
    process = kizami_mock("--port", str(taken_port))
    output, errors = process.communicate(timeout=90)
    assert (process.returncode, output) == (3, "")
    assert errors == (
        f"kizami: 127.0.0.1:{taken_port}: the port is in use; "
        "stop the program that has it or choose another with --port\n"
    )


def test_kizami_mock_says_nothing_about_malformed_requests(
    kizami_mock: StartMock,
) -> None:
    """No traceback and no noise, whatever comes in."""
    process = kizami_mock("--port", "0")
    port = urlsplit(announced_url(process)).port
    assert port is not None
    chunked = b"POST /health HTTP/1.1\r\nHost: mock\r\nTransfer-Encoding: chunked\r\n\r\n"
    for request in [b"nonsense\r\n\r\n", chunked + b"zz\r\n", chunked + b"3\r\nabc\r\nzz\r\n", b"x" * 70_000]:
        exchange(port, request)
    with socket.create_connection(("127.0.0.1", port), timeout=90) as gone:
        gone.sendall(GET_HEALTH[:10])
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=90) == ("", "")
