"""Days and hours of all targets, kept: what is whole and over is not counted again for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from threading import Lock
from time import monotonic

from kizami.backend.calendar import CalendarCell, read_cell
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.web.wall.kept import REST_FOR_WORK

MAX_KEPT = 2000
WHOLE_SECONDS = 600.0


class Calendars:
    """The cells of all targets that were counted lately; any thread may ask."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[datetime, datetime], tuple[float, CalendarCell]] = OrderedDict()
        self._lock = Lock()

    def read(
        self, backend: Backend, targets: Sequence[KnownTarget], edges: Sequence[datetime], now: datetime
    ) -> list[CalendarCell]:
        """The cells between the edges, of all targets together."""
        return [self._cell(backend, targets, start, end, now) for start, end in pairwise(edges)]

    def forget(self) -> None:
        """Somebody has changed what they speak of: a whole one stays whole."""
        with self._lock:
            for key, (_, cell) in list(self._kept.items()):
                if cell.part.missing:
                    del self._kept[key]

    def _cell(
        self, backend: Backend, targets: Sequence[KnownTarget], start: datetime, end: datetime, now: datetime
    ) -> CalendarCell:
        began = monotonic()
        with self._lock:
            kept = self._kept.get((start, end))
        if kept is not None and began < kept[0]:
            return kept[1]
        cell = read_cell(backend, targets, start, end, now)
        ended = monotonic()
        is_whole = end <= now and not cell.part.missing and cell.part.expected
        good_for = WHOLE_SECONDS if is_whole else REST_FOR_WORK * (ended - began)
        with self._lock:
            self._kept[start, end] = ended + good_for, cell
            self._kept.move_to_end((start, end))
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return cell
