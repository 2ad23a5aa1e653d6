"""One connection to a server: a client that is slow on purpose is let go, and there is room for the next one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

# What a client must take of a large answer in `taking_seconds`: 1 kB a second, less than any link has.
TAKEN_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How long a client may take over its part, and how many may be connected at once.

    `head_seconds` runs from the connection, or from the first byte of a further request, to the end of the
    request's head; `body_seconds` from there to the end of its body; `taking_seconds` while an answer waits to be
    taken.
    """

    head_seconds: float = 15
    body_seconds: float = 30
    taking_seconds: float = 30
    connections: int = 20_000


class ServerSettings(uvicorn.Config):
    """uvicorn's settings, and the limits that it does not know."""

    def __init__(self, application: Any, limits: ServerLimits, **settings: Any) -> None:
        super().__init__(application, http=Connection, **settings)
        self.limits = limits


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 with deadlines for a request's head and body and for the taking of its answer.

    The answer itself may take as long as it likes: a stream of events goes on for ever.
    """

    config: ServerSettings

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = self.config.limits
        self._patience: dict[object, float] = {
            h11.IDLE: self._limits.head_seconds,
            h11.SEND_BODY: self._limits.body_seconds,
        }
        self._awaited: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._since = self.loop.time()

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn: nothing of ours is lost if the connection ends."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for timer in (self._deadline, self._taking):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _watch(self) -> None:
        """Begin the time of what is awaited now unless it runs already: single bytes do not prolong it."""
        awaited = None if self._is_between_requests() else self.conn.their_state
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if awaited in self._patience:
            self._deadline = self.loop.call_later(self._patience[awaited], self.transport.abort)

    def _is_between_requests(self) -> bool:
        """Whether uvicorn's own timer runs and nothing of the next request is there."""
        is_resting = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is not None
        return is_resting and not self.conn.trailing_data[0]

    def _await_taking(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(self._limits.taking_seconds, self._check_taking, waiting)

    def _check_taking(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < TAKEN_BYTES:
            self.transport.abort()
        else:
            self._await_taking()

    def _make_room(self) -> None:
        """If there are too many, let the one go that has kept us waiting longest; if none does, this one."""
        if len(self.connections) <= self._limits.connections:
            return
        others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        if sum(not each.transport.is_closing() for each in others) < self._limits.connections:
            return
        waiting = [each for each in others if each.waits_for_client]
        min(waiting, key=lambda each: each._since, default=self).transport.abort()
