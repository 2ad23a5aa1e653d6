"""How long the spans are that history is sealed in: some hundred slots each, whatever the interval (pure)."""

from __future__ import annotations

HOUR = 3600
SPANS = (HOUR, 24 * HOUR, 7 * 24 * HOUR)
LONGEST_SPAN = SPANS[-1]
_FEWEST_SLOTS = 200


def span_seconds(step_seconds: int) -> int:
    """How long the spans of a metric are whose slots are multiples of a step.

    The step of a metric only ever gets finer, so its spans only get shorter, and lie within those sealed before.
    """
    return next((each for each in SPANS if each >= _FEWEST_SLOTS * step_seconds), LONGEST_SPAN)


def span_start(slot: int, seconds: int) -> int:
    """The start of the span, counted from 1970, that a slot lies in."""
    return slot - slot % seconds
