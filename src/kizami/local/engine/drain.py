"""The queue worked off without a daemon: the engine for a while, on a thread beside the verb that waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kizami.core.config import Config
from kizami.local.daemon_lock import BACKFILL, sole_daemon
from kizami.local.engine.loop import Engine
from kizami.local.engine.options import Options
from kizami.platform.clock import SystemClock


class Drain:
    """An engine at work that plans nothing new."""

    words = "no `kizami up` is running, so this process collects them"

    def __init__(self, path: Path, config: Config, options: Options) -> None:
        self._engine = Engine(path, options, SystemClock(), live=False)
        self._config = config
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)

    @classmethod
    @contextmanager
    def of(cls, path: Path, config: Config, options: Options) -> Iterator[Drain]:
        """At work for the length of a `with`, as the only one; AlreadyRunning if another process is."""
        with sole_daemon(path, BACKFILL):
            drain = cls(path, config, options)
            drain._thread.start()
            try:
                yield drain
            finally:
                drain._engine.stop()
                drain._thread.join()

    def check(self) -> None:
        """Raise what has stopped it, if anything has."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._engine.run(self._config)
        except Exception as error:  # noqa: BLE001  the verb's own thread raises it again
            self._failure = error
