"""A target that was seen, with what is noted of its failures: for how long a note tells of the present."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from kizami.alerts.reconciled import SeenTarget
from kizami.aws.alerts.failure_notes import FailureNote
from kizami.backend.values import Deaths, TargetTrouble
from kizami.core.reconcile import ReconcilePolicy
from kizami.core.slots import shift

SLACK_SECONDS = 60  # by which runs are later than their rule says


def is_current(note: FailureNote, policy: ReconcilePolicy, now: datetime) -> bool:
    """Whether it has failed since the last run: what is tried again, is so within three minutes."""
    return note.failed_at >= shift(now, -policy.period_seconds - SLACK_SECONDS)


def seen_with_note(
    seen: SeenTarget,
    note: FailureNote | None,
    blocked: TargetTrouble | None,
    policy: ReconcilePolicy,
    now: datetime,
) -> SeenTarget:
    """The target with why it fails and what has died of it since the last run."""
    trouble, deaths = blocked, None
    if note is not None and is_current(note, policy, now):
        trouble = blocked or TargetTrouble(note.reason)
    since = shift(now, -policy.period_seconds - SLACK_SECONDS)
    if note is not None and note.died_at is not None and note.died_at >= since and note.first_dead is not None:
        deaths = Deaths(note.dead, note.first_dead, note.reason)
    return replace(seen, trouble=trouble, deaths=deaths)
