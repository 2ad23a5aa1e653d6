"""The mock API where targets expect it: whether they do, whether it is there, and serving it if not."""

from __future__ import annotations

import http.client
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.target import MOCK_API_URL
from kizami.mock_api.server import DEFAULT_HOST, DEFAULT_PORT, MockServer
from kizami.mock_api.users import users_key

PLACE = f"{DEFAULT_HOST}:{DEFAULT_PORT}"


class MockService(Enum):
    """Who serves the mock API."""

    OURS = "ours"
    ANOTHER = "another"


def is_needed(config: Config) -> bool:
    """Whether a target, or the aggregation batch, asks the mock API at its usual place."""
    aggregated = config.aggregation is not None and config.aggregation.url == MOCK_API_URL
    return aggregated or any(target.is_mock for target in config.enabled_targets)


@contextmanager
def mock_service() -> Iterator[MockService]:
    """The mock API for the length of a `with`: served here unless it is there already.

    ConfigurationError if another program has its port.
    """
    server = MockServer(DEFAULT_HOST, DEFAULT_PORT, users_key=users_key(os.environ))
    try:
        server.__enter__()
    except ConfigurationError:
        if not _answers_as_mock():
            raise ConfigurationError(
                PLACE, "another program has the mock API's port; stop it, or poll something else with --config"
            ) from None
        yield MockService.ANOTHER
        return
    try:
        yield MockService.OURS
    finally:
        server.__exit__()


@contextmanager
def quiet_mock_service() -> Iterator[MockService]:
    """The same without its log: its requests are our own."""
    log = logging.getLogger("kizami.mock_api")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with mock_service() as served:
            yield served
    finally:
        log.setLevel(level)


def _answers_as_mock() -> bool:
    connection = http.client.HTTPConnection(DEFAULT_HOST, DEFAULT_PORT, timeout=1)
    try:
        connection.request("GET", "/health")
        return bool(json.loads(connection.getresponse().read(1000)) == {"status": "ok"})
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
