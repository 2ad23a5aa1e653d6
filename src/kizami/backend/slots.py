"""The one question about slots that every backend answers: metrics, edges of time, and a view (pure).

A caller names metrics, cuts time at edges and picks a view: what to return for the stretches between the edges.
Two edges are a plain range; four give the last day, hour and minute in one read; 31 local midnights give a month
by days. Edges are given for each metric, so that the caller clips them to what is due.

    Buckets       per stretch: how many slots are stored (pending, dead), and their lowest, highest and total
    Runs          the longest runs of slots in one state, on the present interval
    Each          every slot that has an entry: its value, or why it has none
    Records       the stored slots in columns, piece by piece
    Newest        the newest stored slot of each metric
    PollLateness  per stretch: how late the live polls of all asked metrics together were
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from kizami.backend.columns import RecordColumns
from kizami.backend.values import Lateness
from kizami.core.answers.numbers import Number, Total
from kizami.core.errors import InvalidInput

EARLIEST = datetime.min.replace(tzinfo=UTC)  # stands for an open start
LATEST = datetime.max.replace(tzinfo=UTC, microsecond=0)  # stands for an open end
MOST_BUCKETS = 1_000_000  # of one answer

Edges = Sequence[datetime]  # ascending, two or more; a slot belongs to the stretch in which it begins
Asked = Mapping[str, Edges]  # by metric; metrics of one timing share one Edges object


class State(Enum):
    """Where a slot is. Each is in exactly one state: the first that applies.

    DEAD comes before PENDING: on one machine a slot is never both, and on AWS a message that outlives its dead
    letter changes nothing, while asking for a dead slot again takes it out of the dead ones. Of a target with
    several values each is stored by itself; one that is not stored is dead or pending as the request for all is.

    A slot that its target keeps no more has no state: it is not listed and never missing. Until they expire, too,
    the totals of its hour count in `Buckets`.
    """

    STORED = "stored"
    DEAD = "dead"  # given up
    PENDING = "pending"  # a request for it is on its way
    MISSING = "missing"


class SlotRun(NamedTuple):
    """Neighbouring slots in one state: the start of the first one, the end of the last one, and their number."""

    start: datetime
    end: datetime
    slots: int
    state: State


class SlotBucket(NamedTuple):
    """The slots of a stretch counted and added up; values are 0 if none is stored or the view leaves them out."""

    start: datetime
    stored: int = 0
    pending: int = 0
    dead: int = 0
    lowest: Number = 0
    highest: Number = 0
    total: Total = 0  # exact


class Slot(NamedTuple):
    """All that is known of one slot; None where the backend cannot tell."""

    slot: datetime
    state: State
    value: Number | None = None
    at: datetime | None = None  # when it was collected, will be tried again, or was given up
    late_ms: int | None = None
    attempts: int | None = None
    backfill: bool | None = None
    in_flight: bool = False
    error: str | None = None
    due_at: datetime | None = None  # of a pending slot: when its first request was planned


Answer = TypeVar("Answer", covariant=True)


class SlotView(Generic[Answer]):
    """What to return for the stretches between the edges; the type of the answer belongs to the view."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Buckets(SlotView[dict[str, list[SlotBucket]]]):
    """One bucket for each stretch, in the order asked; those of equal edges and of unknown metrics are empty.

    All slots of a stretch count, also those of a former interval. Where only the totals of hours are left, an hour
    counts where it begins, and one that an edge cuts is left out. All buckets of an answer are of one moment.
    """

    states: bool = False  # also count pending and dead slots
    values: bool = False  # also add the values up


@dataclass(frozen=True, slots=True)
class Runs(SlotView[dict[str, list[SlotRun]]]):
    """The longest runs of one state each, ascending and cut at edges; metrics without any are left out.

    Only the present interval is looked at: slots of a former one are passed over where they lie between its slots.
    A run at an edge ends where its last slot does, which may be after the edge. Missing slots have no first and no
    last one, so a question about them names both ends of its range.
    """

    of: frozenset[State] = frozenset({State.MISSING})


@dataclass(frozen=True, slots=True)
class Each(SlotView[dict[str, list[Slot]]]):
    """The slots in some states, ascending; metrics without any are left out.

    A slot without an entry is missing. Slots of a former interval are listed, too.
    """

    of: frozenset[State] = frozenset({State.STORED, State.PENDING, State.DEAD})

    def __post_init__(self) -> None:
        if State.MISSING in self.of:
            raise InvalidInput("of", "missing slots have no entries; ask for Runs")


@dataclass(frozen=True, slots=True)
class Records(SlotView[Iterator[RecordColumns]]):
    """The stored slots in columns, metrics as asked and slots ascending, read as the pieces are taken.

    A piece has slots of one metric; of the edges only the first and the last one matter. A record that is stored
    when the first piece is read comes exactly once, also while hours are sealed meanwhile. With `details`, also
    how each record came about.
    """

    details: bool = False


@dataclass(frozen=True, slots=True)
class Newest(SlotView[dict[str, Slot]]):
    """The newest stored slot of each metric between its first and last edge; metrics without any are left out.

    It comes with its value; the rest of what is known of it is left out.
    """


@dataclass(frozen=True, slots=True)
class PollLateness(SlotView[list[Lateness]]):
    """How late the live polls of all asked metrics together were, for each stretch; all have the same edges.

    They are the stored polls of the slots that begin in the stretch and were not backfilled. With a lag as long
    as the stretch, the newest slots lie before it: of such a metric those that were due in it count, too.
    """


class AnswersSlots(Protocol):
    """A backend as far as it answers the question about slots.

    An unknown metric has no slots. StoreError or QueueError if the backend cannot answer, InvalidInput if the
    question is too large or contradicts itself; then nothing has been read.
    """

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        """Answer one question about slots."""


def require_answerable(asked: Asked, view: SlotView[Answer]) -> None:
    """Refuse a question that contradicts itself or is too large, before anything is read."""
    require_edges(asked)
    if isinstance(view, Runs) and State.MISSING in view.of:
        require_ends(asked)
    if isinstance(view, PollLateness):
        require_one_range(asked)


def require_edges(asked: Asked) -> None:
    """Refuse edges that do not ascend, fewer than two of them, and more than an answer may have buckets for."""
    checked = {id(edges): edges for edges in asked.values()}
    for edges in checked.values():
        if len(edges) < 2 or any(later < earlier for earlier, later in pairwise(edges)):
            raise InvalidInput("edges", "must be two or more ascending instants")
    if sum(len(edges) - 1 for edges in asked.values()) > MOST_BUCKETS:
        raise InvalidInput(
            "edges", f"more than {MOST_BUCKETS:,} stretches; ask for longer ones or a shorter range"
        )


def require_one_range(asked: Asked) -> Edges:
    """Return the edges that all metrics share, else InvalidInput."""
    first = next(iter(asked.values()), ())
    if any(edges is not first and list(edges) != list(first) for edges in asked.values()):
        raise InvalidInput("edges", "must be the same for all metrics of this view")
    return first


def require_ends(asked: Asked) -> None:
    """Refuse a range that is open at either end: between such ends there are missing slots without number."""
    if any(edges[0] <= EARLIEST or edges[-1] >= LATEST for edges in asked.values()):
        raise InvalidInput("edges", "must begin and end at a definite time to find missing slots")
