"""One page put together: what a view shows of a snapshot, ready for the templates and for the live updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kizami.core.slots import Window
from kizami.home.grid import CellState, Row, cells_between, grid_window, rows_of
from kizami.home.health import Verdict, judge
from kizami.home.port import Home
from kizami.home.snapshot import LISTED, Snapshot, TargetCondition, TargetStatus, find_targets
from kizami.web.api import read_chart
from kizami.web.view.address import View
from kizami.web.view.panel_links import PanelLinks, panel_links

# What the chart is told while it lives: enough for a page that missed a few updates.
TAIL = timedelta(minutes=2)
# More than this in one menu is no menu; the list of targets has a search.
MENU = 200

LEGEND = (
    CellState.STORED,
    CellState.LATE,
    CellState.RETRIED,
    CellState.BACKFILLED,
    CellState.PENDING,
    CellState.DEAD,
    CellState.MISSING,
)


WORST_FIRST = (
    TargetCondition.SILENT,
    TargetCondition.STRUGGLING,
    TargetCondition.WAITING,
    TargetCondition.PAUSED,
    TargetCondition.DISABLED,
    TargetCondition.REMOVED,
    TargetCondition.COLLECTING,
)


@dataclass(frozen=True, slots=True)
class Screen:
    """What one view shows; `status` is None as long as there is no target."""

    view: View
    command_options: Mapping[str, str]
    can_pause: bool
    snapshot: Snapshot
    status: TargetStatus | None
    rows: tuple[Row, ...] = ()
    tail: dict[str, Any] | None = None

    @property
    def now(self) -> datetime:
        return self.snapshot.overview.now

    @property
    def verdict(self) -> Verdict:
        return judge(self.snapshot.overview)

    @property
    def metric(self) -> str | None:
        return self.status.target.name if self.status else None

    @property
    def seconds_of_minute(self) -> list[int]:
        """The grid's columns: at which second of the minute each slot begins."""
        return list(range(0, 60, self.status.target.interval_seconds)) if self.status else []

    @property
    def legend(self) -> list[tuple[CellState, int]]:
        """The states and how many cells of the grid have each."""
        counts = Counter(cell.state for row in self.rows for cell in row.cells)
        return [(state, counts[state]) for state in LEGEND]

    @property
    def links(self) -> dict[str, PanelLinks]:
        companies = self.snapshot.companies
        company = companies[0].company_id if companies else None
        return panel_links(self.view, self.metric, company, self.now, self.command_options)

    @property
    def menu(self) -> list[str]:
        """The targets to choose from, always with the one that is shown."""
        names = list(self.snapshot.targets)[:MENU]
        return names if self.metric is None or self.metric in names else [self.metric, *names]

    @property
    def conditions(self) -> list[tuple[TargetCondition, int]]:
        """How many targets are in each condition, the worst first; an empty one is left out unless chosen."""
        counts = Counter(status.condition for status in self.snapshot.targets.values())
        return [(each, counts[each]) for each in WORST_FIRST if counts[each] or each is self.view.condition]

    @property
    def holes(self) -> int:
        """How many slots of the day the target lacks; when it changes, more than the newest slots have changed."""
        return self.status.day.expected - self.status.day.stored if self.status else 0

    def earlier(self) -> str:
        """The address with the grid moved back by its own length."""
        start, _ = grid_window(self.view.held_at or self.now, self.view.minutes)
        return self.view.url(until=start - timedelta(minutes=1))

    def later(self) -> str:
        """The address with the grid moved on, which ends at now."""
        _, end = grid_window(self.view.held_at or self.now, self.view.minutes)
        until = end + timedelta(minutes=self.view.minutes - 1)
        return self.view.url(until=until) if until < self.now else self.latest()

    def latest(self) -> str:
        """The address with chart and grid following the clock."""
        return self.view.url(until=None, start=None, end=None)

    def listed_targets(self) -> tuple[list[TargetStatus], str | None]:
        """The targets that are wanted, from `after` on, and the name after which the next page begins."""
        view = self.view
        found = find_targets(self.snapshot.targets, view.search, view.condition, view.after)
        page = found[:LISTED]
        return page, page[-1].target.name if len(found) > LISTED else None


def look(home: Home, view: View, snapshot: Snapshot) -> Screen:
    """Ask the home for what this view shows besides the snapshot; InvalidInput if its metric is unknown."""
    status, now = snapshot.target(view.metric), snapshot.overview.now
    about = home.command_options, home.can_pause
    if status is None:
        return Screen(view, *about, snapshot, None)
    target = status.target
    start, end = grid_window(view.held_at or now, view.minutes)
    details = home.slot_details(target.name, start, end)
    rows = rows_of(cells_between(target, start, end, details, now))
    tail = read_chart(home, target.name, Window(now - TAIL, now), now)
    return Screen(view, *about, snapshot, status, tuple(rows), tail)
