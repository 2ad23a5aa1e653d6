"""Names and their addresses: a name server may be slow, wrong or gone, and those that answer are not touched."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kizami.local.http import host_names as module
from kizami.local.http.host_names import Found, NameFailure, Names
from programs.daemon import PATIENCE_SECONDS, wait_for

FOR_NOW = NameFailure("Temporary failure in name resolution", for_now=True)
FOR_GOOD = NameFailure("Name or service not known", for_now=False)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class NameServer:
    """What each name has at the moment; those in `hanging` are answered when it is told to."""

    def __init__(self) -> None:
        self.has: dict[str, Found] = {}
        self.asked: list[str] = []
        self.answers = threading.Event()

    def look_up(self, name: str) -> tuple[str, ...]:
        self.asked.append(name)
        if name.startswith("hangs"):
            assert self.answers.wait(PATIENCE_SECONDS)
        found = self.has.get(name, ("127.0.0.1",))
        if isinstance(found, NameFailure):
            raise found
        return found


def nothing() -> None:
    pass


@pytest.fixture
def server() -> NameServer:
    return NameServer()


@pytest.fixture
def names(server: NameServer) -> Names:
    return Names(nothing, 100, server.look_up)


def ask(names: Names, name: str) -> Found:
    names.ask(name)
    found: dict[str, Found] = wait_for(names.answered, name)
    return found[name]


def found_by(names: Names, count: int) -> Callable[[], dict[str, Found] | None]:
    found: dict[str, Found] = {}

    def look() -> dict[str, Found] | None:
        found.update(names.answered())
        return found if len(found) >= count else None

    return look


def test_an_address_is_known_for_a_while(names: Names, clock: Clock) -> None:
    assert names.get("a.test") is None
    assert ask(names, "a.test") == ("127.0.0.1",)
    clock.now += module.FRESH_SECONDS - 1
    assert names.get("a.test") == ("127.0.0.1",)
    clock.now += 1
    assert names.get("a.test") is None


def test_a_name_is_looked_up_once_for_all_who_ask(names: Names, server: NameServer) -> None:
    for _ in range(5):
        names.ask("hangs.test")
    server.answers.set()
    wait_for(names.answered, "the answer")
    assert server.asked == ["hangs.test"]


def test_a_name_that_failed_is_asked_for_again_after_ever_longer_waits(
    names: Names, server: NameServer, clock: Clock
) -> None:
    server.has["a.test"] = FOR_GOOD
    waits = []
    for _ in range(7):
        assert ask(names, "a.test") is FOR_GOOD
        failed_at = clock.now
        while names.get("a.test") is FOR_GOOD:
            clock.now += 1
        waits.append(clock.now - failed_at)
    assert waits == [2, 4, 8, 16, 30, 30, 30]
    server.has["a.test"] = ("127.0.0.2",)
    assert ask(names, "a.test") == ("127.0.0.2",)


def test_while_the_name_server_fails_the_last_address_is_used_for_an_hour(
    names: Names, server: NameServer, clock: Clock
) -> None:
    ask(names, "a.test")
    server.has["a.test"] = FOR_NOW
    clock.now += module.STALE_SECONDS - 10
    assert ask(names, "a.test") == ("127.0.0.1",)
    clock.now += 20
    assert ask(names, "a.test") is FOR_NOW


def test_a_name_that_is_gone_is_gone_at_once(names: Names, server: NameServer, clock: Clock) -> None:
    ask(names, "a.test")
    server.has["a.test"] = FOR_GOOD
    clock.now += module.FRESH_SECONDS
    assert ask(names, "a.test") is FOR_GOOD


def test_while_a_lookup_takes_long_the_last_address_is_used(
    names: Names, server: NameServer, clock: Clock
) -> None:
    server.answers.set()
    ask(names, "hangs.test")
    server.answers.clear()
    clock.now += module.FRESH_SECONDS
    names.ask("hangs.test")
    assert names.get("hangs.test") is None
    clock.now += 2
    assert names.get("hangs.test") == ("127.0.0.1",)
    server.answers.set()


def test_who_has_no_address_and_takes_long_has_failed_for_now(
    names: Names, server: NameServer, clock: Clock
) -> None:
    names.ask("hangs.test")
    clock.now += 2
    assert isinstance(names.get("hangs.test"), NameFailure)
    server.answers.set()


def test_slow_lookups_make_room_for_others(names: Names, server: NameServer, clock: Clock) -> None:
    for number in range(60):
        names.ask(f"hangs{number}.test")
    names.ask("good.test")
    assert names.answered() == {}
    assert names.pause_seconds
    look = found_by(names, 1)
    for _ in range(2):
        clock.now += 1.5
        look()
    assert wait_for(look, "the good one") == {"good.test": ("127.0.0.1",)}
    server.answers.set()
    wait_for(found_by(names, 60), "the others")


def test_names_that_were_slow_or_failed_never_take_all_the_room(
    names: Names, server: NameServer, clock: Clock
) -> None:
    for number in range(60):
        server.has[f"hangs{number}.test"] = FOR_NOW
    server.answers.set()
    for number in range(60):
        names.ask(f"hangs{number}.test")
    wait_for(found_by(names, 60), "failures")
    server.answers.clear()
    clock.now += 10
    for number in range(60):
        names.ask(f"hangs{number}.test")
    assert ask(names, "good.test") == ("127.0.0.1",)
    server.answers.set()
    wait_for(found_by(names, 60), "failures")


def test_the_systems_resolver_gives_every_address_once() -> None:
    assert module.look_up("127.0.0.1") == ("127.0.0.1",)
    assert module.look_up("::1") == ("[::1]",)


@pytest.mark.parametrize("name", ["no-such-name.invalid", "a" * 64 + ".test", "bad..test"])
def test_what_the_system_cannot_resolve_is_one_line(name: str) -> None:
    with pytest.raises(NameFailure) as failure:
        module.look_up(name)
    assert str(failure.value)
    assert "\n" not in str(failure.value)
