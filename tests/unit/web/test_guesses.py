"""How often a token may be guessed, and who is never kept out by the guesses of others."""

from __future__ import annotations

from itertools import count, pairwise

import pytest

from kizami.web import guesses as module
from kizami.web.guesses import (
    FORGOTTEN_AFTER_SECONDS,
    FREE_GUESSES,
    LONGEST_WAIT_SECONDS,
    MAX_CLIENTS,
    STRANGERS_GUESSES,
    Client,
    Guesses,
)

STRANGER = Client("203.0.113.7", "page")
HERE = Client("127.0.0.1", "page", is_this_machine=True)


def guess_until(guesses: Guesses, client: Client, seconds: float) -> list[float]:
    """Guess whenever it is allowed, each time something else; the moments at which it was."""
    moments: list[float] = []
    now = 0.0
    for number in count():
        now += guesses.wait_seconds(client, now)
        if now > seconds:
            return moments
        guesses.add(client, f"guess {number}", now)
        moments.append(now)
        now += 0.01
    raise AssertionError


def test_some_guesses_are_free_and_then_the_wait_grows_to_a_minute() -> None:
    moments = guess_until(Guesses(), STRANGER, 1000)
    waits = [round(after - before) for before, after in pairwise(moments)]
    assert waits[: FREE_GUESSES + 7] == [0] * FREE_GUESSES + [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[FREE_GUESSES + 6 :]) == {LONGEST_WAIT_SECONDS}


def test_a_client_that_gave_up_begins_anew() -> None:
    guesses = Guesses()
    last = guess_until(guesses, STRANGER, 100)[-1]
    later = last + FORGOTTEN_AFTER_SECONDS + 1
    assert guesses.add(STRANGER, "another", later) == 1
    assert guesses.wait_seconds(STRANGER, later) == 0


def test_the_same_wrong_token_again_is_no_guess() -> None:
    guesses = Guesses()
    assert guesses.add(STRANGER, "of last year", 0) == 1
    for moment in range(1000):
        assert guesses.add(STRANGER, "of last year", moment) is None
        assert guesses.wait_seconds(STRANGER, moment) == 0


def test_the_page_s_guesses_do_not_keep_a_program_out() -> None:
    guesses = Guesses()
    last = guess_until(guesses, HERE, 100)[-1]
    assert guesses.wait_seconds(HERE, last) > 0
    assert guesses.wait_seconds(Client("127.0.0.1", "header", is_this_machine=True), last) == 0


def test_strangers_with_many_addresses_share_a_rate_that_keeps_no_one_out_who_was_in_before() -> None:
    guesses, old_friend = Guesses(), Client("198.51.100.1", "header")
    guesses.welcome(old_friend)
    guessed = 0
    for number in range(5000):
        attacker = Client(f"2001:db8:{number:x}::1", "page")
        if not guesses.wait_seconds(attacker, number / 100):
            guesses.add(attacker, str(number), number / 100)
            guessed += 1
    assert STRANGERS_GUESSES <= guessed <= STRANGERS_GUESSES + 50
    assert guesses.wait_seconds(STRANGER, 50) > 0
    assert guesses.wait_seconds(old_friend, 50) == guesses.wait_seconds(HERE, 50) == 0
    assert guesses.wait_seconds(STRANGER, 60) == 0  # for long it keeps no one out


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("203.0.113.7", "203.0.113.8", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("nonsense", "nonsense", True),
    ],
)
def test_a_network_of_ipv6_is_one_client(one: str, other: str, same: bool) -> None:
    assert (Client(one, "page").origin == Client(other, "page").origin) is same


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STRANGERS_GUESSES_PER_SECOND", 1e9)
    guesses = Guesses()
    for number in range(MAX_CLIENTS + 50):
        client = Client(f"10.0.{number // 256}.{number % 256}", "page")
        guesses.add(client, "x", number)
        guesses.welcome(client)
    assert len(guesses._guessers) == len(guesses._known) == MAX_CLIENTS
