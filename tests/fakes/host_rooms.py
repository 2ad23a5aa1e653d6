"""What the loop would tell the writer of its hosts, as a test says."""

from __future__ import annotations

from collections.abc import Mapping


class Rooms:
    """`waiting_lines.HostRoom`: each metric's host and room, each host's room and limit of waiting retries."""

    def __init__(
        self, hosts: Mapping[int, str] | None = None, room: Mapping[str, int] | None = None, waiting: int = 1000
    ) -> None:
        self.hosts = hosts or {}
        self.room = dict(room or {})
        self.waiting = waiting
        self.of_metric: dict[int, int] = {}
        self.over: dict[int, int] = {}

    def host_of(self, metric_id: int) -> str | None:
        return self.hosts.get(metric_id)

    def old_room(self, host: str) -> int:
        return self.room.get(host, 0)

    def old_room_of(self, metric_id: int) -> int:
        return self.of_metric.get(metric_id, 1000)

    def waiting_limit(self, host: str) -> int:
        return self.waiting

    def over_after(self) -> Mapping[int, int]:
        return self.over
