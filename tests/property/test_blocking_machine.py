"""The policy for lasting failures in a small backend of its own, whatever its API does."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kizami.core.blocking import (
    CONFIRMED,
    Fate,
    Trouble,
    Turn,
    after_failure,
    after_probe,
    hurried,
    is_recent,
    resumed,
    slot_fate,
    tells_of_target,
)
from kizami.core.errors import ApiError, ApiPayloadError, ApiStatusError

INTERVAL = 30
MOST_PROBES_AN_HOUR = 9  # after 1, 3, 7, 15, 25, 35 … minutes
HOUR = timedelta(hours=1)
ERRORS = {
    "refused": ApiStatusError(401),
    "unknown": ApiStatusError(404),
    "odd": ApiPayloadError("count: is missing"),
    "down": ApiStatusError(503),
}


class BlockingMachine(RuleBasedStateMachine):
    """One target: a slot every half a minute, all of them in exactly one place."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2025, 12, 2, tzinfo=UTC)
        self.slots = 0
        self.error: ApiError | None = None
        self.odd: set[int] = set()  # slots that the API is wrong about for ever
        self.stored: set[int] = set()
        self.dead: set[int] = set()
        self.retried: list[int] = []
        self.kept: set[int] = set()
        self.attempts: Counter[int] = Counter()
        self.trouble: Trouble | None = None
        self.probed: list[datetime] = []

    @rule(name=st.sampled_from([None, *ERRORS]))
    def the_api_changes(self, name: str | None) -> None:
        self.error = None if name is None else ERRORS[name]

    @rule(ahead=st.integers(0, 3))
    def the_api_will_be_wrong_about_a_slot(self, ahead: int) -> None:
        self.odd.add(self.slots + ahead)

    @rule(slots=st.integers(1, 240))
    def time_passes(self, slots: int) -> None:
        for _ in range(slots):
            self.now += timedelta(seconds=INTERVAL)
            self._ask(self.slots)
            self.slots += 1
            self._work_off()

    @rule()
    def somebody_mends_it(self) -> None:
        """And saves the file: what is blocked is probed at once."""
        self.error = None
        if self.trouble and self.trouble.is_blocked:
            self.trouble = hurried(self.trouble, self.now)
            self._work_off()

    @rule()
    def it_is_killed_and_started_again(self) -> None:
        """What is only in doubt is forgotten, what is blocked is not."""
        blocked = self.trouble is not None and self.trouble.is_blocked
        self.trouble = resumed(self.trouble, self.now) if blocked and self.trouble else None

    @invariant()
    def every_slot_is_in_exactly_one_place(self) -> None:
        places = [*self.stored, *self.dead, *self.retried, *self.kept]
        assert sorted(places) == list(range(self.slots))

    @invariant()
    def a_slot_is_dead_only_after_a_retry(self) -> None:
        assert all(self.attempts[slot] >= CONFIRMED for slot in self.dead)

    @invariant()
    def probes_are_slow(self) -> None:
        for first, moment in enumerate(self.probed):
            assert sum(moment <= other < moment + HOUR for other in self.probed[first:]) <= MOST_PROBES_AN_HOUR

    def teardown(self) -> None:
        """Whatever was before, once the API answers nothing is kept, and what it can say is stored."""
        self.error = None
        self.time_passes(3 * 3600 // INTERVAL)
        assert not self.kept
        assert not self.retried
        assert self.dead >= self.odd & set(range(self.slots)) - self.stored
        assert self.stored >= set(range(self.slots)) - self.dead

    def _ask(self, slot: int) -> None:
        if self.trouble is not None and self.trouble.is_blocked:
            self.kept.add(slot)
        else:
            self._request(slot)

    def _request(self, slot: int, *, probe: bool = False) -> None:
        self.attempts[slot] += 1
        error = self.error or (ERRORS["odd"] if slot in self.odd else None)
        if error is None:
            self.stored.add(slot)
            self._answered()
            return
        if probe and self.trouble:
            self.trouble = after_probe(self.trouble, error, str(error), self.now)
        elif tells_of_target(error, recent=self._is_recent(slot), in_doubt=self.trouble is not None):
            self.trouble = after_failure(self.trouble, error, str(error), self.now)
        self._settle(slot, error)

    def _is_recent(self, slot: int) -> bool:
        return is_recent((self.slots - slot) * INTERVAL, INTERVAL)

    def _settle(self, slot: int, error: ApiError) -> None:
        blocked = self.trouble is not None and self.trouble.is_blocked
        match slot_fate(error, self.attempts[slot], 5, blocked=blocked):
            case Fate.KEPT:
                self.kept.add(slot)
            case Fate.RETRIED:
                self.retried.append(slot)
            case Fate.DEAD:
                self.dead.add(slot)

    def _answered(self) -> None:
        self.trouble = None
        self.probed.clear()
        self.retried += sorted(self.kept)
        self.kept.clear()

    def _work_off(self) -> None:
        self._probe()
        waiting, self.retried = self.retried, []
        for slot in waiting:
            self._ask(slot)

    def _probe(self) -> None:
        if self.trouble is None or not self.trouble.is_due(self.now) or not self.kept:
            return
        slot = min(self.kept) if self.trouble.turn is Turn.FAILED_BEFORE else max(self.kept)
        self.kept.discard(slot)
        if self.trouble.next_probe != self.now:
            self.probed.append(self.now)
        self._request(slot, probe=True)


BlockingMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestBlocking = BlockingMachine.TestCase
