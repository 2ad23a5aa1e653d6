"""The loop that people write: asyncio, aiohttp and sqlite3, one task a target, free of drift, staggered.

    python bench/naive.py URL TARGETS DATABASE

It prints the moment (epoch ms) of its first tick. Rows are committed once a second, as FULL as SQLite can.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from datetime import UTC, datetime

import aiohttp

INTERVAL = 5.0


async def main(url: str, count: int, path: str) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE points (target, slot, count, PRIMARY KEY (target, slot))")
    start = time.time() + 2
    print(f"{start * 1000:.3f}", flush=True)
    connector = aiohttp.TCPConnector(limit=1024)
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        polls = [poll(session, database, url, n, start + n * INTERVAL / count) for n in range(count)]
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
        except (aiohttp.ClientError, TimeoutError, sqlite3.Error):
            pass  # a loop that people write
        tick += INTERVAL


async def commit(database: sqlite3.Connection) -> None:
    while True:
        await asyncio.sleep(1)
        database.commit()


def instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
