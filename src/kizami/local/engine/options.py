"""How the daemon behaves; the flags of `kizami up` set these."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Limits and waits; docs/one-machine.md says what each is for."""

    spread: bool = True
    max_in_flight: int = 10_000
    max_per_host: int = 256
    receive_limit: int = 5
    retry_seconds: float = 2.0
    visibility_seconds: float = 120.0
    backfill_per_second: int = 1500
    seal_after_seconds: int = 3600
