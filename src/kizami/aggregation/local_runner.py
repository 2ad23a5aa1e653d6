"""The batch on one machine: its stores in the SQLite file, its users API over libcurl, one run at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from zoneinfo import ZoneInfo

from kizami.aggregation.batch import Batch, RunContext, RunOutcome
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.signing import ApiKey
from kizami.aggregation.stores.sqlite import SqliteLockStore, SqlitePointStore
from kizami.core.collector import Request, Response
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.local.daemon_lock import open_lock_file
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.handle import RequestProfile
from kizami.local.http.interrupts import LOOK_SECONDS, noted_interrupts
from kizami.local.http.secrets import read_secret
from kizami.local.store.database import open_database

HEADERS = ("Accept: application/json",)
THIS_MACHINE = "this machine"


@dataclass(frozen=True, slots=True)
class Aggregator:
    """Runs the batch for companies on one database."""

    database: Path
    base_url: str
    zone: ZoneInfo
    on_progress: Callable[[int, int], None] = lambda done, total: None

    def run(
        self, message: AggregationMessage, now: datetime, seconds_left: Callable[[], float] = lambda: inf
    ) -> RunOutcome:
        """One run. The lock that a killed run has left is re-entered at once; one at work is left alone."""
        connection = open_database(self.database, create=True)
        try:
            with sole_run(self.database) as alone:
                locks = SqliteLockStore(connection, self.database)
                points = SqlitePointStore(connection, self.database)
                batch = Batch(
                    locks, points, CurlUsersApi(), look_up_key, self.base_url, self.zone, self.on_progress
                )
                owner = THIS_MACHINE if alone else f"process {os.getpid()}"
                return batch.run(message, RunContext(owner, os.urandom(16).hex(), now, seconds_left))
        finally:
            connection.close()


def look_up_key(reference: SecretReference, place: str = "key") -> ApiKey:
    """The key that `env:NAME` or `file:PATH` holds, else ConfigurationError, which does not show it."""
    try:
        key = ApiKey(read_secret(reference, place))
    except InvalidInput as error:
        raise ConfigurationError(place, f"{reference} {error.problem}") from None
    KNOWN.add(key.value)
    return key


@contextmanager
def sole_run(database: Path) -> Iterator[bool]:
    """Whether this is the only run on `database`, for the length of a `with`.

    The system drops this lock with its process. So whoever has it knows that a company's lock which is
    this machine's was left behind by the dead.
    """
    with open_lock_file(database, "-aggregation-lock") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        yield alone


class CurlUsersApi:
    """The UsersApi port with the one-machine runtime's HTTP: one total deadline, a body cap, no redirects."""

    def get(self, request: Request) -> Response:
        """One GET on a connection of its own."""
        profile = RequestProfile.of(request.url, request.timeout_seconds, HEADERS, request.max_body_bytes)
        finished: list[Finished] = []
        with noted_interrupts() as interrupts, Fetcher() as fetcher:
            fetcher.start(request.url, profile, None)
            while not finished and not interrupts:
                finished = fetcher.wait(LOOK_SECONDS)
        outcome = finished[0].outcome
        if isinstance(outcome, Response):
            return outcome
        raise outcome
