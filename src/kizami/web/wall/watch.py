"""One look for all pages: figures that cost little are asked for each time, the others are kept for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from threading import Lock
from time import monotonic

from kizami.backend.causes import Episode, FoundGap, episodes_of
from kizami.backend.health import LATENESS_RANGE, TargetStatus
from kizami.backend.port import Backend
from kizami.backend.snapshot import (
    LETTERS_READ,
    RecentFigures,
    Snapshot,
    find_gaps_of_day,
    judged_statuses,
    lacking_targets,
    make_overview,
    newest_of,
    read_failing_since,
    read_recent,
)
from kizami.backend.values import CompanyState, DeadLetter, Lateness
from kizami.core.answers.numbers import Number
from kizami.web.wall.calendars import Calendars
from kizami.web.wall.incidents import Incidents
from kizami.web.wall.kept import Kept
from kizami.web.wall.orders import Orders
from kizami.web.wall.trends import Trends

CHEAP = 40  # times what it took: for so long a look is not repeated for a page that opens


class Watch:
    """The newest look at a backend, and what else all pages share; any thread may ask, one looks at a time."""

    def __init__(self) -> None:
        self.trends, self.orders, self.calendars = Trends(), Orders(), Calendars()
        self.incidents = Incidents()
        self._lock = Lock()
        self._recent: Kept[RecentFigures] = Kept()
        self._gaps: Kept[list[FoundGap]] = Kept()
        self._lateness: Kept[Lateness] = Kept()
        self._letters: Kept[list[DeadLetter]] = Kept()
        self._failing: Kept[dict[str, datetime]] = Kept()
        self._companies: Kept[list[CompanyState]] = Kept()
        self._newest: Mapping[str, datetime] = {}
        self._counts: dict[str, Number] = {}
        self._last: tuple[float, Snapshot] | None = None
        self._dead = -1
        self._explained: tuple[list[FoundGap], list[DeadLetter], Sequence[Episode]] = ([], [], [])
        self._cost = 0.0

    def look(self, backend: Backend, now: datetime, good_for: float = 0.0) -> Snapshot:
        """How the backend does; one look of the last `good_for` seconds is enough, unless a new one is cheap."""
        with self._lock:
            began = monotonic()
            if self._last is None or began - self._last[0] > min(good_for, CHEAP * self._cost):
                with backend.look() as one:
                    snapshot = self._take(one, now)
                self._last = monotonic(), snapshot
                self._cost = self._last[0] - began
            return self._last[1]

    def forget(self) -> None:
        """After an action: whoever has done it wants to see it done."""
        with self._lock:
            self._last = None
            for kept in (self._recent, self._gaps, self._letters, self._failing):
                kept.forget()
        self.trends.forget()
        self.calendars.forget()
        self.incidents.forget()

    def renew(self, backend: Backend, now: datetime) -> None:
        """Find those kept figures anew that are due. No look waits for that: gaps of thousands take a second."""
        last = self._last
        if last is None:
            return
        statuses = last[1].targets
        targets = [status.target for status in statuses.values()]
        self._recent.renew(partial(read_recent, backend, targets, now))
        self._gaps.renew(partial(_read_gaps, backend, statuses, now))
        self._lateness.renew(partial(_read_lateness, backend, now))
        self._letters.renew(partial(_read_letters, backend))
        self._failing.renew(partial(read_failing_since, backend))
        self._companies.renew(partial(backend.companies, now))
        self.incidents.renew(backend, now)

    def _take(self, backend: Backend, now: datetime) -> Snapshot:
        targets = backend.targets(recent=True)
        recent = self._recent.get(partial(read_recent, backend, targets, now))
        if any(target.name not in recent.days for target in targets):  # a new one is not waited for
            self._recent.forget()
            recent = self._recent.get(partial(read_recent, backend, targets, now))
        depth = backend.queue_depth(now)
        if depth.dead != self._dead:
            self._letters.forget()
            self._dead = depth.dead
        letters = self._letters.get(partial(_read_letters, backend))
        failing_since = partial(self._failing.get, partial(read_failing_since, backend))
        statuses, stop = judged_statuses(backend, now, targets, letters, recent, failing_since)
        found = self._gaps.get(partial(_read_gaps, backend, statuses, now))
        gaps = [each for each in found if each.metric in statuses]  # a target may be gone since then
        lateness = self._lateness.get(partial(_read_lateness, backend, now))
        return Snapshot(
            make_overview(statuses, gaps, lateness, depth, now, stop),
            statuses,
            gaps,
            letters,
            self._companies.get(partial(backend.companies, now)),
            self._count(backend, newest_of(statuses)),
            self._explain(gaps, letters),
        )

    def _explain(self, gaps: list[FoundGap], letters: list[DeadLetter]) -> Sequence[Episode]:
        """Worked out once for what is kept: thousands of gaps take as long as the rest of a page."""
        of_gaps, of_letters, episodes = self._explained
        if of_gaps != gaps or of_letters != letters:
            episodes = episodes_of(gaps, letters)
            self._explained = gaps, letters, episodes
        return episodes

    def _count(self, backend: Backend, newest: Mapping[str, datetime]) -> Mapping[str, Number]:
        """The newest counts, of which only new ones are asked for."""
        news = {name: slot for name, slot in newest.items() if self._newest.get(name) != slot}
        if news:
            self._counts = {**self._counts, **backend.newest_counts(news)}
            self._newest = newest
        return self._counts


def _read_gaps(backend: Backend, statuses: Mapping[str, TargetStatus], now: datetime) -> list[FoundGap]:
    return find_gaps_of_day(backend, lacking_targets(statuses), now)


def _read_lateness(backend: Backend, now: datetime) -> Lateness:
    return backend.lateness(now - LATENESS_RANGE, now)


def _read_letters(backend: Backend) -> list[DeadLetter]:
    return backend.dead_letters(None, LETTERS_READ)
