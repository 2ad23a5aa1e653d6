"""Which hosts keep their connections, decided without a single one."""

from __future__ import annotations

import pytest

from kizami.local.http import connection_pools as pools
from kizami.local.http import connections as module
from kizami.local.http.connection_pools import Pools
from kizami.local.http.connections import Connections
from kizami.local.http.socket_poller import new_poller


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def some_connections(files: int) -> Connections:
    return Connections(Pools(new_poller(), files), files)


def ask(connections: Connections, host: str) -> bool:
    origin = connections.origin(f"http://{host}/x", direct=False)
    kept = connections.is_kept(origin)
    connections.release(origin)
    return kept


@pytest.mark.parametrize(("files", "kept", "unkept"), [(20_000, 18_720, 1024), (2_000, 872, 872), (100, 25, 25)])
def test_the_descriptors_are_divided(files: int, kept: int, unkept: int) -> None:
    connections = some_connections(files)
    assert (connections.max_kept, connections.max_unkept) == (kept, unkept)


def test_the_first_hosts_keep_their_places_and_the_others_find_none(clock: Clock) -> None:
    connections = some_connections(100)
    hosts = [f"127.0.0.{number}" for number in range(40)]
    for _ in range(3):
        assert [ask(connections, host) for host in hosts] == [True] * 25 + [False] * 15


def test_hosts_that_are_not_asked_any_more_give_their_places_back(clock: Clock) -> None:
    connections = some_connections(100)
    for number in range(25):
        assert ask(connections, f"127.0.0.{number}")
    assert not ask(connections, "127.1.1.1")
    clock.now += 119
    assert ask(connections, "127.0.0.1")
    clock.now += 119
    assert ask(connections, "127.1.1.1")


def test_hosts_that_come_and_go_need_no_ever_more_pools(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "HOSTS_A_POOL", 30)
    many = Pools(new_poller(), 100)
    connections = Connections(many, 100)
    for turn in range(20):
        for number in range(30):
            ask(connections, f"127.0.{turn}.{number}")
        clock.now += 119
    assert len(many) <= 3


@pytest.mark.parametrize(
    ("url", "name", "port"),
    [
        ("http://127.0.0.1:81/x", None, 81),
        ("https://[::1]/x", None, 443),
        ("http://api.localhost/x", None, 80),
        ("http://api.example.com/x", "api.example.com", 80),
        ("https://user:word@API.example.com:8443/x", "api.example.com", 8443),
        ("https://api.example.com?from=1", "api.example.com", 443),
    ],
)
def test_what_has_to_be_looked_up(url: str, name: str | None, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "getproxies", dict)
    origin = some_connections(100).origin(url, direct=False)
    assert (origin.name, origin.port) == (name, port)


def test_a_host_behind_a_proxy_is_left_to_libcurl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example.com:3128")
    monkeypatch.setenv("no_proxy", "inside.example.com")
    connections = some_connections(100)
    assert connections.origin("https://api.example.com/x", direct=False).name is None
    assert connections.origin("https://inside.example.com/x", direct=False).name == "inside.example.com"
