"""The mock API on a socket, as part of another program (`kizami up`, the tests) or of its own (`kizami mock`)."""

from __future__ import annotations

from functools import partial

from kizami.aggregation.signing import ApiKey
from kizami.mock_api.application import application
from kizami.mock_api.users import MOCK_USERS_KEY
from kizami.platform.http_server import HttpServer

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 3000  # Requirement 5.4


class MockServer(HttpServer):
    """Listens from the start of its `with` or `async with` block, at `url`, until the end of it."""

    def __init__(
        self, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, users_key: ApiKey = MOCK_USERS_KEY
    ) -> None:
        super().__init__(partial(application, users_key=users_key), host, port, name="kizami-mock-api")
