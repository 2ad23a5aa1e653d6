"""The loop that people write: asyncio, aiohttp and sqlite3, one task a target, free of drift, staggered.

    python bench/naive.py ORIGINS DATABASE

ORIGINS has a line for each target. It prints the moment (epoch ms) of its first tick. Rows are committed once a
second, as FULL as SQLite can.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

INTERVAL = 5.0


async def main(origins: list[str], path: str) -> None:
    count = len(origins)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE points (target, slot, count, PRIMARY KEY (target, slot))")
    start = time.time() + 2
    print(f"{start * 1000:.3f}", flush=True)
    connector = aiohttp.TCPConnector(limit=1024)
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        polls = [
            poll(session, database, origin, n, start + n * INTERVAL / count) for n, origin in enumerate(origins)
        ]
        await asyncio.gather(commit(database), *polls)


async def poll(
    session: aiohttp.ClientSession, database: sqlite3.Connection, url: str, n: int, tick: float
) -> None:
    while True:
        await asyncio.sleep(max(0.0, tick - time.time()))
        slot = int(tick // INTERVAL * INTERVAL - INTERVAL)
        window = {"from": instant(slot), "to": instant(slot + int(INTERVAL))}
        try:
            async with session.get(f"{url}/t{n}", params=window) as response:
                answer = await response.json(content_type=None)
            database.execute("INSERT INTO points VALUES (?, ?, ?)", (n, slot, answer["count"]))
        except (aiohttp.ClientError, TimeoutError, sqlite3.Error, ValueError, TypeError):
            pass  # a loop that people write; a target that fails answers nothing
        tick += INTERVAL


async def commit(database: sqlite3.Connection) -> None:
    while True:
        await asyncio.sleep(1)
        database.commit()


def instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text().split(), sys.argv[2]))
