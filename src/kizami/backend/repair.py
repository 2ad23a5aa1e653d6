"""What a backfill from the page would do, slot by slot, and the doing of it: missing slots are asked for, dead
ones redriven, all others left alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from kizami.backend.causes import FoundGap
from kizami.backend.grid import STORED_STATES, CellState, cells_between
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.backend.values import DeadLetter
from kizami.backend.wire import moment
from kizami.core.backfill import plan_backfill
from kizami.core.coverage import Gap, count_slots
from kizami.core.sender import message_for_slot
from kizami.core.slots import Window, shift


@dataclass(frozen=True, slots=True)
class Repair:
    """The slots that are wanted, by what will be done with them."""

    missing: Mapping[KnownTarget, Sequence[Gap]] = field(default_factory=dict)
    dead: Sequence[DeadLetter] = ()
    stored: int = 0
    pending: int = 0
    other: int = 0
    left_out: Sequence[str] = ()  # targets whose API can only say "now"

    @property
    def gaps(self) -> list[Gap]:
        return list(chain.from_iterable(self.missing.values()))

    @property
    def missing_slots(self) -> int:
        return count_slots(self.gaps)

    @property
    def edges(self) -> list[datetime]:
        """The first and the last slot of every gap, and the slots that are dead."""
        firsts = [gap.start for gap in self.gaps]
        lasts = [shift(gap.end, -target.interval_seconds) for target, gaps in self.missing.items() for gap in gaps]
        return [*firsts, *lasts, *(letter.slot for letter in self.dead)]


def plan_repair(
    backend: Backend, target: KnownTarget, window: Window, wanted: Collection[datetime] | None, now: datetime
) -> Repair:
    """The repair of the wanted slots of a window, or of all of them, as it was planned at `now`."""
    details = backend.slot_details(target.name, window.start, window.end)
    cells = cells_between(target, window.start, window.end, details, now)
    states: dict[CellState, list[datetime]] = {state: [] for state in CellState}
    for cell in cells:
        if wanted is None or cell.slot in wanted:
            states[cell.state].append(cell.slot)
    dead = set(states[CellState.DEAD])
    gaps = [_slot_gap(target, slot) for slot in states[CellState.MISSING]]
    return Repair(
        missing={target: gaps} if gaps else {},
        dead=[letter for letter in details.dead if letter.slot in dead and not _died_after(letter, now)],
        stored=sum(len(states[state]) for state in STORED_STATES),
        pending=len(states[CellState.PENDING]),
        other=len(states[CellState.AHEAD]) + len(states[CellState.UNKNOWN]),
    )


def _died_after(letter: DeadLetter, second: datetime) -> bool:
    return letter.died_at is not None and letter.died_at >= shift(second, 1)


def _slot_gap(target: KnownTarget, slot: datetime) -> Gap:
    window = message_for_slot(slot, target).window
    return Gap(window.start, window.end, 1)


def plan_gap_repair(targets: Sequence[KnownTarget], found: Sequence[FoundGap]) -> Repair:
    """The repair of gaps that were found; those of an API that can only say "now" are left out."""
    gaps = {target: [entry.gap for entry in found if entry.metric == target.name] for target in targets}
    missing = {target: each for target, each in gaps.items() if each}
    return Repair(
        missing={target: each for target, each in missing.items() if target.backfill},
        left_out=[target.name for target in missing if not target.backfill],
    )


def carry_out(backend: Backend, repair: Repair) -> tuple[int, int]:
    """Do it; how many slots are asked for, and how many dead letters went back."""
    messages = chain.from_iterable(plan_backfill(target, gaps) for target, gaps in repair.missing.items())
    sent = backend.backfill(messages) if repair.missing else 0
    return sent, backend.redrive(repair.dead) if repair.dead else 0


def repair_json(repair: Repair, as_of: datetime, sent: int | None, redriven: int | None) -> dict[str, Any]:
    """What it comes to; before it is done nothing has been sent or redriven."""
    edges = repair.edges
    return {
        "dryRun": sent is None,
        "asOf": moment(as_of),
        "metrics": sorted({target.name for target in repair.missing} | {letter.metric for letter in repair.dead}),
        "first": moment(min(edges, default=None)),
        "last": moment(max(edges, default=None)),
        "missing": repair.missing_slots,
        "dead": len(repair.dead),
        "stored": repair.stored,
        "pending": repair.pending,
        "other": repair.other,
        "leftOut": sorted(repair.left_out),
        "sent": sent or 0,
        "redriven": redriven or 0,
    }
