"""One page put together: what a view shows of a snapshot, ready for the templates and for the live updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby, islice
from typing import Any

from kizami.backend.causes import Episode, episodes_of, is_about
from kizami.backend.chart import DEFAULT_RANGE, RANGES, default_range, live_window
from kizami.backend.grid import (
    Cell,
    CellState,
    Row,
    RowLength,
    cells_between,
    grid_window,
    newest_shown,
    row_length,
    rows_of,
)
from kizami.backend.health import DAY, WORST_FIRST, Level, Overview, TargetCondition, TargetStatus, Verdict, judge
from kizami.backend.incidents import TROUBLE, Incident
from kizami.backend.port import Backend
from kizami.backend.snapshot import Snapshot, find_targets, make_overview
from kizami.backend.targets import KnownTarget
from kizami.backend.values import DeadLetter
from kizami.core.slots import Window
from kizami.web.api import read_chart
from kizami.web.view.address import View
from kizami.web.view.incident_lists import IncidentLists, list_incidents
from kizami.web.view.panel_links import PanelLinks, ShownRanges, between, panel_links
from kizami.web.view.wall import Group, groups_of
from kizami.web.wall.incidents import IncidentNews
from kizami.web.wall.orders import Order

# What the chart is told while it lives: enough for a page that missed a few updates.
TAIL = timedelta(minutes=2)
TAIL_SLOTS = 120
# So many rows of the wall come with the page itself; the script has the others.
FIRST_ROWS = 40
EPISODES = 8
NO_NEWS = IncidentNews()

LEGEND = (
    CellState.STORED,
    CellState.LATE,
    CellState.RETRIED,
    CellState.BACKFILLED,
    CellState.PENDING,
    CellState.DEAD,
    CellState.MISSING,
)


@dataclass(frozen=True)
class Screen:
    """What one view shows; `status` is that of the target whose page it is, None on the wall."""

    view: View
    command_options: Mapping[str, str]
    can_pause: bool
    snapshot: Snapshot
    status: TargetStatus | None
    rows: tuple[Row, ...] = ()
    tail: dict[str, Any] | None = None
    orders: Sequence[Order] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    news: IncidentNews = NO_NEWS
    difference: str | None = None  # between what the daemon polls and what is configured

    @property
    def now(self) -> datetime:
        return self.snapshot.overview.now

    @cached_property
    def overview(self) -> Overview:
        """The numbers of all targets, or of the one."""
        whole = self.snapshot.overview
        if self.status is None or whole.targets == 1:
            return whole
        name = self.status.target.name
        gaps = [found for found in self.snapshot.gaps if found.metric == name]
        dead = sum(self._is_about(letter, name) for letter in self.snapshot.dead_letters)
        depth = replace(whole.queue, dead=dead)
        return make_overview({name: self.status}, gaps, whole.lateness, depth, self.now, whole.stop)

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.overview)

    @cached_property
    def episodes(self) -> Sequence[Episode]:
        """What is lacking, by cause and time: of all targets or of the one."""
        if self.status is None:
            return self.snapshot.episodes
        name = self.status.target.name
        gaps = [found for found in self.snapshot.gaps if found.metric == name]
        letters = [letter for letter in self.snapshot.dead_letters if self._is_about(letter, name)]
        return episodes_of(gaps, letters)

    def _is_about(self, letter: DeadLetter, metric: str) -> bool:
        is_value = letter.metric not in self.snapshot.targets and is_about(letter.metric, metric)
        return letter.metric == metric or is_value

    @cached_property
    def incident_lists(self) -> IncidentLists:
        """The incidents and events of the shown time, at least of a day: of all targets or of the one."""
        view = self.view
        zoomed = Window(view.start, view.end) if view.start and view.end else None
        # What has just been done on the page is newer than the snapshot.
        day = Window(self.now - max(DAY, timedelta(seconds=RANGES[self.range])), self.now + DAY)
        return list_incidents(self.news, zoomed or day)

    def incident_level(self, incident: Incident) -> Level:
        """The colour of an open incident: that of the worst of its targets."""
        statuses = (self.snapshot.targets.get(member.name) for member in incident.wrong)
        levels = {status.level for status in statuses if status is not None}
        is_about_targets = incident.group == TROUBLE and levels
        return Level.NOTICE if is_about_targets and Level.BAD not in levels else Level.BAD

    @cached_property
    def groups(self) -> list[Group]:
        """The targets that are wanted, in groups, the worst first."""
        return groups_of(find_targets(self.snapshot.targets, self.view.search, self.view.condition, ""))

    @property
    def first_groups(self) -> list[Group]:
        """So much of the groups as the page itself shows: from the target behind `after` on."""
        every = [(group, status) for group in self.groups for status in group.statuses]
        names = [status.target.name for _, status in every]
        start = names.index(self.view.after) + 1 if self.view.after in names else 0
        shown = groupby(islice(every, start, start + FIRST_ROWS), lambda pair: pair[0].name)
        return [Group(name, [status for _, status in pairs]) for name, pairs in shown]

    @property
    def following(self) -> str | None:
        """The name after which the next rows begin, for who has no script."""
        shown = [status.target.name for group in self.first_groups for status in group.statuses]
        wanted = sum(len(group.statuses) for group in self.groups)
        return (
            shown[-1] if shown and (self.view.after or wanted > len(shown)) and len(shown) == FIRST_ROWS else None
        )

    @property
    def metric(self) -> str | None:
        return self.status.target.name if self.status else None

    @property
    def row_length(self) -> RowLength:
        return row_length(self.status.target.interval_seconds) if self.status else RowLength.MINUTE

    @property
    def columns(self) -> list[tuple[str, datetime | None]]:
        """The grid's columns: at which second of a minute, minute of an hour or time of a day a slot begins.

        The last two depend on the zone: with them comes a slot of the newest row, if there is one.
        """
        if self.status is None:
            return []
        seconds = range(0, self.row_length.value, self.status.target.interval_seconds)
        if self.row_length is RowLength.MINUTE:
            return [(f":{second:02d}", None) for second in seconds]
        is_day = self.row_length is RowLength.DAY
        texts = [f"{f'{second // 3600:02d}' if is_day else ''}:{second // 60 % 60:02d}" for second in seconds]
        start = self.rows[0].start if self.rows else None
        return [
            (text, None if start is None else start + timedelta(seconds=second))
            for text, second in zip(texts, seconds, strict=True)
        ]

    @property
    def range(self) -> str:
        """The chart's range if it is not zoomed."""
        return self.view.range or self.default_range

    @property
    def default_range(self) -> str:
        return default_range(self.status.target.interval_seconds) if self.status else DEFAULT_RANGE

    @property
    def grid_bounds(self) -> tuple[datetime, datetime]:
        """What the grid shows."""
        return _grid_bounds(self.view, self.status, self.now)

    @property
    def legend(self) -> list[tuple[CellState, int]]:
        """The states and how many cells of the grid have each."""
        counts = Counter(cell.state for row in self.rows for cell in row.cells)
        return [(state, counts[state]) for state in LEGEND]

    def is_overdue(self, cell: Cell) -> bool:
        """Whether a slot waits because its target is in a bad state: it is shown in that colour."""
        if self.status is None or cell.state is not CellState.PENDING or self.status.level is not Level.BAD:
            return False
        return cell.slot < self.status.target.settled(self.now).end

    @property
    def links(self) -> dict[str, PanelLinks]:
        companies = self.snapshot.companies
        company = companies[0].company_id if companies else None
        follows = not self.view.held_at and self.row_length is RowLength.MINUTE and self.grid_bounds[1] > self.now
        grid = {"last": f"{self.view.minutes}m"} if follows else between(*self.grid_bounds)
        shown = ShownRanges(self.range, grid, told_of(self.snapshot, self.metric))
        return panel_links(self.view, self.metric, company, shown, self.command_options)

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
        start, _ = self.grid_bounds
        return self.view.url(until=start - self._row)

    def later(self) -> str:
        """The address with the grid moved on, which ends at now."""
        _, end = self.grid_bounds
        until = end + (self.view.minutes - 1) * self._row
        return self.view.url(until=until) if until < self.now else self.latest()

    @property
    def _row(self) -> timedelta:
        return timedelta(seconds=self.row_length.value)

    def latest(self) -> str:
        """The address with chart and grid following the clock."""
        return self.view.url(until=None, start=None, end=None)


def told_of(snapshot: Snapshot, metric: str | None) -> str | None:
    """Whose incidents and events a page lists; of an only target it is the page that lists them all."""
    return metric if len(snapshot.targets) > 1 else None


def look(
    backend: Backend,
    view: View,
    snapshot: Snapshot,
    orders: Sequence[Order] = (),
    news: IncidentNews = NO_NEWS,
    *,
    opens: bool = False,
) -> Screen:
    """Ask the backend for what this view shows besides the snapshot; InvalidInput if its metric is unknown.

    The snapshot is about the last day. A page that `opens` has a calendar and may be of long ago: for these the
    target's first slot must be the true one.
    """
    now, about = snapshot.overview.now, (backend.command_options, backend.can_pause)
    daemon = backend.daemon()
    difference = daemon.difference if daemon else None
    if view.metric is None:
        return Screen(view, *about, snapshot, None, orders=orders, news=news, difference=difference)
    status = snapshot.target(view.metric)
    if opens or view.held_at:
        (target,) = backend.targets([view.metric])
        status = replace(status, target=target)
    target = status.target
    start, end = _grid_bounds(view, status, now)
    details = backend.slot_details(target.name, start, end)
    rows = rows_of(cells_between(target, start, end, details, now), row_length(target.interval_seconds))
    tail = read_chart(backend, target, _tail(view, target, now), now)
    own = [order for order in orders if target.name in order.metrics]
    settings = backend.settings(target.name)
    return Screen(view, *about, snapshot, status, tuple(rows), tail, own, settings, news, difference)


def _grid_bounds(view: View, status: TargetStatus | None, now: datetime) -> tuple[datetime, datetime]:
    if status is None:
        return grid_window(view.held_at or now, view.minutes)
    target = status.target
    return grid_window(
        view.held_at or newest_shown(target, now), view.minutes, row_length(target.interval_seconds)
    )


def _tail(view: View, target: KnownTarget, now: datetime) -> Window:
    """The end of the chart as it lives: back to the newest slot that is due, if those are not too many."""
    live = live_window(target, RANGES[view.range or default_range(target.interval_seconds)], now)
    reach = timedelta(seconds=target.lag_seconds + 2 * target.interval_seconds)
    is_short = live.end == now and reach / timedelta(seconds=target.interval_seconds) <= TAIL_SLOTS
    back = max(TAIL, reach) if is_short else max(TAIL, timedelta(seconds=2 * target.interval_seconds))
    return Window(live.end - back, live.end)
