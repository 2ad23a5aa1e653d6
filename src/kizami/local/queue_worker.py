"""Who works off the queue on one machine: the daemon if one runs, else this process while it is needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kizami.core.config import Config
from kizami.core.coverage import Span
from kizami.core.errors import ConfigurationError, StoreError
from kizami.core.logs import use_logs
from kizami.core.slots import shorten
from kizami.local.daemon_lock import RESTORE, AlreadyRunning, Holder, lock_holder
from kizami.local.engine.options import Options

_RESTART_SECONDS = 10.0  # a daemon that is gone for longer is not being started again


@dataclass(frozen=True, slots=True)
class LocalWorker:
    """`QueueWorker` on one machine, whichever process it is."""

    words: str
    check: Callable[[], None]
    left: Callable[[Mapping[str, Span]], int]
    look_seconds: float = 0.2


class OtherProcess:
    """The daemon or another backfill; nothing is known of it but that it runs, and what it does to the queue."""

    def __init__(self, database: Path, holder: Holder) -> None:
        self.words = f"the running `{holder.command}` collects them"
        self._command = holder.command
        self._database = database
        self._seen = time.monotonic()

    def check(self) -> None:
        """It minds its own failures, but one that has ended collects nothing."""
        if lock_holder(self._database) is not None:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _RESTART_SECONDS:
            words = "what is queued stays queued, and the same command goes on from here"
            raise StoreError(f"{self._database}: `{self._command}` has ended; {words}")


@contextmanager
def local_worker(
    database: Path,
    config: Config,
    options: Options,
    metrics: Iterable[str],
    queued: Callable[[Mapping[str, Span]], int],
) -> Iterator[LocalWorker]:
    """The daemon, else an engine of our own for the length of a `with`."""
    from kizami.local.engine.drain import Drain

    with ExitStack() as stack:
        _serve_mock(stack, config)
        try:
            process: Drain | OtherProcess = stack.enter_context(Drain.of(database, config, options))
        except AlreadyRunning as error:
            if error.holder.command == RESTORE:
                raise
            process = OtherProcess(database, error.holder)
        else:
            _require_targets(config, metrics)
            use_logs(logging.WARNING)  # a target that fails is worth a line beside the progress
        yield LocalWorker(process.words, process.check, queued)


def _serve_mock(stack: ExitStack, config: Config) -> None:
    """The mock API that `kizami up` would serve, unless it is there already; before anything is collected."""
    from kizami.mock_api.service import is_needed, mock_service

    if is_needed(config):
        with suppress(ConfigurationError):  # another program's port: what comes of that is the slots' reason
            stack.enter_context(mock_service())


def _require_targets(config: Config, metrics: Iterable[str]) -> None:
    enabled = {name for target in config.enabled_targets for name in target.metrics}
    for name in metrics:
        if name not in enabled:
            raise ConfigurationError(
                "--config", f"{shorten(name)} is not an enabled target, so nothing says where to ask for its slots"
            )
