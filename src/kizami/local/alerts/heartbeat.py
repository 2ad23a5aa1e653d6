"""The dead man's switch: a URL that is asked each minute while kizami itself is well, on a thread of its own."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from kizami.core.errors import KizamiError
from kizami.core.targets.references import SecretReference
from kizami.local.alerts.calls import call
from kizami.local.alerts.receivers import read_url

EVERY_SECONDS = 60.0
STOP_SECONDS = 0.5

logger = logging.getLogger(__name__)


class Heartbeat:
    """Asks the URL when told that all is well, at most once a minute; who hears nothing knows that it is not."""

    def __init__(self) -> None:
        self.to: str | SecretReference | None = None
        self._asked_at = float("-inf")
        self._is_refused = False
        self._due = Event()
        self._stopping = False
        self._thread: Thread | None = None

    def beat(self) -> None:
        """All is well now."""
        if self.to is None or time.monotonic() - self._asked_at < EVERY_SECONDS:
            return
        self._asked_at = time.monotonic()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="kizami-heartbeat", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """End soon."""
        self._stopping = True
        self._due.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._stopping:
                return
            try:
                self._ask()
            except Exception:  # the top of the thread
                logger.exception("the heartbeat failed", extra={"event": "heartbeat.failed"})

    def _ask(self) -> None:
        try:
            if self.to is not None:
                call(read_url(self.to, "heartbeat"))
            self._is_refused = False
        except KizamiError as error:
            if not self._is_refused:  # once, and not every minute
                logger.warning(
                    "the heartbeat is not taken", extra={"event": "heartbeat.refused", "reason": str(error)}
                )
            self._is_refused = True
