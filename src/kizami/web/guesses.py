"""How often the token may be guessed: a growing wait for each client, and a rate for all strangers together.

Whoever has an open session is never asked again. A client that has had the token before, and this machine itself,
wait for nobody's guesses but their own. The same wrong token again is no new guess: a program that was set up
wrongly keeps nobody out.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from dataclasses import dataclass, field

FREE_GUESSES = 4
LONGEST_WAIT_SECONDS = 60.0
FORGOTTEN_AFTER_SECONDS = 900.0
# All strangers together, however many addresses they have: so many at once, then one every two seconds.
STRANGERS_GUESSES = 100
STRANGERS_GUESSES_PER_SECOND = 0.5
MAX_CLIENTS = 1000  # that are remembered
_SAME_GUESSES = 4


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: an address, and the way on which it shows the token (the page's form or a header)."""

    address: str
    way: str
    is_this_machine: bool = False

    @property
    def origin(self) -> str:
        """The address, or of IPv6 the network: whoever has one address there has 2**64 of them."""
        try:
            address = ipaddress.ip_address(self.address)
        except ValueError:
            return self.address
        if isinstance(address, ipaddress.IPv4Address):
            return str(address)
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))


@dataclass(slots=True)
class _Guesser:
    guesses: int = 0
    last_at: float = 0.0
    wait_until: float = 0.0
    last_guesses: deque[int] = field(default_factory=lambda: deque(maxlen=_SAME_GUESSES))


class Guesses:
    """The wrong tokens of the last minutes, of so many clients; `now` is of a clock that never goes back."""

    def __init__(self) -> None:
        self._guessers: OrderedDict[tuple[str, str], _Guesser] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._strangers = 0.0
        self._strangers_at = 0.0

    def wait_seconds(self, client: Client, now: float) -> float:
        """How long the client's next token will not be looked at; 0 if it will."""
        guesser = self._guessers.get((client.origin, client.way))
        own = 0.0 if guesser is None else guesser.wait_until - now
        is_stranger = not client.is_this_machine and client.origin not in self._known
        others = (self._strangers_left(now) - STRANGERS_GUESSES + 1) / STRANGERS_GUESSES_PER_SECOND
        return max(0.0, own, others if is_stranger else 0.0)

    def add(self, client: Client, token: str, now: float) -> int | None:
        """Count the client's wrong token; how many it has guessed, or None if it is one of its last ones again."""
        key = client.origin, client.way
        guesser = self._guessers.pop(key, None)
        if guesser is None or now - guesser.last_at > FORGOTTEN_AFTER_SECONDS:
            guesser = _Guesser()
        self._guessers[key] = guesser
        _bound(self._guessers)
        guesser.last_at = now
        if hash(token) in guesser.last_guesses:
            return None
        guesser.last_guesses.append(hash(token))
        guesser.guesses += 1
        if guesser.guesses > FREE_GUESSES:
            exponent = min(guesser.guesses - FREE_GUESSES - 1, 10)
            guesser.wait_until = now + min(LONGEST_WAIT_SECONDS, 2.0**exponent)
        self._strangers, self._strangers_at = self._strangers_left(now) + 1, now
        return guesser.guesses

    def welcome(self, client: Client) -> None:
        """The client has the token."""
        self._known[client.origin] = None
        self._known.move_to_end(client.origin)
        _bound(self._known)

    def _strangers_left(self, now: float) -> float:
        return max(0.0, self._strangers - (now - self._strangers_at) * STRANGERS_GUESSES_PER_SECOND)


def _bound(remembered: OrderedDict[tuple[str, str], _Guesser] | OrderedDict[str, None]) -> None:
    while len(remembered) > MAX_CLIENTS:
        remembered.popitem(last=False)
