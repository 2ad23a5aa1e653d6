"""The batch beside the pipeline: `kizami up` runs it for each company on schedule, in a thread of its own."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from math import inf
from pathlib import Path
from threading import Event, Thread

from kizami.aggregation.batch import RunOutcome
from kizami.aggregation.local_runner import Aggregator
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.schedule import AggregationSchedule, ScheduledCompany, next_run
from kizami.core.errors import KizamiError
from kizami.core.ports import WallClock
from kizami.mock_api.users import users_key

STOP_SECONDS = 1.0
_LOOK_SECONDS = 60.0  # the wall clock may be set, and the machine may sleep, while a timer runs

logger = logging.getLogger(__name__)


class ScheduledAggregation:
    """Runs every company's batch as soon as it has a schedule, and then at each multiple of its `every`.

    What was missed while nothing ran needs no catching up: a run grants what is due today. A run in hand
    when it is closed stops after the users it is at; one that waits for the API is left behind with its
    lock, which the next run re-enters.
    """

    def __init__(self, database: Path, clock: WallClock) -> None:
        self._database = database
        self._clock = clock
        self._schedule: AggregationSchedule | None = None
        self._news = Event()
        self._closing = False
        self._thread: Thread | None = None
        self._failed: dict[str, str] = {}

    def failed(self) -> dict[str, str]:
        """The companies whose last run failed, and why."""
        return dict(self._failed)

    def use(self, schedule: AggregationSchedule | None) -> None:
        """Go by `schedule` from now on; None is not to run at all."""
        if schedule == self._schedule:
            return
        self._schedule = schedule
        self._news.set()
        if self._thread is None:
            self._thread = Thread(target=self._loop, name="kizami-aggregation", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End soon, whatever is in hand."""
        self._closing = True
        self._news.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _loop(self) -> None:
        while True:
            self._news.clear()
            if self._closing:  # looked at after the clearing, which may have wiped out the news of it
                return
            schedule = self._schedule
            if schedule is None:
                self._news.wait()
                continue
            for company in schedule.companies:
                self._run(company, schedule)
            self._wait_for_next(schedule)

    def _wait_for_next(self, schedule: AggregationSchedule) -> None:
        due = next_run(self._clock.now(), schedule.every_seconds)
        while not self._news.is_set() and (now := self._clock.now()) < due:
            due = min(due, next_run(now, schedule.every_seconds))  # sooner, if the clock was ahead
            self._news.wait(min((due - now).total_seconds(), _LOOK_SECONDS))

    def _run(self, company: ScheduledCompany, schedule: AggregationSchedule) -> None:
        if self._closing:
            return
        try:
            key = company.key or users_key(os.environ)
            aggregator = Aggregator(self._database, schedule.url, schedule.zone)
            message = AggregationMessage(company.company_id, key)
            outcome = aggregator.run(message, self._clock.now(), lambda: 0.0 if self._closing else inf)
        except KizamiError as error:
            self._failed[company.company_id] = str(error)
            logger.error(
                "the aggregation was not run",
                extra={"event": "aggregation.not_run", "companyId": company.company_id, "reason": str(error)},
            )
            return
        except Exception:  # the top of the thread: whatever it was, the others and the next run go on
            self._failed[company.company_id] = "a fault in kizami; the log has it"
            logger.exception(
                "the aggregation was not run",
                extra={"event": "aggregation.not_run", "companyId": company.company_id},
            )
            return
        self._note(company.company_id, outcome)
        about = {
            "event": "aggregation.ran",
            "companyId": company.company_id,
            "code": outcome.code.code,
            **asdict(outcome.tally),
        }
        logger.info("aggregation %s", outcome.ending.value, extra=about)

    def _note(self, company_id: str, outcome: RunOutcome) -> None:
        if outcome.is_failure:
            self._failed[company_id] = outcome.reason
        else:
            self._failed.pop(company_id, None)
