"""An installation as the contract of the question about slots needs it: filled by hand, at a time of its own.

A backend takes part by an `Installation` of it and a `Kind` in `installations`. Its clock begins at START, when it
gets to know its targets; what a test then stores, asks for or gives up is kept as the backend's own writers would
have kept it. What a kind cannot do it leaves out of its abilities and targets, and the tests that need it are not
made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Protocol

from kizami.backend.slots import AnswersSlots
from kizami.core.answers.answer import Answer, parse_values
from kizami.core.answers.numbers import Number
from kizami.core.targets.target import Target

START = datetime(2025, 12, 2, tzinfo=UTC)
DAY = 86_400

CALLS = Target(name="calls", lag_seconds=5)
ORDERS = Target(name="orders", interval_seconds=60, lag_seconds=60)
PRICE = Target(name="price", lag_seconds=5, answer=Answer(decimals=3, minimum=-(10**6)))
GAUGE = Target(name="gauge", backfill=False)
USAGE = Target(
    name="usage", lag_seconds=5, answer=Answer(decimals=2, values=parse_values({"requests": "/a", "cost": "/b"}))
)
BRIEF = Target(
    name="brief", interval_seconds=60, lag_seconds=60, keep_seconds=2 * DAY, keep_totals_seconds=90 * DAY
)
DISTANT = Target(name="distant", lag_seconds=7200)  # its newest slots are two hours old
TARGETS = (CALLS, ORDERS, PRICE, GAUGE, USAGE, BRIEF, DISTANT)


class Ability(Enum):
    """What a kind of installation may be able to do beyond storing and answering."""

    KILL = "kill"
    ASK = "ask"
    SEAL = "seal"
    EXPIRE = "expire"
    RECONFIGURE = "reconfigure"
    STORE_ONE_VALUE = "store_one_value"  # of a target that has several, so that another is missing
    DETAILS = "details"  # it knows of each record how late and at which attempt it came, and whether by backfill


class Installation(AnswersSlots, Protocol):
    """A backend with its data, which a test fills.

    A test stores slots that are due by the clock. It moves the clock on before it seals or expires, and by hours
    before it asks: by then no live message can be on its way, and a slot of which nothing is known is missing.
    """

    def now(self) -> datetime:
        """Return the installation's time, which stands still."""

    def move_to(self, moment: datetime) -> None:
        """Set the clock to a later time."""

    def store(
        self,
        name: str,
        slot: datetime,
        *values: Number,
        at: datetime | None = None,
        late_ms: int = 0,
        attempts: int = 1,
        backfill: bool = False,
    ) -> None:
        """Store the answer of a target (`usage` with both its values) to a slot; a first one stays.

        With STORE_ONE_VALUE also one metric of several (`usage/cost`). The request was `late_ms` late, which is
        whole seconds, and the answer came `at`, at once by default.
        """

    def kill(self, name: str, slot: datetime, reason: str = "status 500") -> None:
        """Give a target's slot up after five attempts: it becomes a dead letter."""

    def ask(self, name: str, slots: Iterable[datetime]) -> None:
        """Have slots of a target asked for by a backfill at the clock's time; none of them is collected yet."""

    def seal(self) -> None:
        """Seal every span that is over; tests leave it at least 24 hours."""

    def expire(self) -> None:
        """Give up what is older than its target keeps it, as if all work of that kind were done."""

    def reconfigure(self, *targets: Target) -> None:
        """From the clock's time on these targets are polled, and no others."""

    def reads(self) -> int:
        """Return how many times data was asked for so far: requests or statements."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of installation: how an empty one is opened in a folder of its own, and what it has and can do."""

    name: str
    open: Callable[[Path], AbstractContextManager[Installation]]
    targets: frozenset[Target] = frozenset(TARGETS)
    abilities: frozenset[Ability] = frozenset(Ability)

    def has(self, needs: Iterable[Target | Ability]) -> bool:
        """Return True if a test that needs these targets and abilities can be made for it."""
        return self.targets | self.abilities >= {*needs}
