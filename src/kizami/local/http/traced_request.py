"""Requests with all that went over the wire, as `kizami try` shows them: sent just as the daemon sends them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pycurl

from kizami.core.collector import Request, Response
from kizami.core.errors import ApiError
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.interrupts import LOOK_SECONDS, noted_interrupts
from kizami.local.http.requester import Requester

HeaderPair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """What was sent, secrets and all, and what came back; of several, as through a proxy, the last."""

    sent: tuple[HeaderPair, ...]
    received: tuple[HeaderPair, ...]
    outcome: Response | ApiError
    seconds: float


@dataclass(slots=True)
class _Wire:
    """The headers in the order in which libcurl tells of them."""

    sent: list[HeaderPair] = field(default_factory=list)
    received: list[HeaderPair] = field(default_factory=list)

    def note(self, kind: int, data: bytes) -> None:
        if kind == pycurl.INFOTYPE_HEADER_OUT:
            self.sent = _pairs(data)
        elif kind == pycurl.INFOTYPE_HEADER_IN:
            if data.startswith(b"HTTP/"):
                self.received = []
            self.received += _pairs(data)


def _pairs(data: bytes) -> list[HeaderPair]:
    """The headers of a request, or one of an answer; the first line of either has none."""
    lines = (line for line in data.decode("latin-1").splitlines() if not line.startswith("HTTP/"))
    split = (line.partition(": ") if ": " in line else line.partition(":") for line in lines)
    return [(name, value.strip()) for name, colon, value in split if colon and " " not in name]


@contextmanager
def tracing(target: Target) -> Iterator[Callable[[Request], TracedRequest]]:
    """A function that sends a request of the target, for the length of a `with`.

    ConfigurationError if one of its secrets cannot be read; KeyboardInterrupt after Ctrl-C.
    """
    wire = _Wire()
    with noted_interrupts() as interrupts, Requester(Fetcher()) as requester:
        (access,) = requester.read_accesses([target])
        access.profile = replace(access.profile, trace=wire.note)

        def ask(request: Request) -> TracedRequest:
            wire.sent, wire.received = [], []
            started = time.monotonic()
            requester.start(request.url, access, None, request.body)
            finished: list[Finished] = []
            while not finished:
                if interrupts:
                    raise KeyboardInterrupt
                finished = requester.wait(LOOK_SECONDS)
            seconds = time.monotonic() - started
            return TracedRequest(tuple(wire.sent), tuple(wire.received), finished[0].outcome, seconds)

        yield ask
