"""The local AWS with rules that fire soon, for ministack's own Python to run.

On AWS a rule of one minute fires first at any moment of its first minute. Ministack waits for the end of that
minute, and looks only every ten seconds.

It would serve on port 443 besides its own, where it may; of two that start together one then finds the other
between its bind and its listen, and ends because it cannot bind its own port a second time.
"""

from __future__ import annotations

import sys
import time

from ministack import app  # type: ignore[import-not-found]
from ministack.services import eventbridge  # type: ignore[import-not-found]

PERIOD_SECONDS = 60
FIRST_SECONDS = 10  # enough for the rest of the deployment

tick = eventbridge._tick_scheduled_rules


def tick_soon() -> None:
    """Let the first minute of a rule begin before it was made; all others are as long as they are."""
    begun = time.time() - PERIOD_SECONDS + FIRST_SECONDS
    for key, rule in list(eventbridge._rules._data.items()):
        if eventbridge._parse_rate_seconds(rule.get("ScheduleExpression", "")) == PERIOD_SECONDS:
            eventbridge._rule_last_fired.setdefault(key, begun)
    tick()


if __name__ == "__main__":
    eventbridge._SCHEDULER_TICK_INTERVAL = 1
    eventbridge._tick_scheduled_rules = tick_soon
    app._port_is_bindable = lambda host, port: False  # asked for 443 alone
    sys.exit(app.main())
