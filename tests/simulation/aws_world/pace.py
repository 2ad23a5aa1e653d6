"""How fast the time of records passes: constants of the production code that a seed replaces.

By most seeds hours are sealed half an hour after their end, and slots are asked for again after minutes, so that
a short simulation has seen all of it. Small limits make it take the branches that large fleets take.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

_SEALING_SECONDS = 1800  # after the end of an hour
_NOTED_BEFORE = 900  # seconds: a late write is noted so long before its slot may be sealed, as in production

_QUICK = {
    "kizami.core.sealing.SEALED_AFTER_SECONDS": _SEALING_SECONDS,
    "kizami.aws.looks.SEALED_AFTER_SECONDS": _SEALING_SECONDS,
    "kizami.aws.marks.LATE_SECONDS": _SEALING_SECONDS - _NOTED_BEFORE,
    "kizami.core.sealing.SEALED_ANYWAY_SECONDS": 2 * _SEALING_SECONDS,
    "kizami.core.recovery.ROUND_SECONDS": 900,
    "kizami.aws.reconcile.ROUND_SECONDS": 900,
}


def draw_pace(chance: random.Random, bundle_values: int, hours: float) -> Mapping[str, object]:
    """What stands where, for a simulation of so many hours."""
    is_quick, rounds = hours < 4 or chance.random() < 0.7, chance.choice((2, 24))
    return {
        **(_QUICK if is_quick else {}),
        "kizami.core.recovery.MOST_ROUNDS": rounds,
        "kizami.core.rounds.MOST_ROUNDS": rounds,
        "kizami.core.recovery.GIVEN_UP": rounds + 1,
        "kizami.core.rounds.GIVEN_UP": rounds + 1,
        "kizami.core.recovery.MOST_RUNS": chance.choice((2, 5, 32)),
        "kizami.core.recovery.LOOK_SLOTS": chance.choice((50, 17_280)),
        "kizami.aws.reconcile.READ_AT_ONCE": chance.choice((4, 120)),
        "kizami.core.bundles.MOST_VALUES": bundle_values,
        "kizami.aws.incidents.PART_BYTES": 150,  # so that incidents of a few targets have parts, too
    }
