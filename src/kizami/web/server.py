"""The dashboard on a socket: in a thread of its own with its own loop, so that it never holds up collecting."""

from __future__ import annotations

from collections.abc import Callable

from kizami.backend.port import Backend
from kizami.core.ports import Clock
from kizami.platform.http_connection import ServerLimits
from kizami.platform.http_server import HttpServer
from kizami.web import DEFAULT_HOST, DEFAULT_PORT
from kizami.web.application import MAX_CONNECTIONS, dashboard
from kizami.web.live import TICK_SECONDS
from kizami.web.security import Access, access_for


class DashboardServer(HttpServer):
    """Serves the backend that `open_backend` opens, from the start of its `with` block to the end.

    ConfigurationError where it can't listen, or would be open to others without a token.
    """

    def __init__(
        self,
        open_backend: Callable[[], Backend],
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        token: str | None = None,
        access: Access | None = None,
        clock: Clock | None = None,
        look_seconds: float = TICK_SECONDS,
    ) -> None:
        application = dashboard(open_backend, access or access_for(host, token), clock, look_seconds)
        super().__init__(
            application,
            host,
            port,
            name="kizami-dashboard",
            lifespan="on",
            farewell=application.state.live.close,
            limits=ServerLimits(connections=MAX_CONNECTIONS),
        )
