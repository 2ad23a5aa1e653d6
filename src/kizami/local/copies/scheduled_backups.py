"""Backups beside the pipeline: `kizami up` makes them on schedule, in a thread that yields to the polls."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from kizami.backend.values import BackupState
from kizami.core.config import BackupPlan
from kizami.core.errors import KizamiError
from kizami.core.ports import Clock
from kizami.local.copies.backup import Backup, make_backup
from kizami.local.copies.backup_report import remove_report, write_report
from kizami.local.copies.placing import remove_leftovers
from kizami.local.copies.rotation import backup_name, backups_in, dated, next_due, superfluous
from kizami.local.engine.machine import Machine, Signal, Thread
from kizami.local.store.database import beside

STOP_SECONDS = 1.0
DEFAULT_DIRECTORY = "backups"
_LOOK_SECONDS = 60.0  # the wall clock may be set, and the machine may sleep, while a timer runs
_START_SECONDS = 1.0
_RETRY_SECONDS = 600.0
_MOST_REST_SECONDS = 0.5

logger = logging.getLogger(__name__)


class _Ended(Exception):
    """The daemon ends, or goes by another plan: the backup in hand is given up."""


class ScheduledBackups:
    """Makes a backup whenever the newest one is older than the plan's `every`, and removes those beyond `keep`.

    One that fails is told in the log and in `kizami status`, and tried again after ten minutes. One that is in
    hand at the end is given up; the next daemon makes it.
    """

    def __init__(self, database: Path, clock: Clock, machine: Machine | None = None) -> None:
        self._database = database
        self._clock = clock
        self._machine = machine or Machine()
        self._plan: BackupPlan | None = None
        self._news = self._machine.signal()
        self._closing = False
        self._thread: Thread | None = None
        self._failed: tuple[datetime, str] | None = None

    def use(self, plan: BackupPlan | None) -> None:
        """Go by `plan` from now on; None is to make none."""
        if plan is None and self._plan is None:
            remove_report(self._database)
        if plan == self._plan:
            return
        self._plan = plan
        self._news.set()
        if self._thread is None:
            self._thread = self._machine.thread(self._loop, "kizami-backups")
            self._thread.start()

    def close(self) -> None:
        """End soon, whatever is in hand."""
        self._closing = True
        self._news.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _loop(self) -> None:
        self._machine.yield_to_others()
        while True:
            self._news.clear()
            if self._closing:  # looked at after the clearing, which may have wiped out the news of it
                return
            plan = self._plan
            if plan is None:
                remove_report(self._database)
                self._news.wait()
            else:
                self._run(plan)

    def _run(self, plan: BackupPlan) -> None:
        """Wait for the next one and make it."""
        directory = self._directory(plan)
        self._report(plan, directory)
        while (seconds := self._seconds_left(plan, directory)) > 0:
            if self._news.wait(min(seconds, _LOOK_SECONDS)):
                return
        try:
            began = self._clock.now()
            backup = self._make(directory, began)
            self._failed = None
            # By the moment of its name: a clock that was set ahead meanwhile would make it the oldest of all.
            self._tell(backup, _remove_superfluous(directory, plan.keep, began))
        except _Ended:
            return
        except (KizamiError, OSError) as error:
            self._fail(str(error))
        except Exception as error:  # the top of the thread: whatever it was, the next one is tried
            logger.exception("the backup was not made", extra={"event": "backup.failed"})
            self._failed = self._clock.now(), type(error).__name__

    def _directory(self, plan: BackupPlan) -> Path:
        stated = plan.directory or beside(self._database, "").with_name(DEFAULT_DIRECTORY)
        return Path(stated).resolve()

    def _seconds_left(self, plan: BackupPlan, directory: Path) -> float:
        now = self._clock.now()
        if not self._database.exists():  # the engine is about to make it
            return _START_SECONDS
        try:
            due = next_due(backups_in(directory), plan.every_seconds, now)
        except OSError:  # the directory may not be looked into, which making one will tell
            due = now
        if self._failed is not None and self._failed[0] <= now:  # else the clock was ahead when it failed
            due = max(due, self._failed[0] + timedelta(seconds=min(_RETRY_SECONDS, plan.every_seconds)))
        return (due - now).total_seconds()

    def _make(self, directory: Path, began: datetime) -> Backup:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_leftovers(directory)
        file = directory / backup_name(began)
        rest = _Rest(self._news, self._machine)
        return make_backup(self._database, file, progress=rest, check=rest.check)

    def _tell(self, backup: Backup, removed: int) -> None:
        logger.info(
            "a backup was made",
            extra={
                "event": "backup.made",
                "file": str(backup.file),
                "megabytes": round(backup.bytes / 1e6, 1),
                "records": backup.records,
                "seconds": round(backup.seconds, 1),
                "removed": removed,
            },
        )

    def _fail(self, reason: str) -> None:
        self._failed = self._clock.now(), reason
        logger.error("the backup was not made", extra={"event": "backup.failed", "reason": reason})

    def _report(self, plan: BackupPlan, directory: Path) -> None:
        try:
            made = dated(backups_in(directory))
        except OSError:
            made = []
        state = BackupState(str(directory), plan.every_seconds, made[-1][0] if made else None)
        if self._failed is not None:
            state = replace(state, failed_at=self._failed[0], reason=self._failed[1])
        write_report(self._database, state)


class _Rest:
    """Called between the steps of a copy: rests as long as the step took, and ends it if there is news."""

    def __init__(self, news: Signal, machine: Machine) -> None:
        self._news = news
        self._machine = machine
        self._began = machine.monotonic()

    def __call__(self, done: int, pages: int) -> None:
        if self._news.wait(min(self._machine.monotonic() - self._began, _MOST_REST_SECONDS)):
            raise _Ended
        self._began = self._machine.monotonic()

    def check(self) -> None:
        if self._news.is_set():
            raise _Ended


def _remove_superfluous(directory: Path, keep: int, now: datetime) -> int:
    names = superfluous(backups_in(directory), keep, now)
    for name in names:
        (directory / name).unlink(missing_ok=True)
    return len(names)
